/* Between the two files of the fleet. */
#ifndef SEMEL_TESTS_FLEET_INTERNAL_H
#define SEMEL_TESTS_FLEET_INTERNAL_H

#include "support/process/process.h"
#include "support/scenario/fleet.h"

extern process_body *const fleet_bodies[FLEET_SIZE];

/* Without SQL, when all others have ended: collects all effects, and has every message delivered
 * once more, which must be a duplicate. */
process_body fleet_collect;
process_body fleet_deliver_again;

#endif
