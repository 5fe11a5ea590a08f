/* A transport is not carried over fork(). In the child every call is refused, alone or by way of a
 * relay or a consumer; closing it returns at once, though a thread of the parent's waited in it.
 * The parent notices nothing. */
#include "support/base/sanitizer.h"
#include "support/conformance/conformance_transport.h"
#include "support/process/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { TURN_MS = 50 };

typedef struct forked {
    transport_fixture *f;
    semel_delivery held;   /* by the parent */
    semel_consumer *inner; /* the parent's, with a delivery in flight */
} forked;

#define REFUSED(call) PROCESS_REQUIRE((call) == SEMEL_EMISUSE && strstr(err.text, "fork()"))

/* --- in the child ----------------------------------------------------------------------------- */

static void calls_are_refused(const forked *in)
{
    semel_transport *transport = in->f->transport;
    semel_message message = text_message("child", "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result = SEMEL_PUBLISH_CONFIRMED;
    semel_delivery_settlement ack = {in->held.tag, SEMEL_VERDICT_ACK, 0};
    semel_delivery delivery;
    semel_error err;
    size_t count;
    uint64_t ready;
    REFUSED(semel_transport_publish(&result, transport, &pointer, 1, RECEIVE_WAIT_MS, &err));
    PROCESS_REQUIRE(result == SEMEL_PUBLISH_UNKNOWN);
    REFUSED(semel_transport_receive(transport, &delivery, 1, &count, RECEIVE_WAIT_MS, &err));
    REFUSED(semel_transport_settle(transport, &ack, 1, &err));
    REFUSED(semel_transport_depth(&ready, transport, &err));
    PROCESS_REQUIRE(strstr(semel_transport_warnings(transport), "fork()"));
}

static semel_store *open_store(semel_error *err)
{
    semel_store *store = NULL;
    PROCESS_REQUIRE_OK(semel_store_open(&store, "memory:", NULL, err), err);
    PROCESS_REQUIRE_OK(semel_store_migrate(store, err), err);
    return store;
}

static void a_relay_is_refused(semel_transport *transport, semel_store *store)
{
    semel_outbox *outbox = NULL;
    semel_relay *relay = NULL;
    semel_message message = text_message("child", "10 EUR");
    semel_error err;
    size_t sent;
    PROCESS_REQUIRE_OK(semel_outbox_open(&outbox, store, "out", &err), &err);
    PROCESS_REQUIRE_OK(semel_relay_open(&relay, outbox, transport, NULL, &err), &err);
    PROCESS_REQUIRE_OK(semel_outbox_send(outbox, &message, &err), &err);
    REFUSED(semel_relay_step(&sent, relay, 0, &err));
    PROCESS_REQUIRE_OK(semel_outbox_send(outbox, &message, &err), &err);
    REFUSED(semel_relay_run(relay, &err));
    semel_relay_close(relay);
    semel_outbox_close(outbox);
}

static void a_consumer_is_refused(semel_transport *transport, semel_store *store)
{
    semel_inbox *inbox = NULL;
    semel_consumer *consumer = NULL;
    scripted_handler done = {0};
    semel_error err;
    size_t settled;
    PROCESS_REQUIRE_OK(semel_inbox_open(&inbox, store, "in", NULL, &err), &err);
    semel_route route = {
        .pattern = "*", .inbox = inbox, .handler = scripted_handler_run, .context = &done};
    PROCESS_REQUIRE_OK(semel_consumer_open(&consumer, transport, &route, 1, NULL, &err), &err);
    REFUSED(semel_consumer_step(&settled, consumer, RECEIVE_WAIT_MS, &err));
    REFUSED(semel_consumer_run(consumer, &err));
    PROCESS_REQUIRE(done.runs == 0);
    semel_consumer_close(consumer);
    semel_inbox_close(inbox);
}

static int use_in_child(void *context)
{
    forked *in = context;
    semel_error err;
    calls_are_refused(in);
    semel_store *store = open_store(&err);
    a_relay_is_refused(in->f->transport, store);
    a_consumer_is_refused(in->f->transport, store);
    semel_store_close(store);
    semel_consumer_close(in->inner);
    semel_transport_close(in->f->transport);
    return PROCESS_OK;
}

/* --- in the parent ---------------------------------------------------------------------------- */

static void a_child_cannot_use_it_and_does_not_disturb_it(void **state)
{
    forked in = {.f = *state};
    publish_id(in.f, "m-1", NULL);
    publish_id(in.f, "m-2", NULL);
    in.held = take_id(in.f, "m-1");
    assert_int_equal(process_run(use_in_child, &in), PROCESS_OK);
    settle(in.f, in.held.tag, SEMEL_VERDICT_ACK, 0);
    publish_id(in.f, "m-3", NULL);
    settle(in.f, take_id(in.f, "m-2").tag, SEMEL_VERDICT_ACK, 0);
    settle(in.f, take_id(in.f, "m-3").tag, SEMEL_VERDICT_ACK, 0);
    expect_nothing(in.f);
    reopen_transport(in.f);
    expect_nothing(in.f);
}

typedef struct waiter {
    pthread_t thread;
    semel_transport *transport;
    atomic_int ending;
    semel_status status;
    size_t got;
} waiter;

static void *wait_in_it(void *context)
{
    waiter *self = context;
    semel_delivery delivery;
    while (!self->status && !self->got && !atomic_load(&self->ending))
        self->status =
            semel_transport_receive(self->transport, &delivery, 1, &self->got, TURN_MS, NULL);
    return NULL;
}

static void end_waiter(waiter *self)
{
    atomic_store(&self->ending, 1);
    assert_int_equal(pthread_join(self->thread, NULL), 0);
}

/* Wherever the other thread is at that moment: so several times. Under a sanitizer the other thread
 * ends before the fork. */
static void a_child_is_not_held_up_by_threads_of_its_parents(void **state)
{
    enum { TIMES = 20 };
    forked in = {.f = *state};
    waiter other = {.transport = in.f->transport};
    assert_int_equal(pthread_create(&other.thread, NULL, wait_in_it, &other), 0);
    int refused = 0;
    if (SANITIZER_FORK_IS_UNSAFE)
        end_waiter(&other);
    while (refused < TIMES && process_run(use_in_child, &in) == PROCESS_OK)
        refused++;
    if (!SANITIZER_FORK_IS_UNSAFE)
        end_waiter(&other);
    assert_int_equal(refused, TIMES);
    assert_int_equal(other.status, SEMEL_OK);
    publish_id(in.f, "m-1", NULL);
    settle(in.f, take_id(in.f, "m-1").tag, SEMEL_VERDICT_ACK, 0);
}

/* --- a consumer with something in flight ------------------------------------------------------ */

/* The handler has run so often. Between two changes of its time a broker has some turns to look at
 * what is due: NATS does so a tenth of a second after a change, and waits anew after the next. */
static void step_until(const scripted_handler *done, unsigned runs, forked *in)
{
    enum { TURNS = 20 };
    size_t settled;
    int64_t deadline = process_now_ms() + 2 * RECEIVE_WAIT_MS;
    for (unsigned turn = 0; done->runs < runs && process_now_ms() < deadline; turn++) {
        if (turn % TURNS == 0)
            pass_broker_ms(in->f, 1000);
        OK(semel_consumer_step(&settled, in->inner, TURN_MS, &last_error));
    }
    assert_int_equal(done->runs, runs);
}

static void a_consumer_of_the_parents_may_be_closed_in_a_child(void **state)
{
    forked in = {.f = *state};
    semel_store *store = NULL;
    semel_inbox *inbox = NULL;
    scripted_handler fails_once = {.failures = 1};
    semel_consumer_options options = {.size = sizeof options, .backoff_ms = 1};
    OK(semel_store_open(&store, "memory:", NULL, &last_error));
    OK(semel_store_migrate(store, &last_error));
    OK(semel_inbox_open(&inbox, store, "in", NULL, &last_error));
    semel_route route = {
        .pattern = "*", .inbox = inbox, .handler = scripted_handler_run, .context = &fails_once};
    OK(semel_consumer_open(&in.inner, in.f->transport, &route, 1, &options, &last_error));
    publish_id(in.f, "m-1", NULL);
    step_until(&fails_once, 1, &in);
    assert_int_equal(process_run(use_in_child, &in), PROCESS_OK);
    step_until(&fails_once, 2, &in);
    semel_consumer_close(in.inner);
    semel_inbox_close(inbox);
    semel_store_close(store);
    expect_nothing(in.f);
}

const transport_test transport_fork_tests[] = {
    TRANSPORT_TEST(a_child_cannot_use_it_and_does_not_disturb_it),
    TRANSPORT_TEST_OF(a_child_is_not_held_up_by_threads_of_its_parents, SEMEL_TRANSPORT_SHARED),
    TRANSPORT_TEST(a_consumer_of_the_parents_may_be_closed_in_a_child),
    {NULL, NULL, 0}};
