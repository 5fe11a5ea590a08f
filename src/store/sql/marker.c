#include "store/sql/marker.h"

#include "base/seam.h"

#include <string.h>

void sql_marker_report(semel_mark *mark, const sql_marker_row *row)
{
    mark->known_fingerprint = row->fingerprint;
    mark->attempts = row->attempts;
    mark->held_until_ms = row->live ? row->lease_until_ms : 0;
    mark->first_ms = row->first_ms ? row->first_ms : row->at_ms;
    mark->changed_ms = row->at_ms;
    mark->state = row->state == STATE_DONE   ? SEMEL_MARK_DONE
                  : row->state == STATE_DEAD ? SEMEL_MARK_DEAD
                                             : SEMEL_MARK_HELD;
}

void sql_marker_report_look(semel_mark *mark, const sql_marker_row *row)
{
    sql_marker_report(mark, row);
    if (!row->found || sql_marker_is_free(row))
        mark->state = SEMEL_MARK_FREE;
}

semel_status sql_marker_not_dead(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOTFOUND, "the inbox knows no dead message with this key");
}

uint64_t sql_token_new(const semel_seam *seam)
{
    uint64_t token;
    do
        token = seam_random(seam) >> 1;
    while (!token);
    return token;
}

semel_status sql_note_set(semel_note_value *out, int64_t number, semel_bytes text, int64_t now_ms,
                          semel_error *err)
{
    if (text.len > SEMEL_NOTE_TEXT_MAX)
        return semel_fail(err, SEMEL_ESTORE, "a note has %zu bytes; %zu are the limit", text.len,
                          SEMEL_NOTE_TEXT_MAX);
    out->number = number;
    out->now_ms = now_ms;
    if (text.len)
        memcpy(out->text, text.data, text.len);
    out->text[text.len] = 0;
    return SEMEL_OK;
}
