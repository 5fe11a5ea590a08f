/* A pipeline: stores, queues, inboxes with their handlers, and outboxes with their relays, declared
 * as one constant table, opened by one call, run by one call, stopped by one and closed by one.
 *
 *     static const semel_pipeline_store stores[] = {
 *         {.name = "shop", .url = "sqlite:shop.db"}, {0}};
 *     static const semel_pipeline_queue queues[] = {{.name = "orders"}, {0}};
 *     static const semel_pipeline_inbox inboxes[] = {
 *         {.name = "stock", .from = "orders", .handler = reserve},
 *         {.name = "mail", .from = "orders", .handler = send_mail, .options = &claim},
 *         {0}};
 *     static const semel_pipeline_outbox outboxes[] = {{.name = "placed", .to = "orders"}, {0}};
 *     static const semel_pipeline_spec shop = {.size = sizeof shop, .stores = stores,
 *         .queues = queues, .inboxes = inboxes, .outboxes = outboxes};
 *
 *     semel_pipeline *pipeline = NULL;
 *     if (!semel_pipeline_open(&pipeline, &shop, &err))
 *         semel_pipeline_run(pipeline, &err);
 *     semel_pipeline_close(pipeline);
 *
 * Each array ends with an element whose name is NULL. The elements of a kind have different names,
 * and refer to those of other kinds by name: an inbox reads `from` a queue, an outbox sends `to` a
 * queue. Handlers find outboxes by name, too: semel_unit_outbox(). The specification, and
 * everything that it points to, must stay as it is until the pipeline is closed.
 *
 * The library starts threads here, and they have ended when semel_pipeline_wait() returns: one for
 * each consumer (and its further workers), one for each relay, and one that does the retention of
 * inboxes that neither a consumer nor a local hand-off reads. They receive no signals.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_PIPELINE_H
#define SEMEL_PIPELINE_H

#include <semel/health.h>
#include <semel/queue.h>

SEMEL_BEGIN_DECLS

typedef struct semel_pipeline semel_pipeline;

#define SEMEL_PIPELINE_MAX ((size_t)256) /* most elements of each kind */

typedef struct semel_pipeline_store {
    const char *name;
    const char *url;
    const semel_store_options *options; /* NULL: the defaults */
    /* instead of a URL: a store that is open already. The pipeline uses and does not close it */
    semel_store *opened;
    int keep_schema; /* 1: opening the pipeline does not create or upgrade semel's own tables */
} semel_pipeline_store;

/* A queue is read by a consumer if an inbox names it, and written by the relays of the outboxes
 * that name it. */
typedef struct semel_pipeline_queue {
    const char *name;
    /* of a broker, or store:...; NULL: a queue of this name in `store`. The transport gets the seam
     * of the first store */
    const char *url;
    const char *store;                  /* of a queue without a URL; NULL: the first one */
    const semel_queue_options *options; /* of a queue without a URL; NULL: the defaults */
    /* of the consumer that reads the queue; NULL: the defaults. `store` and `shared_inboxes` of it
     * are set by the pipeline. Without a notice it gets the pipeline's */
    const semel_consumer_options *consumer;
    semel_transport *opened; /* instead of a URL, as for a store */
} semel_pipeline_queue;

typedef struct semel_pipeline_inbox {
    const char *name;
    const char *store;        /* NULL: the first one */
    const char *from;         /* a queue; NULL: see below */
    const char *const *types; /* patterns as in semel_route, the last one NULL; NULL: all types */
    /* called from several threads at once if the queue's consumer has several workers, or if
     * several relays hand off to the inbox */
    semel_handler *handler;
    void *context;
    const semel_inbox_options *options; /* NULL: the defaults; `faults` is the member below */
    const char *faults;                 /* an outbox of the same store, or NULL */
    /* 1: there is no inbox of this name in the store; every copy runs the handler (semel_route
     * without an inbox). Dead letters are named after the first of `types`, or "*". All of one
     * queue are in one store */
    int unkeyed;
    /* refuse to open below this grade, which is semel_inbox_grade() with the queue (without one, of
     * the store alone); 0: any is accepted */
    semel_grade require;
} semel_pipeline_inbox;

/* An inbox without `from` is read by the local hand-off of an outbox that names it, or by the
 * program itself, with semel_inbox_receive(); then `handler` may be NULL. */

typedef struct semel_pipeline_outbox {
    const char *name;
    const char *store; /* NULL: the first one */
    const char *to;    /* a queue, or NULL */
    /* local hand-off to this inbox of the same store, or NULL. An outbox has one destination, or
     * none if another program relays it */
    const char *inbox;
    /* of its relays; NULL: the defaults. Without a notice they get the pipeline's */
    const semel_relay_options *options;
    uint32_t relays; /* a thread each, at most SEMEL_WORKERS_MAX; default 1 */
} semel_pipeline_outbox;

