/* How many deliveries a worker takes at once, if the caller has not said it: a number that follows
 * what the handlers do.
 *
 * It starts with one. It doubles after a step in which the worker took as many as it may and all
 * went well, if the step was so quick that twice as many stay within BATCH_BUDGET_MS. It falls to
 * one when something failed, and in proportion when a step took longer than the budget.
 *
 * What is compared with the budget is the time that a batch adds: that of the handlers, or by how
 * much the step was longer than one with a single delivery, whichever is more. The second finds
 * work that is not done in the handlers (statements that are sent with the commit), and the price
 * of the commit itself is in neither: on a slow disk batches are worth the most. A step that was
 * too long makes the next growth wait for more steps each time, so a batch size that does not work
 * is tried more and more rarely.
 *
 * No locks and no clock: one worker uses it, and says what it has measured. */
#ifndef SEMEL_CORE_CONSUMER_BATCH_H
#define SEMEL_CORE_CONSUMER_BATCH_H

#include <stdint.h>

enum { BATCH_BUDGET_MS = 20, BATCH_MOST = 100, BATCH_MOST_OF_RUN = 1000 };

typedef struct batch_limit {
    uint32_t now; /* take no more than so many */
    uint32_t most;
    int fixed;         /* the caller's number */
    int64_t single_ms; /* how long a step with one delivery takes; -1: not known */
    uint32_t patience; /* quick steps to see before it grows */
    uint32_t quick;    /* how many of them were seen */
    int untried;       /* it has just grown */
} batch_limit;

/* What a worker has seen in one step. */
typedef struct batch_seen {
    uint32_t taken;
    uint32_t handled;    /* without those that were left when the time was over */
    int troubled;        /* something failed, or could not be decided */
    int64_t handlers_ms; /* how long the handlers took together */
    int64_t whole_ms;    /* from the first begin to the last commit */
} batch_seen;

batch_limit batch_limit_fixed(uint32_t number);
batch_limit batch_limit_adaptive(uint32_t most);

void batch_limit_note(batch_limit *limit, const batch_seen *seen);

/* The store or the broker is away: the first delivery after that is taken by itself. */
void batch_limit_reset(batch_limit *limit);

/* What a worker takes of `ready` deliveries when `workers`, itself included, have nothing to do:
 * no more than its share, or the others would be idle while it works. */
uint32_t batch_limit_share(const batch_limit *limit, uint32_t ready, uint32_t workers);

#endif
