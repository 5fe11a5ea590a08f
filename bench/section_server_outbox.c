/* The outbox on a database server: putting messages in, and relays that take them out to the memory
 * transport.
 *
 * The loop by hand leases a batch by SKIP LOCKED and removes it in a second statement, which is
 * what a relay must do that holds no transaction over the broker; it sends nothing, knows no
 * groups, no attempts and no fence. On PostgreSQL both do not wait for the disk: a row that comes
 * back is only sent again. */
#include "server.h"

#include <stdlib.h>

enum { RAW, SEMEL };

static const char raw_room[] = "bench_raw", semel_room[] = "bench_semel";

static void rooms_make(const server *on, const char *url)
{
    room_make(on, url, raw_room);
    room_make(on, url, semel_room);
}

static void rooms_remove(const server *on, const char *url)
{
    room_remove(on, url, raw_room);
    room_remove(on, url, semel_room);
}

/* --- sending ---------------------------------------------------------------------------------- */

static void compare_send(const server *on, const char *url, size_t workers, size_t batch)
{
    raw_workers raw = {.on = on, .workers = workers, .batch = batch, .work = on->send};
    semel_server semel = {.on = on, .workers = workers, .batch = batch};
    const contender both[] = {[RAW] = {.context = &raw, .run = raw_workers_run},
                              [SEMEL] = {.context = &semel, .run = semel_server_send}};
    char name[100];
    comparison d;
    key_source keys;
    rooms_make(on, url);
    raw_workers_open(&raw, url, raw_room);
    semel_server_open(&semel, url, semel_room);
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    comparison_run(&d, both, 2, &keys, batch, batch == 1 ? transactions(1000, 300) : choose(80, 40),
                   choose_rounds(7, 3), "sending");
    snprintf(name, sizeof name, "%zu in a transaction, %zu connections", batch, workers);
    report_comparison(name, &d, SEMEL, RAW, NO_AIM);
    raw_workers_close(&raw);
    semel_server_close(&semel);
    rooms_remove(on, url);
}

static void measure_outbox(const server *on, const char *url)
{
    char title[100];
    report_section("server-outbox", server_title(title, on, "into the outbox"), "raw/s", "semel/s");
    compare_send(on, url, 4, 1);
    compare_send(on, url, 4, 100);
}

void section_server_outbox(void)
{
    each_server(measure_outbox);
}

/* --- relaying --------------------------------------------------------------------------------- */

typedef struct relays {
    const server *on;
    size_t count, batch;
    raw_connection *connections[THREADS_MAX];
    semel_transport *transport;
    semel_relay *relays[THREADS_MAX];
    atomic_size_t sent;
    size_t wanted;
} relays;

static void drain_by_hand(void *context, size_t worker, const semel_message *const messages[],
                          size_t count)
{
    relays *r = context;
    (void)messages;
    (void)count;
    while (atomic_load(&r->sent) < r->wanted)
        atomic_fetch_add(&r->sent, r->on->relay(r->connections[worker], r->batch));
}

static void drain_by_semel(void *context, size_t worker, const semel_message *const messages[],
                           size_t count)
{
    relays *r = context;
    (void)messages;
    (void)count;
    while (atomic_load(&r->sent) < r->wanted) {
        size_t sent = 0;
        semel_error err;
        semel_status status = semel_relay_step(&sent, r->relays[worker], 0, &err);
        if (status !=
            SEMEL_ECONFLICT) /* which the relay has tried several times: the next step does */
            must(status, &err);
        atomic_fetch_add(&r->sent, sent);
    }
}

/* One share of the work is to drain until nothing is left; the messages of the set are those in the
 * table. */
static double drain(relays *r, const message_set *set, thread_job *job)
{
    message_set shares = {.count = r->count, .pointers = set->pointers};
    atomic_store(&r->sent, 0);
    r->wanted = set->count;
    double start = now_s();
    threads_run(r->count, 1, &shares, job, r);
    return (double)set->count / (now_s() - start);
}

static void fill(const server *on, const char *url, const char *room, const message_set *set)
{
    raw_workers g = {.on = on, .workers = 4, .batch = 500, .work = on->send};
    raw_workers_open(&g, url, room);
    raw_workers_run(&g, set);
    raw_workers_close(&g);
}

static void relays_open(relays *r, const semel_server *p)
{
    semel_error err;
    semel_relay_options options_of = {.size = sizeof options_of, .batch = (uint32_t)r->batch};
    must(semel_transport_open(&r->transport, "memory:", NULL, &err), &err);
    for (size_t i = 0; i < r->count; i++)
        must(semel_relay_open(&r->relays[i], p->outbox, r->transport, &options_of, &err), &err);
}

static void relays_close(relays *r)
{
    for (size_t i = 0; i < r->count; i++)
        semel_relay_close(r->relays[i]);
    semel_transport_close(r->transport);
}

static void relay_round(comparison *d, size_t round, relays *r, const semel_server *p,
                        const message_set *set)
{
    double semel_first = 0;
    relays_open(r, p);
    if (round % 2)
        semel_first = drain(r, set, drain_by_semel);
    d->rate[RAW][round] = drain(r, set, drain_by_hand);
    d->rate[SEMEL][round] = round % 2 ? semel_first : drain(r, set, drain_by_semel);
    relays_close(r);
}

static void check_outbox_number(const server *on, const char *url)
{
    char sql[SQL_TEXT], table[100];
    raw_connection *h = on->open(url, NULL);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE id = 1 AND kind = 2",
             room_semel_table(table, on, semel_room, "scope"));
    if (on->number(h, sql) != 1)
        die("the outbox is not number 1");
    on->close(h);
}

static void compare_relay(const server *on, const char *url, size_t count, size_t batch)
{
    relays r = {.on = on, .count = count, .batch = batch};
    semel_server p = {.on = on, .workers = count, .batch = batch};
    comparison d = {.rounds = choose_rounds(5, 3), .contenders = 2};
    message_set set = {0};
    key_source keys;
    char name[100];
    rooms_make(on, url);
    semel_server_open(&p, url, semel_room);
    check_outbox_number(on, url);
    for (size_t i = 0; i < count; i++)
        r.connections[i] = on->open_relaxed(url, raw_room);
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    snprintf(name, sizeof name, "batches of %zu, %zu relay%s", batch, count, count == 1 ? "" : "s");
    for (size_t round = 0; round < d.rounds; round++) {
        progress(name, round, d.rounds);
        messages_make(&set, &keys, choose(20000, 5000));
        fill(on, url, raw_room, &set);
        fill(on, url, semel_room, &set);
        relay_round(&d, round, &r, &p, &set);
        comparison_settle(&d, round + 1);
        stop_if_asked();
    }
    report_comparison(name, &d, SEMEL, RAW, NO_AIM);
    for (size_t i = 0; i < count; i++)
        on->close(r.connections[i]);
    semel_server_close(&p);
    messages_free(&set);
    rooms_remove(on, url);
}

static void measure_relay(const server *on, const char *url)
{
    char title[100];
    report_section("server-relay", server_title(title, on, "relay"), "raw/s", "semel/s");
    compare_relay(on, url, 1, 100);
    compare_relay(on, url, 4, 100);
    compare_relay(on, url, 1, 1000);
    compare_relay(on, url, 4, 1000);
    report_note("raw leases by SKIP LOCKED and removes, without groups, fence and sending. The "
                "transport is in");
    report_note("memory and confirms at once. On PostgreSQL neither waits for the disk.");
}

void section_server_relay(void)
{
    each_server(measure_relay);
}
