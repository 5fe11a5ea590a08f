/* The publishing half: a link in confirm mode. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_PUBLISHER_H
#define SEMEL_TRANSPORT_RABBITMQ_PUBLISHER_H

#include "transport/rabbitmq/content.h"
#include "transport/rabbitmq/envelope.h"
#include "transport/rabbitmq/link.h"

#include <semel/sys/transport.h>

/* The batch under way. Messages have numbers on the channel, in the order of publishing; slot i is
 * that of number first + i. */
typedef struct rabbit_batch {
    const semel_message *const *messages;
    semel_publish_result *results;
    size_t *slots; /* which message it is; RABBIT_ANSWERED when the broker said yes or no */
    size_t room;
    size_t sent;   /* slots in use */
    size_t lowest; /* before it all are answered */
    size_t open;   /* not answered */
    uint64_t first;
} rabbit_batch;

typedef struct rabbit_publisher {
    rabbit_link link; /* its lock guards the rest */
    rabbit_writer writer;
    rabbit_content content; /* of what is returned */
    rabbit_batch batch;
    uint64_t numbered; /* messages published on the channel */
    semel_meanwhile
        *meanwhile; /* to be done when the batch is on its way; NULL: nothing, or done */
    void *meanwhile_context;
    int busy;       /* a thread publishes: one at a time */
    int owed;       /* an earlier call left without all of its answers, on this channel */
    int careful;    /* the broker closed the channel over some message: one by one, to find it */
    int one_by_one; /* it was careful when this call began */
    int forbidden;  /* in this call the channel was closed because of a permission */
} rabbit_publisher;

semel_status rabbit_publisher_init(rabbit_publisher *publisher, const rabbit_address *address,
                                   const semel_seam *seam, semel_error *err);
void rabbit_publisher_close(rabbit_publisher *publisher);

/* As publish_while in <semel/sys/transport.h>; `meanwhile` may be NULL. */
semel_status rabbit_publisher_publish(rabbit_publisher *publisher, semel_publish_result results[],
                                      const semel_message *const messages[], size_t count,
                                      uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                                      semel_error *err);

#endif
