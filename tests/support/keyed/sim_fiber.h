/* Coroutines: stacks that one thread switches between, for simulated processes that run strictly
 * one at a time. */
#ifndef SEMEL_TESTS_SIM_FIBER_H
#define SEMEL_TESTS_SIM_FIBER_H

typedef struct sim_fiber sim_fiber;

/* Does not run it yet. Stacks are kept for the next one, until sim_fibers_free(). */
sim_fiber *sim_fiber_new(void (*run)(void *context), void *context);

/* Runs it until it yields or ends; 0: it has ended, and is gone. */
int sim_fiber_resume(sim_fiber *fiber);

void sim_fiber_yield(void); /* inside one */

void sim_fibers_free(void);

#endif
