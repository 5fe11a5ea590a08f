/* Making a connection. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_CONNECT_H
#define SEMEL_TRANSPORT_RABBITMQ_CONNECT_H

#include "transport/rabbitmq/link.h"

/* Leaves link->connection with an open channel and link->broker_major, or nothing.
 * SEMEL_EUNAVAILABLE if the broker cannot be reached, SEMEL_ETRANSPORT if it refuses the login or
 * its certificate is not the expected one. */
semel_status rabbit_connect(rabbit_link *link, semel_error *err);

/* Before each further call that waits for the broker: what is left of connect_ms. */
semel_status rabbit_connect_patience(rabbit_link *link, semel_error *err);

#endif
