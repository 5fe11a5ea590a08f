/* A throw-away world for one test of a configuration: a store of its own (place.h), every queue a
 * queue in that store, and all consumers and relays stepped by one thread until
 * nothing is left to do. Time does not pass by itself: when nothing moves and something waits,
 * the clock is set forward. sql and send work as in `semel run`; exec, http and worker are
 * stubbed. */
#ifndef SEMEL_PROGRAM_TEST_WORLD_H
#define SEMEL_PROGRAM_TEST_WORLD_H

#include "program/config/config.h"
#include "program/support/memory.h"
#include "program/test/place.h"

typedef struct world world;

enum { WORLD_OUTCOMES_MAX = 64 };

/* What an inbox did, in order. */
typedef struct world_inbox {
    semel_outcome outcomes[WORLD_OUTCOMES_MAX];
    size_t count; /* may be more than there is room for */
} world_inbox;

typedef struct world_options {
    const config *all;
    const test_config *test;
    const test_place *place; /* its store is made, if it is not there */
    int call_handlers;       /* exec, http and worker are called, not stubbed */
    int64_t later_ms;        /* the clock begins so much later: leases of a killed world are over */
    uint64_t kill_at;        /* the process kills itself when it passes this point; 0: never */
} world_options;

semel_status world_open(world **out, const world_options *options, semel_error *err);
void world_close(world *w);

/* Publishes what the test gives. */
semel_status world_publish(world *w, semel_error *err);

/* Until nothing is left to do. SEMEL_EBUSY if it does not come to that. */
semel_status world_run(world *w, semel_error *err);

const world_inbox *world_outcomes(const world *w, size_t inbox);
uint64_t world_sent(const world *w, const char *queue);
semel_status world_dead(const world *w, uint64_t *out, semel_error *err);

/* How many points the process has passed at which it could have been killed. */
uint64_t world_points(const world *w);

/* The first column of the first row, as text; "" for NULL or no row. */
semel_status world_query(const world *w, buffer *out, const char *sql, semel_error *err);

#endif
