/* Where the messages of a route go: a queue in the store directly, a queue elsewhere by its outbox.
 *
 * A message is durable when delivery_send() returns SEMEL_OK, whether a broker can be reached or
 * not. All messages of a call are stored in one transaction. */
#ifndef SEMEL_PROGRAM_GATEWAY_DELIVERY_H
#define SEMEL_PROGRAM_GATEWAY_DELIVERY_H

#include "program/gateway/route.h"

typedef struct delivery delivery;

/* Of `to` of the route. */
semel_status delivery_open(delivery **out, const gateway_route *route, semel_error *err);
void delivery_close(delivery *d);

enum { DELIVERY_MAX = 1000 }; /* messages in a call */

/* The topic of each message is set here. SEMEL_EINVAL and SEMEL_ELIMIT: a message can never be
 * stored. Any other failure: nothing is stored, or it is not known whether it is. */
semel_status delivery_send(delivery *d, semel_message messages[], size_t count, semel_error *err);

/* Answers for a failure of delivery_send(), and says how it is to be counted. */
route_outcome delivery_refuse(http_request *request, const semel_error *why);

#endif
