/* What the store holds: unsent messages, dead letters, keys. A thread of its own counts every few
 * seconds, with a deadline for each question; a scrape reads what was counted last. Counting takes
 * time in proportion to what is counted, so the thread pauses a hundred times as long as it took.
 *
 * It also looks whether the tables are those that this program needs. */
#ifndef SEMEL_PROGRAM_ADMIN_TOTALS_H
#define SEMEL_PROGRAM_ADMIN_TOTALS_H

#include "program/config/config.h"
#include "program/support/memory.h"

#include <semel/pipeline.h>

typedef struct totals totals;

/* NULL if the thread cannot be started. */
totals *totals_open(void);
void totals_close(totals *t);

void totals_use_store(totals *t, semel_store *store); /* once */
/* NULL: the old pipeline may be closed when this returns. What was counted stays known. */
void totals_use_pipeline(totals *t, const config *all, semel_pipeline *pipeline);

/* Each is -1 if it is not known. */
typedef struct outbox_total {
    int64_t pending;
    int64_t oldest_ms; /* when the oldest of them was captured; 0: there is none */
} outbox_total;
outbox_total totals_outbox(totals *t, const char *name);

typedef struct inbox_total {
    int64_t keys;
    int64_t purged; /* by retention, since this process opened the inbox */
} inbox_total;
inbox_total totals_inbox(totals *t, const char *name);

int64_t totals_dead(totals *t);
int64_t totals_counted_ms(totals *t); /* when, by the wall clock */

typedef enum schema_state { SCHEMA_UNKNOWN = 0, SCHEMA_GOOD, SCHEMA_BAD } schema_state;
schema_state totals_schema(totals *t, buffer *why); /* why it is bad */

#endif
