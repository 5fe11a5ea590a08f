/* A consumer that runs with many workers: each effect once, those of a group in order, whatever
 * fails on the way; and that workers come, go, and stop as they should.
 *
 * An effect is a message in an outbox: it is there if, and only if, the handler's unit was
 * committed. The store has the test's seam, for its faults; transports have the system's clock,
 * which backoffs need to pass. */
#include "support/base/sanitizer.h"
#include "support/fake/no_delay_transport.h"
#include "support/fake/spy.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

enum {
    WORKERS = 8,
    GROUPS = 20,
    COUNT = 2000 / SANITIZER_SLOWDOWN / GROUPS * GROUPS,
    SOON_MS = 120000,
};

typedef struct consumer_case {
    fixture *f;
    no_delay broker;
    semel_outbox *outbox;
    semel_consumer *consumer;
    semel_status ended;
    semel_error why;

    semel_mode mode; /* in claim mode no transaction keeps handlers from working side by side */

    /* What the handler does. */
    unsigned fails_in_a_hundred;
    unsigned store_fails_every; /* so many runs; 0: never */
    unsigned settle_fails_every;

    /* What it saw. */
    atomic_uint runs;
    atomic_int at_work[GROUPS];
    atomic_uint overlaps; /* two of a group at work */
    atomic_int busy;
    atomic_int busy_most;
    atomic_uint stops; /* by a handler */

    /* What was noticed, and how it began and ended by turns. */
    atomic_int in_notice;
    atomic_uint notices;
    int in_trouble;
    atomic_uint bad_notices;
} consumer_case;

/* --- the handler ------------------------------------------------------------------------------ */

static unsigned group_of(const semel_message *message)
{
    unsigned group = 0;
    (void)sscanf(message->group, "g%u", &group);
    return group % GROUPS;
}

static void note_busy(consumer_case *s)
{
    int now = atomic_fetch_add(&s->busy, 1) + 1, most = atomic_load(&s->busy_most);
    while (now > most && !atomic_compare_exchange_weak(&s->busy_most, &most, now))
        continue;
}

