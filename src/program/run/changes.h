/* What differs between two configurations, by the table of options: effective values, with
 * patterns and defaults, so that it is known what a reload does. Values are shown as they are
 * written, secrets never. */
#ifndef SEMEL_PROGRAM_RUN_CHANGES_H
#define SEMEL_PROGRAM_RUN_CHANGES_H

#include "program/config/config.h"
#include "program/support/memory.h"

typedef enum change_kind { CHANGE_VALUE, CHANGE_ADDED, CHANGE_REMOVED } change_kind;

typedef struct change {
    change_kind kind;
    const char *path;
    const char *text; /* "14d -> 30d", "added: from orders, exec" */
} change;

typedef struct changes {
    region memory;
    change *items;
    size_t count;
    size_t room;
} changes;

void changes_find(changes *out, const config *from, const config *to);
void changes_free(changes *all);
size_t changes_count(const changes *all, change_kind kind);

#endif
