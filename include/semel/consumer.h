/* The consumer: receives deliveries from a transport, passes them through inboxes and settles them.
 *
 * Routing is data. A message goes to every route whose pattern matches its type. Each route has its
 * own inbox, and therefore its own marker and its own failures. The consumer acknowledges a
 * delivery when all its routes are settled. If one route fails, the message is tried again after a
 * backoff, and the other routes then see a duplicate. A message that keeps failing becomes a dead
 * letter of its inbox.
 *
 * Two kinds of routes promise less:
 *  - A route without an inbox (NULL, and a store in the options) is for a handler that may run
 *    twice: one that overwrites a state or fills a cache. Its handler runs in a transaction, so
 *    what it writes and sends is committed together or not at all, but each copy runs it again.
 *    The consumer counts attempts in memory, and by message.delivery if the transport counts; the
 *    last one makes a dead letter named after the pattern. Attempts that kill the process are not
 *    counted. While the consumer holds a delivery because another route failed, a route without an
 *    inbox that is done with it does not run again; after a crash, or if the broker delivers the
 *    message again, it does.
 *  - Several routes with one inbox (see shared_inboxes) share its marker. All handlers whose
 *    patterns fit a message run in one unit, in the order of the table, and commit or fail
 *    together. So if one fails, those before it run again, and a dead letter is one of all of
 *    them. In claim mode they run under one claim. A handler runs once for a message even if
 *    several of the routes that fit name it with the same context: so a handler can have several
 *    patterns.
 *
 * Until then the consumer holds the delivery itself, unsettled, if the transport cannot delay a
 * redelivery or if the order of groups is kept. It also holds all deliveries while the store cannot
 * be reached. A message that exceeds a limit of message.h cannot be stored. The consumer rejects
 * it, which moves it to the broker's own dead letters if the broker has any, and writes a dead
 * letter named "unusable" to the store of the first route that
 * has an inbox.
 *
 * A running consumer also does the retention of its inboxes, in short steps between deliveries:
 * see sweep_every_ms and semel_inbox_sweep() in inbox.h. A program that calls
 * semel_consumer_step() sweeps by itself.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_CONSUMER_H
#define SEMEL_CONSUMER_H

#include <semel/inbox.h>
#include <semel/transport.h>

SEMEL_BEGIN_DECLS

typedef struct semel_consumer semel_consumer;

typedef struct semel_route {
    /* a type, in which `*` stands for any run of characters: "order.*". A message without a type is
     * matched by its topic */
    const char *pattern;
    semel_inbox *inbox; /* NULL: every copy runs the handler, see above */
    semel_handler *handler;
    void *context;
} semel_route;

#define SEMEL_ROUTES_MAX   ((size_t)256)
#define SEMEL_WORKERS_MAX  ((size_t)256)
#define SEMEL_INFLIGHT_MAX ((size_t)10000000)

typedef enum semel_on_unrouted {
    /* a dead letter named "unrouted" in the store of the first route that has an inbox */
    SEMEL_UNROUTED_DEAD = 0,
    SEMEL_UNROUTED_IGNORE /* acknowledged and forgotten */
} semel_on_unrouted;

typedef enum semel_order {
    SEMEL_ORDER_NONE = 0, /* other messages overtake one that fails */
    /* messages of one group are handled in the order of their delivery, one at a time. A message
     * that fails delays its own group; it delays other groups only when its group fills
     * inflight_max or the broker's prefetch. The order holds within this consumer, not between
     * several consumers of one queue */
    SEMEL_ORDER_GROUP,
    /* the same for the messages of one partition, where the transport has partitions: a message
     * that fails holds up its partition. Inboxes that remember positions need this order, and it is
     * the default if one of the routes has such an inbox */
    SEMEL_ORDER_PARTITION
} semel_order;

/* Who decides what becomes of a delivery whose handler failed. */
typedef enum semel_on_failure {
    /* the consumer: it tries again after a backoff, and the last attempt makes a dead letter */
    SEMEL_FAILURE_HOLD = 0,
    /* the broker: the delivery goes back to its queue, with the backoff as its delay if the
     * transport can delay, else at once. The broker must limit deliveries (RabbitMQ:
     * delivery_limit), or the message comes for ever */
    SEMEL_FAILURE_REQUEUE,
    /* the broker: the delivery goes to the dead-letter route of its queue, which may return it
     * after a time. Refused if the transport would lose what is rejected */
    SEMEL_FAILURE_REJECT
} semel_on_failure;

