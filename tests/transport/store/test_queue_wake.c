/* Who is woken by what: a commit wakes the relays and receivers that wait for its outboxes or
 * its queue, and no others.
 *
 * Two tests count how often a relay or a receiver looks while it waits for a moment. One that is
 * not woken looks once before it waits and once when its time is over; one that was woken looks
 * once more. */
#include "core/store.h"
#include "store/memory/memory.h"
#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/deadline.h"

#include <semel/sys/transport.h>
#include <semel/test.h>
#include <stdio.h>

enum { MOMENT_MS = 20, LONG_MS = 120000, MANY = STORE_SCOPES + 2 };

static int64_t looked_scope; /* of the outbox or queue whose leases are counted */
static unsigned looks;

static semel_status count_lease(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                                semel_item_sink *sink, void *context, semel_error *err)
{
    looks += outbox == looked_scope;
    return memory_store_driver.outbox->lease(unit, outbox, limit, lease_ms, sink, context, err);
}

typedef struct fixture {
    semel_store_outbox members;
    semel_store_driver driver;
    semel_store *store;
    semel_transport *orders, *bills; /* two queues */
    semel_outbox *outboxes[MANY];    /* "o0", "o1", ... */
    store_watcher watchers[MANY];    /* of the outboxes */
    store_watcher of_orders, of_bills;
} fixture;

static fixture shared;

static int64_t scope_of(fixture *f, semel_scope kind, const char *name)
{
    int64_t scope = 0;
    OK(f->store->driver->scope(f->store->state, kind, name, &scope, &last_error));
    return scope;
}

static void watch(fixture *f, store_watcher *watcher, semel_scope kind, const char *name)
{
    OK(store_watch(f->store, watcher, scope_of(f, kind, name), &last_error));
}

static void open_all(fixture *f)
{
    semel_queue_options slow = {.size = sizeof slow, .poll_ms = LONG_MS};
    OK(semel_queue_open(&f->orders, f->store, "orders", &slow, &last_error));
    OK(semel_queue_open(&f->bills, f->store, "bills", &slow, &last_error));
    watch(f, &f->of_orders, SEMEL_SCOPE_QUEUE, "orders");
    watch(f, &f->of_bills, SEMEL_SCOPE_QUEUE, "bills");
    for (int i = 0; i < MANY; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "o%d", i);
        OK(semel_outbox_open(&f->outboxes[i], f->store, name, &last_error));
        watch(f, &f->watchers[i], SEMEL_SCOPE_OUTBOX, name);
    }
}

static int setup(void **state)
{
    fixture *f = &shared;
    *f = (fixture){.members = *memory_store_driver.outbox, .driver = memory_store_driver};
    *state = f;
    deadline_begin();
    f->members.lease = count_lease;
    f->driver.outbox = &f->members;
    OK(semel_store_open_driver(&f->store, &f->driver, "memory:", NULL, &last_error));
    open_all(f);
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < MANY; i++) {
        store_unwatch(f->store, &f->watchers[i]);
        semel_outbox_close(f->outboxes[i]);
    }
    store_unwatch(f->store, &f->of_orders);
    store_unwatch(f->store, &f->of_bills);
    semel_transport_close(f->orders);
    semel_transport_close(f->bills);
    semel_store_close(f->store);
    deadline_end();
    return 0;
}

/* --- tools ------------------------------------------------------------------------------------ */

static void publish(semel_transport *queue, const char *id, const char *group)
{
    semel_message message = text_message(id, "10 EUR");
    const semel_message *pointer = &message;
    semel_publish_result result;
    message.group = group;
    OK(semel_transport_publish(&result, queue, &pointer, 1, 1000, &last_error));
}

static void send_to(semel_outbox *outbox)
{
    semel_message message = text_message("m", "10 EUR");
    OK(semel_outbox_send(outbox, &message, &last_error));
}

static int was_woken(fixture *f, store_watcher *watcher)
{
    return store_wait(f->store, watcher, 0);
}

static void check_outboxes(fixture *f, int first, int end)
{
    for (int i = 0; i < MANY; i++)
        assert_int_equal(was_woken(f, &f->watchers[i]), i >= first && i < end);
}

