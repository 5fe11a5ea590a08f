/* Which configuration a command works on: its options, the environment, and the places where a
 * configuration lies. */
#ifndef SEMEL_PROGRAM_CONFIG_LOCATE_H
#define SEMEL_PROGRAM_CONFIG_LOCATE_H

#include "program/config/load.h"

typedef struct config_arguments {
    const char *path; /* -c FILE, --config FILE */
    const char *store_url;
    const char *const *sets;
    size_t set_count;
} config_arguments;

/* The file: -c, $SEMEL_CONFIG, ./semel.yaml, /etc/semel/semel.yaml. */
const char *locate_path(const config_arguments *from);

/* Loads it. Returns 1 and *out, or 0. */
int locate_load(config **out, const config_arguments *from, diagnostics *found);

/* Loads it. Problems are printed to stderr in the form. Returns 1 and *out, or 0: then the exit
 * status is CLI_CONFIG. */
int locate_config(config **out, const config_arguments *from, diagnostic_form form);

#endif
