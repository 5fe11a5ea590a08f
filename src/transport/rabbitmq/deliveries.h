/* Deliveries: those that have come and wait to be taken, and those that were taken and are not settled. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_DELIVERIES_H
#define SEMEL_TRANSPORT_RABBITMQ_DELIVERIES_H

#include "base/mem.h"

#include <semel/sys/transport.h>

typedef struct rabbit_delivery rabbit_delivery;
struct rabbit_delivery {
    uint64_t tag;        /* ours: never used again */
    uint64_t broker_tag; /* of the channel; 0: that channel is gone */
    int acked;           /* by its taker; the broker does not know yet */
    int large;           /* its memory is worth giving back */
    const semel_message *message;
    mem_arena arena;                 /* holds the message */
    rabbit_delivery *before, *after; /* in the list, in the order of delivery */
    rabbit_delivery *chain;          /* of its bucket */
};

typedef struct rabbit_list {
    rabbit_delivery *first, *last;
} rabbit_list;

typedef struct rabbit_shelf {
    rabbit_list ready; /* not taken yet */
    rabbit_list out; /* taken, on the channel that is there now: the broker's tags rise along it */
    rabbit_delivery *spare;
    rabbit_delivery **buckets; /* all that were taken, by tag, of former channels too */
    size_t bucket_count;
    uint64_t last_tag;
} rabbit_shelf;

int rabbit_shelf_init(rabbit_shelf *shelf, size_t deliveries); /* 0: out of memory */
void rabbit_shelf_free(rabbit_shelf *shelf);

/* An empty one, in no list; NULL when out of memory. */
rabbit_delivery *rabbit_shelf_new(rabbit_shelf *shelf);
void rabbit_shelf_put(rabbit_shelf *shelf, rabbit_delivery *delivery); /* it is ready */

/* The first that is ready goes out; NULL if there is none. */
rabbit_delivery *rabbit_shelf_take(rabbit_shelf *shelf);
rabbit_delivery *rabbit_shelf_find(const rabbit_shelf *shelf, uint64_t tag);

/* Its message is gone. */
void rabbit_shelf_settle(rabbit_shelf *shelf, rabbit_delivery *delivery);
void rabbit_shelf_discard(rabbit_shelf *shelf,
                          rabbit_delivery *delivery); /* of rabbit_shelf_new() */

/* The channel is gone: what is ready comes again; what is out stays until its taker settles it. */
void rabbit_shelf_orphan(rabbit_shelf *shelf);

#endif
