/* A consumer with default options against fixed batches: on the memory transport, which is not the
 * bottleneck, with a handler that inserts one row.
 *
 * Throughput: every contender has a store and a running consumer of its own, which stays for all
 * rounds, as it would in a service. A turn is the time from the first message published until the
 * last is committed.
 *
 * Latency: messages are published one at a time, at half the rate that batch 1 reaches, to the
 * default and to batch 1 in turns. What is compared is the 99th percentile of the time from the
 * publishing of a message until its commit. */
#include "core/store.h"
#include "server.h"

#include <pthread.h>
#include <semel/consumer.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT, ONE, TEN, HUNDRED, SIDES, LATENCY_ROUNDS_MAX = 9 };

static const struct place {
    const char *room;
    uint32_t batch;
} places[SIDES] = {
    {"bench_default", 0}, {"bench_one", 1}, {"bench_ten", 10}, {"bench_hundred", 100}};

typedef struct side {
    const server *on; /* NULL: SQLite */
    semel_server server;
    semel_sqlite sqlite;
    semel_store *store;
    semel_inbox *inbox;
    semel_transport *transport;
    semel_consumer *consumer;
    pthread_t thread;
    uint64_t expected;   /* messages processed in the end, so far */
    double *latencies_s; /* if set: one for each message */
    atomic_size_t latency_count;
} side;

/* --- the contenders --------------------------------------------------------------------------- */

static void *run(void *context)
{
    side *s = context;
    semel_error err;
    must(semel_consumer_run(s->consumer, &err), &err);
    return NULL;
}

static void side_open_store(side *s, const char *url, const struct place *place)
{
    char path[512], file[600];
    const semel_inbox_options inbox = {.size = sizeof inbox, .sweep_every_ms = SEMEL_SWEEP_OFF};
    if (s->on) {
        room_make(s->on, url, place->room);
        s->server = (semel_server){.on = s->on};
        semel_server_open(&s->server, url, place->room);
    } else {
        snprintf(file, sizeof file, "sqlite:%s", scratch_path(path, place->room));
        semel_sqlite_open(&s->sqlite, file, &inbox, 1);
    }
    s->store = s->on ? s->server.store : s->sqlite.store;
    s->inbox = s->on ? s->server.inbox : s->sqlite.inbox;
}

static void side_open(side *s, const char *url, const struct place *place, uint32_t workers)
{
    semel_error err;
    side_open_store(s, url, place);
    const semel_route route = {.pattern = "*",
                               .inbox = s->inbox,
                               .handler = s->on ? s->on->handler : semel_sqlite_handler,
                               .context = s->on ? (void *)&s->server : (void *)&s->sqlite};
    const semel_consumer_options how = {
        .size = sizeof how, .batch = place->batch, .workers = workers};
    must(semel_transport_open(&s->transport, "memory:", NULL, &err), &err);
    must(semel_consumer_open(&s->consumer, s->transport, &route, 1, &how, &err), &err);
    if (pthread_create(&s->thread, NULL, run, s))
        die("a thread cannot be started");
}

static void side_close(side *s, const char *url, const struct place *place)
{
    semel_consumer_stop(s->consumer);
    pthread_join(s->thread, NULL);
    semel_consumer_close(s->consumer);
    semel_transport_close(s->transport);
    if (s->on) {
        semel_server_close(&s->server);
        room_remove(s->on, url, place->room);
    } else {
        semel_sqlite_close(&s->sqlite);
        scratch_remove(place->room);
    }
}

static void publish(side *s, const semel_message *const messages[], size_t count)
{
    semel_error err;
    semel_publish_result *results = must_alloc(count * sizeof *results);
    must(semel_transport_publish(results, s->transport, messages, count, 0, &err), &err);
    free(results);
    s->expected += count;
}

