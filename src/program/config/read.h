/* Reads nodes into the structs of config.h, by the table of options. Problems are reported, and
 * reading goes on with the default. */
#ifndef SEMEL_PROGRAM_CONFIG_READ_H
#define SEMEL_PROGRAM_CONFIG_READ_H

#include "program/config/diagnostic.h"
#include "program/config/options.h"

typedef struct reading {
    region *memory;
    diagnostics *found;    /* NULL: quietly, for what was read and reported before */
    const char *directory; /* that commands are relative to */
    int is_pattern;        /* options that a pattern must not set are refused */
} reading;

/* Sets what has a default, in the section and those inside it. */
void read_defaults(const reading *r, const section *of, void *base);

/* Sets what the node sets; NULL and null set nothing. */
void read_section(const reading *r, const section *of, const config_node *node, void *base);

/* Reports options that are required and not there. */
void read_required(const reading *r, const section *of, const config_node *node);

/* Name, place, defaults and what the node sets, of one element of an array. */
void read_element(const reading *r, const section *of, const config_node *node, void *base);
void read_keep_array(const option *of, void *base, const void *all, size_t count);

/* One value. Returns 0 after a problem. */
int read_value(const reading *r, const option *of, const config_node *node, void *base);

/* The node that sets an option in a section, which may be written as its main option alone. NULL if
 * the option is not set there. */
const config_node *read_find(const section *of, const config_node *node, const option *wanted);

/* 1 if there is nothing: no node, or null. */
int read_is_empty(const config_node *node);

/* "a, b or c" */
const char *read_words(region *memory, const option_word *words);

#endif
