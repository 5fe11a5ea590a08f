/* What threads that handle messages leave for those who watch: the ring of lines, taps, counters
 * and histograms. Each is used by many threads at once here; the thread sanitizer looks on. */
#include "program/run/meters.h"
#include "program/run/ring.h"
#include "program/run/taps.h"
#include "support/base/check.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { WRITERS = 4, LINES = 5000, PLACES = 64 };

/* --- the ring --------------------------------------------------------------------------------- */

static void a_full_ring_takes_nothing(void **state)
{
    ring *r = ring_open(4);
    char *line;
    (void)state;
    assert_null(ring_pop(r));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            line = must_copy("0");
            *line = (char)('a' + i);
            assert_int_equal(ring_push(r, line), 1);
        }
        line = must_copy("full");
        assert_int_equal(ring_push(r, line), 0);
        free(line);
        for (int i = 0; i < 4; i++) {
            line = ring_pop(r);
            assert_non_null(line);
            assert_int_equal(*line, 'a' + i);
            free(line);
        }
        assert_null(ring_pop(r));
    }
    assert_int_equal(ring_push(r, must_copy("left behind")), 1);
    ring_close(r);
}

typedef struct writer {
    ring *ring;
    int number;
    unsigned long pushed, refused;
} writer;

static void *push_lines(void *context)
{
    writer *w = context;
    char text[32];
    for (int i = 0; i < LINES; i++) {
        (void)snprintf(text, sizeof text, "%d %d", w->number, i);
        char *line = must_copy(text);
        if (ring_push(w->ring, line)) {
            w->pushed++;
        } else {
            w->refused++;
            free(line);
            (void)sched_yield();
        }
    }
    return NULL;
}

/* Each line comes once, and those of one writer in their order. */
static unsigned long read_line(ring *r, int last[WRITERS])
{
    int number, i;
    char *line = ring_pop(r);
    if (!line)
        return 0;
    assert_int_equal(sscanf(line, "%d %d", &number, &i), 2);
    assert_in_range(number, 0, WRITERS - 1);
    assert_true(i > last[number]);
    last[number] = i;
    free(line);
    return 1;
}

static void many_write_and_one_reads(void **state)
{
    ring *r = ring_open(PLACES);
    writer writers[WRITERS];
    pthread_t threads[WRITERS];
    int last[WRITERS];
    unsigned long pushed = 0, refused = 0, got = 0;
    (void)state;
    for (int i = 0; i < WRITERS; i++) {
        last[i] = -1;
        writers[i] = (writer){.ring = r, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, push_lines, &writers[i]), 0);
    }
    while (got < PLACES) /* the ring is full, or has as many */
        got += read_line(r, last);
    for (int i = 0; i < WRITERS; i++) {
        for (int spins = 0; spins < 100; spins++)
            got += read_line(r, last);
        (void)pthread_join(threads[i], NULL);
        pushed += writers[i].pushed;
        refused += writers[i].refused;
    }
    for (unsigned long one = 1; one;)
        got += one = read_line(r, last);
    assert_int_equal(got, pushed);
    assert_int_equal(pushed + refused, WRITERS * LINES);
    ring_close(r);
}

/* --- taps ------------------------------------------------------------------------------------- */

typedef struct tapped {
    log *log;
    outcomes *outcomes;
    taps *taps;
    int wake_fd;
    config all;
} tapped;

