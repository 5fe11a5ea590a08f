/* From a queue through the inbox: consume, marker and business row, commit, acknowledge.
 *
 * It cannot be faster than either of its halves: consuming and acknowledging with nothing done in
 * between, and the store's part with messages that are in memory already. So it is compared with
 * the slower of the two, round by round; and with both halves by hand in one loop, which is what it
 * replaces. One at a time each delivery is acknowledged by itself; a batch by hand is acknowledged
 * as a whole.
 *
 * Each contender has a queue of its own, which is filled before any of them is timed and is empty
 * at the end of its turn. After each turn there is a rest: the broker still works on the
 * acknowledgements when no client waits for it. */
#include "broker.h"
#include "server.h"

enum { EACH, TOGETHER, STORE, SEMEL, BY_HAND, CONTENDERS };

/* All but STORE have a queue; the last three have tables. */
static const char *const places[CONTENDERS] = {"bench_each", "bench_together", "bench_store",
                                               "bench_semel", "bench_hand"};

typedef struct consume_case {
    const server *on; /* NULL: SQLite */
    const char *url;
    const broker_case *from;
    size_t batch, workers, prefetch;
    broker *manager;
    broker *brokers[CONTENDERS]; /* of the contenders that consume by hand */
    raw_workers store, by_hand;
    semel_server semel_server;
    raw_db raw_store, raw_by_hand;
    semel_sqlite semel_sqlite;
    semel_transport *transport;
    semel_consumer *consumer;
    atomic_size_t left; /* of this turn */
} consume_case;

/* --- the stores ------------------------------------------------------------------------------- */

static raw_work *work_of(const consume_case *f)
{
    return f->batch == 1 ? f->on->receive : f->on->batch;
}

static void open_server(consume_case *f)
{
    for (size_t i = STORE; i < CONTENDERS; i++)
        room_make(f->on, f->url, places[i]);
    f->store = f->by_hand =
        (raw_workers){.on = f->on, .workers = f->workers, .batch = f->batch, .work = work_of(f)};
    raw_workers_open(&f->store, f->url, places[STORE]);
    raw_workers_open(&f->by_hand, f->url, places[BY_HAND]);
    f->semel_server = (semel_server){
        .on = f->on, .workers = f->workers, .batch = f->batch, .queues = f->batch > 1};
    semel_server_open(&f->semel_server, f->url, places[SEMEL]);
}

static void close_server(consume_case *f)
{
    raw_workers_close(&f->store);
    raw_workers_close(&f->by_hand);
    semel_server_close(&f->semel_server);
    for (size_t i = STORE; i < CONTENDERS; i++)
        room_remove(f->on, f->url, places[i]);
}

static void open_sqlite(consume_case *f)
{
    char path[512], url[600];
    const semel_inbox_options inbox = {.size = sizeof inbox};
    raw_open(&f->raw_store, scratch_path(path, places[STORE]));
    raw_open(&f->raw_by_hand, scratch_path(path, places[BY_HAND]));
    f->raw_store.batch = f->raw_by_hand.batch = f->batch;
    snprintf(url, sizeof url, "sqlite:%s", scratch_path(path, places[SEMEL]));
    semel_sqlite_open(&f->semel_sqlite, url, &inbox, f->batch);
}

static void close_sqlite(consume_case *f)
{
    raw_close(&f->raw_store);
    raw_close(&f->raw_by_hand);
    semel_sqlite_close(&f->semel_sqlite);
    for (size_t i = STORE; i < CONTENDERS; i++)
        scratch_remove(places[i]);
}

/* --- by hand ---------------------------------------------------------------------------------- */

static void consume_each(void *context, const message_set *set)
{
    consume_case *f = context;
    for (size_t i = 0; i < set->count; i++) {
        (void)f->from->on->take(f->brokers[EACH], 1);
        f->from->on->ack_each(f->brokers[EACH]);
    }
}

static size_t at_most(size_t batch, size_t left)
{
    return left < batch ? left : batch;
}

static void consume_together(void *context, const message_set *set)
{
    consume_case *f = context;
    size_t batch = f->batch > 1 ? f->batch : f->prefetch / 2;
    for (size_t done = 0, count; done < set->count; done += count) {
        count = at_most(batch, set->count - done);
        (void)f->from->on->take(f->brokers[TOGETHER], count);
        f->from->on->ack_together(f->brokers[TOGETHER]);
    }
}

static void store_only(void *context, const message_set *set)
{
    consume_case *f = context;
    if (f->on)
        raw_workers_run(&f->store, set);
    else
        raw_receive(&f->raw_store, set);
}

static void store_taken(consume_case *f, const semel_message *const *taken, size_t count)
{
    const message_set set = {.count = count, .pointers = (const semel_message **)(uintptr_t)taken};
    if (f->on)
        f->by_hand.work(f->by_hand.connections[0], taken, count);
    else
        raw_receive(&f->raw_by_hand, &set);
}

