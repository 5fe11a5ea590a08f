/* The transport driver table: what a broker's client must do to be a transport. For people who write
 * backends.
 *
 * Rules for every member
 *  - `transport` points to the driver's own state: the core allocates driver->transport_size zeroed
 *    bytes and frees them after close.
 *  - With the ability SHARED all members may be called by several threads at once, else by one.
 *  - Every wait is bounded by the wait_ms of its call, except for making a connection, which has a bound of its own.
 *    A broken connection is EUNAVAILABLE at once; the driver connects again by itself, at the next call.
 *  - Only `durability` is called in a child of the process that opened the transport: there the core refuses all other
 *    calls itself, and `close` is left out, since locks may be held for ever and threads are gone.
 *
 * A new backend is done when tests/support/conformance/conformance_transport.c passes against the real thing.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SYS_TRANSPORT_H
#define SEMEL_SYS_TRANSPORT_H

#include <semel/sys/verdict.h>
#include <semel/transport.h>

SEMEL_BEGIN_DECLS

#define SEMEL_TRANSPORT_DRIVER_VERSION 4

enum {
    SEMEL_TRANSPORT_SHARED = 1, /* may be used by several threads at once */
    SEMEL_TRANSPORT_ORDERED =
        2, /* in one publish, nothing of a group is accepted after a failure in it */
    SEMEL_TRANSPORT_COUNTS =
        4, /* message.delivery is right: 1 first, more for a redelivery, never 0 */
    SEMEL_TRANSPORT_DELAYS = 8 /* a retry's delay_ms is kept; without it the delivery comes back at
                                * once, and a consumer holds it back itself */
};

typedef struct semel_transport_settings {
    const semel_seam *seam; /* complete: no member is NULL */
} semel_transport_settings;

/* A message handed out. It and its message belong to the transport and stay valid until it is settled
 * or the transport is closed. */
typedef struct semel_delivery {
    uint64_t tag; /* names the delivery; never reused by this transport */
    const semel_message *message;
    const char
        *partition; /* of brokers that have them: the part of the log that it comes from, ... */
    int64_t
        position; /* ... and its place there, ascending from 0. NULL and -1 where there is none */
} semel_delivery;

/* ACK, RETRY or REJECT. */
typedef struct semel_delivery_settlement {
    uint64_t tag;
    semel_verdict verdict;
    uint32_t delay_ms;
} semel_delivery_settlement;

/* What a publisher has to do while the broker works. It may take its time, and must not use the transport. */
typedef void semel_meanwhile(void *context);

typedef struct semel_transport_driver {
    uint32_t version;   /* SEMEL_TRANSPORT_DRIVER_VERSION */
    uint32_t abilities; /* SEMEL_TRANSPORT_... */
    const char *scheme;
    size_t transport_size;

    /* EINVAL for a bad URL. On failure whatever was acquired has been released. */
    semel_status (*open)(void *transport, const char *url, const semel_transport_settings *settings,
                         semel_error *err);

    /* What was delivered and not settled goes back to the broker. Waits for no more than its goodbye. */
    void (*close)(void *transport);

    /* How safe a confirmed message is. */
    semel_durability (*durability)(const void *transport);

    /* Sends all, then collects the answers. results[] is right whatever is returned: CONFIRMED only for
     * what the broker confirmed and has a place for, UNKNOWN for what it did not answer. OK if every
     * message has its answer. Keeps the order given within a group. */
    semel_status (*publish)(void *transport, semel_publish_result results[],
                            const semel_message *const messages[], size_t count, uint32_t wait_ms,
                            semel_error *err);

    /* Up to `max` deliveries, as soon as there is one; *count is 0 when wait_ms passed without. */
    semel_status (*receive)(void *transport, semel_delivery deliveries[], size_t max, size_t *count,
                            uint32_t wait_ms, semel_error *err);

    /* Each verdict holds for its own delivery only, never cumulatively over others. An unknown tag is
     * EINVAL, and the others are settled all the same. EUNAVAILABLE: the connection is gone, with all the
     * deliveries that came by it; they are no longer out here, and the broker delivers them again. */
    semel_status (*settle)(void *transport, const semel_delivery_settlement settles[], size_t count,
                           semel_error *err);

    /* Optional. Renews the ownership of deliveries that are still being handled, for brokers that take a delivery
     * back after a time: each is out for another *hold_ms from now, which the driver writes. A tag that is no longer
     * out is passed over: its delivery was taken back, and comes again. EUNAVAILABLE as in settle. The core calls it
     * well before the time is over, by any thread if the transport is SHARED, and the first time with count 0, to
     * learn *hold_ms. NULL: a delivery is out until it is settled or the connection is lost. */
    semel_status (*extend)(void *transport, const uint64_t tags[], size_t count, uint32_t *hold_ms,
                           semel_error *err);

    /* Optional. What may be lost as the transport is set up, one sentence per line. */
    const char *(*warnings)(const void *transport);

    /* All that is out, and all that was fetched for the next receive, goes back to the broker, to its old place. The
     * consumer settles the deliveries afterwards, with SEMEL_VERDICT_RETRY. NULL: that alone does it. */
    void (*give_back)(void *transport);

    /* As publish; and calls `meanwhile` exactly once, by the caller's thread, holding no lock: when the messages are on
     * their way and before their answers are waited for, or later, or when they could not be sent. Answers that have
     * come when it returns are taken even if wait_ms is over by then. Others who publish may have to wait for it. NULL: it
     * is called after publish. */
    semel_status (*publish_while)(void *transport, semel_publish_result results[],
                                  const semel_message *const messages[], size_t count,
                                  uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                                  semel_error *err);
} semel_transport_driver;

/* Opens a transport with a driver that is not in the registry: for tests, and for wrappers. `argument`
 * reaches the driver's open() in place of a URL. */
SEMEL_API semel_status semel_transport_open_driver(semel_transport **out,
                                                   const semel_transport_driver *driver,
                                                   const void *argument,
                                                   const semel_transport_options *options,
                                                   semel_error *err);

/* For drivers that wrap another transport, and for consumers of one's own: the members above, checked. */
SEMEL_API const semel_transport_driver *semel_transport_driver_of(const semel_transport *transport);

/* The driver's own state, for accessors that a driver brings along; NULL if the transport has another
 * driver. */
SEMEL_API void *semel_transport_state(const semel_transport *transport,
                                      const semel_transport_driver *driver);
SEMEL_API semel_status semel_transport_receive(semel_transport *transport,
                                               semel_delivery deliveries[], size_t max,
                                               size_t *count, uint32_t wait_ms, semel_error *err);
SEMEL_API semel_status semel_transport_settle(semel_transport *transport,
                                              const semel_delivery_settlement settles[],
                                              size_t count, semel_error *err);

SEMEL_END_DECLS

#endif
