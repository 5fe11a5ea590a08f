/* The same work through semel: its handler inserts the same row with a statement that it keeps. */
#include "bench.h"

#include <semel/sqlite.h>
#include <stdlib.h>

static void make_effect_table(subject *s)
{
    semel_error err;
    semel_unit *unit;
    must(semel_unit_begin(&unit, s->store, &err), &err);
    sqlite3 *db = semel_unit_sqlite(unit);
    if (db)
        must_sqlite(sqlite3_exec(db, EFFECT_TABLE, NULL, NULL, NULL), db);
    must(semel_unit_commit(unit, &err), &err);
}

void subject_open(subject *s, const char *url, const semel_inbox_options *inbox, size_t batch)
{
    semel_error err;
    *s = (subject){.batch = batch, .expected = SEMEL_PROCESSED};
    s->outcomes = must_alloc(batch * sizeof *s->outcomes);
    must(semel_store_open(&s->store, url, NULL, &err), &err);
    must(semel_store_migrate(s->store, &err), &err);
    must(semel_inbox_open(&s->inbox, s->store, "bench", inbox, &err), &err);
    make_effect_table(s);
}

void subject_close(subject *s)
{
    sqlite3_finalize(s->effect);
    semel_inbox_close(s->inbox);
    semel_store_close(s->store);
    free(s->outcomes);
}

semel_status subject_handler(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err)
{
    subject *s = context;
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

static void expect(const subject *s, semel_outcome outcome)
{
    if (outcome != s->expected)
        die("an outcome is \"%s\" and should be \"%s\"", semel_outcome_name(outcome),
            semel_outcome_name(s->expected));
}

static void receive_one(subject *s, const semel_message *message, semel_handler *handler)
{
    semel_error err;
    semel_outcome outcome;
    double start = s->latencies_s ? now_s() : 0;
    must(semel_inbox_receive(&outcome, s->inbox, message, handler, s, &err), &err);
    if (s->latencies_s)
        s->latencies_s[s->latency_count++] = now_s() - start;
    expect(s, outcome);
}

static void receive_batch(subject *s, const semel_message *const *messages, size_t count,
                          semel_handler *handler)
{
    semel_error err;
    must(semel_inbox_receive_batch(s->outcomes, s->inbox, messages, count, handler, s, &err), &err);
    for (size_t i = 0; i < count; i++)
        expect(s, s->outcomes[i]);
}

static void receive_with(subject *s, const message_set *set, semel_handler *handler)
{
    for (size_t done = 0; done < set->count;) {
        size_t count = set->count - done < s->batch ? set->count - done : s->batch;
        if (s->batch == 1)
            receive_one(s, set->pointers[done], handler);
        else
            receive_batch(s, set->pointers + done, count, handler);
        done += count;
    }
}

void subject_receive(void *context, const message_set *set)
{
    receive_with(context, set, subject_handler);
}

void subject_receive_idly(void *context, const message_set *set)
{
    receive_with(context, set, do_nothing);
}
