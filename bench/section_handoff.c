/* Hand-off inside one store: from an outbox by relays, and from a queue by a consumer, into an
 * inbox, against receive_batch with the messages at hand, which is the most that is possible.
 *
 * Every contender has a store of its own. Before each turn its outbox or queue is filled, which is
 * not timed. Relays have the default options and run as they do in a service (semel_relay_run),
 * and consumers have a batch of as many messages as relays lease; receive_batch takes 100 at once
 * and has as many threads as there are relays or workers. All handlers queue the same
 * statement. */
#include "server.h"

#include <semel/consumer.h>
#include <semel/queue.h>
#include <semel/relay.h>
#include <string.h>

enum { BATCH, RELAYS, QUEUE, CONTENDERS, AT_ONCE = 100, CONSUMED = 500, FILL = 500 };

static const char *const places[CONTENDERS] = {
    [BATCH] = "bench_batch", [RELAYS] = "bench_relays", [QUEUE] = "bench_queue"};

typedef struct handoff {
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_transport *queue;
    semel_consumer *consumer;
    semel_relay *relays[THREADS_MAX];
    size_t threads;
    char effect_sql[SQL_TEXT];
    atomic_size_t left; /* of this turn */
} handoff;

static semel_status insert_row(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    const handoff *h = context;
    semel_value body = semel_blob(message->body);
    return semel_unit_queue(unit, h->effect_sql, &body, 1, err);
}

/* The last one ends the run; what is under way is committed first. */
static semel_status insert_and_count(semel_unit *unit, const semel_message *message, void *context,
                                     semel_error *err)
{
    handoff *h = context;
    semel_status status = insert_row(unit, message, h, err);
    if (atomic_fetch_sub(&h->left, 1) != 1)
        return status;
    if (h->consumer)
        semel_consumer_stop(h->consumer);
    for (size_t i = 0; !h->consumer && i < h->threads; i++)
        semel_relay_stop(h->relays[i]);
    return status;
}

static void handoff_open(handoff *h, const char *url, const char *effect_table, size_t threads)
{
    semel_error err;
    h->threads = threads;
    snprintf(h->effect_sql, sizeof h->effect_sql, "INSERT INTO %s (body) VALUES (?)", effect_table);
    must(semel_store_open(&h->store, url, NULL, &err), &err);
    must(semel_store_migrate(h->store, &err), &err);
    must(semel_inbox_open(&h->inbox, h->store, "bench", NULL, &err), &err);
    must(semel_outbox_open(&h->outbox, h->store, "bench", &err), &err);
    must(semel_queue_open(&h->queue, h->store, "bench", NULL, &err), &err);
}

static void handoff_close(handoff *h)
{
    semel_transport_close(h->queue);
    semel_outbox_close(h->outbox);
    semel_inbox_close(h->inbox);
    semel_store_close(h->store);
}

/* --- receive_batch ---------------------------------------------------------------------------- */

static void receive_some(void *context, size_t worker, const semel_message *const messages[],
                         size_t count)
{
    handoff *h = context;
    semel_outcome outcomes[AT_ONCE];
    semel_error err;
    (void)worker;
    must(semel_inbox_receive_batch(outcomes, h->inbox, messages, count, insert_row, h, &err), &err);
}

static double receive_all(handoff *h, const message_set *set)
{
    double start = now_s();
    threads_run(h->threads, AT_ONCE, set, receive_some, h);
    return (double)set->count / (now_s() - start);
}

/* --- relays ----------------------------------------------------------------------------------- */

static void fill_outbox(handoff *h, const message_set *set)
{
    semel_error err;
    for (size_t done = 0; done < set->count;) {
        semel_unit *unit;
        must(semel_unit_begin(&unit, h->store, &err), &err);
        for (size_t i = 0; i < FILL && done < set->count; i++)
            must(semel_unit_send(unit, h->outbox, set->pointers[done++], &err), &err);
        must(semel_unit_commit(unit, &err), &err);
    }
}

static void run_relay(void *context, size_t worker, const semel_message *const messages[],
                      size_t count)
{
    handoff *h = context;
    semel_error err;
    (void)messages, (void)count;
    must(semel_relay_run(h->relays[worker], &err), &err);
}

static void check_empty(handoff *h)
{
    semel_counters counters = {0};
    semel_error err;
    must(semel_store_counters(&counters, sizeof counters, h->store, &err), &err);
    if (counters.unsent)
        die("%llu messages are still in the outbox", (unsigned long long)counters.unsent);
}

static double relay_all(handoff *h, const message_set *set)
{
    semel_error err;
    const message_set shares = {.count = h->threads, .pointers = set->pointers};
    fill_outbox(h, set);
    atomic_store(&h->left, set->count);
    for (size_t i = 0; i < h->threads; i++)
        must(semel_relay_open_local(&h->relays[i], h->outbox, h->inbox, insert_and_count, h, NULL,
                                    &err),
             &err);
    double start = now_s();
    threads_run(h->threads, 1, &shares, run_relay, h);
    double rate = (double)set->count / (now_s() - start);
    for (size_t i = 0; i < h->threads; i++)
        semel_relay_close(h->relays[i]);
    check_empty(h);
    return rate;
}

/* --- a consumer on a queue -------------------------------------------------------------------- */

