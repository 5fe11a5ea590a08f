/* Deliveries that are not settled, by tag and in the order of delivery. See unacked.c. */
#ifndef SEMEL_TRANSPORT_MEMORY_UNACKED_H
#define SEMEL_TRANSPORT_MEMORY_UNACKED_H

#include "transport/common/deliveries.h"
#include "transport/memory/queued.h"

#include <semel/sys/transport.h>

typedef struct memory_delivery {
    delivery_node node;
    semel_message message; /* the queued message, with the number of this delivery */
    memory_queued *queued;
    int64_t lapses_ms; /* when it comes back by itself; INT64_MAX: never */
    int lapsed;        /* it has: only its memory is kept, for a receiver that still reads it */
} memory_delivery;

typedef struct memory_unacked {
    delivery_table table;
    delivery_list list;   /* without those that lapsed */
    delivery_node *spare; /* for the next ones, by same_bucket */
    size_t lapsed;
} memory_unacked;

/* The delivery that the list or the table has; NULL for none. The node is its first member. */
static inline memory_delivery *memory_delivery_of(delivery_node *node)
{
    return (memory_delivery *)node;
}

/* The one that lapses first; NULL: none is out. */
static inline memory_delivery *memory_unacked_first(const memory_unacked *unacked)
{
    return memory_delivery_of(unacked->list.first);
}

int memory_unacked_make_room(memory_unacked *unacked, size_t room); /* 0 when out of memory */

/* Delivers the message once more; NULL when out of memory. */
memory_delivery *memory_unacked_add(memory_unacked *unacked, memory_queued *queued,
                                    int64_t lapses_ms);
memory_delivery *memory_unacked_find(const memory_unacked *unacked,
                                     uint64_t tag); /* NULL: none has this tag */

/* The delivery is over. The message is the caller's again, or, if it had lapsed, NULL. */
memory_queued *memory_unacked_settle(memory_unacked *unacked, memory_delivery *delivery);

/* The delivery was not settled in time. The message is the caller's again. */
memory_queued *memory_unacked_lapse(memory_unacked *unacked, memory_delivery *delivery);

void memory_unacked_free(memory_unacked *unacked); /* and a reference of each message in it */

#endif
