/* One workflow of crash.h, killed everywhere: once without a fault, to see which points it passes,
 * and that running it twice does not hurt; then, for each of those points, killed there (SIGKILL)
 * some of the times that it is passed; and after each the invariants. Fails the test that calls
 * it. */
#ifndef SEMEL_TESTS_CRASH_KILL_H
#define SEMEL_TESTS_CRASH_KILL_H

#include "support/scenario/crash.h"

/* Counts in covered[] the kills at each of crash_points[]. The times are the first, second, third
 * and last on SQLite, the first under sanitizers; on a server one of first and last, in turn. */
void crash_kill_everywhere(crash_stage *stage, const crash_workflow *flow,
                           uint32_t covered[CRASH_POINTS_MAX]);

/* Fails if a point was never killed at. */
void crash_check_covered(const uint32_t covered[CRASH_POINTS_MAX]);

#endif
