/* Taking keys in transaction mode.
 *
 * A single key is inserted together with BEGIN, in one round trip; after a duplicate the row that
 * may be there is asked for in the same one. A batch inserts all keys by one statement, in their
 * order, and reads those that were there by a second one. The server makes a second copy wait for
 * the transaction of the first: if that commits, the row may be newer than our statement and is
 * read again; if it rolls back, the row is ours.
 *
 * The wait has an end: the server gives up by itself, by the lock_timeout that the transaction was
 * given (for a batch, whose statement may wait for several keys, by a statement_timeout, too).
 * Nothing is cancelled from outside: that might hit the commit. To give up undoes what the
 * transaction did since the savepoint or, if the marker was the first thing in it, all of it; so a
 * batch then goes on key by key. If the wait was not for a key but for the table, which another
 * session has locked, nothing is known of any copy: the store is busy. */
#include "store/postgres/postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The columns of LOOK in statement.c, from `column` on. */
static sql_marker_row read_row(const PGresult *answer, int row, int column)
{
    return (sql_marker_row){.found = 1,
                            .state = (int)pg_answer_int(answer, row, column),
                            .fingerprint = (uint64_t)pg_answer_int(answer, row, column + 1),
                            .attempts = (uint32_t)pg_answer_int(answer, row, column + 2),
                            .live = (int)pg_answer_int(answer, row, column + 3),
                            .lease_until_ms = pg_answer_int(answer, row, column + 4),
                            .first_ms = pg_answer_int(answer, row, column + 5),
                            .at_ms = pg_answer_int(answer, row, column + 6)};
}

semel_status pg_marker_look(sql_marker_row *out, postgres_unit *unit, const semel_mark *mark,
                            semel_error *err)
{
    PGresult *answer = NULL;
    pg_query q = pg_unit_query(unit, ST_MARK_LOOK);
    pg_int(&q, mark->inbox);
    pg_bytes(&q, mark->key);
    semel_status status = pg_execute(&answer, &q, "reading a marker", err);
    if (status)
        return status;
    *out = PQntuples(answer) ? read_row(answer, 0, 0) : (sql_marker_row){0};
    PQclear(answer);
    return SEMEL_OK;
}

semel_status postgres_look(void *unit_state, semel_mark *mark, semel_error *err)
{
    sql_marker_row row;
    semel_status status = pg_marker_look(&row, unit_state, mark, err);
    if (!status)
        sql_marker_report_look(mark, &row);
    return status;
}

static void report_taken(semel_mark *mark, uint32_t attempts)
{
    mark->state = SEMEL_MARK_TAKEN;
    mark->attempts = attempts;
}

/* --- patience --------------------------------------------------------------------------------- */

/* Around the statement that may wait: a savepoint if something was done before, and the patience
 * that it is to have. */
static int before_waiting(postgres_unit *unit, uint32_t wait_ms)
{
    int nested = unit->begun;
    pg_unit_begin(unit);
    if (nested)
        pg_enqueue_plain(unit->on, ST_MARK_SAVEPOINT);
    pg_unit_patience(unit, wait_ms ? wait_ms : 1);
    return nested;
}

static void after_waiting(postgres_unit *unit, int nested)
{
    pg_unit_patience(unit, unit->on->limits.busy_ms);
    if (nested)
        pg_enqueue_plain(unit->on, ST_MARK_RELEASE);
}

static int waited_too_long(const pg_failure *failed)
{
    return strcmp(failed->sqlstate, "55P03") == 0 || strcmp(failed->sqlstate, "57014") == 0;
}

/* Back to where the transaction was: usable. */
static semel_status recover(postgres_unit *unit, int nested, semel_error *err)
{
    if (!nested) {
        pg_unit_begin_anew(unit);
        return SEMEL_OK;
    }
    unit->patience_ms = 0; /* it was said behind the savepoint */
    pg_enqueue_plain(unit->on, ST_MARK_ROLLBACK_TO);
    pg_enqueue_plain(unit->on, ST_MARK_RELEASE);
    return pg_flush(unit->on, 0, NULL, "undoing a marker", err);
}