static tapped open_tapped(void)
{
    static const log_config options = {.keys = 1};
    tapped t = {.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    t.log = log_open(&options, stderr);
    t.outcomes = outcomes_open(t.log);
    t.taps = taps_open(t.wake_fd);
    return t;
}

static void close_tapped(tapped *t)
{
    taps_close(t->taps);
    outcomes_close(t->outcomes);
    log_close(t->log);
    (void)close(t->wake_fd);
}

static semel_event event_of(const char *inbox, const char *key, semel_outcome outcome)
{
    static const semel_message message = {.size = sizeof message, .type = "paid"};
    return (semel_event){.size = sizeof(semel_event),
                         .kind = SEMEL_EVENT_RECEIVED,
                         .name = inbox,
                         .message = &message,
                         .key = semel_str(key),
                         .outcome = outcome,
                         .attempt = 1,
                         .handler_ns = 2100000};
}

static tap *add_tap(tapped *t, const char *inbox, const char *outcome, const char *key)
{
    tap_filter *filter = must_alloc(sizeof *filter);
    if (inbox)
        filter->inboxes.items[filter->inboxes.count++] = inbox;
    filter->outcome = outcome;
    filter->key = key ? semel_str(key) : (semel_bytes){0};
    return taps_add(t->taps, filter);
}

static int next_has(const tapped *t, tap *one, const char *part)
{
    char *line = tap_next(one, t->log);
    int has = line && strstr(line, part);
    free(line);
    return has;
}

static void a_tap_gets_what_passes_its_filter(void **state)
{
    tapped t = open_tapped();
    tap *all = add_tap(&t, NULL, NULL, NULL), *some = add_tap(&t, "pay*", "failed", "7");
    semel_event events[] = {
        event_of("mail", "7", SEMEL_FAILED), event_of("payments", "8", SEMEL_FAILED),
        event_of("payments", "7", SEMEL_PROCESSED), event_of("payments", "7", SEMEL_FAILED),
        event_of("payments", "7", SEMEL_IN_PROGRESS)};
    (void)state;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        taps_offer(t.taps, &events[i], t.outcomes);
    assert_true(next_has(&t, some, "\"inbox\":\"payments\",\"key\":\"7\",\"outcome\":\"failed\""));
    assert_null(tap_next(some, t.log));
    for (int i = 0; i < 4; i++)
        assert_true(next_has(&t, all, "\"took_us\":2100"));
    assert_null(
        tap_next(all, t.log)); /* a message that waits for another copy has no outcome yet */
    taps_remove(t.taps, all);
    taps_remove(t.taps, some);
    close_tapped(&t);
}

static void what_is_lost_is_counted(void **state)
{
    tapped t = open_tapped();
    tap *one = add_tap(&t, NULL, NULL, NULL);
    semel_event event = event_of("payments", "7", SEMEL_PROCESSED);
    size_t got = 0;
    (void)state;
    for (int i = 0; i < TAP_PLACES + 5; i++)
        taps_offer(t.taps, &event, t.outcomes);
    for (char *line; (line = tap_next(one, t.log)); got++)
        free(line);
    assert_int_equal(got, TAP_PLACES);
    assert_int_equal(tap_take_lost(one), 5);
    assert_int_equal(tap_take_lost(one), 0);
    taps_remove(t.taps, one);
    close_tapped(&t);
}

static void there_is_room_for_so_many(void **state)
{
    tapped t = open_tapped();
    tap *taken[TAPS_MAX];
    (void)state;
    for (size_t i = 0; i < TAPS_MAX; i++)
        assert_non_null(taken[i] = add_tap(&t, NULL, NULL, NULL));
    assert_null(add_tap(&t, NULL, NULL, NULL));
    for (size_t i = 0; i < TAPS_MAX; i++)
        taps_remove(t.taps, taken[i]);
    close_tapped(&t);
}

typedef struct offering {
    tapped *t;
    atomic_int stops;
    atomic_ulong offered;
} offering;

static void *offer_lines(void *context)
{
    offering *o = context;
    semel_event event = event_of("payments", "7", SEMEL_PROCESSED);
    while (!atomic_load(&o->stops)) {
        taps_offer(o->t->taps, &event, o->t->outcomes);
        atomic_fetch_add(&o->offered, 1);
    }
    return NULL;
}

/* Waits as the thread of the socket does: a thread that sleeps is woken. */
static void wait_for_line(tapped *t, tap *one)
{
    enum { DEADLINE_MS = 60000 };
    char *line;
    uint64_t count;
    struct pollfd wake = {.fd = t->wake_fd, .events = POLLIN};
    taps_ask_to_be_woken(t->taps);
    while (!(line = tap_next(one, t->log))) {
        assert_int_equal(poll(&wake, 1, DEADLINE_MS), 1);
        (void)!read(t->wake_fd, &count, sizeof count);
        taps_ask_to_be_woken(t->taps);
    }
    free(line);
}

static void taps_come_and_go_while_outcomes_come(void **state)
{
    tapped t = open_tapped();
    offering o = {.t = &t};
    pthread_t threads[WRITERS];
    (void)state;
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, offer_lines, &o), 0);
    for (int i = 0; i < 200; i++) {
        tap *one = add_tap(&t, NULL, NULL, NULL);
        assert_non_null(one);
        wait_for_line(&t, one);
        taps_remove(t.taps, one);
    }
    atomic_store(&o.stops, 1);
    for (int i = 0; i < WRITERS; i++)
        (void)pthread_join(threads[i], NULL);
    assert_true(atomic_load(&o.offered) > 0);
    close_tapped(&t);
}

