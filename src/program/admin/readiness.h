/* Is the process ready? The answer to /readyz, made by a thread of its own that asks the pipeline,
 * and kept for a second: so probes cost the store one question in a second at most, and a store
 * that hangs is said to hang in place of letting its probes hang. */
#ifndef SEMEL_PROGRAM_ADMIN_READINESS_H
#define SEMEL_PROGRAM_ADMIN_READINESS_H

#include "program/admin/totals.h"
#include "program/config/config.h"

struct live;

typedef struct readiness readiness;

/* NULL if the thread cannot be started. */
readiness *readiness_open(struct live *of, totals *counted);
void readiness_close(readiness *r);

/* The queues at brokers and who uses them; copied. */
void readiness_configure(readiness *r, const config *all);

/* Writes a line for each check, "[+]store ok", if it is asked for or one fails. `exclude` has names
 * of checks that do not count, with commas between them, or is NULL. 1: ready. Takes some seconds
 * at most. */
int readiness_write(readiness *r, buffer *to, int verbose, const char *exclude);

/* What the last answer said, without waiting. -1: there was none yet. */
int readiness_is_ready(readiness *r);
int readiness_has_store(readiness *r);
typedef void readiness_broker_visitor(void *context, const char *queue, int is_connected);
void readiness_brokers(readiness *r, readiness_broker_visitor *visit, void *context);

#endif
