/* Retention in a running consumer: its failures disturb nothing and are reported once, it gets its
 * turns from a consumer that is always busy, it stops with the run between two steps, and an inbox
 * with two routes is swept once.
 *
 * The sweep of the memory store passes no named point, so that faults need SQLite. */
#include "support/fixture/fixture.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <stdatomic.h>
#include <stdio.h>

enum { SOON_MS = 60000, MINUTE_MS = 60000, MOMENT_MS = 10000, OLD = 40, MANY = 2500 };

/* Longer than all that the tests let pass while a consumer runs. */
#define RETENTION_MS INT64_C(2592000000)

typedef struct sweeping {
    fixture *f;
    semel_transport *transport;
    semel_inbox *inbox;
    semel_consumer *consumer;
    atomic_uint handled, troubles, reliefs;
    atomic_int repeat; /* the handler publishes the next message */
    test_thread thread;
    semel_status status;
    semel_error why;
    char trouble[sizeof((semel_error *)0)->text];
} sweeping;

static void publish_next(sweeping *s, unsigned number)
{
    char id[32];
    semel_publish_result result;
    (void)snprintf(id, sizeof id, "next-%u", number);
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    message.type = "order";
    (void)semel_transport_publish(&result, s->transport, &one, 1, 0, NULL);
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    sweeping *s = context;
    (void)unit, (void)message, (void)err;
    unsigned number = atomic_fetch_add(&s->handled, 1) + 1;
    if (atomic_load(&s->repeat))
        publish_next(s, number);
    return SEMEL_OK;
}

static void note_trouble(void *context, const semel_error *trouble)
{
    sweeping *s = context;
    if (trouble && !atomic_load(&s->troubles))
        memcpy(s->trouble, trouble->text, sizeof s->trouble);
    atomic_fetch_add(trouble ? &s->troubles : &s->reliefs, 1);
}

static void run(test_thread *thread)
{
    sweeping *s = thread->context;
    s->status = semel_consumer_run(s->consumer, &s->why);
}

static void open_sweeping(sweeping *s, fixture *f, size_t routes)
{
    semel_inbox_options options = {.size = sizeof options, .retention_ms = RETENTION_MS};
    semel_consumer_options chosen = {
        .size = sizeof chosen, .notice = note_trouble, .notice_context = s};
    *s = (sweeping){.f = f, .transport = fixture_queue(f, "memory:")};
    s->inbox = fixture_inbox(f, "inbox", &options);
    semel_route both[] = {{"order", s->inbox, handle, s}, {"other", s->inbox, handle, s}};
    s->consumer = fixture_consumer(f, s->transport, both, routes, &chosen);
}

static void make_old(sweeping *s, unsigned count)
{
    scripted_handler done = {0};
    for (unsigned i = 0; i < count; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%u", i);
        RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, s->inbox, id, &done);
    }
    semel_test_advance_ms(s->f->seam, RETENTION_MS + 1);
}

static void stop(sweeping *s)
{
    semel_consumer_stop(s->consumer);
    assert_true(test_thread_join(&s->thread, SOON_MS));
    assert_int_equal(s->status, SEMEL_OK);
}

#define WAIT_UNTIL(condition)                                                                     \
    do {                                                                                          \
        for (int64_t end_ = process_now_ms() + SOON_MS; !(condition) && process_now_ms() < end_;) \
            process_nap();                                                                        \
        assert_true(condition);                                                                   \
    } while (0)

/* The consumer has come by its retention since, between two messages: a step that was due, or under
 * way, has ended. */
static void take_turns(sweeping *s)
{
    for (int i = 0; i < 3; i++) {
        unsigned before = atomic_load(&s->handled);
        if (!atomic_load(&s->repeat))
            publish_next(s, 1000000 + before);
        WAIT_UNTIL(atomic_load(&s->handled) > before);
    }
}

/* Time passes, for `ms` at a turn, until the condition is true. The clock stands still while the
 * consumer is in a step: a step that seems to have taken long is followed by a pause that is many
 * times as long, and there may be another round meanwhile. */
#define PASS_UNTIL(s, condition, ms)                                                              \
    do {                                                                                          \
        for (int64_t end_ = process_now_ms() + SOON_MS; !(condition) && process_now_ms() < end_;) \
            semel_test_advance_ms((s)->f->seam, (ms)), take_turns(s);                             \
        assert_true(condition);                                                                   \
    } while (0)

static void an_error_that_will_not_pass_is_reported_once_and_tried_again_later(void **state)
{
    fixture *f = *state;
    sweeping s;
    open_sweeping(&s, f, 1);
    make_old(&s, OLD);
    semel_test_fault(f->seam, "sweep.removed", 1, SEMEL_ESTORE);
    test_thread_start(&s.thread, run, &s);
    PASS_UNTIL(&s, atomic_load(&s.troubles), MOMENT_MS);
    assert_non_null(strstr(s.trouble, "sweep.removed"));
    uint32_t rounds = semel_test_passed(f->seam, "round.committed");
    for (int i = 0; i < 20; i++) { /* less than the interval */
        semel_test_advance_ms(f->seam, 2 * MINUTE_MS);
        take_turns(&s);
    }
    assert_int_equal(semel_test_passed(f->seam, "round.committed"), rounds);
    assert_int_equal(fixture_counters(f).swept, 0);
    PASS_UNTIL(&s, fixture_counters(f).swept == OLD, MINUTE_MS);
    WAIT_UNTIL(atomic_load(&s.reliefs));
    stop(&s);
    assert_int_equal(s.troubles, 1);
    assert_int_equal(s.reliefs, 1);
}

