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
} sql_marker_row;

static inline int sql_marker_is_free(const sql_marker_row *row)
{
    return row->state == STATE_OPEN && !row->live;
}

/* Of a row that is there and not free: what it is. */
void sql_marker_report(semel_mark *mark, const sql_marker_row *row);

/* The answer of `look`: of any row, or of none. */
void sql_marker_report_look(semel_mark *mark, const sql_marker_row *row);

/* Of a claim or a lease: not 0, and no more than a signed column holds. */
uint64_t sql_token_new(const semel_seam *seam);

#endif
