/* The same work through semel: its handler inserts the same row with a statement that it keeps. */
#include "bench.h"

#include <semel/sqlite.h>
#include <stdlib.h>

static void make_effect_table(semel_sqlite *s)
{
    semel_error err;
    semel_unit *unit;
    must(semel_unit_begin(&unit, s->store, &err), &err);
    sqlite3 *db = semel_unit_sqlite(unit);
    if (db)
        must_sqlite(sqlite3_exec(db, EFFECT_TABLE, NULL, NULL, NULL), db);
    must(semel_unit_commit(unit, &err), &err);
}

void semel_sqlite_open(semel_sqlite *s, const char *url, const semel_inbox_options *inbox,
                       size_t batch)
{
    semel_error err;
    semel_store *store;
    must(semel_store_open(&store, url, NULL, &err), &err);
    semel_sqlite_open_on(s, store, inbox, batch);
}

void semel_sqlite_open_on(semel_sqlite *s, semel_store *store, const semel_inbox_options *inbox,
                          size_t batch)
{
    semel_error err;
    *s = (semel_sqlite){.store = store, .batch = batch, .expected = SEMEL_PROCESSED};
    s->outcomes = must_alloc(batch * sizeof *s->outcomes);
    must(semel_store_migrate(s->store, &err), &err);
    must(semel_inbox_open(&s->inbox, s->store, "bench", inbox, &err), &err);
    make_effect_table(s);
}

void semel_sqlite_close(semel_sqlite *s)
{
    sqlite3_finalize(s->effect);
    semel_inbox_close(s->inbox);
    semel_store_close(s->store);
    free(s->outcomes);
}

semel_status semel_sqlite_handler(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    semel_sqlite *s = context;
    (void)err;
    if (!s->effect)
        raw_prepare(&s->effect, semel_unit_sqlite(unit), EFFECT_INSERT);
    effect_insert(s->effect, message->body);
    return SEMEL_OK;
}

static semel_status do_nothing(semel_unit *unit, const semel_message *message, void *context,
                               semel_error *err)
{
    (void)unit;
    (void)message;
    (void)context;
    (void)err;
    return SEMEL_OK;
}

static void semel_sqlite_expect(const semel_sqlite *s, semel_outcome outcome)
{
    if (outcome != s->expected)
        die("an outcome is \"%s\" and should be \"%s\"", semel_outcome_name(outcome),
            semel_outcome_name(s->expected));
}

static void semel_sqlite_receive_one(semel_sqlite *s, const semel_message *message,
                                     semel_handler *handler)
{
    semel_error err;
    semel_outcome outcome;
    double start = s->latencies_s ? now_s() : 0;
    must(semel_inbox_receive(&outcome, s->inbox, message, handler, s, &err), &err);
    if (s->latencies_s)
        s->latencies_s[s->latency_count++] = now_s() - start;
    semel_sqlite_expect(s, outcome);
}

static void semel_sqlite_receive_batch(semel_sqlite *s, const semel_message *const *messages,
                                       size_t count, semel_handler *handler)
{
    semel_error err;
    must(semel_inbox_receive_batch(s->outcomes, s->inbox, messages, count, handler, s, &err), &err);
    for (size_t i = 0; i < count; i++)
        semel_sqlite_expect(s, s->outcomes[i]);
}

static void semel_sqlite_receive_with(semel_sqlite *s, const message_set *set,
                                      semel_handler *handler)
{
    for (size_t done = 0; done < set->count;) {
        size_t count = set->count - done < s->batch ? set->count - done : s->batch;
        if (s->batch == 1)
            semel_sqlite_receive_one(s, set->pointers[done], handler);
        else
            semel_sqlite_receive_batch(s, set->pointers + done, count, handler);
        done += count;
    }
}

void semel_sqlite_receive(void *context, const message_set *set)
{
    semel_sqlite_receive_with(context, set, semel_sqlite_handler);
}

void semel_sqlite_receive_idly(void *context, const message_set *set)
{
    semel_sqlite_receive_with(context, set, do_nothing);
}
