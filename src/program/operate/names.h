/* The inboxes, outboxes or queues that a tool can name: those of the configuration, in its order,
 * and behind them those that only the store knows. */
#ifndef SEMEL_PROGRAM_OPERATE_NAMES_H
#define SEMEL_PROGRAM_OPERATE_NAMES_H

#include "program/operate/tool.h"

typedef struct known_name {
    const char *name;
    const char *definition; /* of an inbox in the store: see semel_name; else "" */
    int in_config;
    int in_store; /* it was opened there once */
} known_name;

typedef struct known_names {
    known_name *items;
    size_t count;
    size_t room;
} known_names;

/* Returns 0, or the exit status after saying what is wrong. The texts are the tool's. */
int names_read(known_names *out, tool *t, semel_name_kind kind);
void names_free(known_names *all);

/* NULL: there is none. */
const known_name *names_find(const known_names *all, const char *name);

#endif
