/* The outbox: putting messages in, and the relay that takes them out to the memory transport.
 *
 * The raw relay is the floor, not a peer: it reads a batch and deletes it in one transaction that does not
 * wait for the disk, and sends nothing. It has no lease, so two of them would send everything twice. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RAW, SEMEL, GROUPS = 100 };

typedef struct raw_outbox {
    raw_db raw; /* for its connection, begin and commit */
    sqlite3_stmt *insert, *read, *remove;
    size_t batch;
    int grouped;
} raw_outbox;

typedef struct semel_side {
    semel_store *store;
    semel_outbox *outbox;
    size_t batch;
    int grouped;
    semel_relay_preset preset;
    semel_transport *transport;
    semel_relay *relay;
} semel_side;

/* --- by hand --------------------------------------------------------------------------------------------- */

static void raw_outbox_open(raw_outbox *o)
{
    char path[512];
    raw_open(&o->raw, scratch_path(path, "raw.db"));
    raw_prepare(
        &o->insert, o->raw.db,
        "INSERT INTO semel_outbox (outbox, wake_ms, attempts, refusals, captured_ms, grp, id, "
        "type, topic, time_ms, body) VALUES (1, ?1, 0, 0, ?1, ?2, ?3, ?4, ?5, ?1, ?6)");
    raw_prepare(&o->read, o->raw.db,
                "SELECT seq, attempts, grp, id, source, type, topic, correlation_id, content_type, "
                "time_ms, headers, body FROM semel_outbox WHERE outbox = 1 ORDER BY seq LIMIT ?");
    raw_prepare(&o->remove, o->raw.db, "DELETE FROM semel_outbox WHERE seq = ?");
}

static void raw_outbox_close(raw_outbox *o)
{
    sqlite3_finalize(o->insert);
    sqlite3_finalize(o->read);
    sqlite3_finalize(o->remove);
    raw_close(&o->raw);
    scratch_remove("raw.db");
}

static const char *group_of(char out[32], size_t index)
{
    snprintf(out, 32, "group-%zu", index % GROUPS);
    return out;
}

static void raw_put(raw_outbox *o, const semel_message *message, size_t index)
{
    char group[32];
    sqlite3_bind_int64(o->insert, 1, raw_now_ms());
    if (o->grouped)
        sqlite3_bind_text(o->insert, 2, group_of(group, index), -1, SQLITE_STATIC);
    sqlite3_bind_blob(o->insert, 3, message->id.data, (int)message->id.len, SQLITE_STATIC);
    sqlite3_bind_text(o->insert, 4, message->type, -1, SQLITE_STATIC);
    sqlite3_bind_text(o->insert, 5, "orders", -1, SQLITE_STATIC);
    sqlite3_bind_blob(o->insert, 6, message->body.data, (int)message->body.len, SQLITE_STATIC);
    raw_step(o->insert);
}

static void raw_send(void *context, const message_set *set)
{
    raw_outbox *o = context;
    for (size_t done = 0; done < set->count;) {
        size_t end = set->count - done < o->batch ? set->count : done + o->batch;
        raw_step(o->raw.begin);
        for (; done < end; done++)
            raw_put(o, set->pointers[done], done);
        raw_step(o->raw.commit);
    }
}

/* Reads all columns of a batch, as one who sends them must, and deletes it. */
static size_t raw_drain_batch(raw_outbox *o, int64_t *taken)
{
    size_t count = 0;
    sqlite3_bind_int64(o->read, 1, (int64_t)o->batch);
    while (sqlite3_step(o->read) == SQLITE_ROW) {
        taken[count++] = sqlite3_column_int64(o->read, 0);
        for (int i = 2; i < 12; i++)
            (void)sqlite3_column_blob(o->read, i);
    }
    sqlite3_reset(o->read);
    for (size_t i = 0; i < count; i++) {
        sqlite3_bind_int64(o->remove, 1, taken[i]);
        raw_step(o->remove);
    }
    return count;
}

static void raw_drain(void *context, const message_set *set)
{
    raw_outbox *o = context;
    int64_t *taken = must_alloc(o->batch * sizeof *taken);
    for (size_t done = 0; done < set->count;) {
        raw_step(o->raw.begin);
        done += raw_drain_batch(o, taken);
        raw_step(o->raw.commit);
    }
    free(taken);
}

/* --- through semel ------------------------------------------------------------------------------------------ */

static void semel_side_open(semel_side *s)
{
    char path[512], url[600];
    semel_error err;
    snprintf(url, sizeof url, "sqlite:%s", scratch_path(path, "semel.db"));
    must(semel_store_open(&s->store, url, NULL, &err), &err);
    must(semel_store_migrate(s->store, &err), &err);
    must(semel_outbox_open(&s->outbox, s->store, "bench", &err), &err);
}

static void semel_side_close(semel_side *s)
{
    semel_outbox_close(s->outbox);
    semel_store_close(s->store);
    scratch_remove("semel.db");
}

static void semel_put(semel_side *s, semel_unit *unit, const semel_message *message, size_t index)
{
    char group[32];
    semel_error err;
    semel_message outgoing = *message;
    outgoing.topic = "orders";
    if (s->grouped)
        outgoing.group = group_of(group, index);
    must(semel_unit_send(unit, s->outbox, &outgoing, &err), &err);
}

