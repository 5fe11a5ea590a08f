/* Retention on a database server: how fast a round is, and how it slows down receiving. The table
 * is loaded in the order of time with random keys, a tenth of it past its retention. While messages
 * are received, a thread sweeps as a program would: a step of 1000 markers every 50 ms. */
#include "server.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { SWEEP_EVERY_MS = 50, SWEEP_ROWS = 1000, WORKERS = 4, LATENCIES = 200000, OLD_PART = 10 };

static const char room[] = "bench_sweep";

typedef struct sweeper {
    pthread_t thread;
    semel_inbox *inbox;
    atomic_int stop;
    double busy_s;
    size_t steps;
    size_t removed;
} sweeper;

static void *sweep_until_stopped(void *context)
{
    sweeper *s = context;
    struct timespec pause = {0, SWEEP_EVERY_MS * 1000000};
    while (!atomic_load(&s->stop)) {
        size_t removed = 0;
        int more;
        semel_error err;
        double start = now_s();
        must(semel_inbox_sweep(&removed, &more, s->inbox, SWEEP_ROWS, &err), &err);
        s->busy_s += now_s() - start;
        s->steps++;
        s->removed += removed;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* --- loading ---------------------------------------------------------------------------------- */

static void load(const server *on, const char *url, int64_t inbox, size_t markers)
{
    char sql[SQL_TEXT], series[200], table[100];
    raw_connection *h = on->open(url, NULL);
    progress("loading markers", 0, 1);
    snprintf(series, sizeof series, on->series, markers);
    snprintf(sql, sizeof sql,
             "INSERT INTO %s (inbox, %s, state, at_ms, fingerprint) SELECT %lld, %s, 0, "
             "CASE WHEN n <= %zu THEN n ELSE %s END, n FROM (%s) AS s",
             room_semel_table(table, on, room, "marker"), on->key_column, (long long)inbox,
             on->key_of_n, markers / OLD_PART, on->now_ms, series);
    on->run(h, sql);
    on->run(h, on->settle_down);
    on->close(h);
    stop_if_asked();
}

static int64_t inbox_number(const server *on, const char *url)
{
    char sql[SQL_TEXT], table[100];
    raw_connection *h = on->open(url, NULL);
    snprintf(sql, sizeof sql, "SELECT max(id) FROM %s WHERE kind = 1",
             room_semel_table(table, on, room, "scope"));
    int64_t number = on->number(h, sql);
    on->close(h);
    return number;
}

/* --- receiving meanwhile ---------------------------------------------------------------------- */

typedef struct turns {
    double *latencies[2]; /* without, with the sweep */
    size_t counts[2];
    comparison rates;
} turns;

static void take_turn(turns *t, semel_server *p, size_t round, int with, sweeper *s,
                      const message_set *set)
{
    p->latencies_s = t->latencies[with] + t->counts[with];
    p->latency_room = LATENCIES - t->counts[with];
    atomic_store(&p->latency_count, 0);
    atomic_store(&s->stop, 0);
    if (with && pthread_create(&s->thread, NULL, sweep_until_stopped, s) != 0)
        die("cannot start a thread");
    double start = now_s();
    semel_server_receive(p, set);
    t->rates.rate[with][round] = (double)set->count / (now_s() - start);
    atomic_store(&s->stop, 1);
    if (with)
        pthread_join(s->thread, NULL);
    size_t count = atomic_load(&p->latency_count);
    t->counts[with] += count < p->latency_room ? count : p->latency_room;
    p->latencies_s = NULL;
}

static void receive_meanwhile(turns *t, semel_server *p, sweeper *s)
{
    message_set set = {0};
    key_source keys;
    keys_begin(&keys, KEYS_RANDOM);
    t->rates = (comparison){.rounds = choose_rounds(choose(9, 5), 3), .contenders = 2};
    for (size_t round = 0; round < t->rates.rounds; round++) {
        for (int turn = 0; turn < 2; turn++) {
            progress("receiving, and the sweep", round * 2 + (size_t)turn, t->rates.rounds * 2);
            messages_make(&set, &keys, transactions(1500, 600));
            take_turn(t, p, round, (int)(round % 2) ^ turn, s, &set);
            stop_if_asked();
        }
        comparison_settle(&t->rates, round + 1);
    }
    messages_free(&set);
}

static void report_meanwhile(turns *t, const sweeper *s)
{
    double p99[2];
    for (int i = 0; i < 2; i++)
        p99[i] = percentile(t->latencies[i], t->counts[i], 0.99) * 1e6;
    report_row("receive p99, us, 4 connections", p99[0], p99[1], spread_unknown(p99[1] / p99[0]),
               AT_MOST(2));
    report_comparison("receive, messages/s", &t->rates, 1, 0, NO_AIM);
    report_value("a step of 1000 meanwhile", s->busy_s / (double)s->steps * 1000, "ms", NO_AIM);
}

/* --- the sweep alone -------------------------------------------------------------------------- */

/* One whole round from the beginning, after the one under way is over. */
static double sweep_round(semel_inbox *inbox, size_t *removed_by_all)
{
    semel_error err;
    size_t removed = 0;
    int more = 1;
    *removed_by_all = 0;
    double start = now_s();
    while (more) {
        must(semel_inbox_sweep(&removed, &more, inbox, SWEEP_ROWS, &err), &err);
        *removed_by_all += removed;
        stop_if_asked();
    }
    return now_s() - start;
}

/* On a slow machine the sweep has found all of them while messages were received. */
static void report_alone(const semel_server *p, const sweeper *s, size_t markers)
{
    size_t removed;
    double took = sweep_round(p->inbox, &removed);
    report_value("a round alone: markers looked at", (double)markers / took, "per second", NO_AIM);
    report_value("       of those removed", (double)removed / took, "per second", NO_AIM);
    if (!removed && !s->removed)
        die("the sweep removed nothing");
    took = sweep_round(p->inbox, &removed);
    report_value("a round with nothing to remove", (double)markers / took, "per second", NO_AIM);
}

static void measure_sweep(const server *on, const char *url)
{
    char title[100], what[60];
    size_t markers = options.large ? 10000000 : choose(1000000, 200000);
    semel_server p = {.on = on, .workers = WORKERS, .batch = 1};
    sweeper s = {.inbox = NULL};
    turns t = {.latencies = {must_alloc(LATENCIES * sizeof(double)),
                             must_alloc(LATENCIES * sizeof(double))}};
    room_make(on, url, room);
    semel_server_open(&p, url, room);
    s.inbox = p.inbox;
    load(on, url, inbox_number(on, url), markers);
    receive_meanwhile(&t, &p, &s);
    snprintf(what, sizeof what, "sweep, %zu thousand", markers / 1000);
    report_section("server-sweep", server_title(title, on, what), "no sweep", "sweep");
    report_meanwhile(&t, &s);
    report_alone(&p, &s, markers);
    semel_server_close(&p);
    room_remove(on, url, room);
    free(t.latencies[0]);
    free(t.latencies[1]);
}

void section_server_sweep(void)
{
    each_server(measure_sweep);
}
