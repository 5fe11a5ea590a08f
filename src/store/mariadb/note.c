/* Notes about an inbox. InnoDB's locking reads return the newest committed row at every level of
 * isolation. */
#include "store/mariadb/mariadb.h"

static void write_note_key(maria_query *q, int64_t inbox, semel_note note)
{
    maria_int(q, inbox);
    maria_int(q, note);
}

static semel_status read_row(const maria_row *r, void *context, semel_error *err)
{
    return sql_note_set(context, maria_column_int(r, 0), maria_column_bytes(r, 1),
                        maria_column_int(r, 2), err);
}

semel_status mariadb_note_read(void *unit_state, int64_t inbox, semel_note note,
                               semel_note_lock lock, semel_note_value *out, semel_error *err)
{
    static const maria_statement which[] = {[SEMEL_NOTE_UNLOCKED] = ST_NOTE_READ,
                                            [SEMEL_NOTE_SHARED] = ST_NOTE_READ_SHARED,
                                            [SEMEL_NOTE_EXCLUSIVE] = ST_NOTE_READ_EXCLUSIVE};
    mariadb_unit *unit = unit_state;
    maria_query q;
    semel_note_value found = {0};
    if (lock == SEMEL_NOTE_EXCLUSIVE) {
        q = maria_unit_enqueue(unit, ST_NOTE_ADD, maria_patience(unit->store));
        write_note_key(&q, inbox, note);
        (void)maria_end(&q);
        unit->wrote = 1;
    }
    q = maria_unit_enqueue(unit, which[lock], maria_patience(unit->store));
    write_note_key(&q, inbox, note);
    maria_step *s = maria_end(&q);
    s->call = read_row;
    s->context = &found;
    semel_status status = maria_unit_flush(unit, NULL, "reading a note", err);
    if (!status)
        *out = found;
    return status;
}

/* The unit has locked the row, so it is there; the server does not count a row that stays as it
 * was. */
semel_status mariadb_note_write(void *unit_state, int64_t inbox, semel_note note,
                                const semel_note_value *value, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    maria_query q = maria_unit_enqueue(unit, ST_NOTE_WRITE, maria_patience(unit->store));
    maria_int(&q, value->number);
    maria_text(&q, value->text[0] ? value->text : NULL);
    write_note_key(&q, inbox, note);
    (void)maria_end(&q);
    unit->wrote = 1;
    return maria_unit_flush(unit, NULL, "writing a note", err);
}
