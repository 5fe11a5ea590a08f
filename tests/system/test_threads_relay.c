/* Relays and consumers in threads.
 *
 * P10: producers and two relays side by side, with a broker that refuses messages at random and
 * loses its answers at random: the messages of a group are accepted for the first time in the
 * order in which they were captured.
 *
 * stop() ends a run within a bounded time, whatever it is doing: from another thread and from a
 * signal handler. */
#include "support/fixture/shop.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <semel/sys/transport.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    PRODUCERS = 2,
    RELAYS = 2,
    GROUPS = 8,
    PER_GROUP = 100 / SANITIZER_SLOWDOWN,
    UNGROUPED = 50,
    STOP_MS = 60000, /* far more than it takes, far less than what is waited for */
    LONG_MS = 600000
};

/* --- a broker that fails at random ------------------------------------------------------------ */

typedef enum fault { FAULT_REFUSES = 1, FAULT_LOSES_ANSWERS = 2, FAULT_IS_DOWN = 4 } fault;

typedef struct failing_broker {
    pthread_mutex_t lock;
    unsigned faults;
    uint32_t seed;
    atomic_uint calls;
    unsigned highest[GROUPS]; /* that was accepted */
    unsigned accepted;        /* for the first time */
    unsigned disordered;      /* accepted for the first time, but after a higher one */
    char seen[GROUPS + 1][PER_GROUP + UNGROUPED + 1];
} failing_broker;

/* "group/number"; ungrouped ones count as a group of their own, without order. */
static void accept_message(failing_broker *self, const semel_message *message)
{
    unsigned group = 0, number = 0;
    char body[SHOP_TEXT];
    (void)snprintf(body, sizeof body, "%.*s", (int)message->body.len,
                   (const char *)message->body.data);
    PROCESS_REQUIRE(sscanf(body, "%u/%u", &group, &number) == 2);
    if (self->seen[group][number])
        return;
    self->seen[group][number] = 1;
    self->accepted++;
    if (group == GROUPS)
        return;
    self->disordered += number < self->highest[group];
    self->highest[group] = number;
}

static semel_publish_result answer(failing_broker *self, const semel_message *message)
{
    uint32_t dice = shop_random(&self->seed, 10);
    if ((self->faults & FAULT_REFUSES) && dice < 2)
        return SEMEL_PUBLISH_REFUSED;
    accept_message(self, message);
    return (self->faults & FAULT_LOSES_ANSWERS) && dice == 2 ? SEMEL_PUBLISH_UNKNOWN
                                                             : SEMEL_PUBLISH_CONFIRMED;
}

static failing_broker *the_failing_broker(void *transport)
{
    return *(failing_broker **)transport;
}

static semel_status fickle_open(void *transport, const char *argument,
                                const semel_transport_settings *settings, semel_error *err)
{
    (void)settings;
    (void)err;
    *(const void **)transport = argument;
    return SEMEL_OK;
}

static void fickle_close(void *transport)
{
    (void)transport;
}

static semel_durability fickle_durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_NOT;
}

static semel_status fickle_publish(void *transport, semel_publish_result results[],
                                   const semel_message *const messages[], size_t count,
                                   uint32_t wait_ms, semel_error *err)
{
    failing_broker *self = the_failing_broker(transport);
    int lost = 0;
    (void)wait_ms;
    atomic_fetch_add(&self->calls, 1);
    if (self->faults & FAULT_IS_DOWN)
        return semel_fail(err, SEMEL_EUNAVAILABLE, "the broker is down");
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < count; i++) {
        results[i] = answer(self, messages[i]);
        lost |= results[i] == SEMEL_PUBLISH_UNKNOWN;
    }
    pthread_mutex_unlock(&self->lock);
    return lost ? semel_fail(err, SEMEL_EUNAVAILABLE, "an answer was lost") : SEMEL_OK;
}

static semel_status fickle_receive(void *transport, semel_delivery deliveries[], size_t max,
                                   size_t *count, uint32_t wait_ms, semel_error *err)
{
    failing_broker *self = the_failing_broker(transport);
    (void)deliveries;
    (void)max;
    (void)count;
    (void)wait_ms;
    atomic_fetch_add(&self->calls, 1);
    return semel_fail(err, SEMEL_EUNAVAILABLE, "the broker is down");
}

