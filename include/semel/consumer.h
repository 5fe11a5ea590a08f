/* The consumer: receives deliveries from a transport, passes them through inboxes and settles them.
 *
 * Routing is data. A message goes to every route whose pattern matches its type. Each route has its own inbox, and
 * therefore its own marker and its own failures. The consumer acknowledges a delivery when all its routes are
 * settled. If one route fails, the message is tried again after a backoff, and the other routes then see a
 * duplicate. A message that keeps failing becomes a dead letter of its inbox.
 *
 * Until then the consumer holds the delivery itself, unsettled, if the transport cannot delay a redelivery or if
 * the order of groups is kept. It also holds all deliveries while the store cannot be reached. A message that
 * exceeds a limit of message.h cannot be stored. The consumer rejects it, which moves it to the broker's own dead
 * letters if the broker has any, and writes a dead letter named "unusable" to the store of the first route.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_CONSUMER_H
#define SEMEL_CONSUMER_H

#include <semel/inbox.h>
#include <semel/transport.h>

SEMEL_BEGIN_DECLS

typedef struct semel_consumer semel_consumer;

typedef struct semel_route {
    /* a type, in which `*` stands for any run of characters: "order.*". A message without a type is matched by its
     * topic */
    const char *pattern;
    semel_inbox *inbox;
    semel_handler *handler;
    void *context;
} semel_route;

#define SEMEL_ROUTES_MAX  ((size_t)256)
#define SEMEL_WORKERS_MAX ((size_t)256)
#define SEMEL_IN_HAND_MAX ((size_t)10000000)

typedef enum semel_on_unrouted {
    SEMEL_UNROUTED_DEAD = 0, /* a dead letter named "unrouted" in the store of the first route */
    SEMEL_UNROUTED_IGNORE    /* acknowledged and forgotten */
} semel_on_unrouted;

typedef enum semel_order {
    SEMEL_ORDER_NONE = 0, /* other messages overtake one that fails */
    /* messages of one group are handled in the order of their delivery, one at a time. A message that fails delays its
     * own group; it delays other groups only when its group fills in_hand_max or the broker's prefetch. The order holds
     * within this consumer, not between several consumers of one queue */
    SEMEL_ORDER_GROUP
} semel_order;

typedef struct semel_consumer_options {
    size_t size;
    uint32_t batch; /* deliveries received and, if the inbox allows, handled at once; default 1 */
    uint32_t backoff_ms;     /* before the second attempt; doubles, with jitter; default 200 */
    uint32_t backoff_max_ms; /* default 60000 */
    semel_on_unrouted on_unrouted;
    /* threads of semel_consumer_run(); default 1, which is the caller's own. More than one needs a transport that
     * threads may share */
    uint32_t workers;
    semel_order order;
    /* most deliveries that the consumer holds unsettled; default 2 * batch * workers, but at least 100 */
    uint32_t in_hand_max;

    /* For semel_consumer_run(). Any worker may call it, one at a time, while the other workers wait. It must not
     * use the consumer, except to stop it. */
    semel_notice *notice;
    void *notice_context;
} semel_consumer_options;

/* The consumer copies the routes. It borrows the transport, inboxes, handlers and contexts until it is closed.
 * Closing uses the transport once more: the deliveries that the consumer still holds go back to the broker. */
SEMEL_API semel_status semel_consumer_open(semel_consumer **out, semel_transport *transport,
                                           const semel_route *routes, size_t count,
                                           const semel_consumer_options *options, semel_error *err);
SEMEL_API void semel_consumer_close(semel_consumer *consumer);

/* One step in the caller's thread: waits up to `wait_ms` for deliveries, handles and settles them. *settled is the
 * number of deliveries acknowledged. A handler's failure is not an error of the step.
 *  - If the store cannot be reached, the consumer keeps its deliveries and the step returns that error (retryable).
 *    Call the step again later: it receives no new deliveries before it has handled the ones it holds.
 *  - If the broker cannot be reached to settle a delivery, or no longer knows it (SEMEL_ELOST), the work is done
 *    nevertheless. The broker delivers the message again, and the copy is a duplicate. This is retryable, too.
 *  - After an error that is not retryable, all deliveries of the consumer have gone back to the broker.
 * SEMEL_EMISUSE: the consumer is stepping or running already, possibly further up in the caller's own stack. */
SEMEL_API semel_status semel_consumer_step(size_t *settled, semel_consumer *consumer,
                                           uint32_t wait_ms, semel_error *err);

/* Steps until the consumer is stopped, with `workers` threads, which have ended when the call returns. With several
 * workers, handlers run in several threads at once. When an error is retryable, all workers wait together, with
 * backoff, until it has passed; any other error ends the run. Deliveries that no handler is working on when the run
 * ends stay with the consumer until semel_consumer_close(). */
SEMEL_API semel_status semel_consumer_run(semel_consumer *consumer, semel_error *err);

/* Stops the consumer for good: later calls of semel_consumer_run() return at once. May be called from any thread and
 * from a signal handler, also before the run. Handlers that are running finish, and their deliveries are settled. */
SEMEL_API void semel_consumer_stop(semel_consumer *consumer);

/* Runs the handler of the inbox's route on a dead letter again: see semel_inbox_replay() in dead.h. */
SEMEL_API semel_status semel_consumer_replay(semel_outcome *out, semel_consumer *consumer,
                                             int64_t dead_id, semel_error *err);

SEMEL_END_DECLS

#endif
