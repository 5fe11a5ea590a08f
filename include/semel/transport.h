/* A transport: a broker or queue.
 *
 *     memory:                     queues in this process, shared by all users of the handle
 *     memory:?ack_ms=30000        an unsettled delivery is delivered again after this time
 *     memory:?messages_max=1000   the most messages that it holds at a time
 *
 *     amqp://user:password@host:5672/vhost?exchange=shop       RabbitMQ: to publish
 *     amqps://user:password@host/vhost?queue=stock&exchange=shop&declare=yes
 *                                                              ... and to receive, by TLS
 *
 * RABBITMQ.md in semel's documentation describes all parameters of the latter, and what each costs
 * and promises.
 *
 *     redis://user:password@host:6379/0?stream=orders          Redis Streams: to publish
 *     rediss://host/0?stream=orders&group=stock&declare=yes    ... and to receive, by TLS
 *
 * The same for REDIS_STREAMS.md.
 *
 *     nats://user:password@host:4222/ORDERS?subject=orders     NATS JetStream: to publish
 *     natss://user:password@host/ORDERS?subject=orders&consumer=stock&declare=yes
 *                                                              ... and to receive, by TLS
 *
 * NATS.md is about these.
 *
 *     kafka://host:9092,host2:9092/orders?group=stock          Kafka: KAFKA.md
 *
 *     store:sqlite:shop.db#orders                   a queue in a store, by name: <semel/queue.h>
 *     store:postgres://user@host/db#orders
 *
 * Threads may share a transport if its driver allows it (all that are built in do). A transport may
 * not be used after fork(): the child opens its own. In the child every call on the parent's
 * transport returns SEMEL_EMISUSE, and closing it only frees its memory; the broker notices
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

/* What semel_transport_open() would say of the URL before it contacts a broker: for configurations,
 * to be checked where there is none. With `receives` not 0 the URL must also name what to receive
 * from (SEMEL_EMISUSE). SEMEL_EUNSUPPORTED: the transport was not built in. SEMEL_OK does not mean
 * that the URL can be opened. */
SEMEL_API semel_status semel_transport_check_url(const char *url, int receives, semel_error *err);

/* The broker's answer for one message. */
typedef enum semel_publish_result {
    SEMEL_PUBLISH_UNKNOWN = 0, /* not tried, or no answer: the broker may or may not have it */
    SEMEL_PUBLISH_CONFIRMED,   /* the broker has it, as safely as the broker promises */
    SEMEL_PUBLISH_REFUSED,     /* the broker will never accept it: it is too large, for instance */
    SEMEL_PUBLISH_UNROUTABLE,  /* the broker has no queue for its topic (yet) */
    /* not accepted now: the queue is full, the broker failed, or it is not allowed (yet) */
    SEMEL_PUBLISH_NACKED
} semel_publish_result;

/* Publishes a batch and waits up to `wait_ms` for the answers. SEMEL_OK: every message has its
 * answer. results[] is valid with any other status, too: the caller must send again what is not
 * confirmed there. */
SEMEL_API semel_status semel_transport_publish(semel_publish_result results[],
                                               semel_transport *transport,
                                               const semel_message *const messages[], size_t count,
                                               uint32_t wait_ms, semel_error *err);

/* Which messages this transport may lose, given its configuration: one sentence per line, or "" if
 * it knows of none. */
SEMEL_API const char *semel_transport_warnings(const semel_transport *transport);

/* How many messages are ready in the queue that the transport receives from: they wait there, and
 * no consumer has them. The broker is asked, nothing is received, and the number may be another one
 * already. SEMEL_EUNSUPPORTED if this transport cannot tell, SEMEL_EMISUSE if its URL names no
 * queue. */
SEMEL_API semel_status semel_transport_depth(uint64_t *ready, semel_transport *transport,
                                             semel_error *err);

/* What semel promises about effects for a combination of store, transport and mode. */
typedef enum semel_grade {
    SEMEL_GRADE_AT_LEAST_ONCE = 1, /* effects may repeat after a crash */
    SEMEL_GRADE_EFFECTIVELY_ONCE,  /* once, unless a crash falls between the work and its record */
    SEMEL_GRADE_EXCEPT_POWER_LOSS, /* exactly-once effects, unless the power fails */
    SEMEL_GRADE_EXACTLY_ONCE_EFFECTS /* exactly-once effects */
} semel_grade;

/* `transport` may be NULL, to grade the store alone. */
SEMEL_API semel_grade semel_inbox_grade(const struct semel_inbox *inbox,
                                        const semel_transport *transport);
SEMEL_API const char *semel_grade_name(semel_grade grade);

SEMEL_END_DECLS

#endif
