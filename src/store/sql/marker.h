/* What the row of a marker says, however a driver reads it. */
#ifndef SEMEL_STORE_SQL_MARKER_H
#define SEMEL_STORE_SQL_MARKER_H

#include <semel/sys/store.h>

/* The column `state`, as the migrations of all stores have it. */
enum { STATE_DONE = 0, STATE_OPEN = 1, STATE_DEAD = 2 };

typedef struct sql_marker_row {
    int found; /* 0: there is none, and the rest says nothing */
    int state;
    int live; /* it has a lease that has not ended */
    uint32_t attempts;
    uint64_t fingerprint;
    int64_t lease_until_ms;
    int64_t first_ms; /* 0: at_ms */
    int64_t at_ms;
} sql_marker_row;

static inline int sql_marker_is_free(const sql_marker_row *row)
{
    return row->state == STATE_OPEN && !row->live;
}

/* Of a row that is there and not free: what it is. */
void sql_marker_report(semel_mark *mark, const sql_marker_row *row);

/* The answer of `look`: of any row, or of none. */
void sql_marker_report_look(semel_mark *mark, const sql_marker_row *row);

/* The state of a row as a list shows it. */
static inline semel_marker_state sql_marker_shown(int state, int live)
{
    return state == STATE_DONE   ? SEMEL_MARKER_DONE
           : state == STATE_DEAD ? SEMEL_MARKER_DEAD
           : live                ? SEMEL_MARKER_CLAIMED
                                 : SEMEL_MARKER_OPEN;
}

/* ENOTFOUND: there is no dead row. */
semel_status sql_marker_not_dead(semel_error *err);

/* ESTORE if the text is longer than a note may be. */
semel_status sql_note_set(semel_note_value *out, int64_t number, semel_bytes text, int64_t now_ms,
                          semel_error *err);

/* Of a claim or a lease: not 0, and no more than a signed column holds. */
uint64_t sql_token_new(const semel_seam *seam);

#endif
