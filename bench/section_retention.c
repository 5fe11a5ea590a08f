/* Consuming while retention runs by itself, against consuming with SEMEL_SWEEP_OFF.
 *
 * Both sides have a store of their own with the same markers in it, and take turns. The interval is
 * one millisecond, so that one round follows the other: a program that keeps the default has this
 * cost for a small part of each hour. With a retention of a week the sweep examines markers and
 * removes none; with a retention of a millisecond it removes all of them, those of the turn
 * included. The handlers do nothing, which shows the cost best. */
#include "server.h"

#include <semel/consumer.h>
#include <stdlib.h>
#include <string.h>

enum { OFF, ON, SIDES, LOAD_BATCH = 1000, EVERY_MS = 1 };

static const char *const places[SIDES] = {"bench_off", "bench_on"};

typedef struct side {
    semel_store *store;
    semel_inbox *inbox;
    semel_transport *transport;
    semel_consumer *consumer;
    uint32_t workers;
    atomic_size_t left; /* of this turn */
} side;

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    side *s = context;
    (void)unit, (void)message, (void)err;
    if (atomic_fetch_sub(&s->left, 1) == 1)
        semel_consumer_stop(s->consumer);
    return SEMEL_OK;
}

static semel_status do_nothing(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    (void)unit, (void)message, (void)context, (void)err;
    return SEMEL_OK;
}

static void load(side *s, key_source *keys, size_t markers)
{
    static semel_outcome outcomes[LOAD_BATCH];
    message_set set = {0};
    semel_error err;
    for (size_t done = 0; done < markers; done += LOAD_BATCH) {
        progress("loading markers", done, markers);
        messages_make(&set, keys, LOAD_BATCH);
        must(semel_inbox_receive_batch(outcomes, s->inbox, set.pointers, LOAD_BATCH, do_nothing,
                                       NULL, &err),
             &err);
        stop_if_asked();
    }
    messages_free(&set);
}

static void side_open(side *s, const char *url, key_source *keys, int sweeps, uint64_t retention_ms)
{
    semel_error err;
    semel_inbox_options inbox = {.size = sizeof inbox,
                                 .age = SEMEL_AGE_IGNORE,
                                 .retention_ms = retention_ms,
                                 .sweep_every_ms = sweeps ? EVERY_MS : SEMEL_SWEEP_OFF};
    must(semel_store_open(&s->store, url, NULL, &err), &err);
    must(semel_store_migrate(s->store, &err), &err);
    must(semel_inbox_open(&s->inbox, s->store, "bench", &inbox, &err), &err);
    must(semel_transport_open(&s->transport, "memory:", NULL, &err), &err);
    load(s, keys, choose(200000, 50000));
}

static void side_close(side *s)
{
    semel_transport_close(s->transport);
    semel_inbox_close(s->inbox);
    semel_store_close(s->store);
}

static void publish(side *s, const message_set *set)
{
    semel_error err;
    semel_publish_result *results = must_alloc(set->count * sizeof *results);
    must(semel_transport_publish(results, s->transport, set->pointers, set->count, 0, &err), &err);
    free(results);
}

static void consume(void *context, const message_set *set)
{
    side *s = context;
    semel_error err;
    const semel_route route = {.pattern = "*", .inbox = s->inbox, .handler = handle, .context = s};
    const semel_consumer_options how = {.size = sizeof how, .workers = s->workers};
    atomic_store(&s->left, set->count);
    publish(s, set);
    must(semel_consumer_open(&s->consumer, s->transport, &route, 1, &how, &err), &err);
    must(semel_consumer_run(s->consumer, &err), &err);
    semel_consumer_close(s->consumer);
}

static uint64_t swept_by(side *s)
{
    semel_counters counters = {0};
    semel_error err;
    must(semel_store_counters(&counters, sizeof counters, s->store, &err), &err);
    return counters.swept;
}

/* `urls` of two stores that are empty. */
static void compare(const char *name, char urls[SIDES][1024], uint64_t retention_ms,
                    uint32_t workers)
{
    side sides[SIDES] = {{.workers = workers}, {.workers = workers}};
    contender contenders[SIDES];
    comparison d;
    key_source keys;
    keys_begin(&keys, KEYS_RANDOM);
    for (int i = 0; i < SIDES; i++) {
        side_open(&sides[i], urls[i], &keys, i == ON, retention_ms);
        contenders[i] = (contender){&sides[i], consume};
    }
    comparison_run(&d, contenders, SIDES, &keys, 10 * transactions(400, 100), 1,
                   choose_rounds(15, 5), name);
    report_comparison(name, &d, ON, OFF, AT_LEAST(0.95));
    report_value("       removed meanwhile", (double)swept_by(&sides[ON]), "markers", NO_AIM);
    for (int i = 0; i < SIDES; i++)
        side_close(&sides[i]);
}

static const struct kind {
    const char *name;
    uint64_t retention_ms;
} kinds[] = {{"examines all, removes none", SEMEL_RETENTION_DEFAULT_MS}, {"removes all", 1}};

enum { KINDS = sizeof kinds / sizeof *kinds, WORKERS = 4 };

static void measure_server(const server *on, const char *url)
{
    char title[100], urls[SIDES][1024];
    report_section("retention", server_title(title, on, "consuming, and retention by itself"),
                   "off", "on");
    for (size_t k = 0; k < KINDS; k++) {
        for (int i = 0; i < SIDES; i++) {
            room_make(on, url, places[i]);
            (void)room_url(urls[i], on, url, places[i]);
        }
        compare(kinds[k].name, urls, kinds[k].retention_ms, WORKERS);
        for (int i = 0; i < SIDES; i++)
            room_remove(on, url, places[i]);
    }
}

static void measure_sqlite(void)
{
    char path[512], urls[SIDES][1024];
    report_section("retention", "SQLite: consuming, and retention by itself", "off", "on");
    for (size_t k = 0; k < KINDS; k++) {
        for (int i = 0; i < SIDES; i++)
            snprintf(urls[i], sizeof urls[i], "sqlite:%s", scratch_path(path, places[i]));
        compare(kinds[k].name, urls, kinds[k].retention_ms, 1);
        for (int i = 0; i < SIDES; i++)
            scratch_remove(places[i]);
    }
}

void section_retention(void)
{
    measure_sqlite();
    each_server(measure_server);
}
