/* Exchange, queue and bindings: made or checked, as the URL says. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_TOPOLOGY_H
#define SEMEL_TRANSPORT_RABBITMQ_TOPOLOGY_H

#include "transport/rabbitmq/link.h"

/* With each new connection: what is missing was perhaps deleted meanwhile, or is there at last. */
semel_status rabbit_topology(rabbit_link *link, semel_error *err);

#endif
