/* The environment of a handler's process: semel's own, the configured variables, and what is known
 * of the message, under names that are written here and nowhere else. A value of a message is
 * always what stands behind the '=' of one of these names; it cannot become a name, or a further
 * variable. */
#ifndef SEMEL_PROGRAM_HANDLER_ENVIRONMENT_H
#define SEMEL_PROGRAM_HANDLER_ENVIRONMENT_H

#include "program/config/config.h"
#include "program/support/memory.h"

/* What all messages have in common: made once, then only read. */
typedef struct environment {
    region memory;
    const char **items; /* NAME=VALUE */
    size_t count;
} environment;

/* `own` is that of this process (environ). A configured variable replaces one of the same name; the
 * names of the message's variables are left out of both. SEMEL_EINVAL for a name that is none. */
semel_status environment_open(environment *out, char *const *own, const config_pairs *configured,
                              semel_error *err);
void environment_close(environment *all);

const char *environment_get(const environment *all, const char *name); /* NULL: not there */

/* What a handler's process is told of a message: SEMEL_INBOX, SEMEL_KEY, SEMEL_IDEMPOTENCY_KEY,
 * SEMEL_MESSAGE_ID, SEMEL_TYPE, SEMEL_ATTEMPT, SEMEL_TRACEPARENT; what it does not have is not
 * set. The list, which lives in `memory`, ends with NULL. */
semel_status environment_of(const char ***out, region *memory, const environment *common,
                            const char *inbox, const semel_unit *unit, const semel_message *message,
                            semel_error *err);

/* A key as people and handlers see it: semel help keys. A long one is sha256:... */
const char *environment_key(region *memory, semel_bytes key);

/* The traceparent of the unit or message if it is one (W3C Trace Context), else NULL. */
const char *environment_traceparent(region *memory, semel_bytes value);

#endif