static semel_status fickle_settle(void *transport, const semel_delivery_settlement settles[],
                                  size_t count, semel_error *err)
{
    (void)transport;
    (void)settles;
    (void)count;
    (void)err;
    return SEMEL_OK;
}

static const semel_transport_driver fickle_driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .abilities = SEMEL_TRANSPORT_SHARED,
    .scheme = "failing_broker",
    .transport_size = sizeof(failing_broker *),
    .open = fickle_open,
    .close = fickle_close,
    .durability = fickle_durability,
    .publish = fickle_publish,
    .receive = fickle_receive,
    .settle = fickle_settle,
};

/* --- the relay_case --------------------------------------------------------------------------- */

typedef struct relay_case {
    store_place place;
    shop s;
    shop_tally tally;
    failing_broker broker;
    semel_transport *transport;
    atomic_int producing;
    semel_relay *relay;
    semel_consumer *consumer;
    semel_status ended; /* what the run returned */
} relay_case;

static relay_case *relay_case_open(int sqlite, unsigned faults)
{
    relay_case *y = calloc(1, sizeof *y);
    assert_non_null(y);
    store_place_open(&y->place, sqlite ? PLACE_SQLITE : PLACE_MEMORY);
    if (sqlite)
        shop_build(&y->place);
    shop_open(&y->s, &y->place, NULL, &y->tally);
    y->broker.faults = faults;
    y->broker.seed = 42;
    pthread_mutex_init(&y->broker.lock, NULL);
    assert_int_equal(
        semel_transport_open_driver(&y->transport, &fickle_driver, &y->broker, NULL, NULL),
        SEMEL_OK);
    return y;
}

static void relay_case_close(relay_case *y)
{
    semel_relay_close(y->relay);
    semel_consumer_close(y->consumer);
    semel_transport_close(y->transport);
    pthread_mutex_destroy(&y->broker.lock);
    shop_close(&y->s);
    store_place_close(&y->place);
    free(y);
}

/* --- P10 -------------------------------------------------------------------------------------- */

static void send_one(relay_case *y, unsigned group, unsigned number)
{
    char body[SHOP_TEXT], name[SHOP_TEXT];
    semel_error err;
    (void)snprintf(body, sizeof body, "%u/%u", group, number);
    (void)snprintf(name, sizeof name, "group-%u", group);
    semel_message message = {.size = sizeof message,
                             .type = "moved",
                             .group = group < GROUPS ? name : NULL,
                             .body = semel_str(body)};
    PROCESS_REQUIRE_OK(semel_outbox_send(y->s.outbox, &message, &err), &err);
}

/* Each group has one producer, so its numbers are captured in ascending order. */
static void produce(relay_case *y, unsigned producer)
{
    for (unsigned number = 1; number <= PER_GROUP; number++)
        for (unsigned group = producer; group < GROUPS; group += PRODUCERS)
            send_one(y, group, number);
    for (unsigned number = 1 + producer; number <= UNGROUPED; number += PRODUCERS)
        send_one(y, GROUPS, number);
    atomic_fetch_sub(&y->producing, 1);
}

static void send_away(relay_case *y)
{
    int64_t deadline = process_now_ms() + 60000;
    semel_relay_options options = {.size = sizeof options,
                                   .batch = 16,
                                   .poll_ms = 2,
                                   .attempts_max = 1000000,
                                   .backoff_ms = 1,
                                   .backoff_max_ms = 4};
    semel_relay *relay;
    semel_counters counters = {.unsent = 1};
    PROCESS_REQUIRE(semel_relay_open(&relay, y->s.outbox, y->transport, &options, NULL) ==
                    SEMEL_OK);
    while (atomic_load(&y->producing) || counters.unsent) {
        size_t sent;
        semel_status status = semel_relay_step(&sent, relay, 2, NULL);
        PROCESS_REQUIRE(status == SEMEL_OK || status == SEMEL_EUNAVAILABLE);
        PROCESS_REQUIRE(!semel_store_counters(&counters, sizeof counters, y->s.base.store, NULL));
        PROCESS_REQUIRE(process_now_ms() < deadline);
    }
    semel_relay_close(relay);
}

static void produce_or_send_away(test_thread *member)
{
    relay_case *y = member->context;
    if (member->index < PRODUCERS)
        produce(y, member->index);
    else
        send_away(y);
}

