/* The outbox on SQLite, by hand and through semel: putting messages in and taking them out. */
#include "outbox.h"
#include "server.h"

#include <stdlib.h>

enum { GROUPS = 100 };

/* --- by hand ---------------------------------------------------------------------------------- */

void raw_outbox_open(raw_outbox *o)
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

void raw_outbox_close(raw_outbox *o)
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

void raw_send(void *context, const message_set *set)
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

/* Reads all columns of a batch, as a sender must, and deletes it. */
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

void raw_drain(void *context, const message_set *set)
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

/* Copies: what SQLite gives is gone with the next row. */
static size_t read_messages(raw_outbox *o, int64_t *taken, semel_message **messages)
{
    size_t count = 0;
    sqlite3_bind_int64(o->read, 1, (int64_t)o->batch);
    while (sqlite3_step(o->read) == SQLITE_ROW) {
        semel_error err;
        const semel_message row = {
            .size = sizeof row,
            .id = {sqlite3_column_blob(o->read, 3), (size_t)sqlite3_column_bytes(o->read, 3)},
            .type = (const char *)sqlite3_column_text(o->read, 5),
            .topic = (const char *)sqlite3_column_text(o->read, 6),
            .time_ms = sqlite3_column_int64(o->read, 9),
            .body = {sqlite3_column_blob(o->read, 11), (size_t)sqlite3_column_bytes(o->read, 11)}};
        taken[count] = sqlite3_column_int64(o->read, 0);
        must(semel_message_copy(&messages[count++], &row, &err), &err);
    }
    sqlite3_reset(o->read);
    return count;
}

void raw_drain_to(raw_outbox *o, size_t count, recipient *publish, void *context)
{
    int64_t *taken = must_alloc(o->batch * sizeof *taken);
    semel_message **messages = must_alloc(o->batch * sizeof *messages);
    for (size_t done = 0, got; done < count; done += got) {
        got = read_messages(o, taken, messages);
        publish(context, (const semel_message *const *)messages, got);
        raw_step(o->raw.begin);
        for (size_t i = 0; i < got; i++) {
            sqlite3_bind_int64(o->remove, 1, taken[i]);
            raw_step(o->remove);
            semel_message_free(messages[i]);
        }
        raw_step(o->raw.commit);
        if (!got)
            die("the outbox is empty, and %zu messages are missing", count - done);
    }
    free(taken);
    free(messages);
}

/* --- through semel ---------------------------------------------------------------------------- */

void semel_side_open(semel_side *s)
{
    char path[512], url[600];
    semel_error err;
    snprintf(url, sizeof url, "sqlite:%s", scratch_path(path, s->file));
    must(semel_store_open(&s->store, url, NULL, &err), &err);
    must(semel_store_migrate(s->store, &err), &err);
    must(semel_outbox_open(&s->outbox, s->store, "bench", &err), &err);
}

void semel_side_close(semel_side *s)
{
    semel_outbox_close(s->outbox);
    semel_store_close(s->store);
    scratch_remove(s->file);
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

void semel_send(void *context, const message_set *set)
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
