/* Many seeds of the simulation, in as many processes as there are processors. */
#ifndef SEMEL_TESTS_SIM_SEEDS_H
#define SEMEL_TESTS_SIM_SEEDS_H

#include "support/keyed/sim.h"

typedef struct sim_totals {
    uint64_t seeds, calls, faults, crashes, effects, published, stale, dead;
    uint64_t failed; /* seeds */
    uint64_t first;  /* the smallest seed that failed */
    char why[256];
} sim_totals;

/* From `first` on. `stop`: nothing more after the first failure. */
void sim_seeds(sim_totals *out, uint64_t first, uint64_t count, sim_mistake mistake, int stop);

/* Runs a seed again and prints its history. */
void sim_show(uint64_t seed, sim_mistake mistake);

#endif
