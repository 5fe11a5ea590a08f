/* The transport driver table: what a driver must do to make a broker a transport. For authors of
 * backends; BACKENDS.md in semel's documentation is a guide.
 *
 * Rules for every member
 *  - `transport` points to the driver's own state: the core allocates driver->transport_size zeroed
 *    bytes and frees them after close.
 *  - With the ability SHARED several threads may call all members at once; without it, one thread
 *    at a time.
 *  - Every wait ends after the wait_ms of the call, except for connecting, which has a limit of its
 *    own. If the connection is broken, the member returns EUNAVAILABLE at once; the driver itself
 *    connects again at the next call.
 *  - In a child of the process that opened the transport, the core calls `durability` only. It
 *    refuses all other calls itself and leaves out `close`, because locks may stay held for ever
 *    and the threads do not exist there.
 *
 * A backend is complete when the conformance suite (tests/support/conformance in semel's sources)
 * passes against the real broker.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SYS_TRANSPORT_H
#define SEMEL_SYS_TRANSPORT_H

#include <semel/sys/verdict.h>
#include <semel/transport.h>
#include <semel/unit.h>

SEMEL_BEGIN_DECLS

#define SEMEL_TRANSPORT_DRIVER_VERSION 8

enum {
    SEMEL_TRANSPORT_SHARED = 1, /* several threads may use it at once */
    /* once a message has failed, the same publish accepts no later message of its group */
    SEMEL_TRANSPORT_ORDERED = 2,
    /* message.delivery is set: 1 for a first delivery, more for a redelivery, never 0 */
    SEMEL_TRANSPORT_COUNTS = 4,
    /* the broker honours delay_ms of RETRY. Without this ability the broker delivers the message
     * again at once, so the consumer holds the delivery itself */
    SEMEL_TRANSPORT_DELAYS = 8,
    /* deliveries have a partition, a position and an origin. One consumer of the queue has a
     * partition at a time, and receives its positions in ascending order, from the first that was
     * not settled on; only what it returns with RETRY comes to it once more. So a store can keep
     * one position per partition in place of a marker per key */
    SEMEL_TRANSPORT_POSITIONS = 16
};

typedef struct semel_transport_settings {
    const semel_seam *seam; /* complete: only `fault` may be NULL */
} semel_transport_settings;

/* A delivery. The delivery and its message belong to the transport; they are valid until the
 * delivery is settled or the transport is closed. */
typedef struct semel_delivery {
    uint64_t tag; /* names the delivery; never reused by this transport */
    const semel_message *message;
    /* for brokers with partitions: the partition that the message comes from ("orders/3"), and its
     * position there, ascending from 0. NULL and -1 for other brokers */
    const char *partition;
    int64_t position;
    /* for brokers with partitions: what the positions count in, as far as the broker tells: the id
     * of the cluster or of the topic. It differs if the same positions mean other messages. NULL or
     * "": not known */
    const char *origin;
} semel_delivery;

/* ACK, RETRY or REJECT. */
typedef struct semel_delivery_settlement {
    uint64_t tag;
    semel_verdict verdict;
    uint32_t delay_ms;
} semel_delivery_settlement;

/* Work for the publisher's thread while the broker processes messages. It may take long, and must
 * not use the transport. */
typedef void semel_meanwhile(void *context);

