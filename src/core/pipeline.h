/* A pipeline as its parts share it: the specification, counted and checked (pipeline_check.c), what
 * was opened for it (pipeline.c), its threads (pipeline_run.c), and what it says about itself
 * (pipeline_describe.c). */
#ifndef SEMEL_CORE_PIPELINE_H
#define SEMEL_CORE_PIPELINE_H

#include "core/retention.h"
#include "core/transport.h"

#include <pthread.h>
#include <semel/pipeline.h>
#include <stdatomic.h>
#include <sys/types.h>

/* --- the specification ------------------------------------------------------------------------ */

/* One of its arrays. The first member of each element is its name. */
typedef struct pipeline_list {
    const char *kind;   /* "store" */
    const char *member; /* "stores" */
    const void *elements;
    size_t size; /* of one */
    size_t count;
} pipeline_list;

typedef struct pipeline_table {
    semel_pipeline_spec spec;
    pipeline_list stores;
    pipeline_list queues;
    pipeline_list inboxes;
    pipeline_list outboxes;
} pipeline_table;

/* Reads and checks it: SEMEL_EINVAL or SEMEL_ELIMIT name the first element that is wrong. */
semel_status pipeline_table_read(pipeline_table *out, const semel_pipeline_spec *spec,
                                 semel_error *err);

#define PIPELINE_NONE ((size_t)-1)

/* The index of a name; NULL and what is not there are PIPELINE_NONE. */
size_t pipeline_index(const pipeline_list *list, const char *name);
const char *pipeline_name(const pipeline_list *list, size_t at);

/* As `store` members are read: NULL is the first one. */
size_t pipeline_store_index(const pipeline_table *table, const char *name);

/* 1 if an inbox reads from the queue; 1 if an outbox is handed off to the inbox. */
int pipeline_is_read(const pipeline_table *table, size_t queue);
int pipeline_is_handed(const pipeline_table *table, size_t inbox);

/* 1 if there is nothing to open under the name of the queue but a queue in a store. */
static inline int pipeline_is_in_store(const semel_pipeline_queue *queue)
{
    return !queue->url && !queue->opened;
}

/* Puts what it is about before the error of a call that failed: inbox "stock": ... Returns the
 * status. */
semel_status pipeline_blame(semel_status status, const char *kind, const char *name,
                            semel_error *err);

/* --- what is open ----------------------------------------------------------------------------- */

/* What runs in a thread of its own: a consumer, a relay or, if both are NULL, the retention of all
 * inboxes that have neither. */
typedef struct pipeline_loop {
    semel_pipeline *pipeline;
    const char *element; /* "queue", "outbox" or "inbox", and its name: what it is about */
    const char *name;
    semel_consumer *consumer;
    semel_relay *relay;
    pthread_t thread;
} pipeline_loop;

/* An inbox without a loop. */
typedef struct pipeline_sweep {
    semel_pipeline *pipeline;
    const char *name;
    retention retention;
} pipeline_sweep;

typedef enum pipeline_phase {
    PIPELINE_OPEN,
    PIPELINE_STARTED,
    PIPELINE_ENDED /* all threads are joined */
} pipeline_phase;

struct semel_pipeline {
    pipeline_table table;
    pid_t pid;            /* of the process that opened it */
    semel_store **stores; /* each array has a place for each element, in the same order */
    semel_transport **queues;
    semel_inbox **inboxes; /* NULL: unkeyed */
    semel_outbox **outboxes;
    semel_consumer **consumers; /* of the queues; NULL: not read */
    pipeline_loop *loops;
    size_t loop_count;
    pipeline_sweep *sweeps;
    size_t sweep_count;

    int wake[2]; /* a pipe: what stop() writes stays in it, for all that wait for it */
    atomic_int stopped;
    atomic_size_t running; /* loops that have not ended */

    pthread_mutex_t lock; /* over all that follows; held while threads are joined */
    pipeline_phase phase;
    size_t started; /* loops that have a thread */

    pthread_mutex_t first_lock; /* over the first error, which loops report */
    semel_error first;          /* SEMEL_OK: none */

    pthread_mutex_t notice_lock; /* notices come one at a time */
};

/* SEMEL_EMISUSE in a child of the process that opened it. */
semel_status pipeline_check_process(const semel_pipeline *pipeline, semel_error *err);

/* pipeline_run.c: what consumers, relays and retention get as their notice, with a loop, or a
 * sweep, as the context. */
semel_notice pipeline_notice_loop;
retention_report pipeline_notice_sweep;

#endif
