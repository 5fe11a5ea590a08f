/* Time that passes for stores of the keyed layer whose clock is a server's: their clock is set
 * forward, in this process and in all that it forks. */
#ifndef SEMEL_TESTS_KEYED_SKEW_H
#define SEMEL_TESTS_KEYED_SKEW_H

#include <stdint.h>

void keyed_skew_pass(int64_t ms);

/* From the database's own time on again; for stores that are opened later. */
void keyed_skew_reset(void);

#endif
