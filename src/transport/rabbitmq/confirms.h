/* What the broker answers to a batch: confirmations, refusals, returns. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_CONFIRMS_H
#define SEMEL_TRANSPORT_RABBITMQ_CONFIRMS_H

#include "transport/rabbitmq/publisher.h"

#define RABBIT_ANSWERED SIZE_MAX

/* A frame of the channel; rabbit_owner.frame. */
void rabbit_confirms_accept(void *publisher, rabbit_link *link, const amqp_frame_t *frame);

#endif
