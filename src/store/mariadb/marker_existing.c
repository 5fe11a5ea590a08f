/* Markers that exist: reads their state, and takes over those that are free.
 *
 * The calling unit has the rows locked, by the INSERT that found them; or it knows that another
 * unit has them locked, and reads without waiting. */
#include "base/wait.h"
#include "store/mariadb/mariadb.h"

#include <mysqld_error.h>
#include <string.h>

static const maria_bound patient = {PATIENT, 0};

static sql_marker_row read_row(const maria_row *r)
{
    return (sql_marker_row){.found = 1,
                            .state = (int)maria_column_int(r, 1),
                            .fingerprint = (uint64_t)maria_column_int(r, 2),
                            .attempts = (uint32_t)maria_column_uint(r, 3),
                            .live = (int)maria_column_int(r, 4),
                            .lease_until_ms = maria_column_int(r, 5),
                            .first_ms = maria_column_int(r, 6),
                            .at_ms = maria_column_int(r, 7)};
}

/* A fingerprint that happens to be one of our own two numbers is looked up. */
int maria_report_done(semel_mark *mark, uint64_t answer)
{
    sql_marker_row found = {.found = 1, .state = STATE_DONE, .fingerprint = answer};
    if (answer == MARK_THERE || (answer == MARK_DONE && mark->fingerprint))
        return 0;
    if (answer == MARK_DONE)
        found.fingerprint = 0;
    sql_marker_report(mark, &found);
    return 1;
}

int maria_waited(const maria_failure *failed)
{
    enum { ER_STATEMENT_TOOK_TOO_LONG = 1969 };
    return failed->number == ER_LOCK_WAIT_TIMEOUT || failed->number == ER_STATEMENT_TOOK_TOO_LONG;
}

/* --- one -------------------------------------------------------------------------------------- */

static semel_status keep_row(const maria_row *r, void *context, semel_error *err)
{
    (void)err;
    *(sql_marker_row *)context = read_row(r);
    return SEMEL_OK;
}

void maria_enqueue_look(sql_marker_row *out, mariadb_unit *unit, maria_statement which,
                        const semel_mark *mark)
{
    *out = (sql_marker_row){0};
    maria_query q = maria_unit_enqueue(unit, which, maria_patience(unit->store));
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_step *s = maria_end(&q);
    s->call = keep_row;
    s->context = out;
}

semel_status maria_look(sql_marker_row *out, mariadb_unit *unit, maria_statement which,
                        const semel_mark *mark, semel_error *err)
{
    maria_enqueue_look(out, unit, which, mark);
    return maria_unit_flush(unit, NULL, "reading a marker", err);
}

/* Without a lock, so that nothing is waited for. */
semel_status mariadb_look(void *unit_state, semel_mark *mark, semel_error *err)
{
    sql_marker_row found = {0};
    semel_status status = maria_look(&found, unit_state, ST_LOOK, mark, err);
    if (!status)
        sql_marker_report_look(mark, &found);
    return status;
}

/* --- looking first ---------------------------------------------------------------------------- */

/* Copies often come in a row: a broker delivers all of yesterday again, a file is read twice.
 * After a few copies the next key is looked up before it is inserted. A look locks nothing, and
 * needs no transaction and so no end of one. The first key that is new ends the looking.
 *
 * What it gains (rates with it by rates without it, 4 connections; `semel-bench --only
 * server-mix`, with and without the call of maria_look_first): copies only 1.4 in transaction
 * mode and 2.1 queued, runs of 50 copies 1.06 and 1.2. Where half of the messages are copies in
 * random order, it costs: 0.96 in transaction mode; queued 1.01. */
enum { COPIES_BEFORE_LOOKING = 4 };

void maria_note_copy(mariadb_store *store, int is_copy)
{
    unsigned copies = atomic_load_explicit(&store->copies, memory_order_relaxed);
    if (is_copy ? copies < COPIES_BEFORE_LOOKING : copies != 0)
        atomic_store_explicit(&store->copies, is_copy ? copies + 1 : 0, memory_order_relaxed);
}

