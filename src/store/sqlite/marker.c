/* Markers. The state machine is the one in <semel/sys/store.h>; each arrow is a statement whose
 * effect is checked. Everything here happens inside BEGIN IMMEDIATE, so what was read cannot change
 * before it is written; the conditions in the UPDATEs say again what is expected, and zero changed
 * rows is an answer. */
#include "store/sqlite/sqlite.h"

semel_status sqlite_marker_read(sql_marker_row *out, sqlite_unit *unit, const semel_mark *mark,
                                semel_error *err)
{
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_READ);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    int got = sqlite_query_row(&q, "reading a marker", err);
    *out = (sql_marker_row){.found = got > 0};
    if (got < 0)
        return q.status;
    if (!got)
        return SEMEL_OK;
    out->state = (int)sqlite_row_int(&q, 0);
    out->fingerprint = (uint64_t)sqlite_row_int(&q, 1);
    out->attempts = (uint32_t)sqlite_row_int(&q, 2);
    out->lease_until_ms = sqlite_row_int(&q, 4);
    out->first_ms = sqlite_row_int(&q, 5);
    out->at_ms = sqlite_row_int(&q, 6);
    out->live = !sqlite_row_is_null(&q, 3) && out->lease_until_ms > sqlite_clock_now(unit->store);
    sqlite_query_end(&q);
    return SEMEL_OK;
}

semel_status sqlite_marker_change(sqlite_query *q, semel_status otherwise, const char *doing,
                                  semel_error *err)
{
    int changed = 0;
    semel_status status = sqlite_query_run(q, &changed, doing, err);
    if (status || changed == 1)
        return status;
    return otherwise == SEMEL_ELOST
               ? semel_fail(err, SEMEL_ELOST,
                            "%s: the lease has ended, and the key is not ours any more", doing)
               : semel_fail(err, otherwise, "%s: the row has changed under our hands", doing);
}

void sqlite_marker_details(sqlite_query *q, const semel_mark *mark)
{
    sqlite_query_int_or_null(q, (int64_t)mark->fingerprint);
    sqlite_query_int_or_null(q, mark->type);
    sqlite_query_int_or_null(q, mark->source);
    sqlite_query_int_or_null(q, mark->received_ms);
}

semel_status sqlite_look(void *unit_state, semel_mark *mark, semel_error *err)
{
    sql_marker_row found;
    semel_status status = sqlite_marker_read(&found, unit_state, mark, err);
    if (!status)
        sql_marker_report_look(mark, &found);
    return status;
}

/* --- transaction mode ------------------------------------------------------------------------- */

static semel_status take_over(sqlite_unit *unit, semel_mark *mark, const sql_marker_row *found,
                              semel_error *err)
{
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_TAKE_OVER);
    sqlite_query_int(&q, sqlite_clock_now(unit->store));
    sqlite_marker_details(&q, mark);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    semel_status status = sqlite_marker_change(&q, SEMEL_ESTORE, "taking over a marker", err);
    if (status)
        return status;
    mark->state = SEMEL_MARK_TAKEN;
    mark->attempts = found->attempts;
    return SEMEL_OK;
}

static semel_status mark_known(sqlite_unit *unit, semel_mark *mark, semel_error *err)
{
    sql_marker_row found;
    semel_status status = sqlite_marker_read(&found, unit, mark, err);
    if (status)
        return status;
    if (!found.found)
        return semel_fail(err, SEMEL_ESTORE,
                          "a marker is there and is not there: run an integrity check");
    if (sql_marker_is_free(&found))
        return take_over(unit, mark, &found, err);
    unit->unsettled = sqlite_share_is_unsettled(unit, &found);
    if (!unit->unsettled)
        sql_marker_report(mark, &found);
    return SEMEL_OK;
}

static semel_status mark_one(sqlite_unit *unit, semel_mark *mark, int64_t now, semel_error *err)
{
    int inserted = 0;
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_INSERT);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    sqlite_query_int(&q, now);
    sqlite_marker_details(&q, mark);
    semel_status status = sqlite_query_run(&q, &inserted, "inserting a marker", err);
    if (status)
        return status;
    if (!inserted)
        return mark_known(unit, mark, err);
    mark->state = SEMEL_MARK_TAKEN;
    mark->attempts = 0;
    return SEMEL_OK;
}

static semel_status mark_all(sqlite_unit *unit, semel_mark marks[], size_t count, semel_error *err)
{
    int64_t now = sqlite_clock_now(unit->store);
    semel_status status = SEMEL_OK;
    unit->marked = 1;
    unit->unsettled = 0;
    for (size_t i = 0; !status && !unit->unsettled && i < count; i++)
        status = mark_one(unit, &marks[i], now, err);
    return status;
}

/* There is nothing to wait for: SQLite has one writer, so a unit that had the key has ended before
 * this one began. But it may not be committed yet, and is then, before its key is called done. */
semel_status sqlite_mark(void *unit_state, semel_mark marks[], size_t count, uint32_t wait_ms,
                         semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int has_written = sqlite_used(unit);
    (void)wait_ms;
    semel_status status = mark_all(unit, marks, count, err);
    if (status || !unit->unsettled)
        return status;
    status = sqlite_share_settle_others(unit, has_written, err);
    return status ? status : mark_all(unit, marks, count, err);
}
