/* Counters of every inbox and outbox since the process started: outcomes, how long handlers took,
 * how many run right now. Every message comes here, so counting takes no lock; the counters of an
 * inbox stay when a reload removes it. */
#ifndef SEMEL_PROGRAM_RUN_METERS_H
#define SEMEL_PROGRAM_RUN_METERS_H

#include "program/support/buckets.h"
#include "program/support/histogram.h"
#include "program/support/memory.h"

#include <semel/observe.h>

/* What is counted. Of an outbox: PROCESSED is sent, FAILED and DEAD as for an inbox. */
typedef enum meter_slot {
    METER_PROCESSED = 0,
    METER_DUPLICATES, /* replayed ones and copies of dead letters, too */
    METER_FAILED,
    METER_DEAD,
    METER_STALE,
    METER_MISMATCHED,
    METER_MISSING_KEY,
    METER_OTHERS, /* waiting for another copy */
    METER_SLOTS
} meter_slot;

/* As they are called in JSON: "processed"; the last one has none. */
extern const char *const meter_names[METER_OTHERS];

meter_slot meters_slot(const semel_event *event);

/* A message that is given up on has an error; a copy of a dead letter is only kept from running. */
int meters_is_copy_of_dead(const semel_event *event);

/* An inbox has refused a message. That it is a dead letter now is an event of its own, which is the
 * one to count and to show where letters are meant. */
int meters_is_refusal(const semel_event *event);

typedef struct meter {
    semel_event_kind kind; /* of an inbox: received; of an outbox: sent */
    atomic_uint_fast64_t counts[METER_SLOTS];
    atomic_int in_progress; /* handlers that run right now */
    histogram took;
    buckets took_seconds;         /* the same for metrics; of an outbox: publishing */
    buckets critical;             /* from the time of a message to the commit of its effect */
    atomic_uint_fast64_t retries; /* attempts behind the first one */
    char name[];                  /* of the inbox or outbox */
} meter;

typedef struct meters meters;

meters *meters_open(void);
void meters_close(meters *all);

/* The meter of this name, which is made if there is none. It lives as long as the meters. NULL: too
 * many names were in use since the process started. */
meter *meters_find(meters *all, semel_event_kind kind, const char *name);

void meters_count(meters *all, const semel_event *event);
int64_t meters_last_ms(const meters *all); /* of the last outcome, by the wall clock; 0: none */

/* Appends the counters of the meter as members of a JSON object: "processed":12,... */
void meter_write_counts(buffer *to, meter *m);
/* The buckets that are not empty, as pairs of numbers: [[120,4],[121,1]]. */
void meter_write_took(buffer *to, meter *m);

#endif
