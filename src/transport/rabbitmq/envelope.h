/* A semel_message as AMQP 0-9-1 properties and headers, and back. docs/RABBITMQ.md describes it,
 * envelope_fields.h has the table.
 *
 * Everything is pure: no connection is touched. */
#ifndef SEMEL_TRANSPORT_RABBITMQ_ENVELOPE_H
#define SEMEL_TRANSPORT_RABBITMQ_ENVELOPE_H

#include "base/mem.h"

#include <amqp.h>
#include <amqp_framing.h>
#include <semel/message.h>

/* What goes out with a message; points into the message and into the writer's arena. */
typedef struct rabbit_envelope {
    amqp_basic_properties_t properties;
    amqp_bytes_t routing_key;
} rabbit_envelope;

typedef struct rabbit_writer {
    mem_arena arena; /* reset by each write */
    int persistent;
    int cloudevents;
} rabbit_writer;

/* SEMEL_ELIMIT with the reason if AMQP cannot carry it (a topic or a header's name over 255 bytes,
 * a header CC or BCC, headers that do not fit into a frame of frame_max bytes; 0: any size does);
 * SEMEL_EINVAL if it must be a CloudEvent and is none; SEMEL_ENOMEM. `out` is valid until the next
 * write. */
semel_status rabbit_envelope_write(rabbit_envelope *out, rabbit_writer *writer,
                                   const semel_message *message, size_t frame_max,
                                   semel_error *err);

enum { RABBIT_DELIVERY_MAX = 1000 }; /* of message.delivery */

/* What came with a delivery. */
typedef struct rabbit_incoming {
    const amqp_basic_properties_t *properties;
    amqp_bytes_t routing_key;
    amqp_bytes_t queue; /* it came from: for x-death */
    int redelivered;
    int counted;      /* the queue sets x-delivery-count itself: a quorum queue */
    semel_bytes body; /* the message will point to it, and not copy it */
} rabbit_incoming;

/* All but the body lies in the arena, which the caller keeps as long as the message; where the body
 * is a CloudEvent in structured mode, that too. NULL when out of memory. Headers and texts over a
 * limit of message.h are left out; a body that is too large stays, and the consumer checks it. */
semel_message *rabbit_envelope_read(mem_arena *arena, const rabbit_incoming *incoming);

#endif