static void nap(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* Counters count what is committed. */
static void wait_until_done(side *s)
{
    enum { PATIENCE_S = 120 };
    semel_counters counters = {0};
    semel_error err;
    double end = now_s() + PATIENCE_S;
    for (;;) {
        must(semel_store_counters(&counters, sizeof counters, s->store, &err), &err);
        if (counters.processed >= s->expected)
            return;
        if (now_s() > end)
            die("%llu of %llu messages were handled in time",
                (unsigned long long)counters.processed, (unsigned long long)s->expected);
        stop_if_asked();
        nap(0.0001);
    }
}

static void consume(void *context, const message_set *set)
{
    publish(context, set->pointers, set->count);
    wait_until_done(context);
}

/* --- latency ---------------------------------------------------------------------------------- */

/* The body begins with the time at which it was published. */
static void note_latency(void *context, const semel_event *event)
{
    side *s = context;
    double sent;
    if (!s->latencies_s)
        return;
    memcpy(&sent, event->message->body.data, sizeof sent);
    s->latencies_s[atomic_fetch_add(&s->latency_count, 1)] = now_s() - sent;
}

/* The 99th percentile, in milliseconds. A publisher that is late does not wait. */
static double offer(side *s, const message_set *set, double rate)
{
    char body[BODY_BYTES] = {0};
    double *latencies = must_alloc(set->count * sizeof *latencies), next = now_s();
    atomic_store(&s->latency_count, 0);
    s->latencies_s = latencies;
    for (size_t i = 0; i < set->count; i++, next += 1 / rate) {
        semel_message message = *set->pointers[i];
        const semel_message *one = &message;
        double now = now_s();
        if (next > now)
            nap(next - now);
        now = now_s();
        memcpy(body, &now, sizeof now);
        message.body = (semel_bytes){body, sizeof body};
        publish(s, &one, 1);
    }
    wait_until_done(s);
    while (atomic_load(&s->latency_count) < set->count)
        nap(0.0001);
    s->latencies_s = NULL;
    double p99 = percentile(latencies, set->count, 0.99) * 1e3;
    free(latencies);
    return p99;
}

static void compare_latency(side sides[SIDES], key_source *keys, double rate)
{
    char name[100];
    double figures[2][LATENCY_ROUNDS_MAX], ratios[LATENCY_ROUNDS_MAX];
    size_t rounds = choose_rounds(LATENCY_ROUNDS_MAX, 3);
    message_set set = {0};
    for (size_t round = 0; round < rounds; round++) {
        progress("latency", round, rounds);
        messages_make(&set, keys, choose(2000, 600));
        for (size_t turn = 0; turn < 2; turn++) {
            size_t which = (round + turn) % 2 ? DEFAULT : ONE;
            figures[which][round] = offer(&sides[which], &set, rate);
        }
        ratios[round] = figures[DEFAULT][round] / figures[ONE][round];
    }
    progress_clear();
    messages_free(&set);
    snprintf(name, sizeof name, "p99 in ms at %.0f/s, default by batch 1", rate);
    report_row(name, spread_of(figures[ONE], rounds).median,
               spread_of(figures[DEFAULT], rounds).median, spread_of(ratios, rounds), AT_MOST(2));
}

/* --- the section ------------------------------------------------------------------------------ */

/* In place of ONE: the best of the fixed batches, round by round. */
static void report_best(const char *name, const comparison *d)
{
    comparison by_best = *d;
    for (size_t i = 0; i < d->rounds; i++)
        for (size_t which = ONE; which < SIDES; which++)
            if (by_best.rate[ONE][i] < d->rate[which][i])
                by_best.rate[ONE][i] = d->rate[which][i];
    report_comparison(name, &by_best, DEFAULT, ONE, AT_LEAST(0.8));
}

static void measure(const server *on, const char *url, uint32_t workers)
{
    static side sides[SIDES];
    contender contenders[SIDES];
    char name[100];
    comparison d;
    key_source keys;
    keys_begin(&keys, KEYS_RANDOM);
    memset(sides, 0, sizeof sides);
    for (size_t i = 0; i < SIDES; i++) {
        sides[i].on = on;
        side_open(&sides[i], url, &places[i], workers);
        contenders[i] = (contender){&sides[i], consume};
    }
    comparison_run(&d, contenders, SIDES, &keys, 10 * transactions(400, 100), 1,
                   choose_rounds(11, 5), "defaults");
    snprintf(name, sizeof name, "%u worker%s, default by the best fixed batch", workers,
             workers == 1 ? "" : "s");
    report_best(name, &d);
    report_comparison("  by batch 1", &d, DEFAULT, ONE, NO_AIM);
    report_comparison("  by batch 10", &d, DEFAULT, TEN, NO_AIM);
    report_comparison("  by batch 100", &d, DEFAULT, HUNDRED, NO_AIM);
    for (size_t i = 0; i < SIDES; i++) {
        sides[i].store->observer_context = &sides[i]; /* no message is under way */
        sides[i].store->observer = note_latency;
    }
    compare_latency(sides, &keys, comparison_rate(&d, ONE).median / 2);
    for (size_t i = 0; i < SIDES; i++)
        side_close(&sides[i], url, &places[i]);
}

static void measure_server(const server *on, const char *url)
{
    char title[100];
    report_section("defaults", server_title(title, on, "a consumer with default options"), "fixed",
                   "default");
    measure(on, url, 1);
    measure(on, url, 4);
}

void section_defaults(void)
{
    report_section("defaults", "SQLite: a consumer with default options", "fixed", "default");
    measure(NULL, NULL, 1);
    each_server(measure_server);
}
