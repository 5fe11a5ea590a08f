/* A handler that queues statements, and a look at what became of them. On a sqlite_case. */
#ifndef SEMEL_TESTS_SUPPORT_QUEUE_PLAN_H
#define SEMEL_TESTS_SUPPORT_QUEUE_PLAN_H

#include "support/sqlite_case.h"

extern const char insert_effect[]; /* one value: the id */

typedef struct plan {
    const char *sql; /* after the effect; NULL: nothing */
    const semel_value *values;
    size_t count;
    const char *only;   /* ... and only for the message with this id */
    int passes_over;    /* whatever semel says */
    semel_status then;  /* what the handler returns in the end */
    semel_status heard; /* what semel said */
    unsigned runs;
} plan;

/* Queues an effect with the message's id, from a buffer that is gone soon after, and what is planned. */
semel_status queue_plan(semel_unit *unit, const semel_message *message, void *context,
                        semel_error *err);

#define QUEUES(status, outcome, inbox, id, plan) \
    HANDLES_BY((status), (outcome), (inbox), (id), queue_plan, (plan))

/* What is committed. */
int64_t plan_number(sqlite_case *c, const char *sql);
int64_t plan_effects_of(sqlite_case *c, const char *id);
int64_t plan_attempts(sqlite_case *c); /* failed ones that were counted */

semel_unit *plan_begin(sqlite_case *c);

#endif
