/* What a test expects of its world, compared with what happened. */
#ifndef SEMEL_PROGRAM_TEST_EXPECT_H
#define SEMEL_PROGRAM_TEST_EXPECT_H

#include "program/test/world.h"

/* Appends a line for each difference: "payments  expected processed; got nothing". */
semel_status expect_all(buffer *differences, const world *w, const config *all,
                        const test_config *test, semel_error *err);

/* Only what is the same whenever the process dies: the database and the dead letters. */
semel_status expect_lasting(buffer *differences, const world *w, const test_config *test,
                            semel_error *err);

/* "1 processed, 2 duplicates": of the inboxes that the test names, or of all if it names none. */
void expect_summary(buffer *to, const world *w, const config *all, const test_config *test);

#endif
