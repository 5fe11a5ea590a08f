/* Between the two files of the fleet. */
#ifndef SEMEL_TESTS_SUPPORT_FLEET_INSIDE_H
#define SEMEL_TESTS_SUPPORT_FLEET_INSIDE_H

#include "support/fleet.h"
#include "support/process.h"

extern process_body *const fleet_bodies[FLEET_SIZE];

#endif
