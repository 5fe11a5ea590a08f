/* Deliveries that are not settled, by tag and in the order of delivery. See unacked.c. */
#ifndef SEMEL_TRANSPORT_MEMORY_UNACKED_H
#define SEMEL_TRANSPORT_MEMORY_UNACKED_H

#include "transport/memory/queued.h"

#include <semel/sys/transport.h>

typedef struct memory_delivery {
    semel_message message; /* the queued message, with the number of this delivery */
    memory_queued *queued;
    uint64_t tag;
    int64_t lapses_ms; /* when it comes back by itself; INT64_MAX: never */
    int lapsed;        /* it has: only its memory is kept, for a receiver that still reads it */
    struct memory_delivery *same_bucket;
    struct memory_delivery *before; /* in the order of delivery; lapsed ones are not in it */
    struct memory_delivery *behind;
} memory_delivery;

typedef struct memory_unacked {
    memory_delivery **buckets;
    size_t bucket_count; /* a power of two */
    memory_delivery *first;
    memory_delivery *last;
    memory_delivery *spare; /* for the next ones, by same_bucket */
    uint64_t last_tag;
    size_t lapsed;
} memory_unacked;

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