semel_status pg_marker_check_table(postgres_unit *unit, semel_error *err)
{
    PGresult *answer = NULL;
    pg_query q = pg_unit_query(unit, ST_MARK_TABLE_LOCKED);
    semel_status status = pg_execute(&answer, &q, "looking for locks", err);
    int locked = !status && pg_answer_int(answer, 0, 0);
    PQclear(answer);
    if (!locked)
        return status;
    return semel_fail(err, SEMEL_EBUSY,
                      "postgres: another session has locked the table semel_marker (see pg_locks)");
}

/* Finds what the unit has waited for: another copy, unless the whole table is locked. */
static semel_status give_up_waiting(postgres_unit *unit, int nested, semel_error *err)
{
    semel_status status = recover(unit, nested, err);
    return status ? status : pg_marker_check_table(unit, err);
}

void pg_mark_details(pg_query *q, const semel_mark *mark)
{
    pg_int_or_null(q, mark->type);
    pg_int_or_null(q, mark->source);
    pg_int_or_null(q, mark->received_ms);
}

/* --- one -------------------------------------------------------------------------------------- */

static void enqueue_key(postgres_unit *unit, pg_statement which, pg_step_kind kind,
                        const semel_mark *mark, PGresult **answer)
{
    pg_query q = pg_start(unit->on, which);
    q.kind = kind;
    q.answer = answer;
    pg_int(&q, mark->inbox);
    pg_bytes(&q, mark->key);
    if (which != ST_MARK_LOOK) {
        pg_int_or_null(&q, (int64_t)mark->fingerprint);
        pg_mark_details(&q, mark);
    }
    pg_enqueue(&q);
}

static void report_held(semel_mark *mark)
{
    mark->state = SEMEL_MARK_HELD;
    mark->held_until_ms = 0;
}

/* A free row becomes this unit's, unless another unit was faster: then *taken is 0. Another unit
 * may be taking it right now. */
static semel_status take_over(int *taken, postgres_unit *unit, semel_mark *mark, uint32_t wait_ms,
                              semel_error *err)
{
    pg_failure failed;
    PGresult *answer = NULL;
    int nested = before_waiting(unit, wait_ms);
    enqueue_key(unit, ST_MARK_TAKE_OVER, STEP_PLAIN, mark, &answer);
    after_waiting(unit, nested);
    semel_status status = pg_flush(unit->on, wait_ms, &failed, "taking over a marker", err);
    *taken = 1;
    if (status && waited_too_long(&failed)) {
        report_held(mark);
        status = give_up_waiting(unit, nested, err);
    } else if (!status && PQntuples(answer) == 1) {
        report_taken(mark, (uint32_t)pg_answer_int(answer, 0, 0));
    } else {
        *taken = 0;
    }
    PQclear(answer);
    return status;
}

/* The row that the insert conflicted with; *known is 0 if it is gone again, or if it was free and
 * another unit was faster. */
static semel_status note_row(int *known, postgres_unit *unit, semel_mark *mark,
                             const PGresult *answer, uint32_t wait_ms, semel_error *err)
{
    *known = PQntuples(answer) > 0;
    if (!*known)
        return SEMEL_OK;
    sql_marker_row found = read_row(answer, 0, 0);
    if (sql_marker_is_free(&found))
        return take_over(known, unit, mark, wait_ms, err);
    sql_marker_report(mark, &found);
    return SEMEL_OK;
}

static semel_status note_known(int *known, postgres_unit *unit, semel_mark *mark, PGresult *row,
                               uint32_t wait_ms, semel_error *err)
{
    semel_status status = SEMEL_OK;
    unit->on->expects_copies = 1;
    if (!row) {
        enqueue_key(unit, ST_MARK_LOOK, STEP_PLAIN, mark, &row);
        status = pg_flush(unit->on, 0, NULL, "reading a marker", err);
    }
    if (!status)
        status = note_row(known, unit, mark, row, wait_ms, err);
    PQclear(row);
    return status;
}

