/* The commit of a unit. */
#ifndef SEMEL_STORE_KEYED_COMMIT_H
#define SEMEL_STORE_KEYED_COMMIT_H

#include "store/keyed/apply.h"

/* A unit on its way to the database. */
typedef struct keyed_sending {
    keyed_unit *unit;
    keyed_change **from;         /* the unit's change of each */
    semel_keyed_change *changes; /* as they are sent */
    size_t count;
    keyed_rows there; /* what was there under the keys that were refused */
    int lost;         /* an answer: what was sent may be, or may become, applied */
    keyed_patience for_answer, for_others;
} keyed_sending;

/* What the unit has buffered is applied, or nothing of it. */
semel_status keyed_commit_changes(keyed_unit *unit, semel_error *err);

/* --- settle.c --------------------------------------------------------------------------------- */

/* 1 if the same changes may be sent again although the first may have been applied: it would have
 * made one of their expectations untrue for ever. */
int keyed_can_repeat(const keyed_sending *sending);

typedef enum keyed_verdict {
    KEYED_WAS_APPLIED = 1, /* the lost one was */
    KEYED_NOT_APPLIED,     /* and never will be, or not beside what is sent next */
    KEYED_CANNOT_TELL
} keyed_verdict;

/* What is known of a lost request, after the same changes were refused. */
keyed_verdict keyed_judge(const keyed_sending *sending);

/* Makes sure that the lost request is not applied, ever. OK if it was; `why` if it was not. */
semel_status keyed_fence(keyed_sending *sending, semel_status why, semel_error *err);

/* A unit whose changes cannot be repeated: are they there? OK or EUNKNOWN. */
semel_status keyed_look_for(keyed_sending *sending, semel_error *err);

void keyed_spares_free(keyed_store *store);

#endif
