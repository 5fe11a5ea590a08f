/* The consumer as its parts share it: deliveries in flight (consumer_inflight.h), workers that take
 * them (consumer_worker.c) through the routes (consumer_routes.c), and the loop that keeps the workers
 * going (consumer_run.c). */
#ifndef SEMEL_CORE_CONSUMER_H
#define SEMEL_CORE_CONSUMER_H

#include "core/consumer_inflight.h"
#include "core/transport.h"
#include "core/unit.h"

/* One thread's tools. What a worker has in work is touched by nobody else, so no lock is held meanwhile. */
typedef struct worker {
    semel_consumer *consumer;
    pthread_t thread;
    job **jobs; /* in work */
    size_t count;
    const semel_message **chosen; /* of one route */
    size_t *chosen_index;
    semel_outcome *outcomes;
    semel_delivery_settlement *settles;
    job **settled; /* whom the settles are for */
    int outage;    /* of the last step: OUTAGE_... */
    uint32_t seen; /* the consumer's outage_errors when the step began */
} worker;

/* What renews the ownership of deliveries in flight; hold_ms 0: they stay with the consumer anyway. */
typedef struct extender {
    uint32_t hold_ms;
    int64_t due_ms; /* by wait_clock_ms() */
    uint64_t *tags; /* room for all in flight */
    pthread_t thread;
    pthread_cond_t changed; /* with the consumer's lock */
    int runs;
    int ends;
} extender;

/* Who cannot be reached. */
enum { OUTAGE_NONE = 0, OUTAGE_STORE = 1, OUTAGE_BROKER = 2 };

struct semel_consumer {
    semel_transport *transport;
    semel_route *routes;
    size_t route_count;
    char *patterns;                 /* the routes' pattern texts */
    semel_consumer_options options; /* complete */
    atomic_int stopped;
    atomic_int in_use; /* a step or a run is under way */
    worker *workers;
    semel_delivery *deliveries; /* for the one who receives */
    uint32_t delivery_room;
    uint32_t receive_max; /* of these at once: a single worker takes no more than it can handle */

    pthread_mutex_t lock;   /* over all that follows */
    int has_lock;           /* and the condition */
    pthread_cond_t changed; /* there is something to take, or to receive, for one who is idle */
    inflight inflight;
    extender extender;
    int receiving;   /* somebody does */
    uint32_t idle;   /* workers that wait for a change */
    uint32_t losses; /* of the connection to the broker, with all that came by it */

    /* While it runs. */
    int running;
    int in_outage;          /* OUTAGE_... that are waited out */
    uint32_t outage_errors; /* errors that meant an outage, so far */
    uint32_t failures;
    int64_t resume_ms; /* nothing is done before */
    int failed;        /* it ends, with `why` */
    semel_error why;
};

static inline int consumer_is_stopped(semel_consumer *consumer)
{
    return atomic_load(&consumer->stopped);
}

/* A consumer has one user at a time: SEMEL_EMISUSE if there is another. */
semel_status consumer_enter(semel_consumer *consumer, semel_error *err);
void consumer_leave(semel_consumer *consumer);

uint32_t consumer_backoff_ms(const semel_consumer *consumer, uint32_t failures);

/* What the worker has in work goes through the routes. If that ends with an error, nobody is to blame for
 * it but the store; each job says how far it came. */
semel_status route_jobs(worker *self, semel_error *err);

/* One step of one worker: takes what may be handled or, if there is nothing, receives, for at most wait_ms;
 * handles and settles it. *acked counts what was acknowledged. */
semel_status worker_step(worker *self, uint32_t wait_ms, size_t *acked, semel_error *err);

/* Learns for how long the transport leaves deliveries with the consumer; frees what it took. */
semel_status extender_open(semel_consumer *consumer, semel_error *err);
void extender_close(semel_consumer *consumer);

/* A thread renews them until it is stopped; or a step does, if it is time. */
semel_status extender_start(semel_consumer *consumer, semel_error *err);
void extender_stop(semel_consumer *consumer);
void extender_step(semel_consumer *consumer);

/* All deliveries in flight go back to the broker; no worker has any of them. */
void consumer_give_back(semel_consumer *consumer, uint32_t delay_ms);

/* The store or the broker has answered this worker: its outage is over, unless another worker has met
 * it since this one began its step. The lock is held. */
void outage_over(const worker *self, int outage);

/* Records an error while the consumer runs: an outage, or one that ends the run. The lock is held;
 * an outage of the store is recorded under the same lock that the jobs are put back with. */
void outage_begin(semel_consumer *consumer, int outage, const semel_error *why);

#endif
