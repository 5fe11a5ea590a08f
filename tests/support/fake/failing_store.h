/* The store of a fixture with a driver whose commits fail on demand, and which limits what a dead
 * letter may hold. No named point of the library can do that. The process has one such driver: its
 * settings hold for all stores. */
#ifndef SEMEL_TESTS_FAILING_STORE_H
#define SEMEL_TESTS_FAILING_STORE_H

#include "support/fixture/fixture.h"

#include <stdint.h>

/* From now on until the fixture is closed. */
void failing_store_open(fixture *f);

/* So many of the next commits, of whatever unit, roll back and fail with `status`. */
void failing_store_break_commits(unsigned count, semel_status status);

/* A dead letter with a longer body is SEMEL_ELIMIT. */
void failing_store_limit_letters(size_t body_max);

#endif
