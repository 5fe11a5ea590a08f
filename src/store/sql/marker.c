#include "store/sql/marker.h"

#include "base/seam.h"

void sql_marker_report(semel_mark *mark, const sql_marker_row *row)
{
    mark->known_fingerprint = row->fingerprint;
    mark->attempts = row->attempts;
    mark->held_until_ms = row->live ? row->lease_until_ms : 0;
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

uint64_t sql_token_new(const semel_seam *seam)
{
    uint64_t token;
    do
        token = seam_random(seam) >> 1;
    while (!token);
    return token;
}
