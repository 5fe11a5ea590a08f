/* The relay from an outbox to the broker.
 *
 * What it could reach at most is publishing alone, with as many messages outstanding as its batch
 * has: they are in memory already, nothing is leased and nothing removed. What a careful programmer
 * reaches is the loop by hand: lease (by SKIP LOCKED; on SQLite just read, which is enough for one
 * relay), publish, wait for the confirms, delete, one after the other. As in semel neither waits
 * for the disk in the store: a row that comes back is only sent again. A relay of semel's that runs
 * leases and settles while it waits for the broker.
 *
 * Two relays share one transport, which publishes for one at a time: no more is outstanding than
 * with one relay. */
#include "broker.h"
#include "outbox.h"
#include "server.h"

enum { WINDOW, BATCH, BY_HAND, SEMEL, PAIR, CONTENDERS };

/* All have a queue; from HAND on they have an outbox, too. */
static const char *const places[CONTENDERS] = {"bench_window", "bench_batch", "bench_hand",
                                               "bench_semel", "bench_pair"};

enum { FILL = 500 }; /* messages in a transaction */

/* Where the rows are: a server, or SQLite. */
typedef struct relay_source {
    const server *on; /* NULL: SQLite */
    const char *url;
    raw_connection *raw_connection;
    raw_outbox raw;
    semel_server servers[2]; /* of SEMEL and PAIR */
    semel_side sides[2];
} relay_source;

typedef struct relay_case {
    const broker_case *to;
    size_t batch, messages;
    relay_source *relay_source;
    broker *brokers[CONTENDERS]; /* from SEMEL on: for what is to be set up */
    relay_side relays[2];
} relay_case;

/* --- the outboxes ----------------------------------------------------------------------------- */

static void open_sqlite(relay_source *g)
{
    raw_outbox_open(&g->raw);
    must_sqlite(sqlite3_exec(g->raw.raw.db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL),
                g->raw.raw.db);
    for (size_t i = 0; i < 2; i++) {
        g->sides[i] = (semel_side){.file = places[SEMEL + i], .batch = FILL};
        semel_side_open(&g->sides[i]);
    }
}

static void relay_source_open(relay_source *g)
{
    if (!g->on) {
        open_sqlite(g);
        return;
    }
    for (size_t i = BY_HAND; i < CONTENDERS; i++)
        room_make(g->on, g->url, places[i]);
    g->raw_connection = g->on->open_relaxed(g->url, places[BY_HAND]);
    for (size_t i = 0; i < 2; i++) {
        g->servers[i] = (semel_server){.on = g->on, .workers = 1, .batch = 1};
        semel_server_open(&g->servers[i], g->url, places[SEMEL + i]);
    }
}

static void close_sqlite(relay_source *g)
{
    raw_outbox_close(&g->raw);
    semel_side_close(&g->sides[0]);
    semel_side_close(&g->sides[1]);
}

static void relay_source_close(relay_source *g)
{
    if (!g->on) {
        close_sqlite(g);
        return;
    }
    g->on->close(g->raw_connection);
    semel_server_close(&g->servers[0]);
    semel_server_close(&g->servers[1]);
    for (size_t i = BY_HAND; i < CONTENDERS; i++)
        room_remove(g->on, g->url, places[i]);
}

static void fill_room(const relay_source *g, const char *room, const message_set *set)
{
    raw_workers loaders = {.on = g->on, .workers = 1, .batch = FILL, .work = g->on->send};
    raw_workers_open(&loaders, g->url, room);
    raw_workers_run(&loaders, set);
    raw_workers_close(&loaders);
}

/* On a server by hand, which semel's outboxes being number 1 allows. */
static void fill_server(const relay_source *g, const message_set *set)
{
    raw_connection *h = g->on->open(g->url, NULL);
    for (size_t i = BY_HAND; i < CONTENDERS; i++)
        fill_room(g, places[i], set);
    g->on->run(h, g->on->settle_down);
    g->on->close(h);
}

static void relay_source_fill(relay_source *g, const message_set *set)
{
    if (g->on) {
        fill_server(g, set);
        return;
    }
    g->raw.batch = FILL;
    raw_send(&g->raw, set);
    semel_send(&g->sides[0], set);
    semel_send(&g->sides[1], set);
}

static semel_outbox *relay_source_outbox(const relay_source *g, size_t which)
{
    return g->on ? g->servers[which].outbox : g->sides[which].outbox;
}

/* --- the contenders --------------------------------------------------------------------------- */

static void publish_window(void *context, const message_set *set)
{
    relay_case *f = context;
    f->to->on->publish_window(f->brokers[WINDOW], places[WINDOW], set->pointers, set->count,
                              f->batch);
}