/* Where copies are to be expected, the row is asked for in the same round trip. */
static semel_status mark_once(int *known, postgres_unit *unit, semel_mark *mark, uint32_t wait_ms,
                              semel_error *err)
{
    pg_failure failed;
    PGresult *inserted = NULL, *row = NULL;
    int nested = before_waiting(unit, wait_ms);
    enqueue_key(unit, ST_MARK, STEP_PLAIN, mark, &inserted);
    after_waiting(unit, nested);
    if (unit->on->expects_copies)
        enqueue_key(unit, ST_MARK_LOOK, STEP_PLAIN, mark, &row);
    semel_status status = pg_flush(unit->on, wait_ms, &failed, "inserting a marker", err);
    if (status && waited_too_long(&failed)) {
        report_held(mark);
        *known = 1;
        status = give_up_waiting(unit, nested, err);
    } else if (!status && PQntuples(inserted) == 1) {
        pg_unit_note_began(unit, inserted);
        unit->on->expects_copies = 0;
        report_taken(mark, 0);
        *known = 1;
    } else if (!status) {
        status = note_known(known, unit, mark, row, wait_ms, err);
        unit->only_looked = !nested && mark->state != SEMEL_MARK_TAKEN;
        row = NULL;
    }
    PQclear(inserted);
    PQclear(row);
    return status;
}

/* Again while the row in our way comes and goes. */
static semel_status mark_one(postgres_unit *unit, semel_mark *mark, uint32_t wait_ms,
                             semel_error *err)
{
    enum { TRIES = 10 };
    int known = 0;
    for (int tries = 0; tries < TRIES; tries++) {
        semel_status status = mark_once(&known, unit, mark, wait_ms, err);
        if (status || known)
            return status;
    }
    return semel_fail(err, SEMEL_ECONFLICT, "a marker changes faster than it can be read");
}

/* --- many ------------------------------------------------------------------------------------- */

static int compare_key(const void *key, const void *element)
{
    const semel_bytes *a = key;
    const semel_mark *mark = element;
    size_t shorter = a->len < mark->key.len ? a->len : mark->key.len;
    int order = memcmp(a->data, mark->key.data, shorter);
    return order ? order : (a->len > mark->key.len) - (a->len < mark->key.len);
}

static semel_mark *find_mark(semel_mark marks[], size_t count, semel_bytes key)
{
    return bsearch(&key, marks, count, sizeof *marks, compare_key);
}

/* The keys of those that are not decided yet, or of all. */
static int bind_keys(pg_query *q, mem_arena *arena, const semel_mark marks[], size_t count, int all)
{
    size_t size = 0, wanted = 0;
    for (size_t i = 0; i < count; i++)
        if (all || !marks[i].state) {
            size += marks[i].key.len;
            wanted++;
        }
    pg_array keys = pg_array_start(arena, ARRAY_BYTEA, wanted, size);
    for (size_t i = 0; i < count; i++)
        if (all || !marks[i].state)
            pg_array_add(&keys, marks[i].key.data, marks[i].key.len);
    pg_array_bind(q, &keys);
    return !keys.failed;
}

typedef int64_t mark_column(const semel_mark *mark);

static int64_t fingerprint_of(const semel_mark *mark)
{
    return (int64_t)mark->fingerprint;
}
static int64_t type_of(const semel_mark *mark)
{
    return mark->type;
}
static int64_t source_of(const semel_mark *mark)
{
    return mark->source;
}

static int bind_column(pg_query *q, mem_arena *arena, const semel_mark marks[], size_t count,
                       mark_column *column)
{
    pg_array numbers = pg_array_start(arena, ARRAY_INT8, count, count * 8);
    for (size_t i = 0; i < count; i++)
        pg_array_add_int(&numbers, column(&marks[i]));
    pg_array_bind(q, &numbers);
    return !numbers.failed;
}

/* All or none of a batch have details. Without any, the arrays are empty, which unnest() takes for
 * NULLs. */
static int bind_batch_details(pg_query *q, mem_arena *arena, const semel_mark marks[], size_t count)
{
    size_t kept = marks[0].received_ms ? count : 0;
    int bound = bind_column(q, arena, marks, kept, type_of) &&
                bind_column(q, arena, marks, kept, source_of);
    pg_int_or_null(q, marks[0].received_ms);
    return bound;
}

static semel_status enqueue_marks(postgres_unit *unit, const semel_mark marks[], size_t count,
                                  PGresult **answer, semel_error *err)
{
    pg_query q = pg_start(unit->on, ST_MARK_MANY);
    q.answer = answer;
    pg_int(&q, marks[0].inbox);
    if (!bind_keys(&q, &unit->on->scratch, marks, count, 1) ||
        !bind_column(&q, &unit->on->scratch, marks, count, fingerprint_of) ||
        !bind_batch_details(&q, &unit->on->scratch, marks, count))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu markers", count);
    pg_enqueue(&q);
    return SEMEL_OK;
}