typedef struct semel_consumer_options {
    size_t size;
    /* most deliveries that a worker takes at once and, if the inbox allows, handles in one
     * transaction. Default: what suits the handlers. Each worker starts with one, takes up to 100
     * (1000 if all inboxes remember positions) while they are quick and succeed, and one if they
     * are slow or fail; a transaction that has been open for some 20 ms is committed without the
     * messages that are left, which follow at once. With a number, all messages of a batch are
     * handled, however long that takes. 1: every message has a transaction of its own, so no
     * failure of another makes its handler run again */
    uint32_t batch;
    uint32_t backoff_ms;     /* before the second attempt; doubles, with jitter; default 200 */
    uint32_t backoff_max_ms; /* default 60000 */
    semel_on_unrouted on_unrouted;
    /* threads of semel_consumer_run(); default 1, which is the caller's own. More than one needs a
     * transport that threads may share */
    uint32_t workers;
    semel_order order;
    /* most deliveries that the consumer holds unsettled; default 2 * batch * workers, but at
     * least 100; 200 (2000) * workers if the batch is not given */
    uint32_t inflight_max;

    /* For semel_consumer_run(). Any worker may call it, one at a time, while the other workers
     * wait. It must not use the consumer, except to stop it. */
    semel_notice *notice;
    void *notice_context;

    /* 1: a message that became a dead letter by its delivery (in any of its routes, refused or
     * without a route) is rejected, not acknowledged, when all its routes are settled. The broker
     * then moves it to its own dead letters, if it has any (RabbitMQ: the queue's dead-letter
     * exchange; without one the broker drops it, and the letter in the store is what is left). Each
     * dead letter reaches the broker's at least once, whenever the process dies; a later copy of a
     * dead message is acknowledged, unless the broker says that it has delivered it before */
    int reject_dead;
    /* 1: routes that name the same inbox share it, and routes without an inbox that have the same
     * handler and context are one, whose dead letters are named after the first pattern. 0: two
     * routes with one inbox are refused unless they have the same handler and context, because one
     * would swallow the other's messages */
    int shared_inboxes;
    /* the store of the units and dead letters of routes without an inbox. Such a route is refused
     * if no store is named, because a forgotten inbox would leave a handler without protection */
    semel_store *store;
    uint32_t attempts_max; /* of routes without an inbox; default 5 */
    /* With REQUEUE and REJECT inboxes still count attempts, but attempts_max does not make dead
     * letters: SEMEL_EGIVEUP and refusals of the inbox still do. Only failures of handlers go back:
     * the consumer itself holds what waits for another copy or for the store. Both lose the order
     * of groups and partitions, and are refused where it is kept */
    semel_on_failure on_failure;
} semel_consumer_options;

/* The consumer copies the routes. It borrows the transport, inboxes, handlers and contexts until it
 * is closed. Closing uses the transport once more: the deliveries that the consumer still holds go
 * back to the broker. */
SEMEL_API semel_status semel_consumer_open(semel_consumer **out, semel_transport *transport,
                                           const semel_route *routes, size_t count,
                                           const semel_consumer_options *options, semel_error *err);
SEMEL_API void semel_consumer_close(semel_consumer *consumer);

/* One step in the caller's thread: waits up to `wait_ms` for deliveries, handles and settles them.
 * *settled is the number of deliveries acknowledged, which may be several unless the options say
 * that the batch is 1. A handler's failure is not an error of the step.
 *  - If the store cannot be reached, the consumer keeps its deliveries and the step returns that
 *    error (retryable). Call the step again later: it receives no new deliveries before it has
 *    handled the ones it holds.
 *  - If the broker cannot be reached to settle a delivery, or no longer knows it (SEMEL_ELOST), the
 *    work is done nevertheless. The broker delivers the message again, and the copy is a duplicate.
 *    This is retryable, too.
 *  - After an error that is not retryable, all deliveries of the consumer have gone back to the
 *    broker.
 * SEMEL_EMISUSE: the consumer is stepping or running already, possibly further up in the caller's
 * own stack. */
SEMEL_API semel_status semel_consumer_step(size_t *settled, semel_consumer *consumer,
                                           uint32_t wait_ms, semel_error *err);

/* Steps until the consumer is stopped, with `workers` threads, which have ended when the call
 * returns. With several workers, handlers run in several threads at once. When an error is
 * retryable, all workers wait together, with backoff, until it has passed; any other error ends the
 * run. Deliveries that no handler is working on when the run ends stay with the consumer until
 * semel_consumer_close(). */
SEMEL_API semel_status semel_consumer_run(semel_consumer *consumer, semel_error *err);

/* Stops the consumer for good: later calls of semel_consumer_run() return at once. May be called
 * from any thread and from a signal handler, also before the run. Handlers that are running finish,
 * and their deliveries are settled; of a batch whose size is given, all handlers run. A handler may
 * ask (semel_unit_stopping) and return SEMEL_ESTOPPED: its delivery then goes back to the broker
 * when the consumer is closed. */
SEMEL_API void semel_consumer_stop(semel_consumer *consumer);

/* Runs the handler of the inbox's route on a dead letter again, or all handlers of the routes that
 * share the inbox: see semel_inbox_replay() in dead.h. Also for letters of routes without an
 * inbox.
 *
 * A letter named "unrouted" goes through all routes that fit it by now, each with its own inbox,
 * which then knows its key: a later copy is a duplicate. The letter goes with the last of them, in
 * the same transaction if that inbox is in the letter's store and not in claim mode. If a route
 * fails, the letter stays, and the routes that were done see a duplicate at the next replay.
 * SEMEL_EREJECTED if still no route fits, and for a letter named "unusable", which contains no
 * message. */
SEMEL_API semel_status semel_consumer_replay(semel_outcome *out, semel_consumer *consumer,
                                             int64_t dead_id, semel_error *err);

/* Replays all dead letters that belong to the consumer's routes, have no route or are unusable, and
 * that the filter of dead.h names (NULL: all), as semel_inbox_replay_all() does. With inboxes in
 * several stores, the filter's after_id applies to each. */
struct semel_dead_filter;
SEMEL_API semel_status semel_consumer_replay_all(size_t *replayed, size_t *failed,
                                                 semel_consumer *consumer,
                                                 const struct semel_dead_filter *filter,
                                                 semel_error *err);

SEMEL_END_DECLS

#endif
