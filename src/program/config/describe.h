/* An option in words and in YAML: what may be written, what the default is, and values as they were
 * written, without secrets. */
#ifndef SEMEL_PROGRAM_CONFIG_DESCRIBE_H
#define SEMEL_PROGRAM_CONFIG_DESCRIBE_H

#include "program/config/options.h"
#include "program/config/tree.h"

/* "1 to 1000", "1s to 36500d, forever", "none, group", "text". */
const char *describe_values(region *memory, const option *of);

/* "5s", "by preset: ...", "required"; "" if there is nothing to say. */
const char *describe_default(const option *of);

/* Adds a value as YAML in one line: ${...} as it was written, secrets as ******. Options that hold
 * secrets (of may be NULL) and names that look like it are hidden. */
void describe_node(buffer *out, const option *of, const config_node *node);

/* A text as a YAML scalar, quoted if it has to be. */
void describe_text(buffer *out, const char *text);

#endif
