/* A test that waits without an end (a relay or consumer that never stops, a thread that never ends)
 * fails by itself, with its name as the last line of output, instead of waiting for CTest's
 * limit. */
#ifndef SEMEL_TESTS_DEADLINE_H
#define SEMEL_TESTS_DEADLINE_H

/* From one to the other, in a setup and its teardown: longer than anything takes that comes to an
 * end, and half of what CTest allows for all tests of a program. Then the program ends, since what
 * the others would use may be in use. */
void deadline_begin(void);
void deadline_end(void);

#endif
