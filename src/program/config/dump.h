/* The effective configuration as YAML: every value with its origin in a comment, patterns and
 * --set applied, secrets hidden. `semel check` accepts it, and it means the same. */
#ifndef SEMEL_PROGRAM_CONFIG_DUMP_H
#define SEMEL_PROGRAM_CONFIG_DUMP_H

#include "program/config/config.h"
#include "program/support/memory.h"

void dump_config(buffer *out, const config *all);

/* One value of it: the same texts, for those who show them otherwise. */
typedef struct dumped_value {
    const char *path;    /* inboxes.mail.timeout */
    const char *value;   /* as YAML in one line, secrets as ****** */
    const char *origin;  /* "default", "shop.yaml:4:9", "--set" */
    const char *written; /* of a secret that is ${...}: that; else NULL */
    int is_secret;
} dumped_value;

typedef void dump_visitor(void *context, const dumped_value *value);
void dump_values(const config *all, dump_visitor *visit, void *context);

#endif