static void fill_queue(handoff *h, const message_set *set)
{
    semel_publish_result results[FILL];
    semel_error err;
    for (size_t done = 0, some; done < set->count; done += some) {
        some = set->count - done < FILL ? set->count - done : FILL;
        must(semel_transport_publish(results, h->queue, set->pointers + done, some, 0, &err), &err);
    }
}

static double consume_all(handoff *h, const message_set *set)
{
    semel_error err;
    const semel_route route = {
        .pattern = "*", .inbox = h->inbox, .handler = insert_and_count, .context = h};
    const semel_consumer_options how = {
        .size = sizeof how, .batch = CONSUMED, .workers = (uint32_t)h->threads};
    fill_queue(h, set);
    atomic_store(&h->left, set->count);
    must(semel_consumer_open(&h->consumer, h->queue, &route, 1, &how, &err), &err);
    double start = now_s();
    must(semel_consumer_run(h->consumer, &err), &err);
    double rate = (double)set->count / (now_s() - start);
    semel_consumer_close(h->consumer);
    return rate;
}

/* --- the rounds ------------------------------------------------------------------------------- */

static double turn(handoff *h, int which, const message_set *set)
{
    return which == BATCH    ? receive_all(h, set)
           : which == RELAYS ? relay_all(h, set)
                             : consume_all(h, set);
}

/* One round before the first is not counted. Several threads take a tenth of a second to stop,
 * which must not be much of a turn. */
static void run_rounds(comparison *d, handoff sides[CONTENDERS], const char *label)
{
    size_t messages = sides->threads == 1 ? choose(20000, 5000) : choose(80000, 40000);
    message_set set = {0};
    key_source keys;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    for (size_t round = 0; round <= d->rounds; round++) {
        progress(label, round, d->rounds + 1);
        messages_make(&set, &keys, messages);
        for (int i = 0; i < CONTENDERS; i++) {
            int which = round % 2 ? CONTENDERS - 1 - i : i;
            double rate = turn(&sides[which], which, &set);
            if (round)
                d->rate[which][round - 1] = rate;
            stop_if_asked();
        }
        comparison_settle(d, round);
    }
    progress_clear();
    messages_free(&set);
}

static void report_handoff(const comparison *d, size_t threads)
{
    char name[100];
    snprintf(name, sizeof name, "outbox to inbox, %zu relay%s", threads, threads == 1 ? "" : "s");
    report_comparison(name, d, RELAYS, BATCH, AT_LEAST(0.6));
    snprintf(name, sizeof name, "queue to inbox, %zu worker%s", threads, threads == 1 ? "" : "s");
    report_comparison(name, d, QUEUE, BATCH, AT_LEAST(0.6));
}

static void measure_threads(const char *urls[CONTENDERS], const char *tables[CONTENDERS],
                            size_t threads)
{
    static handoff sides[CONTENDERS];
    comparison d = {.rounds = choose_rounds(7, 3), .contenders = CONTENDERS};
    memset(sides, 0, sizeof sides);
    for (int i = 0; i < CONTENDERS; i++)
        handoff_open(&sides[i], urls[i], tables[i], threads);
    run_rounds(&d, sides, "hand-off");
    report_handoff(&d, threads);
    for (int i = 0; i < CONTENDERS; i++)
        handoff_close(&sides[i]);
}

static const size_t thread_counts[] = {1, 8};
enum { THREAD_COUNTS = sizeof thread_counts / sizeof *thread_counts };

static void measure_server(const server *on, const char *url)
{
    char title[100], urls[CONTENDERS][1100], tables[CONTENDERS][100];
    const char *url_of[CONTENDERS], *table_of[CONTENDERS];
    report_section("handoff", server_title(title, on, "hand-off inside the store"), "batch/s",
                   "hand-off/s");
    for (size_t t = 0; t < THREAD_COUNTS; t++) {
        for (int i = 0; i < CONTENDERS; i++) {
            char with_room[1024];
            room_make(on, url, places[i]);
            snprintf(urls[i], sizeof urls[i], "%s&pool=%d", room_url(with_room, on, url, places[i]),
                     THREADS_MAX + 2);
            url_of[i] = urls[i];
            table_of[i] = room_table(tables[i], on, places[i], "effect");
        }
        measure_threads(url_of, table_of, thread_counts[t]);
        for (int i = 0; i < CONTENDERS; i++)
            room_remove(on, url, places[i]);
    }
}

static void make_sqlite(char url[1100], const char *name)
{
    char path[512];
    sqlite3 *db;
    must_sqlite(sqlite3_open(scratch_path(path, name), &db), db);
    must_sqlite(sqlite3_exec(db, EFFECT_TABLE, NULL, NULL, NULL), db);
    sqlite3_close(db);
    snprintf(url, 1100, "sqlite:%s", path);
}

static void measure_sqlite(void)
{
    char urls[CONTENDERS][1100];
    const char *url_of[CONTENDERS], *table_of[CONTENDERS];
    report_section("handoff", "SQLite: hand-off inside the store", "batch/s", "hand-off/s");
    for (int i = 0; i < CONTENDERS; i++) {
        make_sqlite(urls[i], places[i]);
        url_of[i] = urls[i];
        table_of[i] = "effect";
    }
    measure_threads(url_of, table_of, 1);
    for (int i = 0; i < CONTENDERS; i++)
        scratch_remove(places[i]);
}

void section_handoff(void)
{
    measure_sqlite();
    each_server(measure_server);
}
