/* A row of the history as its pack has it. */
#ifndef SEMEL_STORE_KEYED_HISTORY_ROW_H
#define SEMEL_STORE_KEYED_HISTORY_ROW_H

#include "store/keyed/item.h"

/* With `kept` also headers and body of its message. 0: out of memory. */
int history_row_encode(semel_bytes *out, mem_arena *arena, const semel_history *row, int kept);

/* What a reader of a row needs around it. */
typedef struct history_row {
    semel_history row;
    semel_message message;
    semel_error why;
} history_row;

/* A row that is damaged has no message, and says why. 0: out of memory. */
int history_row_decode(history_row *out, int64_t id, semel_bytes bytes, int contents,
                       mem_arena *arena);

int64_t history_row_at(semel_bytes bytes); /* its at_ms */

#endif
