/* Outcomes of messages, as the log shows them and as totals. The observer of the store counts
 * each; a terminal shows them one by one, up to ten in a second, and a pipe gets a summary in
 * each minute. Failures are folded: the first of a kind (failed or dead, inbox, cause) is a
 * line at once, then one line in a minute with counts, and one after a quiet minute. */
#ifndef SEMEL_PROGRAM_RUN_OUTCOMES_H
#define SEMEL_PROGRAM_RUN_OUTCOMES_H

#include "program/run/failures.h"

#include <semel/observe.h>

typedef struct outcomes outcomes;

typedef struct outcome_totals {
    uint64_t processed;
    uint64_t duplicates; /* replayed ones, too */
    uint64_t failed;
    uint64_t dead;    /* with those that were refused */
    uint64_t refused; /* stale, mismatched, without a key */
    uint64_t sent;
} outcome_totals;

outcomes *outcomes_open(log *l);
void outcomes_close(outcomes *o);

/* For lines in columns and for "attempt 1 of 5": the inboxes of the configuration. It must
 * live until the next call, and no observer may run meanwhile. */
void outcomes_configure(outcomes *o, const config *all);

/* A semel_observer; the context is the outcomes. */
void outcomes_observe(void *context, const semel_event *event);

/* Once in a second, by one thread: writes what was folded. */
void outcomes_tick(outcomes *o, int64_t now_ms);

/* What was folded and not written yet is written now. */
void outcomes_flush(outcomes *o);

/* What is known of an inbox, for those that show its failures. From an observer only. */
failure_terms outcomes_terms(const outcomes *o, const char *inbox);

outcome_totals outcomes_totals(const outcomes *o);

#endif
