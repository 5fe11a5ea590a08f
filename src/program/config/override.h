/* --set PATH=VALUE and --store URL: changes of the tree, before anything is read from it. */
#ifndef SEMEL_PROGRAM_CONFIG_OVERRIDE_H
#define SEMEL_PROGRAM_CONFIG_OVERRIDE_H

#include "program/config/diagnostic.h"
#include "program/config/options.h"

typedef struct overriding {
    region *memory;
    diagnostics *found;
    config_node *root;
    const config_source *source; /* "--set" or "--store" */
} overriding;

/* The value is YAML: 14d, [a, b], "a text". */
void override_set(const overriding *o, const char *path_and_value);
void override_store(const overriding *o, const char *url);

/* A path, part by part: inboxes["mail.receipt"].timeout, tests[0].name. */
typedef struct path_part {
    const char *name; /* NULL: an index */
    size_t index;
} path_part;

enum { PATH_PARTS_MAX = 32 };

typedef struct path_parts {
    path_part items[PATH_PARTS_MAX];
    size_t count;
} path_parts;

/* 0 if the text is not a path; it is read up to `len`. */
int override_path(path_parts *out, region *memory, const char *text, size_t len);

/* What a path leads to in the table. */
typedef struct path_target {
    const section *in;    /* of the option; NULL: the path does not lead to an option */
    const option *option; /* NULL: the path is that of a section (inboxes.payments) */
    const char *wrong;    /* the part that is not known, or NULL */
} path_target;

path_target override_target(const path_parts *path);

#endif