static void an_error_that_may_pass_is_tried_again_soon(void **state)
{
    fixture *f = *state;
    sweeping s;
    open_sweeping(&s, f, 1);
    make_old(&s, OLD);
    semel_test_fault(f->seam, "sweep.looked", 1, SEMEL_EUNAVAILABLE);
    test_thread_start(&s.thread, run, &s);
    PASS_UNTIL(&s, fixture_counters(f).swept == OLD, MOMENT_MS);
    assert_int_equal(semel_test_passed(f->seam, "round.committed"), 1);
    take_turns(&s);
    stop(&s);
    assert_int_equal(s.troubles, 0);
    assert_int_equal(s.reliefs, 0);
}

static void a_look_that_fails_is_repeated(void **state)
{
    fixture *f = *state;
    sweeping s;
    open_sweeping(&s, f, 1);
    make_old(&s, OLD);
    semel_test_fault(f->seam, "round.stored", 1, SEMEL_EUNAVAILABLE);
    test_thread_start(&s.thread, run, &s);
    PASS_UNTIL(&s, fixture_counters(f).swept == OLD, MOMENT_MS);
    stop(&s);
    assert_int_equal(semel_test_passed(f->seam, "round.stored"), 2);
    assert_int_equal(s.troubles, 0);
}

/* The queue is never empty. */
static void a_busy_consumer_sweeps_too(void **state)
{
    fixture *f = *state;
    sweeping s;
    open_sweeping(&s, f, 1);
    make_old(&s, OLD);
    atomic_store(&s.repeat, 1);
    for (unsigned i = 0; i < 8; i++)
        publish_next(&s, 2000000 + i);
    test_thread_start(&s.thread, run, &s);
    PASS_UNTIL(&s, fixture_counters(f).swept == OLD, MOMENT_MS);
    unsigned handled = atomic_load(&s.handled);
    WAIT_UNTIL(atomic_load(&s.handled) > handled);
    stop(&s);
    assert_int_equal(s.troubles, 0);
}

static void a_stop_comes_between_two_steps_and_the_next_run_does_the_rest(void **state)
{
    fixture *f = *state;
    sweeping s;
    open_sweeping(&s, f, 1);
    make_old(&s, MANY);
    test_thread_start(&s.thread, run, &s);
    PASS_UNTIL(&s, fixture_counters(f).swept > 0, MOMENT_MS);
    stop(&s);
    size_t swept = fixture_counters(f).swept;
    assert_true(swept < MANY);
    semel_route route = {"order", s.inbox, handle, &s};
    s.consumer = fixture_consumer(f, s.transport, &route, 1, NULL);
    test_thread_start(&s.thread, run, &s);
    PASS_UNTIL(&s, fixture_counters(f).swept == MANY, MINUTE_MS);
    stop(&s);
}

static void two_routes_with_one_inbox_make_one_round(void **state)
{
    fixture *f = *state;
    sweeping s;
    open_sweeping(&s, f, 2);
    make_old(&s, OLD);
    test_thread_start(&s.thread, run, &s);
    PASS_UNTIL(&s, fixture_counters(f).swept == OLD, MOMENT_MS);
    for (int i = 0; i < 10; i++) {
        semel_test_advance_ms(f->seam, 2 * MINUTE_MS);
        take_turns(&s);
    }
    stop(&s);
    assert_int_equal(semel_test_passed(f->seam, "round.stored"), 1);
}

static void an_inbox_that_keeps_keys_for_ever_still_removes_old_letters(void **state)
{
    sweeping s;
    scripted_handler gives_up = {.failures = 1, .failure = SEMEL_EGIVEUP};
    semel_inbox_options options = {.size = sizeof options,
                                   .retention_ms = SEMEL_RETENTION_FOREVER,
                                   .dead_retention_ms = RETENTION_MS};
    open_sweeping(&s, *state, 1);
    semel_inbox *keeping = fixture_inbox(s.f, "keeping", &options);
    semel_route route = {"order", keeping, handle, &s};
    s.consumer = fixture_consumer(s.f, s.transport, &route, 1, NULL);
    RECEIVES_ID(SEMEL_OK, SEMEL_DEAD, keeping, "dead", &gives_up);
    semel_test_advance_ms(s.f->seam, RETENTION_MS + 1);
    test_thread_start(&s.thread, run, &s);
    PASS_UNTIL(&s, fixture_letters(s.f, NULL, 0) == 0, MINUTE_MS);
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE("an error that will not pass is reported once and tried again later",
                  an_error_that_will_not_pass_is_reported_once_and_tried_again_later),
        ON_SQLITE("an error that may pass is tried again soon",
                  an_error_that_may_pass_is_tried_again_soon),
        ON_BOTH("a look that fails is repeated", a_look_that_fails_is_repeated),
        ON_BOTH("a busy consumer sweeps, too", a_busy_consumer_sweeps_too),
        ON_BOTH("a stop comes between two steps, and the next run does the rest",
                a_stop_comes_between_two_steps_and_the_next_run_does_the_rest),
        ON_BOTH("an inbox that keeps keys for ever still removes old letters",
                an_inbox_that_keeps_keys_for_ever_still_removes_old_letters),
        ON_BOTH("two routes with one inbox make one round",
                two_routes_with_one_inbox_make_one_round)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