static void groups_keep_their_order(int sqlite, unsigned faults)
{
    relay_case *y = relay_case_open(sqlite, faults);
    semel_counters counters;
    atomic_store(&y->producing, PRODUCERS);
    assert_true(threads_run(PRODUCERS + RELAYS, produce_or_send_away, y));
    assert_int_equal(y->broker.disordered, 0);
    assert_int_equal(y->broker.accepted, GROUPS * PER_GROUP + UNGROUPED);
    assert_int_equal(semel_store_counters(&counters, sizeof counters, y->s.base.store, NULL),
                     SEMEL_OK);
    assert_int_equal(counters.dead, 0);
    assert_int_equal(counters.sent, GROUPS * PER_GROUP + UNGROUPED);
    relay_case_close(y);
}

static void p10_refusals_do_not_change_the_order(void **state)
{
    groups_keep_their_order(*state != NULL, FAULT_REFUSES);
}

static void p10_lost_answers_do_not_change_the_order(void **state)
{
    groups_keep_their_order(*state != NULL, FAULT_REFUSES | FAULT_LOSES_ANSWERS);
}

/* --- stopping --------------------------------------------------------------------------------- */

static void wait_for(atomic_uint *count)
{
    int64_t deadline = process_now_ms() + STOP_MS;
    while (!atomic_load(count) && process_now_ms() < deadline)
        process_nap();
    assert_true(atomic_load(count) > 0);
}

static void run_relay(test_thread *member)
{
    relay_case *y = member->context;
    y->ended = semel_relay_run(y->relay, NULL);
}

static void run_consumer(test_thread *member)
{
    relay_case *y = member->context;
    y->ended = semel_consumer_run(y->consumer, NULL);
}

static void open_relay(relay_case *y, uint32_t poll_ms)
{
    semel_relay_options options = {.size = sizeof options,
                                   .poll_ms = poll_ms,
                                   .backoff_ms = LONG_MS,
                                   .backoff_max_ms = LONG_MS};
    assert_int_equal(semel_relay_open(&y->relay, y->s.outbox, y->transport, &options, NULL),
                     SEMEL_OK);
}

static void open_consumer(relay_case *y, semel_transport *from)
{
    semel_route route = {"*", y->s.inbox, shop_handler, &y->s};
    semel_consumer_options options = {
        .size = sizeof options, .backoff_ms = LONG_MS, .backoff_max_ms = LONG_MS};
    assert_int_equal(semel_consumer_open(&y->consumer, from, &route, 1, &options, NULL), SEMEL_OK);
}

static void check_ends(relay_case *y, test_thread *member)
{
    assert_true(test_thread_join(member, STOP_MS));
    assert_int_equal(y->ended, SEMEL_OK);
}

static void a_waiting_relay_is_stopped_by_another_thread(void **state)
{
    relay_case *y = relay_case_open(1, 0);
    test_thread member;
    (void)state;
    open_relay(y, LONG_MS);
    send_one(y, GROUPS, 1);
    test_thread_start(&member, run_relay, y);
    wait_for(&y->broker.calls); /* it has sent that one, and waits for the next */
    semel_relay_stop(y->relay);
    check_ends(y, &member);
    relay_case_close(y);
}

static void a_relay_whose_broker_is_down_is_stopped_by_another_thread(void **state)
{
    relay_case *y = relay_case_open(1, FAULT_IS_DOWN);
    test_thread member;
    (void)state;
    open_relay(y, LONG_MS);
    send_one(y, GROUPS, 1);
    test_thread_start(&member, run_relay, y);
    wait_for(&y->broker.calls); /* it has failed, and backs off for minutes */
    semel_relay_stop(y->relay);
    check_ends(y, &member);
    relay_case_close(y);
}

static void a_waiting_consumer_is_stopped_by_another_thread(void **state)
{
    relay_case *y = relay_case_open(1, 0);
    semel_transport *queue;
    semel_publish_result result;
    test_thread member;
    char text[SHOP_TEXT];
    semel_message message = shop_message(text, 1);
    const semel_message *list[] = {&message};
    (void)state;
    assert_int_equal(semel_transport_open(&queue, "memory:", NULL, NULL), SEMEL_OK);
    assert_int_equal(semel_transport_publish(&result, queue, list, 1, STOP_MS, NULL), SEMEL_OK);
    open_consumer(y, queue);
    test_thread_start(&member, run_consumer, y);
    wait_for(&y->tally.effects[1]); /* it has handled that one, and waits for the next */
    semel_consumer_stop(y->consumer);
    check_ends(y, &member);
    semel_consumer_close(y->consumer);
    y->consumer = NULL;
    semel_transport_close(queue);
    relay_case_close(y);
}

