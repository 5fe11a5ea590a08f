/* What the routes of a gateway imply: their kinds and names, and lists that were not written. */
#ifndef SEMEL_PROGRAM_CONFIG_COMPLETE_HTTP_H
#define SEMEL_PROGRAM_CONFIG_COMPLETE_HTTP_H

#include "program/config/config.h"
#include "program/support/memory.h"

void config_complete_routes(region *memory, config *all);

#endif
