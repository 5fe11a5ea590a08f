/* A world's store with a bent driver: commits that fail when told to, and a limit on what a dead letter may hold. No
 * named point of the library does for these. What is bent is one for all stores of the process. */
#ifndef SEMEL_TESTS_FAILING_STORE_H
#define SEMEL_TESTS_FAILING_STORE_H

#include "support/fixture/fixture.h"

#include <stdint.h>

/* From now on until the world ends. */
void bent_open(world *w);

/* So many of the next commits, of whatever unit, roll back and fail with `status`. */
void bent_break_commits(unsigned count, semel_status status);

/* A dead letter with a longer body is SEMEL_ELIMIT. */
void bent_limit_letters(size_t body_max);

#endif