/* A number that looks like chance, and is the same for the same run. */
static unsigned draw(unsigned run)
{
    uint64_t z = (run + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (unsigned)((z ^ z >> 27) % 100);
}

static void plan_trouble(consumer_case *s, unsigned run)
{
    static const char *const points[] = {"receive.begun", "receive.marked", "receive.committed",
                                         "batch.marked", "batch.committed"};
    static const semel_status statuses[] = {SEMEL_EUNAVAILABLE, SEMEL_EUNKNOWN, SEMEL_EBUSY};
    if (s->store_fails_every && run % s->store_fails_every == 0)
        semel_test_fault(s->f->seam, points[run % 5], 1 + run % 3, statuses[run % 3]);
    if (s->settle_fails_every)
        atomic_store(&s->broker.settle_broken,
                     run % s->settle_fails_every ? SEMEL_OK : SEMEL_EUNAVAILABLE);
}

static semel_status do_the_work(semel_unit *unit, const semel_message *message, consumer_case *s,
                                semel_error *err)
{
    unsigned run = atomic_fetch_add(&s->runs, 1) + 1;
    semel_message effect = {
        .size = sizeof effect, .id = message->id, .group = message->group, .topic = "effects"};
    plan_trouble(s, run);
    semel_status status = semel_unit_send(unit, s->outbox, &effect, err);
    if (!status && draw(run) < s->fails_in_a_hundred)
        return semel_fail(err, SEMEL_EHANDLER, "as it happens");
    return status;
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    consumer_case *s = context;
    unsigned group = group_of(message);
    note_busy(s);
    if (atomic_fetch_add(&s->at_work[group], 1))
        atomic_fetch_add(&s->overlaps, 1);
    if (s->mode == SEMEL_CLAIM)
        sched_yield();
    semel_status status = do_the_work(unit, message, s, err);
    atomic_fetch_sub(&s->at_work[group], 1);
    atomic_fetch_sub(&s->busy, 1);
    return status;
}

/* --- the consumer_case ------------------------------------------------------------------------ */

static void notice(void *context, const semel_error *trouble)
{
    consumer_case *s = context;
    int alone = !atomic_exchange(&s->in_notice, 1);
    int turn = s->in_trouble == !trouble; /* it begins when there is none, and ends when there is */
    s->in_trouble = trouble != NULL;
    if (!alone || !turn || (trouble && !trouble->retryable))
        atomic_fetch_add(&s->bad_notices, 1);
    atomic_fetch_add(&s->notices, 1);
    atomic_store(&s->in_notice, 0);
}

static void publish_all(consumer_case *s)
{
    for (unsigned i = 0; i < COUNT; i++) {
        char id[24], group[16];
        (void)snprintf(group, sizeof group, "g%02u", i % GROUPS);
        (void)snprintf(id, sizeof id, "%s-%04u", group, i / GROUPS);
        semel_message message = text_message(id, "a");
        const semel_message *one = &message;
        semel_publish_result result;
        message.group = group;
        OK(semel_transport_publish(&result, s->broker.inner, &one, 1, 0, &last_error));
    }
}

/* `delays`: on the memory transport itself. */
static void open_case(consumer_case *s, fixture *f, const char *url, int delays,
                      semel_handler *handler, semel_consumer_options options)
{
    semel_transport *transport;
    semel_inbox_options patient = {.size = sizeof patient, .attempts_max = 1000, .mode = s->mode};
    s->f = f;
    s->outbox = fixture_outbox(f, "out");
    semel_route route = {"*", fixture_inbox(f, "inbox", &patient), handler, s};
    OK(semel_transport_open(&s->broker.inner, url, NULL, &last_error));
    transport = delays ? s->broker.inner : no_delay_open(f, &s->broker, NULL);
    options.size = sizeof options;
    options.backoff_ms = 1;
    options.backoff_max_ms = 4;
    options.notice = notice;
    options.notice_context = s;
    OK(semel_consumer_open(&s->consumer, transport, &route, 1, &options, &last_error));
}

static void close_case(consumer_case *s)
{
    semel_consumer_close(s->consumer);
    s->consumer = NULL;
}

static void run(test_thread *member)
{
    consumer_case *s = member->context;
    s->ended = semel_consumer_run(s->consumer, &s->why);
}

static void wait_for_effects(consumer_case *s, unsigned count)
{
    int64_t end = process_now_ms() + SOON_MS;
    while (fixture_counters(s->f).unsent < count) {
        if (process_now_ms() > end)
            fail_msg("%u of %u effects, and no more", (unsigned)fixture_counters(s->f).unsent,
                     count);
        process_nap();
    }
}

static void check_join(consumer_case *s, test_thread *member)
{
    assert_true(test_thread_join(member, SOON_MS));
    if (s->ended)
        fail_msg("%s", s->why.text);
}

static void run_to_the_end(consumer_case *s)
{
    test_thread member;
    publish_all(s);
    test_thread_start(&member, run, s);
    wait_for_effects(s, COUNT);
    semel_consumer_stop(s->consumer);
    check_join(s, &member);
}

/* Each once, and each group's in order. */
static void check_effects(consumer_case *s)
{
    unsigned next[GROUPS] = {0};
    semel_transport *recorder = fixture_recorder(s->f);
    assert_int_equal(fixture_drain(fixture_relay(s->f, s->outbox, recorder, NULL)), COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const semel_message *effect = semel_test_recorder_message(recorder, i);
        unsigned group = group_of(effect), number = 0;
        (void)sscanf(effect->id.data, "g%*u-%u", &number); /* a copied id has a NUL behind it */
        if (number != next[group])
            fail_msg("effect %u of group %u, not %u", number, group, next[group]);
        next[group]++;
    }
    assert_int_equal(fixture_letters(s->f, NULL, 0), 0);
    assert_int_equal(s->bad_notices, 0);
}

static void close_queue(consumer_case *s)
{
    semel_transport_close(s->broker.inner);
}

/* --- order ------------------------------------------------------------------------------------ */

static void keep_order(consumer_case *s, fixture *f, const char *url, int delays, uint32_t batch)
{
    open_case(
        s, f, url, delays, handle,
        (semel_consumer_options){.workers = WORKERS, .batch = batch, .order = SEMEL_ORDER_GROUP});
    run_to_the_end(s);
    close_case(s);
    check_effects(s);
    assert_int_equal(s->overlaps, 0);
    assert_true(s->runs > COUNT);
}

static void groups_stay_in_order_though_handlers_fail(void **state)
{
    consumer_case s = {.fails_in_a_hundred = 15, .mode = SEMEL_CLAIM};
    keep_order(&s, *state, "memory:", 0, 1);
    assert_int_equal(s.broker.received, COUNT);
    assert_true(s.broker.inflight_most <= 100);
    close_queue(&s);
}

static void groups_stay_in_order_in_batches(void **state)
{
    consumer_case s = {.fails_in_a_hundred = 15};
    keep_order(&s, *state, "memory:", 0, 4);
    assert_int_equal(s.broker.received, COUNT);
    close_queue(&s);
}

static void groups_stay_in_order_on_a_transport_with_delays(void **state)
{
    consumer_case s = {.fails_in_a_hundred = 15};
    keep_order(&s, *state, "memory:", 1, 3);
    close_queue(&s);
}

static void groups_stay_in_order_though_the_store_fails(void **state)
{
    consumer_case s = {.fails_in_a_hundred = 5, .store_fails_every = 29};
    keep_order(&s, *state, "memory:", 0, 1);
    assert_int_equal(s.broker.received, COUNT);
    assert_true(s.notices > 0);
    close_queue(&s);
}

static void groups_stay_in_order_in_batches_though_the_store_fails(void **state)
{
    consumer_case s = {.fails_in_a_hundred = 5, .store_fails_every = 29};
    keep_order(&s, *state, "memory:", 0, 5);
    assert_int_equal(s.broker.received, COUNT);
    close_queue(&s);
}

/* What was not settled comes again after a while, and may do so while its first delivery is in
 * hand. */
static void groups_stay_in_order_though_the_broker_fails(void **state)
{
    consumer_case s = {.fails_in_a_hundred = 5, .store_fails_every = 97, .settle_fails_every = 31};
    keep_order(&s, *state, "memory:?ack_ms=50", 0, 2);
    assert_true(s.notices > 0);
    close_queue(&s);
}

static void wait_until_at_least(atomic_uint *number, unsigned least)
{
    int64_t end = process_now_ms() + SOON_MS;
    while (atomic_load(number) < least && process_now_ms() < end)
        process_nap();
}

/* --- workers ---------------------------------------------------------------------------------- */

static semel_status wait_for_all_workers(semel_unit *unit, const semel_message *message,
                                         void *context, semel_error *err)
{
    consumer_case *s = context;
    int64_t end = process_now_ms() + SOON_MS;
    note_busy(s);
    while (atomic_load(&s->busy_most) < WORKERS && process_now_ms() < end)
        process_nap();
    semel_status status = do_the_work(unit, message, s, err);
    atomic_fetch_sub(&s->busy, 1);
    return status;
}

static void workers_work_side_by_side(void **state)
{
    consumer_case s = {.mode = SEMEL_CLAIM};
    open_case(&s, *state, "memory:", 0, wait_for_all_workers,
              (semel_consumer_options){.workers = WORKERS});
    run_to_the_end(&s);
    assert_int_equal(s.busy_most, WORKERS);
    close_case(&s);
    close_queue(&s);
}

static unsigned count_threads(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *one; (one = readdir(tasks));)
        count += one->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* The kernel takes its time to remove one that has been joined, also one that was counted
 * before. */
static void expect_no_more_threads_than(unsigned count)
{
    int64_t end = process_now_ms() + SOON_MS;
    while (count_threads() > count && process_now_ms() < end)
        process_nap();
    assert_in_range(count_threads(), 1, count);
}

/* A handler after the tenth waits until the tenth has stopped the consumer: else all may be done
 * before. */
static semel_status stop_at_the_tenth(semel_unit *unit, const semel_message *message, void *context,
                                      semel_error *err)
{
    consumer_case *s = context;
    semel_status status = do_the_work(unit, message, s, err);
    int nth = atomic_fetch_add(&s->busy, 1) + 1;
    if (nth == 10)
        semel_consumer_stop(s->consumer);
    atomic_fetch_add(&s->stops, nth == 10);
    if (nth > 10)
        wait_until_at_least(&s->stops, 1);
    return status;
}

/* What is at work when it is stopped is finished; what is in flight goes back when it is closed. */
static void when_stopped_all_threads_are_gone_and_nothing_is_lost(void **state)
{
    consumer_case s = {0};
    semel_delivery delivery;
    size_t count = 1, left = 0;
    unsigned before = count_threads();
    open_case(&s, *state, "memory:", 0, stop_at_the_tenth,
              (semel_consumer_options){.workers = WORKERS});
    publish_all(&s);
    OK(semel_consumer_run(s.consumer, &last_error));
    expect_no_more_threads_than(before);
    assert_in_range(s.runs, 10, 10 + WORKERS);
    assert_int_equal(s.broker.acked, s.runs);
    assert_int_equal(fixture_counters(s.f).unsent, s.runs);
    close_case(&s);
    assert_int_equal(s.broker.inflight, 0);
    for (; count; left += count)
        OK(semel_transport_receive(s.broker.inner, &delivery, 1, &count, 0, &last_error));
    assert_int_equal(left + s.runs, COUNT);
    close_queue(&s);
}

static semel_status note_signals(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err)
{
    consumer_case *s = context;
    sigset_t blocked;
    sigemptyset(&blocked);
    if (pthread_sigmask(SIG_BLOCK, NULL, &blocked) || !sigismember(&blocked, SIGTERM))
        atomic_fetch_add(&s->overlaps, 1);
    return wait_for_all_workers(unit, message, context, err);
}

static void signals_are_for_the_callers_thread(void **state)
{
    consumer_case s = {.mode = SEMEL_CLAIM};
    open_case(&s, *state, "memory:", 0, note_signals, (semel_consumer_options){.workers = WORKERS});
    run_to_the_end(&s); /* all workers had one at first, at the same time */
    assert_in_range(s.overlaps, 1, s.runs - (WORKERS - 1));
    close_case(&s);
    close_queue(&s);
}

static void an_error_that_will_not_pass_ends_all_workers(void **state)
{
    consumer_case s = {0};
    test_thread member;
    open_case(&s, *state, "memory:", 0, handle,
              (semel_consumer_options){.workers = WORKERS, .batch = 1});
    publish_all(&s);
    semel_test_fault(s.f->seam, "receive.marked", COUNT / 2, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_consumer_run(s.consumer, &last_error));
    SAYS("receive.marked");
    assert_int_equal(s.broker.inflight, 0); /* all of it has gone back */
    assert_int_equal(fixture_counters(s.f).unsent, s.broker.acked);
    test_thread_start(&member, run, &s); /* the reason is gone, and it goes on */
    wait_for_effects(&s, COUNT);
    semel_consumer_stop(s.consumer);
    check_join(&s, &member);
    assert_int_equal(fixture_counters(s.f).unsent, COUNT);
    close_case(&s);
    close_queue(&s);
}

static void workers_need_a_transport_that_may_be_shared(void **state)
{
    fixture *f = *state;
    spy watch = {.inner = fixture_queue(f, "memory:")};
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run,
                         &(scripted_handler){0}};
    semel_consumer_options options = {.size = sizeof options, .workers = 2};
    semel_consumer *consumer = fixture_consumer(f, spy_open(f, &watch, 1), &route, 1, &options);
    FAILS(SEMEL_EUNSUPPORTED, semel_consumer_run(consumer, &last_error));
    SAYS("2 workers");
    SAYS("spy:");
    assert_int_equal(watch.receives, 0);
}

