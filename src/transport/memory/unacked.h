/* Deliveries that are out, by tag and in the order in which they went. See unacked.c. */
#ifndef SEMEL_TRANSPORT_MEMORY_UNACKED_H
#define SEMEL_TRANSPORT_MEMORY_UNACKED_H

#include "transport/memory/queued.h"

#include <semel/sys/transport.h>

typedef struct memory_delivery {
    semel_message message; /* the parcel's, with the number of this delivery */
    memory_parcel *parcel;
    uint64_t tag;
    int64_t lapses_ms; /* when it comes back by itself; INT64_MAX: never */
    int lapsed;        /* it has: only its memory is kept, for whoever still reads it */
    struct memory_delivery *same_bucket;
    struct memory_delivery *before; /* in the order of delivery; lapsed ones are not in it */
    struct memory_delivery *behind;
} memory_delivery;

typedef struct memory_out {
    memory_delivery **buckets;
    size_t bucket_count; /* a power of two */
    memory_delivery *first;
    memory_delivery *last;
    memory_delivery *spare; /* for the next ones, by same_bucket */
    uint64_t last_tag;
    size_t lapsed;
} memory_out;

int memory_out_make_room(memory_out *out, size_t room); /* 0 when out of memory */

/* The parcel goes out once more; NULL when out of memory. */
memory_delivery *memory_out_send(memory_out *out, memory_parcel *parcel, int64_t lapses_ms);
memory_delivery *memory_out_find(const memory_out *out, uint64_t tag); /* NULL: none has this tag */

/* The delivery is over. The parcel is the caller's again, or, if it had lapsed, NULL. */
memory_parcel *memory_out_settle(memory_out *out, memory_delivery *delivery);

/* The delivery was not settled in time. The parcel is the caller's again. */
memory_parcel *memory_out_lapse(memory_out *out, memory_delivery *delivery);

void memory_out_free(memory_out *out); /* and a reference of each parcel that is out */

#endif
