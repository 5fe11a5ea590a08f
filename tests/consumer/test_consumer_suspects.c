/* Suspects, which a worker handles one at a time, and the only attempt of a message.
 *
 * Suspects are deliveries that came again: they may have killed the process that had them before.
 * Here they are made by receiving everything once and giving it back. Inboxes are in claim mode
 * where handlers are to meet: no transaction of the memory store keeps them apart then. */
#include "support/fake/no_delay_transport.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORKERS = 8, EACH = 8, SOON_MS = 60000, MOMENT_NAPS = 10 };

/* --- handlers that meet ----------------------------------------------------------------------- */

typedef struct meeting {
    atomic_int now, most; /* at work, and at most so far */
    atomic_uint ended;
} meeting;

typedef struct consumer_case {
    no_delay broker;
    semel_consumer *consumer;
    semel_status ended;
    semel_error why;
    meeting suspects, firsts, agains; /* agains: runs after one that failed here */
    atomic_uint runs[2 * EACH];       /* by the number in the message's id */
    unsigned firsts_expected;         /* those that a suspect waits for */
    int fails_first;                  /* every message, at its first run */
    int agains_expected;              /* so many at once */
} consumer_case;

static void enter(meeting *m)
{
    int now = atomic_fetch_add(&m->now, 1) + 1, most = atomic_load(&m->most);
    while (now > most && !atomic_compare_exchange_weak(&m->most, &most, now))
        continue;
}

static void leave(meeting *m)
{
    atomic_fetch_sub(&m->now, 1);
    atomic_fetch_add(&m->ended, 1);
}

#define WAIT_UNTIL(condition)                              \
    for (int64_t wait_until_ = process_now_ms() + SOON_MS; \
         !(condition) && process_now_ms() < wait_until_;)  \
    process_nap()

/* A suspect stays until all that came for the first time are done, and these until as many as
 * possible have met; so a handler that should not run now has all the time to start, and a moment
 * more where nothing came for the first time. */
static semel_status meet(semel_unit *unit, const semel_message *message, void *context,
                         semel_error *err)
{
    consumer_case *s = context;
    unsigned number = (unsigned)strtoul(message->id.data, NULL, 10);
    unsigned before = atomic_fetch_add(&s->runs[number], 1);
    meeting *m = before ? &s->agains : message->delivery >= 2 ? &s->suspects : &s->firsts;
    int naps = 0;
    (void)unit;
    enter(m);
    if (before)
        WAIT_UNTIL(atomic_load(&m->most) >= s->agains_expected);
    else if (message->delivery >= 2)
        WAIT_UNTIL(atomic_load(&m->most) > 1 ||
                   (atomic_load(&s->firsts.ended) >= s->firsts_expected && naps++ >= MOMENT_NAPS));
    else if (s->firsts_expected)
        WAIT_UNTIL(atomic_load(&m->most) == WORKERS - 1);
    leave(m);
    if (s->fails_first && !before)
        return semel_fail(err, SEMEL_EHANDLER, "not at the first time");
    return SEMEL_OK;
}

static void publish(semel_transport *transport, const char *id)
{
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    semel_publish_result result;
    OK(semel_transport_publish(&result, transport, &one, 1, 0, &last_error));
    assert_int_equal(result, SEMEL_PUBLISH_CONFIRMED);
}

static void publish_numbers(consumer_case *s, unsigned from, unsigned count)
{
    char id[16];
    for (unsigned i = from; i < from + count; i++) {
        (void)snprintf(id, sizeof id, "%u", i);
        publish(s->broker.inner, id);
    }
}

/* All that is in the queue comes a second time from now on. */
static void deliver_in_vain(semel_transport *transport, size_t count)
{
    semel_delivery deliveries[2 * EACH];
    size_t got = 0;
    OK(semel_transport_receive(transport, deliveries, count, &got, 0, &last_error));
    assert_int_equal(got, count);
    for (size_t i = 0; i < count; i++) {
        semel_delivery_settlement back = {.tag = deliveries[i].tag, .verdict = SEMEL_VERDICT_RETRY};
        OK(semel_transport_settle(transport, &back, 1, &last_error));
    }
}

static semel_inbox *inbox_by_claims(fixture *f)
{
    semel_inbox_options claims = {.size = sizeof claims, .mode = SEMEL_CLAIM};
    return fixture_inbox(f, "inbox", &claims);
}

static void open_case(consumer_case *s, fixture *f, semel_consumer_options options)
{
    semel_route route = {"*", inbox_by_claims(f), meet, s};
    OK(semel_transport_open(&s->broker.inner, "memory:", NULL, &last_error));
    semel_transport *transport = no_delay_open(f, &s->broker, NULL);
    options.size = sizeof options;
    options.workers = WORKERS;
    options.backoff_ms = 1;
    options.backoff_max_ms = 4;
    OK(semel_consumer_open(&s->consumer, transport, &route, 1, &options, &last_error));
}

static void run(test_thread *member)
{
    consumer_case *s = member->context;
    s->ended = semel_consumer_run(s->consumer, &s->why);
}

static void run_until_acked(consumer_case *s, unsigned count)
{
    test_thread member;
    test_thread_start(&member, run, s);
    WAIT_UNTIL(atomic_load(&s->broker.acked) == count);
    semel_consumer_stop(s->consumer);
    assert_true(test_thread_join(&member, SOON_MS));
    assert_int_equal(s->ended, SEMEL_OK);
    assert_int_equal(s->broker.acked, count);
    semel_consumer_close(s->consumer);
    semel_transport_close(s->broker.inner);
}