static void consume_and_store(void *context, const message_set *set)
{
    consume_case *f = context;
    const broker_kind *on = f->from->on;
    broker *b = f->brokers[BY_HAND];
    for (size_t done = 0, count; done < set->count; done += count) {
        count = at_most(f->batch, set->count - done);
        store_taken(f, on->take(b, count), count);
        if (f->batch == 1)
            on->ack_each(b);
        else
            on->ack_together(b);
    }
}

/* --- through semel ---------------------------------------------------------------------------- */

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    consume_case *f = context;
    semel_status status =
        f->on ? semel_server_handler(&f->semel_server)(unit, message, &f->semel_server, err)
              : semel_sqlite_handler(unit, message, &f->semel_sqlite, err);
    if (atomic_fetch_sub(&f->left, 1) == 1 && f->workers > 1)
        semel_consumer_stop(f->consumer);
    return status;
}

static void consumer_begin(consume_case *f)
{
    char url[1024];
    semel_error err;
    const semel_route route = {.pattern = "*",
                               .inbox = f->on ? f->semel_server.inbox : f->semel_sqlite.inbox,
                               .handler = handle,
                               .context = f};
    const semel_consumer_options how = {
        .size = sizeof how, .batch = (uint32_t)f->batch, .workers = (uint32_t)f->workers};
    must(semel_transport_open(&f->transport, place_url(url, f->from, places[SEMEL], f->prefetch),
                              NULL, &err),
         &err);
    must(semel_consumer_open(&f->consumer, f->transport, &route, 1, &how, &err), &err);
}

static void consumer_end(consume_case *f)
{
    semel_consumer_close(f->consumer);
    semel_transport_close(f->transport);
}

static void consume_steps(consume_case *f, size_t count)
{
    enum { WAIT_MS = 10000 };
    semel_error err;
    size_t settled = 0;
    for (size_t done = 0; done < count; done += settled) {
        must(semel_consumer_step(&settled, f->consumer, WAIT_MS, &err), &err);
        if (!settled)
            die("the consumer stopped with %zu messages left", count - done);
    }
}