static int is_final(const sql_marker_row *found)
{
    return found->found && found->state != STATE_OPEN;
}

semel_status maria_look_first(mariadb_unit *unit, semel_mark *mark, int *known, semel_error *err)
{
    sql_marker_row found = {0};
    maria_connection *on = unit->on;
    *known = 0;
    if (unit->begun || unit->joined ||
        atomic_load_explicit(&unit->store->copies, memory_order_relaxed) < COPIES_BEFORE_LOOKING)
        return SEMEL_OK;
    (void)maria_enqueue_mode(on, MODE_LOOKING);
    maria_query q = maria_enqueue(on, ST_LOOK);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_step *s = maria_end(&q);
    s->call = keep_row;
    s->context = &found;
    semel_status status = maria_flush(on, NULL, "looking for a marker", err);
    if (status)
        on->mode = MODE_UNKNOWN;
    on->fresh = !status; /* nothing has happened yet */
    *known = is_final(&found);
    maria_note_copy(unit->store, *known);
    if (*known)
        sql_marker_report(mark, &found);
    return status;
}

/* --- many ------------------------------------------------------------------------------------- */

/* Some marks, in the order of their keys, and the rows that are there for them. */
typedef struct lookup {
    semel_mark *const *marks;
    size_t count;
    size_t next; /* rows come in the same order, as a rule */
    sql_marker_row *rows;
} lookup;

static int is_same(semel_bytes a, semel_bytes b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static semel_status place_row(const maria_row *r, void *context, semel_error *err)
{
    lookup *l = context;
    semel_bytes key = maria_column_bytes(r, 0);
    (void)err;
    for (size_t tries = 0; tries < l->count; tries++) {
        size_t at = (l->next + tries) % l->count;
        if (!is_same(l->marks[at]->key, key))
            continue;
        l->rows[at] = read_row(r);
        l->next = at + 1;
        return SEMEL_OK;
    }
    return SEMEL_OK;
}

static void enqueue_lookup(mariadb_unit *unit, maria_statement which, maria_bound limit, lookup *l,
                           size_t from, size_t to)
{
    maria_query q = maria_unit_enqueue(unit, which, limit);
    maria_int(&q, l->marks[from]->inbox);
    for (size_t i = from; i < to; i++) {
        if (i > from)
            maria_more(&q, "?");
        maria_bytes(&q, l->marks[i]->key);
    }
    maria_step *s = maria_end(&q);
    s->call = place_row;
    s->context = l;
}

static semel_status look_up(lookup *l, mariadb_unit *unit, maria_statement which, maria_bound limit,
                            maria_failure *failed, semel_error *err)
{
    l->rows = arena_alloc(&unit->on->scratch, l->count * sizeof *l->rows);
    if (!l->rows)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for markers");
    memset(l->rows, 0, l->count * sizeof *l->rows);
    for (size_t from = 0; from < l->count; from += LIST_MAX)
        enqueue_lookup(unit, which, limit, l, from,
                       from + LIST_MAX < l->count ? from + LIST_MAX : l->count);
    return maria_unit_flush(unit, failed, "reading markers", err);
}

void maria_mark_details(maria_query *q, const semel_mark *mark)
{
    maria_int_or_null(q, (int64_t)mark->fingerprint);
    maria_int_or_null(q, mark->type);
    maria_int_or_null(q, mark->source);
    maria_int_or_null(q, mark->received_ms);
}

static void enqueue_take_over(mariadb_unit *unit, const semel_mark *mark, maria_reply *answer)
{
    maria_query q = maria_unit_enqueue(unit, ST_TAKE_OVER, patient);
    maria_mark_details(&q, mark);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_end(&q)->answer = answer;
}

/* Free ones become ours. By the time of the statement the last of a lease may have passed, so each
 * answer counts. */
static semel_status take_over(const lookup *l, mariadb_unit *unit, semel_error *err)
{
    maria_reply *answers = arena_alloc(&unit->on->scratch, l->count * sizeof *answers);
    if (!answers)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for markers");
    memset(answers, 0, l->count * sizeof *answers);
    for (size_t i = 0; i < l->count; i++)
        if (sql_marker_is_free(&l->rows[i]))
            enqueue_take_over(unit, l->marks[i], &answers[i]);
    semel_status status = maria_unit_flush(unit, NULL, "taking over markers", err);
    for (size_t i = 0; !status && i < l->count; i++) {
        if (!sql_marker_is_free(&l->rows[i]))
            continue;
        if (answers[i].changed != 1)
            return semel_fail(err, SEMEL_ESTORE, "a marker has changed under our lock");
        l->marks[i]->state = SEMEL_MARK_TAKEN;
        l->marks[i]->attempts = l->rows[i].attempts;
        unit->wrote = unit->marked = 1;
    }
    return status;
}

semel_status maria_resolve_known(mariadb_unit *unit, semel_mark *const known[], size_t count,
                                 semel_error *err)
{
    lookup l = {.marks = known, .count = count};
    int any_free = 0;
    semel_status status = count ? look_up(&l, unit, ST_LOOK_LOCKED, patient, NULL, err) : SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++) {
        if (!l.rows[i].found)
            return semel_fail(err, SEMEL_ESTORE,
                              "a marker is there and is not there: run CHECK TABLE on semel's "
                              "marker table");
        any_free |= sql_marker_is_free(&l.rows[i]);
        if (!sql_marker_is_free(&l.rows[i]))
            sql_marker_report(known[i], &l.rows[i]);
    }
    return status || !any_free ? status : take_over(&l, unit, err);
}

