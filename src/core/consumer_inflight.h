/* Deliveries in flight: received, and not settled yet.
 *
 * A job is READY to be handled, in work (WORKING), WAITING for its backoff to pass, or BEHIND
 * another of its chain that is not done. Where order is kept the jobs of one group, or of one
 * partition, form a chain in the order of their delivery, and only the first of it is ever READY or
 * WAITING: so a message that fails holds up its own chain, however many workers there are. A worker
 * takes the first one of a chain, or a run: the first one and those that follow it. What comes back
 * of a run is BEHIND again, unless it is the first one now. For inboxes that remember positions
 * nothing less would do: a position that moves past a message which is not done would lose it.
 *
 * Only one worker at a time has suspects, deliveries that came again: their attempts are counted
 * before they start, and if one of them kills the process, those of its neighbours must not be.
 * What came for the first time is not counted.
 *
 * All the room is made by inflight_open(): it is bounded, and takes no memory later. It has no lock
 * of its own; the caller that shares it brings one. */
#ifndef SEMEL_CORE_CONSUMER_INFLIGHT_H
#define SEMEL_CORE_CONSUMER_INFLIGHT_H

#include "base/hash.h"

#include <semel/consumer.h>
#include <semel/sys/transport.h>

typedef enum job_state { JOB_FREE = 0, JOB_READY, JOB_WORKING, JOB_WAITING, JOB_BEHIND } job_state;

typedef struct job {
    /* Written by inflight_...() only. */
    job_state state;
    struct job *older, *newer;   /* among all in flight, in the order of delivery */
    struct job *before, *behind; /* in the line of those that are ready, or that wait */
    struct job *leader;          /* the one before it in its chain */
    struct job *follower;        /* the next one */
    struct job *same_bucket;     /* among the last ones of their chains */
    uint64_t chain;              /* a hash of group or partition; 0: it has none */
    int64_t due_ms;              /* WAITING: until then */
    semel_message copy;          /* what is handled again here counts one delivery more each time */
    uint32_t setbacks;           /* attempts that ended without a failure of the handler */
    uint32_t failures;           /* a handler failed, here */
    uint64_t done[SEMEL_ROUTES_MAX / 64]; /* routes without an inbox that are done with it */

    /* For the worker that has it in work. */
    uint64_t tag;
    const semel_message *message;
    const char *partition; /* as in the delivery */
    const char *origin;
    int64_t position;
    int revoked;     /* the broker has taken it back: it is not handled here */
    uint32_t losses; /* the consumer's number of losses when it came */
    int suspect;     /* it came again: it may have killed the process that had it before */
    int unusable; /* over a limit or malformed: no store could keep it, not even as a dead letter */
    int redelivered;       /* the broker has delivered it before, to this consumer or to another */
    int dead;              /* it became a dead letter by this delivery, or by one before it */
    int unsettled;         /* some route is not done with it ... */
    int failed;            /* ... and some handler has tried */
    int stopped;           /* ... and some handler has ended early because the consumer stops */
    int left;              /* ... because the time for the batch was over before its turn */
    semel_verdict settled; /* by the commit of its work; 0: it is still to be settled */
} job;

typedef struct job_line {
    job *first, *last;
} job_line;

typedef struct inflight {
    job *jobs; /* all, used or not */
    uint32_t max;
    uint32_t count;
    job *unused;  /* linked by `behind` */
    job_line all; /* linked by `older` and `newer` */
    job_line ready;
    uint32_t ready_count;
    job_line waiting; /* the one that is due first stands first */
    semel_order order;
    job **tails; /* the last one of each chain, by its hash; NULL: no order is kept */
    uint32_t bucket_count;
    hash_key key;
    uint32_t suspects; /* in work */
    uint32_t retries;  /* in work: they failed here before, and their attempts are counted, too */
} inflight;

semel_status inflight_open(inflight *in, uint32_t max, semel_order order, hash_key key,
                           semel_error *err);
void inflight_close(inflight *in);

static inline uint32_t inflight_room(const inflight *in)
{
    return in->max - in->count;
}

/* There must be room. */
void inflight_add(inflight *in, const semel_delivery *delivery, uint32_t losses);

/* Up to `max` that may be handled now, and together: no two of a chain. They are the caller's until
 * each is put back, put first, postponed or removed. */
size_t inflight_next(inflight *in, job *out[], size_t max, int64_t now_ms);

/* The same in runs: of up to `chains` chains as many as there is room for, those of one chain side
 * by side, with ascending positions. For inboxes that count attempts themselves. */
size_t inflight_next_runs(inflight *in, job *out[], size_t max, size_t chains, int64_t now_ms);

/* Those whose time has come are ready now: in->ready_count says how many are. Some of them may have
 * to wait for suspects in other hands. */
void inflight_refresh(inflight *in, int64_t now_ms);

/* As if it had not been taken, but for its place in the line. */
void inflight_put_back(inflight *in, job *j);

/* As if it had not been taken: it is the next one. Several are put back from the last to the
 * first. */
void inflight_put_first(inflight *in, job *j);

/* Not before `due_ms`. It comes as another delivery if it has failed. */
void inflight_postpone(inflight *in, job *j, int64_t due_ms);

/* It is settled, or cannot be any more: what follows in its chain may be handled. */
void inflight_remove(inflight *in, job *j);

/* The oldest job that no worker has in work, taken as by inflight_next() whatever stands before it
 * in its chain; NULL: none. For giving back all jobs, in order. */
job *inflight_next_oldest(inflight *in);

/* Is any of them in work, or ready for it? */
int inflight_busy(const inflight *in);

/* When the first of those that wait is due; INT64_MAX: none waits. */
int64_t inflight_due_ms(const inflight *in);

#endif
