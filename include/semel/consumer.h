/* The consumer: takes deliveries from a transport through inboxes and settles them.
 *
 * Routing is data. A message goes to every route whose pattern fits its type; each has its own inbox,
 * so its own marker and its own failure. A delivery is acknowledged when all its routes are settled;
 * if one fails it comes back after a backoff, and the others see a duplicate. What keeps failing
 * becomes a dead letter of its inbox. Until then it is kept back here, unsettled, where the transport
 * cannot delay a redelivery or order is kept; and so is everything while the store cannot be reached. What
 * is over a limit of message.h cannot be stored: it is rejected, to the broker's own dead letters if it has
 * any, and a dead letter "unusable" of the first route's store says that it came.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_CONSUMER_H
#define SEMEL_CONSUMER_H

#include <semel/inbox.h>
#include <semel/transport.h>

SEMEL_BEGIN_DECLS

typedef struct semel_consumer semel_consumer;

typedef struct semel_route {
    const char *pattern; /* a type; `*` stands for any run of characters: "order.*". A message that
                          * has no type is matched by its topic */
    semel_inbox *inbox;
    semel_handler *handler;
    void *context;
} semel_route;

#define SEMEL_ROUTES_MAX  ((size_t)256)
#define SEMEL_WORKERS_MAX ((size_t)256)
#define SEMEL_IN_HAND_MAX ((size_t)10000000)

typedef enum semel_on_unrouted {
    SEMEL_UNROUTED_DEAD =
        0,                /* a dead letter of the first route's store, under the name "unrouted" */
    SEMEL_UNROUTED_IGNORE /* acknowledged and forgotten */
} semel_on_unrouted;

typedef enum semel_order {
    SEMEL_ORDER_NONE = 0, /* a message that fails is overtaken by others */
    SEMEL_ORDER_GROUP     /* messages of one group are handled in the order of their delivery, one
                           * after the other: one that fails holds up its own group, and nothing
                           * else as long as that does not fill in_hand_max or the broker's
                           * prefetch. Holds within this consumer, not between several of a queue */
} semel_order;

typedef struct semel_consumer_options {
    size_t size;
    uint32_t batch; /* deliveries taken and, where the inbox allows, handled at once; default 1 */
    uint32_t
        backoff_ms; /* before the second attempt; doubles with each, with jitter; default 200 */
    uint32_t backoff_max_ms; /* default 60000 */
    semel_on_unrouted on_unrouted;
    uint32_t workers; /* threads that semel_consumer_run() works with; default 1: the caller's own.
                       * More need a transport that may be shared by threads */
    semel_order order;
    uint32_t in_hand_max; /* deliveries kept here unsettled, at most; default: 2 * batch * workers,
                           * and at least 100 */

    /* Of semel_consumer_run(). Called by one thread at a time, which may be any worker, while the others
     * wait: it must not use the consumer, except to stop it. */
    semel_notice *notice;
    void *notice_context;
} semel_consumer_options;

/* The routes are copied; the transport, inboxes, handlers and contexts are borrowed until the consumer
 * is closed, which speaks to the transport once more: what is in hand goes back to the broker. */
SEMEL_API semel_status semel_consumer_open(semel_consumer **out, semel_transport *transport,
                                           const semel_route *routes, size_t count,
                                           const semel_consumer_options *options, semel_error *err);
SEMEL_API void semel_consumer_close(semel_consumer *consumer);

/* One turn in the caller's thread: waits up to `wait_ms` for deliveries, handles and settles them.
 * *settled counts those acknowledged. A handler's failure is not an error of the step.
 *  - If the store cannot be reached the deliveries stay in hand unharmed, and the step returns that error
 *    (retryable): call it again later, which takes no more in before those are dealt with.
 *  - If the broker cannot be told, or no longer knows a delivery (SEMEL_ELOST), the work is done all the
 *    same; the delivery comes again and is a duplicate. Retryable, too.
 *  - After an error that is not retryable everything in hand has gone back to the broker.
 * SEMEL_EMISUSE: it is stepping or running already, maybe in a caller of this very handler. */
SEMEL_API semel_status semel_consumer_step(size_t *settled, semel_consumer *consumer,
                                           uint32_t wait_ms, semel_error *err);

/* Steps until stopped, with `workers` threads, which are gone when it returns; handlers are then called
 * from all of them, several at once. Errors that may pass (retryable) are waited out by all together,
 * with backoff; others end it. What is not at work when it ends stays in hand until semel_consumer_close(). */
SEMEL_API semel_status semel_consumer_run(semel_consumer *consumer, semel_error *err);

/* For good: whoever runs it after that returns at once. May be called from any thread and from a signal
 * handler, also before the run; what is at work is finished and settled. */
SEMEL_API void semel_consumer_stop(semel_consumer *consumer);

/* Runs a dead letter again through the route of its inbox: see semel_inbox_replay() in dead.h. */
SEMEL_API semel_status semel_consumer_replay(semel_outcome *out, semel_consumer *consumer,
                                             int64_t dead_id, semel_error *err);

SEMEL_END_DECLS

#endif
