/* A configuration from a file: read, substituted, overridden, filled with defaults and checked. */
#ifndef SEMEL_PROGRAM_CONFIG_LOAD_H
#define SEMEL_PROGRAM_CONFIG_LOAD_H

#include "program/config/diagnostic.h"

typedef struct load_options {
    const char *path; /* of the file; "-": the standard input */
    /* instead of what is in the file: a text, whose first line has this number in the file */
    const char *text;
    size_t len;
    uint32_t first_line;
    int is_example;          /* see interpolate.h */
    const char *const *sets; /* PATH=VALUE; later ones override earlier ones */
    size_t set_count;
    const char *store_url; /* of --store: overrides that of the file; NULL: none */
} load_options;

/* Returns 1, and *out, if there are no errors; warnings may have been found. Else 0, and *out is
 * NULL. Nothing is opened but the file and those of ${file:...}. */
int config_load(config **out, const load_options *from, diagnostics *found);
void config_free(config *all); /* NULL is a no-op */

#endif
