/* The consumer as its parts share it: deliveries in hand (hand.h), workers that take them through the routes
 * (deal.c), and the loop that keeps the workers going (crew.c). */
#ifndef SEMEL_CORE_CONSUMER_H
#define SEMEL_CORE_CONSUMER_H

#include "core/hand.h"
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
    int trouble;   /* of the last turn: TROUBLE_... */
    uint32_t seen; /* the consumer's number of meetings when the turn began */
} worker;

/* Who cannot be reached. */
enum { TROUBLE_NONE = 0, TROUBLE_STORE = 1, TROUBLE_BROKER = 2 };

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
    hand hand;
    int receiving;   /* somebody does */
    uint32_t idle;   /* workers that wait for a change */
    uint32_t losses; /* of the connection to the broker, with all that came by it */

    /* While it runs. */
    int running;
    int troubles;      /* TROUBLE_... that are waited out */
    uint32_t meetings; /* with trouble, so far */
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
semel_status deal_with_jobs(worker *self, semel_error *err);

/* One turn of one worker: takes what may be handled or, if there is nothing, receives, for at most wait_ms;
 * handles and settles it. *acked counts what was acknowledged. */
semel_status worker_turn(worker *self, uint32_t wait_ms, size_t *acked, semel_error *err);

/* All that is in hand goes back to the broker; nobody works on any of it. */
void consumer_give_back(semel_consumer *consumer, uint32_t delay_ms);

/* The store or the broker has answered this worker: trouble with it is over, unless somebody has met some since
 * the worker began. The lock is held. */
void crew_trouble_over(const worker *self, int trouble);

/* Trouble, if it runs: whoever has met some of the store's says so with the lock that it puts its jobs back with. */
void crew_meet(semel_consumer *consumer, int trouble, const semel_error *why);

#endif
