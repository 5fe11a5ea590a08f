/* Stream and consumer: made or checked, as the URL says; and what they may lose. */
#ifndef SEMEL_TRANSPORT_NATS_TOPOLOGY_H
#define SEMEL_TRANSPORT_NATS_TOPOLOGY_H

#include "transport/nats/address.h"

#include <nats/nats.h>
#include <semel/store.h>

enum { JET_LOSSES_ROOM = 2048, JET_WARNINGS_ROOM = JET_LOSSES_ROOM + 512 };

/* What the server says of them. */
typedef struct jet_facts {
    semel_durability durability;      /* of a confirmed message */
    uint32_t hold_ms;                 /* the time after which an unsettled delivery comes again */
    uint32_t batch_max;               /* deliveries of one request; 0: any number */
    uint32_t expires_max_ms;          /* the longest time a request may wait; 0: any */
    char losses[JET_LOSSES_ROOM];     /* refused unless the URL accepts them */
    char warnings[JET_WARNINGS_ROOM]; /* these, and what is only told */
} jet_facts;

/* With each new connection: what is missing was perhaps deleted meanwhile, or is there at last. */
semel_status jet_topology(jet_facts *out, const jet_address *address, natsConnection *connection,
                          semel_error *err);

/* 1 if the stream has a message of this number that was stored at this time; 0 also if that cannot
 * be found out, as with declare=no. */
int jet_topology_has(const jet_address *address, natsConnection *connection, uint64_t sequence,
                     int64_t stored_ns);

/* How many messages the consumer has not been given yet. */
semel_status jet_topology_depth(uint64_t *ready, const jet_address *address,
                                natsConnection *connection, semel_error *err);

#endif
