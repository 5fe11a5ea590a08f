/* Messages on their way through the memory transport, and the two orders they wait in. */
#ifndef SEMEL_TRANSPORT_MEMORY_QUEUED_H
#define SEMEL_TRANSPORT_MEMORY_QUEUED_H

#include <semel/message.h>

typedef struct memory_queued {
    semel_message *message;
    int64_t number;      /* of publishing: its place in the queue */
    int64_t due_ms;      /* on retry: when its delay is over */
    uint32_t deliveries; /* so far */
    uint32_t references; /* the queue's, and one for each delivery that lapsed */
} memory_queued;

semel_status memory_queued_new(memory_queued **out, const semel_message *message, semel_error *err);
void memory_queued_release(memory_queued *queued); /* one reference; frees it with the last */

typedef int64_t memory_queued_order(const memory_queued *queued);
int64_t memory_queued_number(const memory_queued *queued);
int64_t memory_queued_due_ms(const memory_queued *queued);

typedef struct memory_heap {
    memory_queued_order *order;
    memory_queued **items;
    size_t count;
} memory_heap;

int memory_heap_make_room(memory_heap *heap, size_t room); /* 0 when out of memory */
void memory_heap_push(memory_heap *heap, memory_queued *queued);
memory_queued *memory_heap_pop(memory_heap *heap);
void memory_heap_free(memory_heap *heap); /* and a reference of all that is in it */

#endif
