/* Retention that runs by itself: what a running consumer or relay does for its inboxes between two
 * turns. */
#ifndef SEMEL_CORE_RETENTION_H
#define SEMEL_CORE_RETENTION_H

#include "core/inbox.h"

typedef struct retention_inbox {
    semel_inbox *inbox;
    int64_t next_ms; /* nothing to do before, by the steady clock */
    int in_round;
    int64_t renew_ms;  /* in a round: when its note has to be renewed, ... */
    int stepped;       /* ... which is done at most once for each step of the sweep */
    uint32_t rows;     /* of the next step */
    uint32_t failures; /* in a row */
    int reported;      /* its trouble was, and is not over yet */
} retention_inbox;

/* Called with the trouble, and with NULL when it is over. */
typedef void retention_report(void *context, const semel_error *trouble);

typedef struct retention {
    const semel_seam *seam;
    retention_report *report;
    void *context;
    retention_inbox *inboxes;
    size_t count;
    /* Nothing to do before. INT64_MAX also while a thread does a step: it owns all of the above
     * until it sets another time. */
    _Atomic int64_t due_ms;
} retention;

/* Room for so many inboxes. The rest of `out` is zero, so that closing it is always allowed. */
semel_status retention_open(retention *out, size_t inboxes, const semel_seam *seam,
                            retention_report *report, void *context, semel_error *err);
void retention_close(retention *r);

/* An inbox that is there already is not added again. */
void retention_add(retention *r, semel_inbox *inbox);

/* When a run begins. A round in which the last run stopped goes on. */
void retention_start(retention *r);

/* Between two turns of a run, from any of its threads: does the next step if it is time and no
 * other thread does one. */
int retention_is_due(const retention *r);
void retention_step(retention *r);

/* The wait of an idle thread: at most `most_ms`, but not longer than until the next step. */
uint32_t retention_wait_ms(const retention *r, uint32_t most_ms);

#endif