/* As semel_notice, with the name of what is in trouble: "queue orders", "outbox placed", "inbox
 * audit" (its retention). Called from the threads of the pipeline, one at a time. It must not use
 * the pipeline, except to stop it. */
typedef void semel_pipeline_notice(void *context, const char *component,
                                   const semel_error *trouble);

typedef struct semel_pipeline_spec {
    size_t size;
    const semel_pipeline_store *stores; /* at least one */
    const semel_pipeline_queue *queues; /* an array that is NULL is empty */
    const semel_pipeline_inbox *inboxes;
    const semel_pipeline_outbox *outboxes;
    semel_pipeline_notice *notice; /* NULL: none */
    void *notice_context;
} semel_pipeline_spec;

/* Says whether the specification contradicts itself, without opening anything. SEMEL_EINVAL (or
 * SEMEL_ELIMIT) names the first element that is wrong: two of one name, a name that does not exist
 * (and the one that was probably meant), two destinations, an inbox that no loop reads and that has
 * a handler, a queue that is neither read nor written. */
SEMEL_API semel_status semel_pipeline_check(const semel_pipeline_spec *spec, semel_error *err);

/* Checks, and opens everything in the right order: stores, their tables, queues, outboxes, inboxes
 * (with their grades), consumers, relays. Nothing is sent or received before the start. If
 * something cannot be opened, all is closed again, and the error begins with what it was: inbox
 * "stock": ... SEMEL_EUNSUPPORTED if a grade is below what is required. */
SEMEL_API semel_status semel_pipeline_open(semel_pipeline **out, const semel_pipeline_spec *spec,
                                           semel_error *err);

/* Starts the threads and returns. A pipeline starts once: SEMEL_EMISUSE after that. If a thread
 * cannot be started, those that were are stopped and have ended, and the pipeline can only be
 * closed. */
SEMEL_API semel_status semel_pipeline_start(semel_pipeline *pipeline, semel_error *err);

/* Waits until the pipeline was stopped and all its threads have ended; not from one of these. If a
 * loop ends with an error that will not pass, the others are stopped, too, and that error is
 * returned: queue "orders": ... Outages are waited out, and told by the notice. */
SEMEL_API semel_status semel_pipeline_wait(semel_pipeline *pipeline, semel_error *err);

/* Start and wait. */
SEMEL_API semel_status semel_pipeline_run(semel_pipeline *pipeline, semel_error *err);

/* Stops all loops for good. Handlers that run are finished (they may ask semel_unit_stopping). May
 * be called from any thread and from a signal handler, also before the start. NULL is a no-op, and
 * so is the pipeline of a parent process. */
SEMEL_API void semel_pipeline_stop(semel_pipeline *pipeline);

/* Stops, waits and closes everything in reverse order; what was `opened` before stays open. In a
 * child after fork() it only frees memory. */
SEMEL_API void semel_pipeline_close(semel_pipeline *pipeline);

/* What was opened under a name; NULL if there is nothing of this name. The pipeline owns it, and
 * steps, runs and stops what it finds here by itself. */
SEMEL_API semel_store *semel_pipeline_find_store(const semel_pipeline *pipeline, const char *name);
SEMEL_API semel_transport *semel_pipeline_find_queue(const semel_pipeline *pipeline,
                                                     const char *name);
SEMEL_API semel_inbox *semel_pipeline_find_inbox(const semel_pipeline *pipeline, const char *name);
SEMEL_API semel_outbox *semel_pipeline_find_outbox(const semel_pipeline *pipeline,
                                                   const char *name);
SEMEL_API semel_consumer *semel_pipeline_find_consumer(const semel_pipeline *pipeline,
                                                       const char *queue);

/* Writes a description for people to review, a line for each element and each warning of a
 * transport, with the grade of each inbox and its queue:
 *
 *     store   shop             sqlite:shop.db        survives power loss
 *     queue   orders           in store shop         1 worker
 *     inbox   orders -> stock  exactly-once effects  transaction, once per id, remembered 7d
 *     outbox  placed -> orders 1 relay, balanced
 *
 * The same specification gives the same text. URLs are shown without user, password and parameters.
 * As snprintf(): at most `room` bytes with the NUL, and returns how long the whole text is. */
SEMEL_API size_t semel_pipeline_describe(char *out, size_t room, const semel_pipeline *pipeline);

/* Called for each store, consumer and relay: "store shop", "queue orders", "outbox placed" (once
 * for each of its relays). */
typedef void semel_pipeline_health_visitor(void *context, const char *component,
                                           const semel_health_part *part);

/* Asks as semel_health_check() does, from any thread, each store once; `query` gives the two times
 * and may be NULL. *out is the most severe state. `visitor` may be NULL. */
SEMEL_API semel_status semel_pipeline_health(semel_health_state *out, semel_pipeline *pipeline,
                                             const semel_health_query *query,
                                             semel_pipeline_health_visitor *visitor, void *context,
                                             semel_error *err);

SEMEL_END_DECLS

#endif
