/* Which messages a stream and its consumer may lose, and what a confirmed one survives. */
#ifndef SEMEL_TRANSPORT_NATS_TOPOLOGY_LOSSES_H
#define SEMEL_TRANSPORT_NATS_TOPOLOGY_LOSSES_H

#include "transport/nats/topology.h"

/* Each may be NULL: the URL does not name it, or does not let it be looked at. */
void jet_topology_losses(char out[JET_LOSSES_ROOM], const jet_address *address,
                         const jsStreamConfig *stream, const jsConsumerConfig *consumer);

/* facts->warnings, of its losses and durability. */
void jet_topology_warnings(jet_facts *facts, const jsStreamConfig *stream);

/* Without a stream nothing is known. */
semel_durability jet_topology_durability(const jet_address *address, const jsStreamConfig *stream);

#endif
