/* Who may be taken next from an outbox. See outbox_order.c. */
#ifndef SEMEL_STORE_MEMORY_OUTBOX_ORDER_H
#define SEMEL_STORE_MEMORY_OUTBOX_ORDER_H

#include "store/memory/memory_internal.h"

/* Rows that must leave in order: those of one group, or one row alone. */
typedef struct memory_line {
    memory_row *first; /* in the order of seq */
    memory_row *last;
    memory_row *head; /* the next to be taken: the first, but for a take that is under way */
    int64_t wake_ms;  /* when the head may be taken: its place in the queue, with its seq */
    size_t queued_at; /* index in the queue + 1; 0: in none */
} memory_line;

/* Lines by the time at which they wake. */
typedef struct memory_queue {
    memory_line **lines;
    size_t count;
    size_t capacity;
} memory_queue;

typedef struct memory_group {
    memory_line line;
    memory_link by_name;
    size_t rows; /* with those that are not committed yet */
    char name[];
} memory_group;

struct memory_row {
    memory_row_state state;
    int64_t seq; /* given at the commit of its capture */
    int64_t captured_ms;
    memory_outbox *outbox;
    semel_message *message;
    memory_group *group; /* NULL: none */
    memory_line *line;   /* where it stands: `alone`, or the group's */
    memory_line alone;
    memory_row *before; /* in its line */
    memory_row *behind;
    memory_row *older; /* in its outbox */
    memory_row *newer;
    memory_link by_seq;
};

/* Room for this many lines; 0 when out of memory. */
int memory_queue_reserve(memory_queue *queue, size_t count);
memory_line *memory_queue_first(const memory_queue *queue, int64_t now_ms); /* NULL: none is due */

/* Puts the row at the end of the line, and the line into the queue. There must be room. */
void memory_line_join(memory_queue *queue, memory_line *line, memory_row *row);
void memory_line_leave(memory_queue *queue, memory_row *row);

/* To be called when the head of a line, or its state, has changed. */
void memory_line_update(memory_queue *queue, memory_line *line);

#endif