/* How long the next statement may take as a whole. */
static void limit_statement(postgres_unit *unit, const char *timeout)
{
    pg_query q = pg_start(unit->on, ST_PATIENCE_WHOLE);
    pg_text(&q, timeout);
    pg_enqueue(&q);
}

/* *held is 1 if another unit made this one wait for too long: nothing is decided then. */
static semel_status insert_all(int *held, postgres_unit *unit, semel_mark marks[], size_t count,
                               uint32_t wait_ms, semel_error *err)
{
    pg_failure failed;
    char whole[16];
    PGresult *answer = NULL, *began = NULL;
    int nested = before_waiting(unit, wait_ms);
    (void)snprintf(whole, sizeof whole, "%u", wait_ms ? wait_ms : 1);
    limit_statement(unit, wait_ms ? whole : unit->store->timeout);
    semel_status status = enqueue_marks(unit, marks, count, &answer, err);
    if (status)
        return status;
    pg_unit_enqueue_began(unit, &began);
    limit_statement(unit, unit->store->timeout);
    after_waiting(unit, nested);
    status = pg_flush(unit->on, wait_ms, &failed, "inserting markers", err);
    if (began)
        pg_unit_note_began(unit, began);
    PQclear(began);
    *held = status && waited_too_long(&failed);
    if (*held)
        status = give_up_waiting(unit, nested, err);
    int rows = answer && !status && !*held ? PQntuples(answer) : 0;
    for (int row = 0; row < rows; row++) {
        semel_mark *mark = find_mark(marks, count, pg_answer_bytes(answer, row, 0));
        if (mark)
            report_taken(mark, 0);
    }
    PQclear(answer);
    return status;
}

static size_t count_undecided(const semel_mark marks[], size_t count)
{
    size_t undecided = 0;
    for (size_t i = 0; i < count; i++)
        undecided += !marks[i].state;
    return undecided;
}

/* Those that were there: duplicates, as a rule. What is free or has just gone is left undecided. */
static semel_status look_up_rest(postgres_unit *unit, semel_mark marks[], size_t count,
                                 semel_error *err)
{
    PGresult *answer = NULL;
    pg_query q = pg_unit_query(unit, ST_MARK_LOOK_MANY);
    pg_int(&q, marks[0].inbox);
    if (!bind_keys(&q, &unit->on->scratch, marks, count, 0))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu markers", count);
    semel_status status = pg_execute(&answer, &q, "reading markers", err);
    int rows = status ? 0 : PQntuples(answer);
    for (int row = 0; row < rows; row++) {
        semel_mark *mark = find_mark(marks, count, pg_answer_bytes(answer, row, 0));
        sql_marker_row found = read_row(answer, row, 1);
        if (mark && !sql_marker_is_free(&found))
            sql_marker_report(mark, &found);
    }
    PQclear(answer);
    return status;
}

static semel_status mark_undecided(postgres_unit *unit, semel_mark marks[], size_t count,
                                   uint32_t wait_ms, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++)
        if (!marks[i].state)
            status = mark_one(unit, &marks[i], wait_ms, err);
    return status;
}

static semel_status mark_many(postgres_unit *unit, semel_mark marks[], size_t count,
                              uint32_t wait_ms, semel_error *err)
{
    int held = 0;
    for (size_t i = 0; i < count; i++)
        marks[i].state = 0;
    semel_status status = insert_all(&held, unit, marks, count, wait_ms, err);
    if (status)
        return status;
    if (held)
        return mark_undecided(unit, marks, count, 0, err);
    if (count_undecided(marks, count))
        status = look_up_rest(unit, marks, count, err);
    return status ? status : mark_undecided(unit, marks, count, wait_ms, err);
}

semel_status postgres_mark(void *unit_state, semel_mark marks[], size_t count, uint32_t wait_ms,
                           semel_error *err)
{
    postgres_unit *unit = unit_state;
    unit->marked = 1;
    return count == 1 ? mark_one(unit, marks, wait_ms, err)
                      : mark_many(unit, marks, count, wait_ms, err);
}

