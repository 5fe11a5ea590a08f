/* The effective configuration as YAML: every value with its origin in a comment, patterns and
 * --set applied, secrets hidden. `semel check` accepts it, and it means the same. */
#ifndef SEMEL_PROGRAM_CONFIG_DUMP_H
#define SEMEL_PROGRAM_CONFIG_DUMP_H

#include "program/config/config.h"
#include "program/support/memory.h"

void dump_config(buffer *out, const config *all);

#endif