static void consume_by_semel(void *context, const message_set *set)
{
    consume_case *f = context;
    semel_error err;
    atomic_store(&f->left, set->count);
    if (f->workers > 1) {
        must(semel_consumer_run(f->consumer, &err), &err);
        return;
    }
    consume_steps(f, set->count);
    if (atomic_load(&f->left) != 0)
        die("%zu messages were acknowledged and not handled", atomic_load(&f->left));
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* By hand there is one worker: several would have to share what the broker has sent to one of
 * them. */
static size_t contender_count(const consume_case *f)
{
    return f->workers > 1 ? BY_HAND : CONTENDERS;
}

static int has_queue(const consume_case *f, size_t which)
{
    return which != STORE && which < contender_count(f);
}

static void places_make(consume_case *f)
{
    const broker_kind *on = f->from->on;
    for (size_t i = 0; i < CONTENDERS; i++)
        if (has_queue(f, i))
            on->make(f->manager, places[i], f->from->queue);
    for (size_t i = EACH + 1; i < CONTENDERS && on->feed; i++)
        if (has_queue(f, i))
            on->feed(f->manager, places[i], places[EACH]);
}

static void places_remove(consume_case *f)
{
    for (size_t i = 0; i < CONTENDERS; i++)
        if (has_queue(f, i))
            f->from->on->remove(f->manager, places[i]);
}

/* What is published to the place of EACH reaches all the others, if the broker can do that. */
static void places_fill(consume_case *f, const message_set *set)
{
    enum { OUTSTANDING = 1000 };
    const broker_kind *on = f->from->on;
    for (size_t i = 0; i < CONTENDERS; i++)
        if (i == EACH || (has_queue(f, i) && !on->feed))
            on->publish_window(f->manager, places[i], set->pointers, set->count, OUTSTANDING);
}

/* Until the message has come no group is complete. */
static void groups_begin(consume_case *f, key_source *keys)
{
    message_set first = {0};
    messages_make(&first, keys, 1);
    messages_address(&first);
    places_fill(f, &first);
    for (size_t i = 0; i < CONTENDERS; i++)
        if (has_queue(f, i) && i != SEMEL) {
            (void)f->from->on->take(f->brokers[i], 1);
            f->from->on->ack_together(f->brokers[i]);
        }
    consume_steps(f, 1);
    messages_free(&first);
}

static void consumers_begin(consume_case *f)
{
    for (size_t i = 0; i < CONTENDERS; i++)
        if (has_queue(f, i) && i != SEMEL) {
            f->brokers[i] = f->from->on->open(f->from->url);
            f->from->on->consume(f->brokers[i], places[i], f->prefetch);
        }
    consumer_begin(f);
}

static void round_begin(consume_case *f, const message_set *set, key_source *keys)
{
    if (!f->from->on->has_groups)
        places_fill(f, set);
    consumers_begin(f);
    if (f->from->on->has_groups) {
        groups_begin(f, keys);
        places_fill(f, set);
    }
}

/* What a quorum queue had not settled yet when its consumer left is in it again. */
static void round_end(consume_case *f)
{
    consumer_end(f);
    for (size_t i = 0; i < CONTENDERS; i++) {
        if (!has_queue(f, i))
            continue;
        if (i != SEMEL)
            f->from->on->close(f->brokers[i]);
        f->from->on->empty(f->manager, places[i]);
    }
}

static void rounds_run(comparison *d, consume_case *f, size_t messages)
{
    const contender contenders[CONTENDERS] = {[EACH] = {.context = f, .run = consume_each},
                                              [TOGETHER] = {.context = f, .run = consume_together},
                                              [STORE] = {.context = f, .run = store_only},
                                              [SEMEL] = {.context = f, .run = consume_by_semel},
                                              [BY_HAND] = {.context = f, .run = consume_and_store}};
    message_set set = {0};
    key_source keys;
    keys_begin(&keys, KEYS_RANDOM);
    *d = (comparison){
        .rounds = choose_rounds(7, 3), .contenders = contender_count(f), .rest_s = 0.15};
    for (size_t round = 0; round <= d->rounds; round++) {
        progress("consuming", round, d->rounds + 1);
        messages_make(&set, &keys, round ? messages : messages / WARM_UP);
        messages_address(&set);
        round_begin(f, &set, &keys);
        comparison_round(d, round, contenders, &set, set.count);
        round_end(f);
        comparison_settle(d, round);
    }
    messages_free(&set);
}

static void compare_contenders(comparison *d, consume_case *f, size_t messages)
{
    f->manager = f->from->on->open(f->from->url);
    if (f->on)
        open_server(f);
    else
        open_sqlite(f);
    places_make(f);
    rounds_run(d, f, messages);
    places_remove(f);
    if (f->on)
        close_server(f);
    else
        close_sqlite(f);
    f->from->on->close(f->manager);
}

/* --- the section ------------------------------------------------------------------------------ */

/* In place of STORE: the slower of consuming and storing, round by round. Consuming is the better
 * of its two ways. */
static void report_slower(const char *name, const comparison *d)
{
    comparison by_slower = *d;
    for (size_t i = 0; i < d->rounds; i++) {
        double each = d->rate[EACH][i], together = d->rate[TOGETHER][i], store = d->rate[STORE][i];
        double consumed = each > together ? each : together;
        by_slower.rate[STORE][i] = consumed < store ? consumed : store;
    }
    report_comparison(name, &by_slower, SEMEL, STORE, AT_LEAST(0.8));
}

static void report_consumed(const consume_case *f, const comparison *d)
{
    char name[100];
    snprintf(name, sizeof name, "batch %zu, %zu worker%s, by the slower half", f->batch, f->workers,
             f->workers == 1 ? "" : "s");
    report_slower(name, d);
    report_comparison("  by consuming alone, an ack for each", d, SEMEL, EACH, NO_AIM);
    report_comparison("  by consuming alone, an ack for many", d, SEMEL, TOGETHER, NO_AIM);
    report_comparison("  by marker and row alone", d, SEMEL, STORE, NO_AIM);
    if (d->contenders > BY_HAND)
        report_comparison("  by both halves by hand", d, SEMEL, BY_HAND, NO_AIM);
}

static const broker_case *measured; /* for measure_store() */

static void measure_store(const server *on, const char *url)
{
    static const struct amount {
        size_t batch, workers, prefetch, full, quick;
    } amounts[] = {{1, 1, 50, 1000, 300},
                   {1, 4, 100, 10000, 6000}, /* until the last of several workers has stopped */
                   {100, 1, 500, 20000, 3000},
                   {100, 2, 1000, 60000, 40000}};
    char title[100], name[100];
    comparison d;
    snprintf(name, sizeof name, "to inbox on %s", on ? on->name : "SQLite");
    report_section("broker-consume", broker_title(title, measured, name), "raw/s", "semel/s");
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        consume_case f = {.on = on,
                          .url = url,
                          .from = measured,
                          .batch = amounts[i].batch,
                          .workers = amounts[i].workers,
                          .prefetch = amounts[i].prefetch};
        if (!on && f.workers > 1)
            continue; /* SQLite has one writer */
        compare_contenders(&d, &f, choose(amounts[i].full, amounts[i].quick));
        report_consumed(&f, &d);
    }
}

static void measure(const broker_case *from)
{
    measured = from;
    one_server("postgres", measure_store);
    measure_store(NULL, NULL);
}

void section_broker_consume(void)
{
    each_broker(!options.full, measure);
}
