/* Outcomes for those who watch them: a tap has a filter, and what passes it is copied into a ring
 * of its own, from which the reader makes lines of JSON. Threads that handle messages never wait
 * for a tap: an outcome that finds the ring full is counted as lost. While there is no tap, an
 * outcome costs one look at a number. */
#ifndef SEMEL_PROGRAM_RUN_TAPS_H
#define SEMEL_PROGRAM_RUN_TAPS_H

#include "program/run/outcomes.h"
#include "program/support/arguments.h"

enum { TAPS_MAX = 16, TAP_PLACES = 1024 };

typedef struct taps taps;
typedef struct tap tap;

/* What a tap lets pass; all that is given must match. */
typedef struct tap_filter {
    argument_list inboxes, types; /* exact, or a prefix and * */
    const char *outcome;          /* semel_outcome_name(); NULL: any */
    semel_bytes key;              /* empty: any */
    region memory;                /* of all this */
} tap_filter;

/* A writer writes to `wake_fd`, an eventfd, when there is a line for a reader that has asked to be
 * woken. */
taps *taps_open(int wake_fd);
void taps_close(taps *all); /* no tap and no writer may be left */

/* The filter, which was allocated, is taken over. NULL: there are TAPS_MAX already. */
tap *taps_add(taps *all, tap_filter *filter);
void taps_remove(taps *all, tap *one);

/* From any thread. */
void taps_offer(taps *all, const semel_event *event, const outcomes *o);

/* For the one thread that reads: the next line, which the caller frees. The log says whether keys
 * are shown. */
char *tap_next(tap *one, const log *l);
uint64_t tap_take_lost(tap *one);     /* since the last call */
void taps_ask_to_be_woken(taps *all); /* and then look once more before sleeping */

#endif