/* --- counters --------------------------------------------------------------------------------- */

static void *count_outcomes(void *context)
{
    char name[32];
    for (int i = 0; i < LINES; i++) {
        (void)snprintf(name, sizeof name, "inbox-%d", i % 50);
        semel_event event = event_of(name, "7", i % 2 ? SEMEL_PROCESSED : SEMEL_DUPLICATE);
        meters_count(context, &event);
    }
    return NULL;
}

static void counters_miss_nothing(void **state)
{
    meters *all = meters_open();
    pthread_t threads[WRITERS];
    uint64_t processed = 0, duplicates = 0, took = 0;
    char name[32];
    (void)state;
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_outcomes, all), 0);
    for (int i = 0; i < WRITERS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "inbox-%d", i);
        meter *m = meters_find(all, SEMEL_EVENT_RECEIVED, name);
        processed += atomic_load(&m->counts[METER_PROCESSED]);
        duplicates += atomic_load(&m->counts[METER_DUPLICATES]);
        took += atomic_load(&m->took.counts[histogram_bucket(2100000)]);
    }
    assert_int_equal(processed, WRITERS * LINES / 2);
    assert_int_equal(duplicates, WRITERS * LINES / 2);
    assert_int_equal(took, WRITERS * LINES);
    assert_ptr_not_equal(meters_find(all, SEMEL_EVENT_SENT, "inbox-1"),
                         meters_find(all, SEMEL_EVENT_RECEIVED, "inbox-1"));
    meters_close(all);
}

/* New names without end fill the table, and then are not counted; nothing else happens. */
static void names_without_end(void **state)
{
    meters *all = meters_open();
    char name[32];
    int missing = 0;
    (void)state;
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "inbox-%d", i);
        missing += meters_find(all, SEMEL_EVENT_RECEIVED, name) == NULL;
    }
    assert_true(missing >= 5000 - 2048);
    assert_non_null(meters_find(all, SEMEL_EVENT_RECEIVED, "inbox-0"));
    meters_close(all);
}

/* --- histograms ------------------------------------------------------------------------------- */

static void buckets_are_narrow_and_in_order(void **state)
{
    size_t before = 0;
    (void)state;
    assert_int_equal(histogram_bucket(-1), 0);
    assert_int_equal(histogram_bucket(INT64_MAX), HISTOGRAM_BUCKETS - 1);
    for (int64_t ns = 1500; ns < (int64_t)1000 * 1000000000; ns += ns / 10) {
        size_t bucket = histogram_bucket(ns);
        int64_t middle = histogram_middle(bucket);
        assert_true(bucket >= before && bucket < HISTOGRAM_BUCKETS);
        assert_true(middle > ns - ns / 12 && middle < ns + ns / 12);
        assert_int_equal(histogram_bucket(middle), bucket);
        before = bucket;
    }
}

static void quantiles(void **state)
{
    uint64_t counts[HISTOGRAM_BUCKETS] = {0};
    (void)state;
    assert_int_equal(histogram_quantile(counts, 0.5), -1);
    counts[histogram_bucket(1000000)] = 98;
    counts[histogram_bucket(50000000)] = 2;
    assert_int_equal(histogram_bucket(histogram_quantile(counts, 0.5)), histogram_bucket(1000000));
    assert_int_equal(histogram_bucket(histogram_quantile(counts, 0.98)), histogram_bucket(1000000));
    assert_int_equal(histogram_bucket(histogram_quantile(counts, 0.99)),
                     histogram_bucket(50000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_ring_takes_nothing),
        cmocka_unit_test(many_write_and_one_reads),
        cmocka_unit_test(a_tap_gets_what_passes_its_filter),
        cmocka_unit_test(what_is_lost_is_counted),
        cmocka_unit_test(there_is_room_for_so_many),
        cmocka_unit_test(taps_come_and_go_while_outcomes_come),
        cmocka_unit_test(counters_miss_nothing),
        cmocka_unit_test(names_without_end),
        cmocka_unit_test(buckets_are_narrow_and_in_order),
        cmocka_unit_test(quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
