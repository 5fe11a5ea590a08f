/* The receiving half: a link that consumes one queue. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_RECEIVER_H
#define SEMEL_TRANSPORT_RABBITMQ_RECEIVER_H

#include "transport/rabbitmq/content.h"
#include "transport/rabbitmq/deliveries.h"
#include "transport/rabbitmq/link.h"

typedef struct rabbit_receiver {
    rabbit_link link; /* its lock guards the rest */
    rabbit_deliveries deliveries;
    rabbit_content content;
    uint32_t pending;     /* acknowledged here, and not sent yet */
    uint32_t pending_max; /* then they are sent */
    int hurry;            /* or now */
    int wanted;           /* a consumer has asked for messages */
} rabbit_receiver;

semel_status rabbit_receiver_init(rabbit_receiver *receiver, const rabbit_address *address,
                                  const semel_seam *seam, semel_error *err);
void rabbit_receiver_close(rabbit_receiver *receiver);

/* As in <semel/sys/transport.h>. */
semel_status rabbit_receiver_receive(rabbit_receiver *receiver, semel_delivery deliveries[],
                                     size_t max, size_t *count, uint32_t wait_ms, semel_error *err);
semel_status rabbit_receiver_settle(rabbit_receiver *receiver,
                                    const semel_delivery_settlement settles[], size_t count,
                                    semel_error *err);

/* Tells the broker what is pending. The lock is held, or no other thread uses the link. */
void rabbit_receiver_flush(rabbit_receiver *receiver);

/* For the thread that looks after the links. */
void rabbit_receiver_tend(rabbit_receiver *receiver);

/* Before the end: what is acknowledged is told the broker, if it listens. */
void rabbit_receiver_finish(rabbit_receiver *receiver);
void rabbit_receiver_give_back(rabbit_receiver *receiver);

#endif