static void check_queues(fixture *f, int orders, int bills)
{
    assert_int_equal(was_woken(f, &f->of_orders), orders);
    assert_int_equal(was_woken(f, &f->of_bills), bills);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void a_relay_that_waits_is_not_woken_by_others(void **state)
{
    fixture *f = *state;
    semel_relay_options slow = {.size = sizeof slow, .poll_ms = LONG_MS};
    semel_transport *recorder = NULL;
    semel_relay *relay = NULL;
    size_t sent = 9;
    OK(semel_test_recorder_open(&recorder, &last_error));
    OK(semel_relay_open(&relay, f->outboxes[0], recorder, &slow, &last_error));
    publish(f->orders, "m-1", NULL);
    send_to(f->outboxes[1]);
    looked_scope = scope_of(f, SEMEL_SCOPE_OUTBOX, "o0");
    looks = 0;
    OK(semel_relay_step(&sent, relay, MOMENT_MS, &last_error));
    assert_int_equal(sent, 0);
    assert_in_range(looks, 1, 2);
    semel_relay_close(relay);
    semel_transport_close(recorder);
}

static void receive_nothing(semel_transport *queue)
{
    semel_delivery got;
    size_t count = 9;
    OK(semel_transport_receive(queue, &got, 1, &count, MOMENT_MS, &last_error));
    assert_int_equal(count, 0);
}

static void a_receiver_that_waits_is_not_woken_by_others(void **state)
{
    fixture *f = *state;
    receive_nothing(f->orders); /* from now on it listens */
    publish(f->bills, "m-1", NULL);
    send_to(f->outboxes[0]);
    looked_scope = scope_of(f, SEMEL_SCOPE_QUEUE, "orders");
    looks = 0;
    receive_nothing(f->orders);
    assert_in_range(looks, 1, 2);
}

/* --- who is woken ----------------------------------------------------------------------------- */

static void a_message_wakes_those_who_wait_for_it(void **state)
{
    fixture *f = *state;
    send_to(f->outboxes[1]);
    check_outboxes(f, 1, 2);
    check_queues(f, 0, 0);
    publish(f->orders, "m-1", NULL);
    check_outboxes(f, 0, 0);
    check_queues(f, 1, 0);
}

/* A unit remembers a few outboxes. If it sends to more, all are woken, and so are the queues. */
static void a_unit_wakes_all_that_it_sends_to(void **state)
{
    fixture *f = *state;
    for (int count = 0; count <= MANY; count++) {
        semel_unit *unit = NULL;
        semel_message message = text_message("m", "10 EUR");
        OK(semel_unit_begin(&unit, f->store, &last_error));
        for (int i = 0; i < 2 * count; i++)
            OK(semel_unit_send(unit, f->outboxes[i / 2], &message, &last_error));
        OK(semel_unit_commit(unit, &last_error));
        check_outboxes(f, 0, count > STORE_SCOPES ? MANY : count);
        check_queues(f, count > STORE_SCOPES, count > STORE_SCOPES);
    }
}

static void what_is_rolled_back_wakes_no_consumer(void **state)
{
    fixture *f = *state;
    semel_unit *unit = NULL;
    semel_message message = text_message("m", "10 EUR");
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_send(unit, f->outboxes[0], &message, &last_error));
    semel_unit_rollback(unit);
    send_to(f->outboxes[1]); /* the same unit, used again */
    check_outboxes(f, 1, 2);
    check_queues(f, 0, 0);
}

static semel_delivery receive(semel_transport *queue)
{
    semel_delivery got = {0};
    size_t count = 0;
    OK(semel_transport_receive(queue, &got, 1, &count, 0, &last_error));
    assert_int_equal(count, 1);
    return got;
}

static void settle(semel_transport *queue, semel_delivery got, semel_verdict verdict)
{
    semel_delivery_settlement settlement = {got.tag, verdict, 0};
    OK(semel_transport_settle(queue, &settlement, 1, &last_error));
}

/* All receivers of the queue, also those of another transport. */
static void a_verdict_wakes_those_who_may_have_the_next(void **state)
{
    fixture *f = *state;
    publish(f->orders, "m-1", "g");
    publish(f->orders, "m-2", "g");
    check_queues(f, 1, 0);
    settle(f->orders, receive(f->orders), SEMEL_VERDICT_ACK);
    check_queues(f, 1, 0);
    settle(f->orders, receive(f->orders), SEMEL_VERDICT_RETRY);
    check_queues(f, 1, 0);
    settle(f->orders, receive(f->orders), SEMEL_VERDICT_REJECT);
    check_queues(f, 1, 0);
    publish(f->orders, "m-3", NULL);
    semel_delivery alone = receive(f->orders);
    check_queues(f, 1, 0);
    settle(f->orders, alone, SEMEL_VERDICT_ACK); /* none waits for it to be gone */
    check_queues(f, 0, 0);
    check_outboxes(f, 0, 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_relay_that_waits_is_not_woken_by_others),
        TEST(a_receiver_that_waits_is_not_woken_by_others),
        TEST(a_message_wakes_those_who_wait_for_it),
        TEST(a_unit_wakes_all_that_it_sends_to),
        TEST(what_is_rolled_back_wakes_no_consumer),
        TEST(a_verdict_wakes_those_who_may_have_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