/* A serializable transaction cannot look at a row that is locked. It looks again, for the lock of
 * another copy that just found out the same is soon gone; then each row for itself. */
static semel_status look_at_held(lookup *l, mariadb_unit *unit, semel_error *err)
{
    enum { TRIES = 3, PAUSE_US = 1000 };
    static const maria_bound impatient = {IMPATIENT, 0};
    maria_failure failed = {0};
    for (int tries = 0; tries < TRIES; tries++) {
        semel_status status = look_up(l, unit, ST_LOOK, impatient, &failed, err);
        if (!status || !maria_waited(&failed))
            return status;
        wait_nap_us(PAUSE_US);
    }
    for (size_t i = 0; l->count > 1 && i < l->count; i++) {
        lookup one = {.marks = l->marks + i, .count = 1};
        semel_status status = look_up(&one, unit, ST_LOOK, impatient, &failed, err);
        if (status && !maria_waited(&failed))
            return status;
        l->rows[i] = status ? (sql_marker_row){0} : one.rows[0];
    }
    return SEMEL_OK;
}

/* EBUSY if another session has locked the table itself: then the unit has not waited for a copy. */
static semel_status check_table(mariadb_unit *unit, semel_error *err)
{
    maria_failure failed;
    maria_query q = maria_unit_enqueue(unit, ST_TABLE_FREE, (maria_bound){UNLOCKED, 0});
    (void)maria_end(&q);
    semel_status status = maria_unit_flush(unit, &failed, "looking for locks", err);
    if (!status || !maria_waited(&failed))
        return status;
    return semel_fail(
        err, SEMEL_EBUSY,
        "mariadb: another session has locked the table %smarker (LOCK TABLES, ALTER TABLE)",
        unit->store->at.prefix);
}

/* Another unit has the row locked. If its committed state is done, dead or a live claim, that is
 * the answer: the unit with the lock may be just another copy that has found the same. */
semel_status maria_resolve_held(mariadb_unit *unit, semel_mark *const held[], size_t count,
                                semel_error *err)
{
    lookup l = {.marks = held, .count = count};
    semel_status status = count ? check_table(unit, err) : SEMEL_OK;
    if (!status && count)
        status = look_at_held(&l, unit, err);
    for (size_t i = 0; !status && i < count; i++) {
        held[i]->state = SEMEL_MARK_HELD;
        held[i]->held_until_ms = 0;
        if (l.rows[i].found && !sql_marker_is_free(&l.rows[i]))
            sql_marker_report(held[i], &l.rows[i]);
    }
    return status;
}
