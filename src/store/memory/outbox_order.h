/* Which row of an outbox may be leased next. See outbox_order.c. */
#ifndef SEMEL_STORE_MEMORY_OUTBOX_ORDER_H
#define SEMEL_STORE_MEMORY_OUTBOX_ORDER_H

#include "store/memory/memory_internal.h"

/* Rows that must leave in order: those of one group, or one row alone. */
typedef struct memory_chain {
    memory_row *first; /* in the order of seq */
    memory_row *last;
    memory_row *head; /* the next to be leased: the first, but for a lease call that is under way */
    int64_t wake_ms;  /* when the head may be leased: its place in the queue, with its seq */
    size_t queued_at; /* index in the queue + 1; 0: in none */
} memory_chain;

/* Chains by the time at which they wake. */
typedef struct memory_due_queue {
    memory_chain **chains;
    size_t count;
    size_t capacity;
} memory_due_queue;

typedef struct memory_group {
    memory_chain chain;
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
    memory_chain *chain; /* where it stands: `alone`, or the group's */
    memory_chain alone;
    memory_row *before; /* in its chain */
    memory_row *behind;
    memory_row *older; /* in its outbox */
    memory_row *newer;
    memory_link by_seq;
};

/* Room for this many chains; 0 when out of memory. */
int memory_due_queue_reserve(memory_due_queue *queue, size_t count);
memory_chain *memory_due_queue_first(const memory_due_queue *queue,
                                     int64_t now_ms); /* NULL: none is due */

/* Puts the row at the end of the chain, and the chain into the queue. There must be room. */
void memory_chain_append(memory_due_queue *queue, memory_chain *chain, memory_row *row);
void memory_chain_remove(memory_due_queue *queue, memory_row *row);

/* To be called when the head of a chain, or its state, has changed. */
void memory_chain_update(memory_due_queue *queue, memory_chain *chain);

#endif
