/* The consumer: takes deliveries from a transport through inboxes and settles them.
 *
 * Routing is data. A message goes to every route whose pattern fits its type; each has its own inbox,
 * so its own marker and its own failure. A delivery is acknowledged when all its routes are settled;
 * if one fails it comes back after a backoff, and the others see a duplicate. What keeps failing
 * becomes a dead letter of its inbox. What is over a limit of message.h cannot be kept anywhere: it is
 * rejected, to the broker's own dead letters if it has any.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_CONSUMER_H
#define SEMEL_CONSUMER_H

#include <semel/inbox.h>
#include <semel/transport.h>

SEMEL_BEGIN_DECLS

typedef struct semel_consumer semel_consumer;

typedef struct semel_route {
    const char *pattern; /* a type; `*` stands for any run of characters: "order.*" */
    semel_inbox *inbox;
    semel_handler *handler;
    void *context;
} semel_route;

#define SEMEL_ROUTES_MAX ((size_t)256)

typedef enum semel_on_unrouted {
    SEMEL_UNROUTED_DEAD =
        0,                /* a dead letter of the first route's store, under the name "unrouted" */
    SEMEL_UNROUTED_IGNORE /* acknowledged and forgotten */
} semel_on_unrouted;

typedef struct semel_consumer_options {
    size_t size;
    uint32_t batch; /* deliveries taken and, where the inbox allows, handled at once; default 1 */
    uint32_t
        backoff_ms; /* before the second attempt; doubles with each, with jitter; default 200 */
    uint32_t backoff_max_ms; /* default 60000 */
    semel_on_unrouted on_unrouted;
} semel_consumer_options;

/* The routes are copied; inboxes, handlers and contexts are borrowed until the consumer is closed. */
SEMEL_API semel_status semel_consumer_open(semel_consumer **out, semel_transport *transport,
                                           const semel_route *routes, size_t count,
                                           const semel_consumer_options *options, semel_error *err);
SEMEL_API void semel_consumer_close(semel_consumer *consumer);

/* One turn: waits up to `wait_ms` for deliveries, handles and settles them. *settled counts those
 * acknowledged. A handler's failure is not an error of the step. If the store cannot be reached the
 * deliveries go back unharmed and the step returns that error: call it again later. */
SEMEL_API semel_status semel_consumer_step(size_t *settled, semel_consumer *consumer,
                                           uint32_t wait_ms, semel_error *err);
SEMEL_API semel_status semel_consumer_run(semel_consumer *consumer, semel_error *err);
SEMEL_API void semel_consumer_stop(semel_consumer *consumer);

/* Runs a dead letter again through the route of its inbox: see semel_inbox_replay() in dead.h. */
SEMEL_API semel_status semel_consumer_replay(semel_outcome *out, semel_consumer *consumer,
                                             int64_t dead_id, semel_error *err);

SEMEL_END_DECLS

#endif
