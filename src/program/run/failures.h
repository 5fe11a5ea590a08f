/* Failures, folded: the first of a kind is a line at once, the others are counted and make one
 * line in a minute, and a quiet minute ends it with a last line. A kind is an inbox or outbox,
 * a cause (semel_cause()), and whether it failed or is dead. The number of kinds is
 * bounded; what is beyond goes into one. */
#ifndef SEMEL_PROGRAM_RUN_FAILURES_H
#define SEMEL_PROGRAM_RUN_FAILURES_H

#include "program/run/log.h"
#include "program/support/memory.h"

#include <semel/observe.h>

typedef struct failures failures;

failures *failures_open(log *l);
void failures_close(failures *f);

/* What is known of the inbox. */
typedef struct failure_terms {
    uint32_t attempts_max; /* 0: not known */
    /* the error is a database's, which quotes values of the message: only its cause is shown. The
     * dead letter has the whole text */
    int hides_values;
} failure_terms;

/* Of how many this attempt is one; 0: not known, or it is beyond, as the retry of a dead letter. */
uint32_t failures_attempts_max(uint32_t attempt, failure_terms terms);

/* Why it failed, as far as the log may show it. */
void failures_error(buffer *to, const semel_event *event, failure_terms terms);

/* An outcome that is not a success: failed or dead. */
void failures_add(failures *f, const semel_event *event, failure_terms terms);

void failures_tick(failures *f, int64_t now_ms);
void failures_flush(failures *f);

/* The key as the log may show it: as commands show it, or 12 digits of a hash if log.keys is false;
 * "-" without one. */
void failures_key(buffer *to, const log *l, semel_bytes key);

#endif