static void publish_batches(void *context, const message_set *set)
{
    relay_case *f = context;
    f->to->on->publish_batches(f->brokers[BATCH], places[BATCH], set->pointers, set->count,
                               f->batch);
}

static void give_away(void *context, const semel_message *const messages[], size_t count)
{
    relay_case *f = context;
    f->to->on->publish_batches(f->brokers[BY_HAND], places[BY_HAND], messages, count, f->batch);
}

static void relay_by_hand(void *context, const message_set *set)
{
    relay_case *f = context;
    relay_source *g = f->relay_source;
    g->raw.batch = f->batch;
    if (!g->on)
        raw_drain_to(&g->raw, set->count, give_away, f);
    for (size_t done = 0; g->on && done < set->count;)
        done += g->on->relay_to(g->raw_connection, f->batch, give_away, f);
}

/* --- the section ------------------------------------------------------------------------------ */

static void rounds_run(comparison *d, relay_case *f)
{
    const contender contenders[CONTENDERS] = {
        [WINDOW] = {.context = f, .run = publish_window},
        [BATCH] = {.context = f, .run = publish_batches},
        [BY_HAND] = {.context = f, .run = relay_by_hand},
        [SEMEL] = {.context = &f->relays[0], .run = relay_drain},
        [PAIR] = {.context = &f->relays[1], .run = relay_drain}};
    message_set set = {0};
    key_source keys;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    *d = (comparison){.rounds = choose_rounds(5, 3),
                      .contenders = CONTENDERS,
                      .rest_s = options.full ? 0.1 : 0.05};
    for (size_t round = 0; round <= d->rounds; round++) {
        progress("relaying", round, d->rounds + 1);
        for (size_t i = 0; i < CONTENDERS; i++)
            f->to->on->empty(f->brokers[SEMEL], places[i]);
        messages_make(&set, &keys, round ? f->messages : f->messages / WARM_UP);
        messages_address(&set);
        relay_source_fill(f->relay_source, &set);
        comparison_round(d, round, contenders, &set, set.count);
        comparison_settle(d, round);
    }
    messages_free(&set);
}

static void compare_contenders(comparison *d, relay_source *g, const broker_case *to, size_t batch)
{
    relay_case f = {
        .to = to, .batch = batch, .relay_source = g, .relays = {{.count = 1}, {.count = 2}}};
    const semel_relay_options relay = {.size = sizeof relay, .batch = (uint32_t)batch};
    char url[1024];
    f.messages = choose(20000, 3000);
    for (size_t i = 0; i < CONTENDERS; i++) {
        f.brokers[i] = to->on->open(to->url);
        to->on->make(f.brokers[i], places[i], to->queue);
    }
    relay_source_open(g);
    for (size_t i = 0; i < 2; i++)
        relay_begin(&f.relays[i], relay_source_outbox(g, i),
                    place_url(url, to, places[SEMEL + i], 0), &relay);
    rounds_run(d, &f);
    relay_end(&f.relays[0]);
    relay_end(&f.relays[1]);
    relay_source_close(g);
    for (size_t i = 0; i < CONTENDERS; i++) {
        to->on->remove(f.brokers[i], places[i]);
        to->on->close(f.brokers[i]);
    }
}

static void measure_from(relay_source *g, const broker_case *to)
{
    static const size_t batches[] = {100, 1000};
    char title[100], name[100];
    comparison d;
    snprintf(name, sizeof name, "relay from %s", g->on ? g->on->name : "SQLite");
    report_section("broker-relay", broker_title(title, to, name), "raw/s", "semel/s");
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        compare_contenders(&d, g, to, batches[i]);
        snprintf(name, sizeof name, "batch %zu, by publishing alone, a window", batches[i]);
        report_comparison(name, &d, SEMEL, WINDOW, AT_LEAST(0.8));
        report_comparison("  by publishing alone, in batches", &d, SEMEL, BATCH, NO_AIM);
        report_comparison("  by lease, publish, delete by hand", &d, SEMEL, BY_HAND, NO_AIM);
        report_comparison("  2 relays, by publishing alone, a window", &d, PAIR, WINDOW, NO_AIM);
    }
}

static const broker_case *measured; /* for measure_server() */

static void measure_server(const server *on, const char *url)
{
    relay_source g = {.on = on, .url = url};
    measure_from(&g, measured);
}

static void measure(const broker_case *to)
{
    relay_source sqlite = {.on = NULL};
    measured = to;
    one_server("postgres", measure_server);
    measure_from(&sqlite, to);
}

void section_broker_relay(void)
{
    each_broker(!options.full, measure);
}