semel_status postgres_unmark(void *unit_state, const semel_mark marks[], size_t count,
                             semel_error *err)
{
    postgres_unit *unit = unit_state;
    size_t removed = 0;
    pg_query q = pg_unit_query(unit, ST_MARK_DELETE_MANY);
    pg_int(&q, marks[0].inbox);
    if (!bind_keys(&q, &unit->on->scratch, marks, count, 1))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu markers", count);
    semel_status status = pg_execute_change(&q, &removed, "removing markers", err);
    if (status || removed == count)
        return status;
    return semel_fail(err, SEMEL_ESTORE, "postgres: of %zu markers of this unit %zu were there",
                      count, removed);
}

/* --- assumed to be new ------------------------------------------------------------------------ */

/* The insert, and what follows it up to the sync, is one transaction without a BEGIN; unless an
 * isolation was asked for, which BEGIN must say. */
static void enqueue_assumption(postgres_unit *unit, semel_mark *mark, uint32_t wait_ms)
{
    unit->assumed = mark;
    unit->assumed_wait_ms = wait_ms;
    unit->implicit = !unit->store->at.isolation;
    unit->begun |= unit->implicit;
    pg_unit_begin(unit);
    pg_unit_patience(unit, wait_ms ? wait_ms : 1);
    enqueue_key(unit, ST_MARK_ASSUME, STEP_ASSUME, mark, NULL);
    if (!wait_ms)
        pg_unit_patience(unit, unit->on->limits.busy_ms);
}

/* After a copy the next one is likely to be a copy, too (what is redelivered comes together), and a
 * violation is an error, which the server writes to its log. So then the key is marked first, in a
 * round trip of its own. */
semel_status postgres_assume(void *unit_state, semel_mark *mark, uint32_t wait_ms, semel_error *err)
{
    postgres_unit *unit = unit_state;
    unit->marked = 1;
    if (!unit->on->expects_copies) {
        enqueue_assumption(unit, mark, wait_ms);
        return SEMEL_OK;
    }
    semel_status status = mark_one(unit, mark, wait_ms, err);
    if (status || mark->state == SEMEL_MARK_TAKEN)
        return status;
    return semel_fail(err, SEMEL_EREJECTED, "the key is not new");
}

/* What the row is that was in our way: a free one, or one that is gone again, is for the ordinary
 * way. */
static semel_status look_at_assumed(postgres_unit *unit, semel_error *err)
{
    PGresult *row = NULL;
    semel_mark *mark = unit->assumed;
    unit->on->expects_copies = 1;
    if (!unit->implicit)
        pg_enqueue_plain(unit->on, ST_ROLLBACK);
    enqueue_key(unit, ST_MARK_LOOK, STEP_PLAIN, mark, &row);
    semel_status status = pg_flush(unit->on, 0, NULL, "reading a marker", err);
    if (!status && PQntuples(row) > 0) {
        sql_marker_row found = read_row(row, 0, 0);
        if (!sql_marker_is_free(&found))
            sql_marker_report(mark, &found);
    }
    PQclear(row);
    return status;
}

/* The transaction has failed: the look has one of its own. */
static semel_status check_table_after_all(postgres_unit *unit, semel_error *err)
{
    if (!unit->implicit)
        pg_enqueue_plain(unit->on, ST_ROLLBACK);
    unit->implicit = 0;
    unit->begun = 0;
    unit->patience_ms = unit->on->session_ms;
    return pg_marker_check_table(unit, err);
}

/* The insert failed, or was stopped. */
semel_status pg_assumed_answer(postgres_unit *unit, const pg_failure *failed, semel_error *err)
{
    semel_status status = SEMEL_OK;
    unit->assumed->state = 0;
    unit->assumed->held_until_ms = 0;
    if (waited_too_long(failed)) {
        unit->assumed->state = SEMEL_MARK_HELD;
        status = check_table_after_all(unit, err);
    } else if (strcmp(failed->sqlstate, "23505") == 0)
        status = look_at_assumed(unit, err);
    else if (failed->kind != STEP_STOP)
        status = semel_fail(err, pg_sqlstate_status(failed->sqlstate),
                            "postgres, inserting a marker: it failed (%s)", failed->sqlstate);
    return status ? status : semel_fail(err, SEMEL_EREJECTED, "the key is not new");
}
