/* A test again and again, its process killed at each point where the library could die, and started
 * anew: the database and the dead letters must end the same. */
#ifndef SEMEL_PROGRAM_TEST_KILLED_H
#define SEMEL_PROGRAM_TEST_KILLED_H

#include "program/test/world.h"

/* `points` is how many the test passes. Stops at the first difference, which is appended with the
 * point; *killed counts the points that were tried. `fresh` is the place of the options, with a
 * fresh store for each of them. */
semel_status killed_everywhere(buffer *differences, uint64_t *killed, const world_options *options,
                               test_place *fresh, uint64_t points, semel_error *err);

#endif