static void semel_send(void *context, const message_set *set)
{
    semel_side *s = context;
    for (size_t done = 0; done < set->count;) {
        semel_error err;
        semel_unit *unit;
        size_t end = set->count - done < s->batch ? set->count : done + s->batch;
        must(semel_unit_begin(&unit, s->store, &err), &err);
        for (; done < end; done++)
            semel_put(s, unit, set->pointers[done], done);
        must(semel_unit_commit(unit, &err), &err);
    }
}

static void relay_begin(semel_side *s)
{
    semel_error err;
    semel_relay_options relay = {.size = sizeof relay, .preset = s->preset};
    must(semel_transport_open(&s->transport, "memory:", NULL, &err), &err);
    must(semel_relay_open(&s->relay, s->outbox, s->transport, &relay, &err), &err);
}

static void relay_end(void *context, const message_set *set)
{
    semel_side *s = context;
    (void)set;
    semel_relay_close(s->relay);
    semel_transport_close(s->transport);
}

static void relay_drain(void *context, const message_set *set)
{
    semel_side *s = context;
    for (size_t done = 0, sent; done < set->count; done += sent) {
        semel_error err;
        must(semel_relay_step(&sent, s->relay, 1000, &err), &err);
        if (!sent)
            die("the relay stopped with %zu messages left", set->count - done);
    }
}

/* --- the sections ------------------------------------------------------------------------------------------- */

static void fight_send(size_t batch, int grouped)
{
    raw_outbox raw = {.batch = batch, .grouped = grouped};
    semel_side semel = {.batch = batch, .grouped = grouped};
    const contender both[] = {[RAW] = {.context = &raw, .run = raw_send},
                              [SEMEL] = {.context = &semel, .run = semel_send}};
    char name[100];
    duel d;
    key_source keys;
    raw_outbox_open(&raw);
    semel_side_open(&semel);
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    duel_run(&d, both, 2, &keys, batch, batch == 1 ? transactions(600, 300) : transactions(50, 30),
             choose(11, 5), "sending");
    snprintf(name, sizeof name, "%s, %s",
             batch == 1 ? "one in a transaction" : "100 in a transaction",
             grouped ? "100 groups" : "no groups");
    report_duel(name, &d, SEMEL, RAW, NO_AIM);
    raw_outbox_close(&raw);
    semel_side_close(&semel);
}

void section_outbox(void)
{
    report_section("outbox", "outbox: messages put in", "raw/s", "semel/s");
    fight_send(1, 0);
    fight_send(100, 0);
    fight_send(100, 1);
}

/* Filling is not timed, and both are filled before either is drained. */
typedef struct relay_fight {
    raw_outbox raw;
    semel_side semel;
} relay_fight;

static double timed(void (*run)(void *, const message_set *), void *context, const message_set *set)
{
    double start = now_s();
    run(context, set);
    return (double)set->count / (now_s() - start);
}

static void relay_round(duel *d, size_t round, relay_fight *f, const message_set *set)
{
    double semel_first = 0;
    size_t batch = f->raw.batch;
    f->raw.batch = f->semel.batch = 1000;
    raw_send(&f->raw, set);
    semel_send(&f->semel, set);
    f->raw.batch = batch;
    relay_begin(&f->semel);
    if (round % 2)
        semel_first = timed(relay_drain, &f->semel, set);
    d->rate[RAW][round] = timed(raw_drain, &f->raw, set);
    d->rate[SEMEL][round] = round % 2 ? semel_first : timed(relay_drain, &f->semel, set);
    relay_end(&f->semel, set);
}

static void fight_relay(semel_relay_preset preset, size_t batch, int grouped, const char *name)
{
    relay_fight f = {.raw = {.batch = batch, .grouped = grouped},
                     .semel = {.grouped = grouped, .preset = preset}};
    duel d = {.rounds = choose(9, 3), .contenders = 2};
    message_set set = {0};
    key_source keys;
    raw_outbox_open(&f.raw);
    semel_side_open(&f.semel);
    must_sqlite(sqlite3_exec(f.raw.raw.db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL),
                f.raw.raw.db);
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    for (size_t round = 0; round < d.rounds; round++) {
        progress(name, round, d.rounds);
        messages_make(&set, &keys, choose(10000, 5000));
        relay_round(&d, round, &f, &set);
        stop_if_asked();
    }
    report_duel(name, &d, SEMEL, RAW, NO_AIM);
    messages_free(&set);
    raw_outbox_close(&f.raw);
    semel_side_close(&f.semel);
}

void section_relay(void)
{
    report_section("relay", "relay: outbox to the memory transport", "floor/s", "semel/s");
    fight_relay(SEMEL_RELAY_CAREFUL, 10, 0, "careful (batches of 10), no groups");
    fight_relay(SEMEL_RELAY_BALANCED, 100, 0, "balanced (100), no groups");
    fight_relay(SEMEL_RELAY_THROUGHPUT, 1000, 0, "throughput (1000), no groups");
    fight_relay(SEMEL_RELAY_CAREFUL, 10, 1, "careful (10), 100 groups");
    fight_relay(SEMEL_RELAY_BALANCED, 100, 1, "balanced (100), 100 groups");
    fight_relay(SEMEL_RELAY_THROUGHPUT, 1000, 1, "throughput (1000), 100 groups");
    report_note(
        "the floor reads and deletes a batch in one transaction and sends nothing; the relay");
    report_note(
        "leases it in one, sends it, and deletes it in another. None of them waits for the disk.");
}
