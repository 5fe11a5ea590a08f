/* What the store says that an inbox is (its key, its mode, its fingerprint) and what the
 * configuration says. If they differ, `run` refuses to start, unless --accept names the inbox,
 * because messages that were handled would run again. */
#ifndef SEMEL_PROGRAM_CONFIG_DEFINITION_H
#define SEMEL_PROGRAM_CONFIG_DEFINITION_H

#include "program/config/config.h"
#include "program/support/memory.h"

typedef struct definition_change {
    const inbox_config *inbox;
    const char *option; /* the first that differs: "key", "mode" or "fingerprint" */
    const char *before; /* its value in the store */
    const char *now;
} definition_change;

typedef void definition_visitor(void *context, const definition_change *change);

/* With the option and its two values. */
#define DEFINITION_TEXT \
    "its %s was \"%.200s\" and is now \"%.200s\": messages that were handled would run again"

/* Visits each inbox that is defined otherwise in the store. */
semel_status definition_compare(const config *all, semel_store *store, definition_visitor *visitor,
                                void *context, semel_error *err);

/* Is this how --accept names the inbox: inboxes.NAME, or one of the three options of it? */
int definition_is_named(const inbox_config *inbox, const char *path);

/* What to do about it. The text lives in `memory`. */
const char *definition_fix(region *memory, const inbox_config *inbox);

#endif
