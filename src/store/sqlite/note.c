/* Notes about an inbox. A unit of this store is the only writer, so a lock costs nothing: what
 * the unit reads, no other unit changes before it ends. Only a note that is to be locked is
 * created. */
#include "store/sqlite/sqlite.h"

#include <string.h>

static sqlite_query note_query(sqlite_unit *unit, sqlite_statement which, int64_t inbox,
                               semel_note note)
{
    sqlite_query q = sqlite_query_start(unit->on, which);
    sqlite_query_int(&q, inbox);
    sqlite_query_int(&q, note);
    return q;
}

static semel_status create_note(sqlite_unit *unit, int64_t inbox, semel_note note, semel_error *err)
{
    sqlite_query q = note_query(unit, ST_NOTE_ADD, inbox, note);
    return sqlite_query_run(&q, NULL, "creating a note", err);
}

semel_status sqlite_note_read(void *unit, int64_t inbox, semel_note note, semel_note_lock lock,
                              semel_note_value *out, semel_error *err)
{
    int64_t now = sqlite_clock_now(((sqlite_unit *)unit)->store);
    sqlite_query q = note_query(unit, ST_NOTE_READ, inbox, note);
    int got = sqlite_query_row(&q, "reading a note", err);
    if (got < 0)
        return q.status;
    *out = (semel_note_value){0};
    if (!got && lock == SEMEL_NOTE_EXCLUSIVE) {
        out->now_ms = now;
        return create_note(unit, inbox, note, err);
    }
    if (!got)
        return SEMEL_OK;
    semel_status status =
        sql_note_set(out, sqlite_row_int(&q, 0), semel_str(sqlite_row_text(&q, 1)), now, err);
    if (sqlite_row_lost(&q))
        status = semel_fail(err, SEMEL_ENOMEM, "out of memory reading a note");
    sqlite_query_end(&q);
    return status;
}

semel_status sqlite_note_write(void *unit_state, int64_t inbox, semel_note note,
                               const semel_note_value *value, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    unit->closes = 1;
    sqlite_query q = sqlite_query_start(unit->on, ST_NOTE_WRITE);
    sqlite_query_int(&q, value->number);
    sqlite_query_text(&q, value->text[0] ? value->text : NULL);
    sqlite_query_int(&q, inbox);
    sqlite_query_int(&q, note);
    return sqlite_marker_change(&q, SEMEL_ESTORE, "writing a note", err);
}

semel_status sqlite_note_forgotten(sqlite_unit *unit, int64_t inbox, int64_t newest_ms,
                                   semel_error *err)
{
    unit->closes = 1;
    sqlite_query q = note_query(unit, ST_NOTE_RAISE, inbox, SEMEL_NOTE_FORGOTTEN);
    sqlite_query_int(&q, newest_ms);
    return sqlite_query_run(&q, NULL, "noting what a sweep removes", err);
}
