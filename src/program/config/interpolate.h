/* Substitutions in the strings of a configuration: ${NAME}, ${NAME:-default}, ${NAME:?message},
 * ${file:PATH}, and $$ for one dollar sign. They are done in the parsed tree, in values only, so
 * that a value can never become YAML. What is substituted is remembered as a secret. */
#ifndef SEMEL_PROGRAM_CONFIG_INTERPOLATE_H
#define SEMEL_PROGRAM_CONFIG_INTERPOLATE_H

#include "program/config/diagnostic.h"

enum { INTERPOLATE_FILE_MAX = 64 * 1024 };

#define INTERPOLATE_EXAMPLE "example" /* what is not there, in an example */

typedef struct interpolation {
    region *memory;
    const char *directory; /* that PATH is relative to */
    diagnostics *found;    /* problems, and what is hidden */
    /* 1: in a document that shows a config; variables and files that are not there are no problem
     * */
    int is_example;
} interpolation;

/* Every scalar that is a value, at any depth. */
void interpolate_tree(const interpolation *in, config_node *root);

/* A text that is not in a file: --store. Returns NULL after a problem. */
const char *interpolate_text(const interpolation *in, const config_source *source,
                             const char *text);

/* 1 if the text has a substitution (or $$) in it. */
int interpolate_is_needed(const char *text);

#endif
