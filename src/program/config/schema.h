/* The table of options as a JSON Schema (draft 2020-12), for editors. */
#ifndef SEMEL_PROGRAM_CONFIG_SCHEMA_H
#define SEMEL_PROGRAM_CONFIG_SCHEMA_H

#include "program/support/memory.h"

void schema_write(buffer *out);

#endif
