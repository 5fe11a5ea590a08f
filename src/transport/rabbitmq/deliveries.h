/* Deliveries: those that have come and are ready, and those that were received and are not
 * settled. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_DELIVERIES_H
#define SEMEL_TRANSPORT_RABBITMQ_DELIVERIES_H

#include "base/mem.h"
#include "transport/common/deliveries.h"

#include <semel/sys/transport.h>

typedef struct rabbit_delivery {
    delivery_node node;
    uint64_t broker_tag; /* of the channel; 0: that channel is gone */
    int acked;           /* by its receiver; the broker does not know yet */
    int large;           /* its memory is worth giving back */
    const semel_message *message;
    mem_arena arena; /* holds the message */
} rabbit_delivery;

typedef struct rabbit_deliveries {
    delivery_list ready; /* not received yet */
    delivery_list
        unsettled; /* received, on the channel that is there now: the broker's tags rise along it */
    delivery_table received; /* all that are not settled, of former channels, too */
    delivery_node *spare;    /* by same_bucket */
} rabbit_deliveries;

/* The delivery that a list or the table has; NULL for none. The node is its first member. */
static inline rabbit_delivery *rabbit_delivery_of(delivery_node *node)
{
    return (rabbit_delivery *)node;
}

int rabbit_deliveries_init(rabbit_deliveries *table, size_t count); /* 0: out of memory */
void rabbit_deliveries_free(rabbit_deliveries *table);

/* An empty one, in no list; NULL when out of memory. */
rabbit_delivery *rabbit_deliveries_new(rabbit_deliveries *table);
void rabbit_deliveries_put(rabbit_deliveries *table, rabbit_delivery *delivery); /* it is ready */

/* The first that is ready becomes unsettled; NULL if there is none. */
rabbit_delivery *rabbit_deliveries_receive(rabbit_deliveries *table);
rabbit_delivery *rabbit_deliveries_find(const rabbit_deliveries *table, uint64_t tag);

/* Its message is gone. */
void rabbit_deliveries_settle(rabbit_deliveries *table, rabbit_delivery *delivery);
void rabbit_deliveries_discard(rabbit_deliveries *table,
                               rabbit_delivery *delivery); /* of rabbit_deliveries_new() */

/* The channel is gone: what is ready comes again; what is unsettled stays until its receiver
 * settles it. */
void rabbit_deliveries_orphan(rabbit_deliveries *table);

#endif
