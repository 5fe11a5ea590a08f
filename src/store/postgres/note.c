/* Notes about an inbox. At READ COMMITTED every statement sees what was committed before it began,
 * so a plain read returns the newest note. At stricter levels a locking read makes the server fail
 * with a conflict if the row has changed since the transaction's snapshot. A row that is newer than
 * the snapshot would be invisible, so semel_inbox_open() creates the notes that are read with a
 * lock. */
#include "store/postgres/postgres.h"

static pg_query note_query(postgres_unit *unit, pg_statement which, int64_t inbox, semel_note note)
{
    pg_query q = pg_unit_query(unit, which);
    pg_int(&q, inbox);
    pg_int(&q, note);
    return q;
}

static semel_status create_note(postgres_unit *unit, int64_t inbox, semel_note note,
                                semel_error *err)
{
    size_t ignored;
    pg_query q = note_query(unit, ST_NOTE_ADD, inbox, note);
    return pg_execute_change(&q, &ignored, "creating a note", err);
}

/* `*newest` is 1 if no other transaction can have committed a newer one before the statement
 * began. */
static semel_status read_note(postgres_unit *unit, pg_statement which, int64_t inbox,
                              semel_note note, semel_note_value *out, int *newest, semel_error *err)
{
    PGresult *answer = NULL;
    pg_query q = note_query(unit, which, inbox, note);
    semel_status status = pg_execute(&answer, &q, "reading a note", err);
    if (status)
        return status;
    *out = (semel_note_value){0};
    *newest = PQntuples(answer) && pg_answer_int(answer, 0, 3);
    if (PQntuples(answer))
        status = sql_note_set(out, pg_answer_int(answer, 0, 0), pg_answer_bytes(answer, 0, 1),
                              pg_answer_int(answer, 0, 2), err);
    PQclear(answer);
    return status;
}

/* Most notes are there: creating one comes second. One that another transaction has just created,
 * which a stricter level does not see, is a conflict then. */
static semel_status read_exclusive(postgres_unit *unit, int64_t inbox, semel_note note,
                                   semel_note_value *out, semel_error *err)
{
    int newest;
    semel_status status = read_note(unit, ST_NOTE_READ_EXCLUSIVE, inbox, note, out, &newest, err);
    if (status || out->now_ms)
        return status;
    status = create_note(unit, inbox, note, err);
    return status ? status
                  : read_note(unit, ST_NOTE_READ_EXCLUSIVE, inbox, note, out, &newest, err);
}

/* At READ COMMITTED a shared lock would only be in the way of a sweep. */
semel_status postgres_note_read(void *unit, int64_t inbox, semel_note note, semel_note_lock lock,
                                semel_note_value *out, semel_error *err)
{
    int newest = 0;
    if (lock == SEMEL_NOTE_EXCLUSIVE)
        return read_exclusive(unit, inbox, note, out, err);
    semel_status status = read_note(unit, ST_NOTE_READ, inbox, note, out, &newest, err);
    if (status || newest || lock == SEMEL_NOTE_UNLOCKED)
        return status;
    return read_note(unit, ST_NOTE_READ_SHARED, inbox, note, out, &newest, err);
}

/* The unit has locked the row, so it is there, and nothing waits for the answer but the commit. */
semel_status postgres_note_write(void *unit, int64_t inbox, semel_note note,
                                 const semel_note_value *value, semel_error *err)
{
    pg_query q = note_query(unit, ST_NOTE_WRITE, inbox, note);
    (void)err;
    pg_int(&q, value->number);
    pg_text(&q, value->text[0] ? value->text : NULL);
    pg_enqueue(&q);
    return SEMEL_OK;
}
