/* The retrier of `semel run`: a thread that looks once in a second for dead letters for which a
 * retry was asked (`semel dead retry`), and makes one more attempt at each that this configuration
 * has a handler for, in the order of their ids. What becomes of it is told by the store's observer,
 * as for any message. */
#ifndef SEMEL_PROGRAM_RUN_RETRIER_H
#define SEMEL_PROGRAM_RUN_RETRIER_H

#include "program/run/log.h"
#include "program/run/retry.h"

typedef struct retrier retrier;

/* 0, or an errno. What the place refers to must outlive the retrier. */
int retrier_start(retrier **out, const retry_place *place, log *l);

/* Takes no further letter; the one in hand is finished, or given up as a message is when the
 * program stops. From any thread; NULL is a no-op, here and below. */
void retrier_stop(retrier *r);

/* Stops, and waits for its end. */
void retrier_join(retrier *r);
void retrier_free(retrier *r); /* joins before that */

/* 1 if it has looked since its start and had nothing to do. */
int retrier_is_idle(const retrier *r);

#endif
