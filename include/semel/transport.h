/* A transport: a broker or queue.
 *
 *     memory:                     queues in this process, shared by everyone who has the handle
 *     memory:?ack_ms=30000        an unsettled delivery comes back after this long
 *     memory:?messages_max=1000   it takes no more than so many at a time
 *
 *     amqp://user:password@host:5672/vhost?exchange=shop                   RabbitMQ: to publish
 *     amqps://user:password@host/vhost?queue=stock&exchange=shop&declare=yes   ... and to receive, by TLS
 *
 * docs/RABBITMQ.md has all the parameters of the latter, and what each costs and promises.
 *
 *     store:sqlite:shop.db#orders                   a queue in a store, by name: <semel/queue.h>, docs/QUEUE.md
 *     store:postgres://user@host/db#orders
 *
 * A transport may be shared by threads if its driver says so (all that are built in do). It may not be carried over
 * fork(): open it in the child. There every call is SEMEL_EMISUSE, and closing it only forgets it: the broker hears
 * nothing.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_TRANSPORT_H
#define SEMEL_TRANSPORT_H

#include <semel/store.h>

SEMEL_BEGIN_DECLS

typedef struct semel_transport semel_transport;
struct semel_inbox;

typedef struct semel_transport_options {
    size_t size;
    const semel_seam *seam; /* as in semel_store_options */
} semel_transport_options;

SEMEL_API semel_status semel_transport_open(semel_transport **out, const char *url,
                                            const semel_transport_options *options,
                                            semel_error *err);
SEMEL_API void semel_transport_close(semel_transport *transport);

/* What the broker said of one message. */
typedef enum semel_publish_result {
    SEMEL_PUBLISH_UNKNOWN = 0, /* not tried, or the answer was lost: it may or may not be there */
    SEMEL_PUBLISH_CONFIRMED,   /* the broker has it, as safely as it promises */
    SEMEL_PUBLISH_REFUSED,     /* the broker will never take it: too large, for one */
    SEMEL_PUBLISH_UNROUTABLE, /* nobody would get it: the broker has no place for its topic (yet) */
    SEMEL_PUBLISH_NACKED      /* the broker does not take it now: its queue is full, it failed, or
                               * it is not allowed (yet) */
} semel_publish_result;

/* Publishes a batch and waits for the answers, up to `wait_ms`. SEMEL_OK: every result is written. On
 * any other status too results[] is right: what is not confirmed there must be sent again. */
SEMEL_API semel_status semel_transport_publish(semel_publish_result results[],
                                               semel_transport *transport,
                                               const semel_message *const messages[], size_t count,
                                               uint32_t wait_ms, semel_error *err);

/* What may be lost by the way this transport is set up, one sentence per line; "" if nothing is known. */
SEMEL_API const char *semel_transport_warnings(const semel_transport *transport);

/* What may be said of effects for a store, a transport and a mode together. */
typedef enum semel_grade {
    SEMEL_GRADE_AT_LEAST_ONCE = 1, /* effects may repeat after a crash */
    SEMEL_GRADE_EFFECTIVELY_ONCE,  /* once, unless a crash falls between the work and its record */
    SEMEL_GRADE_EXCEPT_POWER_LOSS, /* exactly-once effects, unless the power fails */
    SEMEL_GRADE_EXACTLY_ONCE_EFFECTS /* exactly-once effects */
} semel_grade;

/* `transport` may be NULL: the store alone. */
SEMEL_API semel_grade semel_inbox_grade(const struct semel_inbox *inbox,
                                        const semel_transport *transport);
SEMEL_API const char *semel_grade_name(semel_grade grade);

SEMEL_END_DECLS

#endif
