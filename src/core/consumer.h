/* The consumer as its parts share it: deliveries in flight (consumer_inflight.h), workers that take
 * them (consumer_worker.c) through the routes (consumer_routes.c), and the loop that keeps the
 * workers going (consumer_run.c). */
#ifndef SEMEL_CORE_CONSUMER_H
#define SEMEL_CORE_CONSUMER_H

#include "core/consumer_batch.h"
#include "core/consumer_inflight.h"
#include "core/retention.h"
#include "core/transport.h"
#include "core/unit.h"

/* What is received through one inbox: a route, or several that share it. */
typedef struct route_group {
    semel_inbox *inbox;        /* of a route without one: made for it, it keeps no keys */
    const semel_route *routes; /* in the order of the table */
    size_t count;
    int unkeyed;            /* a route without an inbox */
    semel_handler *handler; /* of the route, or one that calls those of all that fit */
    void *context;
} route_group;

/* Copies of the trace contexts of messages, which the transport frees when it settles them. */
typedef struct settled_contexts {
    semel_bytes *values;
    char (*texts)[SEMEL_TRACEPARENT_SIZE];
} settled_contexts;

/* One thread's tools. No other thread touches what a worker has in work, so the worker holds no
 * lock meanwhile. */
typedef struct worker {
    semel_consumer *consumer;
    pthread_t thread;
    batch_limit limit; /* how many jobs it takes at once */
    unit_pace pace;
    unit_terms terms;    /* the consumer's, with the pace */
    int64_t handlers_ms; /* of the last step: the longest of its transactions */
    job **jobs;          /* in work */
    size_t count;
    size_t taken;                 /* that many were in work when the step began to handle them */
    const semel_message **chosen; /* of one route */
    size_t *chosen_index;
    int64_t *positions; /* of the chosen ones */
    semel_outcome *outcomes;
    int *buried; /* which became dead letters just now */
    semel_delivery_settlement *settles;
    job **settled;            /* the jobs that the settlements are for */
    settled_contexts *traced; /* of these jobs, for a tracer; NULL: there is none */
    int outage;               /* of the last step: OUTAGE_... */
    uint32_t seen;            /* the consumer's outage_errors when the step began */
} worker;

/* What renews the ownership of deliveries in flight; hold_ms 0: they stay with the consumer
 * anyway. */
typedef struct extender {
    uint32_t hold_ms;
    int64_t due_ms; /* by wait_clock_ms() */
    uint64_t *tags; /* room for all in flight */
    pthread_t thread;
    pthread_cond_t changed; /* with the consumer's lock */
    int runs;
    int ends;
} extender;

/* Which side cannot be reached. */
enum { OUTAGE_NONE = 0, OUTAGE_STORE = 1, OUTAGE_BROKER = 2 };

struct semel_consumer {
    semel_transport *transport;
    const char *queue;   /* its name in a pipeline, for texts; NULL: not known */
    semel_route *routes; /* those that share an inbox side by side; `inbox` as it was given */
    size_t route_count;
    char *patterns; /* the routes' pattern texts */
    route_group *groups;
    size_t group_count;
    int takes_runs;       /* all groups remember positions */
    semel_inbox *letters; /* where what has no route, or cannot be used, is kept */
    unit_terms terms;
    semel_consumer_options options; /* complete */
    atomic_int stopped;
    atomic_int in_use; /* a step or a run is under way */
    worker *workers;
    semel_delivery *deliveries; /* for the worker that receives */
    semel_bytes *contexts;      /* of these, for a tracer; NULL: there is none */
    uint32_t delivery_room;
    uint32_t batch_most; /* most jobs that a worker takes at once */

    pthread_mutex_t lock;   /* over all that follows */
    int has_lock;           /* and the condition */
    pthread_cond_t changed; /* there is something to take, or to receive, for an idle worker */
    inflight inflight;
    extender extender;
    int receiving;    /* a worker does */
    uint32_t idle;    /* workers that wait for a change */
    uint32_t working; /* workers that have jobs in work */
    uint32_t limits;  /* jobs that all workers together take at once */
    uint32_t losses;  /* of the connection to the broker, with all that came by it */