static void a_consumer_whose_broker_is_down_is_stopped_by_another_thread(void **state)
{
    relay_case *y = relay_case_open(1, FAULT_IS_DOWN);
    test_thread member;
    (void)state;
    open_consumer(y, y->transport);
    test_thread_start(&member, run_consumer, y);
    wait_for(&y->broker.calls);
    semel_consumer_stop(y->consumer);
    check_ends(y, &member);
    relay_case_close(y);
}

static relay_case *signalled; /* whose relay and consumer the signal is for */

static void on_signal(int number)
{
    (void)number;
    if (signalled->relay)
        semel_relay_stop(signalled->relay);
    if (signalled->consumer)
        semel_consumer_stop(signalled->consumer);
}

/* The thread sanitizer of clang 14 keeps a signal back until the thread calls something that it
 * intercepts, and now and then forgets it: then there is another one. Elsewhere one must do. */
static int kill_and_join(test_thread *member)
{
    enum { SIGNALS = SANITIZER_SLOWDOWN > 1 ? 30 : 1 };
    for (int i = 0; i < SIGNALS; i++) {
        pthread_kill(member->thread, SIGUSR1);
        if (test_thread_join(member, STOP_MS / SIGNALS))
            return 1;
    }
    return 0;
}

/* The signal comes to the very thread that runs. */
static void stop_by_signal(relay_case *y, void (*run)(test_thread *member))
{
    struct sigaction action = {.sa_handler = on_signal}, before;
    test_thread member;
    signalled = y;
    sigaction(SIGUSR1, &action, &before);
    test_thread_start(&member, run, y);
    wait_for(&y->broker.calls);
    assert_true(kill_and_join(&member));
    assert_int_equal(y->ended, SEMEL_OK);
    sigaction(SIGUSR1, &before, NULL);
}

static void a_relay_is_stopped_by_a_signal_handler(void **state)
{
    enum { POLL_MS = 1000 }; /* sanitizers deliver a signal when the wait is over, not in it */
    relay_case *y = relay_case_open(1, 0);
    (void)state;
    open_relay(y, POLL_MS);
    send_one(y, GROUPS, 1);
    stop_by_signal(y, run_relay);
    relay_case_close(y);
}

static void a_consumer_is_stopped_by_a_signal_handler(void **state)
{
    relay_case *y = relay_case_open(1, FAULT_IS_DOWN);
    (void)state;
    open_consumer(y, y->transport);
    stop_by_signal(y, run_consumer);
    relay_case_close(y);
}

int main(void)
{
    static int sqlite;
    const struct CMUnitTest tests[] = {
        {"p10_refusals_do_not_change_the_order (memory)", p10_refusals_do_not_change_the_order,
         NULL, NULL, NULL},
        {"p10_refusals_do_not_change_the_order (sqlite)", p10_refusals_do_not_change_the_order,
         NULL, NULL, &sqlite},
        {"p10_lost_answers_do_not_change_the_order (memory)",
         p10_lost_answers_do_not_change_the_order, NULL, NULL, NULL},
        {"p10_lost_answers_do_not_change_the_order (sqlite)",
         p10_lost_answers_do_not_change_the_order, NULL, NULL, &sqlite},
        cmocka_unit_test(a_waiting_relay_is_stopped_by_another_thread),
        cmocka_unit_test(a_relay_whose_broker_is_down_is_stopped_by_another_thread),
        cmocka_unit_test(a_waiting_consumer_is_stopped_by_another_thread),
        cmocka_unit_test(a_consumer_whose_broker_is_down_is_stopped_by_another_thread),
        cmocka_unit_test(a_relay_is_stopped_by_a_signal_handler),
        cmocka_unit_test(a_consumer_is_stopped_by_a_signal_handler),
    };
    return cmocka_run_group_tests_name("threads: relays and consumers", tests, NULL, NULL);
}
