/* `semel config explain PATH`: the value of one option, where it was set, what it overrides, and
 * what it means. */
#ifndef SEMEL_PROGRAM_CONFIG_EXPLAIN_H
#define SEMEL_PROGRAM_CONFIG_EXPLAIN_H

#include "program/config/config.h"
#include "program/support/memory.h"

/* Returns 1 and adds the explanation; 0, and adds what is wrong with the path. */
int explain_path(buffer *out, const config *all, const char *path);

#endif