    /* While it runs. */
    int running;
    int in_outage;          /* OUTAGE_... that are waited out */
    uint32_t outage_errors; /* errors that meant an outage, so far */
    uint32_t failures;
    int64_t resume_ms; /* nothing is done before */
    int failed;        /* it ends, with `why` */
    health_log health;
    int64_t busy_since_ms; /* by wait_clock_ms(): when deliveries last came or were taken */
    semel_error why;

    retention retention; /* of the routes' inboxes; needs no lock */
};

static inline int consumer_is_stopped(semel_consumer *consumer)
{
    return atomic_load(&consumer->stopped);
}

/* A consumer has one user at a time: SEMEL_EMISUSE if there is another. */
semel_status consumer_enter(semel_consumer *consumer, semel_error *err);
void consumer_leave(semel_consumer *consumer);

uint32_t consumer_backoff_ms(const semel_consumer *consumer, uint32_t failures);

/* For the terms of a worker: how long a message in its work waits at most after a failure. */
uint32_t worker_retry_ms(void *worker_, const semel_message *message);

/* consumer_table.c: checks and copies the routes, and makes the groups; frees them. */
semel_status table_open(semel_consumer *consumer, const semel_route *routes, size_t count,
                        semel_error *err);
void table_close(semel_consumer *consumer);

/* Does the type of the message, or its topic, fit the pattern of the route? */
int route_fits(const semel_route *route, const semel_message *message);

/* 1 if a route of the group takes the message. */
int group_fits(const route_group *group, const semel_message *message);

/* The handler of a group of several routes; the context is the group. */
semel_status route_group_run(semel_unit *unit, const semel_message *message, void *context,
                             semel_error *err);

/* Passes what the worker has in work through the routes. An error that it returns is the store's,
 * not a message's; each job says how far it came. */
semel_status route_jobs(worker *self, semel_error *err);

/* consumer_settle.c: a transport whose queue is in the store of the inbox. 1 if all of these
 * messages can be settled by the commit of their work; receives them so, and leaves the undecided
 * ones behind the others: *decided is where they begin. */
int can_settle_in_unit(const worker *self, const route_group *group, size_t chosen);
semel_status receive_settling(worker *self, const route_group *group, size_t chosen,
                              size_t *decided, semel_error *err);

/* Tells the transport what the commits of this step have settled; the worker has the other jobs
 * left. How many were acknowledged. */
size_t worker_end_settled(worker *self);

/* One step of one worker: takes what may be handled or, if there is nothing, receives, for at most
 * wait_ms; handles and settles it. *acked counts what was acknowledged. */
semel_status worker_step(worker *self, uint32_t wait_ms, size_t *acked, semel_error *err);

/* consumer_trace.c: for the tracer of the store, if it wants to know. The start of receiving or of
 * settling, as the others take it; 0: no tracer asks. */
semel_status consumer_trace_open(semel_consumer *consumer, semel_error *err);
void consumer_trace_close(semel_consumer *consumer);
int64_t consumer_trace_receiving(const semel_consumer *consumer);
void consumer_trace_received(semel_consumer *consumer, size_t count, int64_t started_ns,
                             const char *error);
int64_t worker_trace_settling(worker *self, size_t count);
void worker_trace_settled(const worker *self, size_t count, int64_t started_ns, const char *error);

/* Allocates what a run needs for the retention of its inboxes. */
semel_status consumer_open_retention(semel_consumer *consumer, semel_error *err);

/* Learns for how long the transport leaves deliveries with the consumer; frees what it took. */
semel_status extender_open(semel_consumer *consumer, semel_error *err);
void extender_close(semel_consumer *consumer);

/* A thread renews them until it is stopped; or a step does, if it is time. */
semel_status extender_start(semel_consumer *consumer, semel_error *err);
void extender_stop(semel_consumer *consumer);
void extender_step(semel_consumer *consumer);

/* All deliveries in flight go back to the broker; no worker has any of them. */
void consumer_give_back(semel_consumer *consumer, uint32_t delay_ms);

/* The store or the broker has answered this worker: its outage is over, unless another worker has
 * met it since this one began its step. The lock is held. */
void outage_over(const worker *self, int outage);

/* Records an error while the consumer runs: an outage, or one that ends the run. The lock is held;
 * an outage of the store is recorded under the same lock that the jobs are put back with. */
void outage_begin(semel_consumer *consumer, int outage, const semel_error *why);

#endif
