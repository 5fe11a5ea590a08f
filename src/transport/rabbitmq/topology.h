/* Exchange, queue and bindings: made or checked, as the URL says. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_TOPOLOGY_H
#define SEMEL_TRANSPORT_RABBITMQ_TOPOLOGY_H

#include "transport/rabbitmq/link.h"

/* With each new connection: what is missing was perhaps deleted meanwhile, or is there at last. */
semel_status rabbit_topology(rabbit_link *link, semel_error *err);

/* On a connection that is new: how many messages are ready in the queue, which must be there. */
semel_status rabbit_topology_depth(rabbit_link *link, uint64_t *ready, semel_error *err);

#endif
