/* An outcome on its way into the history: a row with all that it points to, in one block that is
 * allocated by the thread that handled the message and freed by the one that writes. */
#ifndef SEMEL_PROGRAM_RUN_HISTORY_RECORD_H
#define SEMEL_PROGRAM_RUN_HISTORY_RECORD_H

#include <semel/observe.h>
#include <semel/operate.h>

typedef struct history_record {
    semel_history row;
    semel_message message; /* if it is kept */
    size_t size;           /* of the block */
} history_record;

/* free() frees it. With `contents` a first delivery has its message, with up to body_max bytes of
 * the body. */
history_record *history_record_make(const semel_event *event, int contents, size_t body_max);

/* The first attempt at a message: later deliveries have the same content. */
int history_is_first(const semel_event *event);

/* What matters to a person who looks for a fault: it is kept when there is too much. */
int history_is_urgent(const semel_event *event);

/* The key of an event in the history. What an inbox has sent by its configuration has an id that is
 * made of the idempotency key of the message it was sent for (handler/send.c); then that key. Else
 * the id of what was sent. */
semel_bytes history_key(const semel_event *event);

#endif
