/* Between the two files of the fleet. */
#ifndef SEMEL_TESTS_FLEET_INTERNAL_H
#define SEMEL_TESTS_FLEET_INTERNAL_H

#include "support/process/process.h"
#include "support/scenario/fleet.h"

extern process_body *const fleet_bodies[FLEET_SIZE];

#endif