/* --- trouble ---------------------------------------------------------------------------------- */

/* The broker goes away while this one is at work, which ends well after that was noticed. */
static semel_status be_cut_off(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    consumer_case *s = context;
    if (!atomic_fetch_add(&s->busy, 1)) {
        atomic_store(&s->broker.receive_broken, SEMEL_EUNAVAILABLE);
        wait_until_at_least(&s->notices, 1);
    }
    return do_the_work(unit, message, s, err);
}

static void a_broker_that_is_away_is_noticed_once_and_so_is_its_return(void **state)
{
    consumer_case s = {.mode = SEMEL_CLAIM};
    test_thread member;
    open_case(&s, *state, "memory:", 0, be_cut_off, (semel_consumer_options){.workers = 3});
    publish_all(&s);
    test_thread_start(&member, run, &s);
    wait_until_at_least(&s.notices, 1);
    wait_until_at_least(&s.broker.acked, s.broker.received); /* no sign of life: it began before */
    wait_until_at_least(&s.broker.receives, s.broker.receives + 5);
    assert_int_equal(s.notices, 1);
    assert_true(s.in_trouble);
    atomic_store(&s.broker.receive_broken, SEMEL_OK);
    wait_for_effects(&s, COUNT);
    semel_consumer_stop(s.consumer);
    check_join(&s, &member);
    assert_int_equal(s.notices, 2);
    assert_int_equal(s.bad_notices, 0);
    close_case(&s);
    close_queue(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("groups stay in order though handlers fail",
                groups_stay_in_order_though_handlers_fail),
        ON_BOTH("groups stay in order in batches", groups_stay_in_order_in_batches),
        ON_BOTH("groups stay in order on a transport with delays",
                groups_stay_in_order_on_a_transport_with_delays),
        ON_BOTH("groups stay in order though the store fails",
                groups_stay_in_order_though_the_store_fails),
        ON_BOTH("groups stay in order in batches though the store fails",
                groups_stay_in_order_in_batches_though_the_store_fails),
        ON_BOTH("groups stay in order though the broker fails",
                groups_stay_in_order_though_the_broker_fails),
        ON_MEMORY("workers work side by side", workers_work_side_by_side),
        ON_BOTH("when stopped all threads are gone and nothing is lost",
                when_stopped_all_threads_are_gone_and_nothing_is_lost),
        ON_MEMORY("signals are for the caller's thread", signals_are_for_the_callers_thread),
        ON_BOTH("an error that will not pass ends all workers",
                an_error_that_will_not_pass_ends_all_workers),
        ON_MEMORY("workers need a transport that may be shared",
                  workers_need_a_transport_that_may_be_shared),
        ON_MEMORY("a broker that is away is noticed once, and so is its return",
                  a_broker_that_is_away_is_noticed_once_and_so_is_its_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
