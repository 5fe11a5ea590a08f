/* How many messages wait in the queue. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_DEPTH_H
#define SEMEL_TRANSPORT_RABBITMQ_DEPTH_H

#include "transport/rabbitmq/address.h"

#include <semel/store.h>

/* As in <semel/sys/transport.h>. */
semel_status rabbit_depth(const rabbit_address *address, const semel_seam *seam, uint64_t *ready,
                          semel_error *err);

#endif