typedef struct semel_transport_driver {
    uint32_t version;   /* SEMEL_TRANSPORT_DRIVER_VERSION */
    uint32_t abilities; /* SEMEL_TRANSPORT_... */
    const char *scheme;
    size_t transport_size;

    /* EINVAL for a bad URL. On failure the driver has released everything that it acquired. */
    semel_status (*open)(void *transport, const char *url, const semel_transport_settings *settings,
                         semel_error *err);

    /* Unsettled deliveries go back to the broker. The call waits for nothing but the end of the
     * connection. */
    void (*close)(void *transport);

    /* What a confirmed message survives. */
    semel_durability (*durability)(const void *transport);

    /* Sends all messages, then collects the answers. results[] is valid whatever the call returns:
     * CONFIRMED only for a message that the broker has confirmed and routed to a queue, UNKNOWN for
     * one without an answer. OK if every message has its answer. Within a group the driver keeps
     * the given order. */
    semel_status (*publish)(void *transport, semel_publish_result results[],
                            const semel_message *const messages[], size_t count, uint32_t wait_ms,
                            semel_error *err);

    /* Returns up to `max` deliveries, as soon as there is at least one. *count is 0 if none came
     * within wait_ms. */
    semel_status (*receive)(void *transport, semel_delivery deliveries[], size_t max, size_t *count,
                            uint32_t wait_ms, semel_error *err);

    /* Applies each verdict to its own delivery only, never cumulatively to others. An unknown tag
     * is EINVAL, and the other deliveries are settled nevertheless. EUNAVAILABLE: the connection is
     * lost, and with it all deliveries that came by it. They are no longer known here, and the
     * broker delivers them again. */
    semel_status (*settle)(void *transport, const semel_delivery_settlement settles[], size_t count,
                           semel_error *err);

    /* Optional. Renews the ownership of deliveries that are still being handled, for brokers that
     * take a delivery back after a time. Each delivery then stays with the consumer for another
     * *hold_ms from now, which the driver writes. The driver ignores the tag of a delivery that the
     * broker has taken back: the broker delivers it again. EUNAVAILABLE as in settle. The core
     * calls it well before the time is over, by any thread if the transport is SHARED. The first
     * call has count 0; it only asks for *hold_ms. NULL: a delivery stays with the consumer until
     * it is settled or the connection is lost. */
    semel_status (*extend)(void *transport, const uint64_t tags[], size_t count, uint32_t *hold_ms,
                           semel_error *err);

    /* Optional. Which messages may be lost, given the transport's configuration: one sentence per
     * line. */
    const char *(*warnings)(const void *transport);

    /* Optional. Returns all unsettled deliveries, and all messages that were fetched for the next
     * receive, to their old place in the broker. The consumer afterwards settles the deliveries
     * with SEMEL_VERDICT_RETRY. NULL: settling them is enough to return them. */
    void (*give_back)(void *transport);

    /* Optional. As publish, and also calls `meanwhile` exactly once, in the caller's thread and
     * without holding a lock: after the messages have been sent and before the driver waits for
     * their answers, or later, or when the messages could not be sent. The driver accepts the
     * answers that have arrived when `meanwhile` returns, even if wait_ms is over by then. Other
     * publishers may have to wait for it. NULL: the core calls `meanwhile` after publish. */
    semel_status (*publish_while)(void *transport, semel_publish_result results[],
                                  const semel_message *const messages[], size_t count,
                                  uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                                  semel_error *err);

    /* Optional. 1 if the broker keeps a message that is rejected, as far as the driver can know:
     * in a dead-letter queue, for instance. NULL, or 0: REJECT may lose it, and the core refuses
     * SEMEL_FAILURE_REJECT. */
    int (*keeps_rejected)(const void *transport);

    /* Optional, all three or none: for a queue whose messages are rows in a store. A consumer whose
     * inbox is in the same store then settles a batch of deliveries in the transaction that handles
     * them.
     *
     * store_of: the store of the queue.
     *
     * settle_in: as settle, but inside an open unit of that store, and with its commit. The driver
     * neither ends the unit nor forgets a delivery: the core may roll the unit back. ELOST if a
     * delivery is no longer out or no longer the consumer's; the core then rolls the unit back.
     * Other statuses are those of the store.
     *
     * settled: the unit was committed, and the deliveries are no longer out. */
    semel_store *(*store_of)(const void *transport);
    semel_status (*settle_in)(void *transport, semel_unit *unit,
                              const semel_delivery_settlement settles[], size_t count,
                              semel_error *err);
    void (*settled)(void *transport, const semel_delivery_settlement settles[], size_t count);

    /* Optional. How many messages are ready in the queue: a consumer that asked now would get them.
     * The driver asks the broker and receives nothing; what consumers have, and what waits for the
     * end of a delay, does not count. EMISUSE if the transport has no queue to receive from. NULL:
     * the driver cannot tell. */
    semel_status (*depth)(void *transport, uint64_t *ready, semel_error *err);

    /* Optional. 1 if the broker has taken this delivery back: its partition now belongs to another
     * consumer, or its time is over. The core asks just before it begins to handle a delivery, and
     * settles one that is revoked with SEMEL_VERDICT_RETRY instead. The driver answers from memory,
     * and keeps the delivery until it is settled; settling it is then no error. NULL: only a lost
     * connection takes deliveries back. */
    int (*revoked)(void *transport, uint64_t tag);

    /* Optional. What is wrong with a URL, as far as the URL itself shows it. The driver reads it as
     * open() does, and contacts nothing. EINVAL for what open() would refuse; EMISUSE if `receives`
     * is not 0 and the URL names nothing to receive from. A piece of the URL stands between double
     * quotes in the text of an error, and a password never does. NULL: opening it tells. */
    semel_status (*check_url)(const char *url, int receives, semel_error *err);
} semel_transport_driver;

/* Opens a transport with a driver that is not built in: the application's own, a wrapper or a
 * test's. The driver's open() gets `argument` in place of a URL. The driver must outlive the
 * transport. */
SEMEL_API semel_status semel_transport_open_driver(semel_transport **out,
                                                   const semel_transport_driver *driver,
                                                   const void *argument,
                                                   const semel_transport_options *options,
                                                   semel_error *err);

/* The driver of a transport, for drivers that wrap another transport. */
SEMEL_API const semel_transport_driver *semel_transport_driver_of(const semel_transport *transport);

/* The driver's own state, for accessor functions that a driver offers; NULL if the transport has
 * another driver. */
SEMEL_API void *semel_transport_state(const semel_transport *transport,
                                      const semel_transport_driver *driver);

/* The members `receive` and `settle`, with a check that the process is the one that opened the
 * transport: for wrappers, and for applications with a consumer of their own. */
SEMEL_API semel_status semel_transport_receive(semel_transport *transport,
                                               semel_delivery deliveries[], size_t max,
                                               size_t *count, uint32_t wait_ms, semel_error *err);
SEMEL_API semel_status semel_transport_settle(semel_transport *transport,
                                              const semel_delivery_settlement settles[],
                                              size_t count, semel_error *err);

SEMEL_END_DECLS

#endif
