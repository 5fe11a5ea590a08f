/* Threads that receive on one SQLite store, against one thread. Units of several threads share a
 * commit, so what one of them waits for is the disk and not the line in front of it; with share=off
 * each waits for its own.
 *
 * Where an fsync takes a tenth of a millisecond, the processor is the limit and not the disk. So
 * the same is measured once more with an fsync of 2 ms, made by sleeping after each. */
#include "server.h"

#include <math.h>
#include <stdlib.h>

typedef struct threads_case {
    const char *file, *query;
    size_t threads;
    bench_aim rate, p99;
    semel_sqlite semel;
    double *latencies_s;
    size_t room;
    atomic_size_t received;
    long fsyncs;
    double fsync_s; /* all of them */
} threads_case;

enum { SLOWER_US = 2000 };

enum { ONE, CASES = 6 };

static threads_case cases[CASES] = {
    [ONE] = {.file = "one.db", .threads = 1},
    {.file = "four.db", .threads = 4},
    {.file = "sixteen.db", .threads = 16, .rate = {AIM_AT_LEAST, 10}, .p99 = {AIM_AT_MOST, 3}},
    {.file = "sixtyfour.db", .threads = 64},
    {.file = "sixteen-off.db", .query = "?share=off", .threads = 16},
    {.file = "sixtyfour-off.db", .query = "?share=off", .threads = 64},
};

static void receive_some(void *context, size_t worker, const semel_message *const messages[],
                         size_t count)
{
    threads_case *c = context;
    semel_error err;
    semel_outcome outcome;
    (void)worker;
    for (size_t i = 0; i < count; i++) {
        double start = now_s();
        must(semel_inbox_receive(&outcome, c->semel.inbox, messages[i], semel_sqlite_handler,
                                 &c->semel, &err),
             &err);
        if (outcome != SEMEL_PROCESSED)
            die("an outcome is \"%s\"", semel_outcome_name(outcome));
        size_t at = atomic_fetch_add(&c->received, 1);
        if (at < c->room)
            c->latencies_s[at] = now_s() - start;
    }
}

static void receive_by_threads(void *context, const message_set *set)
{
    threads_case *c = context;
    long before = fsync_count();
    double before_s = fsync_seconds();
    threads_run(c->threads, 1, set, receive_some, c);
    c->fsyncs += fsync_count() - before;
    c->fsync_s += fsync_seconds() - before_s;
}

static void threads_case_open(threads_case *c, size_t room)
{
    char path[512], url[600];
    snprintf(url, sizeof url, "sqlite:%s%s", scratch_path(path, c->file), c->query ? c->query : "");
    semel_sqlite_open(&c->semel, url, NULL, 1);
    c->room = room;
    c->fsyncs = 0;
    c->fsync_s = 0;
    c->latencies_s = must_alloc(room * sizeof *c->latencies_s);
    atomic_store(&c->received, 0);
}

static void threads_case_close(threads_case *c)
{
    semel_sqlite_close(&c->semel);
    scratch_remove(c->file);
    free(c->latencies_s);
}

static const char *case_name(char out[100], const threads_case *c)
{
    snprintf(out, 100, "%zu thread%s%s", c->threads, c->threads == 1 ? "" : "s",
             c->query ? ", share=off" : "");
    return out;
}

static double fsync_us(const threads_case *c)
{
    return c->fsyncs ? c->fsync_s / (double)c->fsyncs * 1e6 : NAN;
}

static void report_latency(const threads_case *c, double share, bench_aim aim)
{
    char name[100], text[120];
    size_t count = c->received < c->room ? c->received : c->room;
    double us = percentile(c->latencies_s, count, share) * 1e6;
    snprintf(text, sizeof text, "%s, p%.0f", case_name(name, c), share * 100);
    report_row(text, fsync_us(c), us, spread_unknown(us / fsync_us(c)), aim);
}

static void report_fsyncs(const threads_case *c)
{
    char name[100], text[120];
    snprintf(text, sizeof text, "%s", case_name(name, c));
    report_value(text, (double)c->received / (double)c->fsyncs, "messages an fsync", NO_AIM);
}

static void run_rounds(comparison *d, size_t count)
{
    contender contenders[CASES];
    message_set set = {0};
    key_source keys;
    for (size_t i = 0; i < CASES; i++)
        contenders[i] = (contender){.context = &cases[i], .run = receive_by_threads};
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    for (size_t round = 0; round <= d->rounds; round++) {
        progress("threads on SQLite", round, d->rounds + 1);
        messages_make(&set, &keys, count);
        comparison_round(d, round, contenders, &set, count);
        comparison_settle(d, round);
    }
    progress_clear();
    messages_free(&set);
}

static bench_aim aim_if(int wanted, bench_aim aim)
{
    return wanted ? aim : NO_AIM;
}

static void report_threads(const comparison *d, int slower)
{
    char name[100];
    report_section("sqlite-threads",
                   slower ? "the same, an fsync 2 ms slower" : "receive on SQLite, by threads",
                   "one/s", "all/s");
    for (size_t i = ONE + 1; i < CASES; i++)
        report_comparison(case_name(name, &cases[i]), d, i, ONE, aim_if(slower, cases[i].rate));
    report_section("sqlite-threads", "what a message waits for", "fsync us", "us");
    for (size_t i = 0; i < CASES; i++) {
        report_latency(&cases[i], 0.50, NO_AIM);
        report_latency(&cases[i], 0.99, aim_if(slower, cases[i].p99));
    }
    for (size_t i = 0; i < CASES; i++)
        report_fsyncs(&cases[i]);
}

static void compare_threads(int slower)
{
    comparison d = {.rounds = choose_rounds(9, 3), .contenders = CASES};
    size_t count = slower ? choose(512, 256) : 16 * transactions(64, 64);
    fsync_slow_down(0);
    for (size_t i = 0; i < CASES; i++)
        threads_case_open(&cases[i], (d.rounds + 1) * count);
    fsync_slow_down(slower ? SLOWER_US : 0);
    run_rounds(&d, count);
    fsync_slow_down(0);
    report_threads(&d, slower);
    for (size_t i = 0; i < CASES; i++)
        threads_case_close(&cases[i]);
}

void section_sqlite_threads(void)
{
    compare_threads(0);
    compare_threads(1);
    report_note("a commit now and then is followed by a checkpoint, which is two fsyncs more");
}
