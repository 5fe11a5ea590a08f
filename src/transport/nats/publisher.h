/* The publishing half. */
#ifndef SEMEL_TRANSPORT_NATS_PUBLISHER_H
#define SEMEL_TRANSPORT_NATS_PUBLISHER_H

#include "transport/nats/calls.h"

#include <semel/sys/transport.h>

/* As `publish_while` in <semel/sys/transport.h>; `meanwhile` may be NULL. */
semel_status jet_publish(jet_calls *calls, semel_publish_result results[],
                         const semel_message *const messages[], size_t count, uint32_t wait_ms,
                         semel_meanwhile *meanwhile, void *context, semel_error *err);

/* What an answer to a published message means. */
semel_publish_result jet_publish_result(int32_t answer);

#endif