/* --- suspects --------------------------------------------------------------------------------- */

static void one_suspect_at_a_time_and_what_is_new_beside_it(void **state)
{
    consumer_case s = {.firsts_expected = EACH - 1};
    open_case(&s, *state, (semel_consumer_options){.batch = 1});
    publish_numbers(&s, 0, EACH);
    deliver_in_vain(s.broker.inner, EACH);
    publish_numbers(&s, EACH, EACH - 1);
    run_until_acked(&s, 2 * EACH - 1);
    assert_int_equal(s.suspects.ended, EACH);
    assert_int_equal(s.suspects.most, 1);
    assert_int_equal(s.firsts.most, WORKERS - 1);
}

/* One worker may have several of them, and has them one after the other. */
static void suspects_in_batches_are_one_at_a_time_as_well(void **state)
{
    consumer_case s = {0};
    open_case(&s, *state, (semel_consumer_options){.batch = 3});
    publish_numbers(&s, 0, 2 * EACH);
    deliver_in_vain(s.broker.inner, 2 * EACH);
    run_until_acked(&s, 2 * EACH);
    assert_int_equal(s.suspects.most, 1);
}

static void what_failed_here_is_no_suspect(void **state)
{
    consumer_case s = {.fails_first = 1, .agains_expected = EACH};
    open_case(&s, *state, (semel_consumer_options){.batch = 1});
    publish_numbers(&s, 0, EACH);
    run_until_acked(&s, EACH);
    assert_int_equal(s.agains.most, EACH);
}

static void a_suspect_that_failed_here_is_none_any_more(void **state)
{
    consumer_case s = {.fails_first = 1, .agains_expected = EACH};
    open_case(&s, *state, (semel_consumer_options){.batch = 1});
    publish_numbers(&s, 0, EACH);
    deliver_in_vain(s.broker.inner, EACH);
    run_until_acked(&s, EACH);
    assert_int_equal(s.suspects.most, 1);
    assert_int_equal(s.agains.most, EACH);
}

/* --- one attempt ------------------------------------------------------------------------------ */

static void the_only_attempt_is_had_though_the_first_delivery_never_began(void **state)
{
    fixture *f = *state;
    scripted_handler todo = {0};
    semel_inbox *inboxes[2];
    fixture_both_modes(
        inboxes, f, (semel_inbox_options){.size = sizeof(semel_inbox_options), .attempts_max = 1});
    semel_message message = text_message("m", "a");
    message.delivery = 2;
    EACH_MODE(inbox, inboxes)
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &message, &todo);
    assert_int_equal(todo.runs, 2);
    assert_int_equal(fixture_letters(f, NULL, 0), 0);
}

typedef struct life {
    char url[SCRATCH_PATH];
    uint32_t delivery;
    semel_outcome outcome;
} life;

static semel_status die(semel_unit *unit, const semel_message *message, void *context,
                        semel_error *err)
{
    (void)unit, (void)message, (void)context, (void)err;
    raise(SIGKILL);
    return SEMEL_OK;
}

static int live(void *context)
{
    life *l = context;
    semel_error err;
    semel_store *store;
    semel_inbox *inbox;
    semel_inbox_options once = {.size = sizeof once, .attempts_max = 1};
    semel_message message = text_message("poison", "a");
    message.delivery = l->delivery;
    PROCESS_REQUIRE_OK(semel_store_open(&store, l->url, NULL, &err), &err);
    PROCESS_REQUIRE_OK(semel_store_migrate(store, &err), &err);
    PROCESS_REQUIRE_OK(semel_inbox_open(&inbox, store, "inbox", &once, &err), &err);
    PROCESS_REQUIRE_OK(semel_inbox_receive(&l->outcome, inbox, &message, die, NULL, &err), &err);
    semel_inbox_close(inbox);
    semel_store_close(store);
    return PROCESS_OK;
}

/* The first delivery was not counted, so the second has the one attempt; the third kills no
 * process. */
static void a_message_that_kills_in_its_only_attempt_becomes_a_dead_letter(void **state)
{
    scratch directory;
    life *l = process_share(sizeof *l);
    (void)state;
    scratch_open(&directory);
    scratch_sqlite(l->url, &directory, "shop.db");
    for (l->delivery = 1; l->delivery <= 2; l->delivery++)
        assert_int_equal(process_run(live, l), PROCESS_KILLED + SIGKILL);
    assert_int_equal(process_run(live, l), PROCESS_OK);
    OUTCOME(SEMEL_DEAD, l->outcome);
    process_unshare(l, sizeof *l);
    scratch_close(&directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY("one suspect at a time, and what is new beside it",
                  one_suspect_at_a_time_and_what_is_new_beside_it),
        ON_MEMORY("suspects in batches are one at a time as well",
                  suspects_in_batches_are_one_at_a_time_as_well),
        ON_MEMORY("what failed here is no suspect", what_failed_here_is_no_suspect),
        ON_MEMORY("a suspect that failed here is none any more",
                  a_suspect_that_failed_here_is_none_any_more),
        ON_BOTH("the only attempt is had though the first delivery never began",
                the_only_attempt_is_had_though_the_first_delivery_never_began),
        cmocka_unit_test(a_message_that_kills_in_its_only_attempt_becomes_a_dead_letter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
