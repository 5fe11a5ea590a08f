/* A running process as others see it: counters, outcomes as they happen and health, through a local
 * socket; and a row in the store that says that the process runs, where, and what.
 *
 * None of it is in the way of work. The socket has a thread, and what touches the store has
 * another; if one of them cannot be had, the process works without. With `--once` there is
 * neither: such a process is gone before it would be found. */
#ifndef SEMEL_PROGRAM_RUN_LIVE_H
#define SEMEL_PROGRAM_RUN_LIVE_H

#include "program/run/meters.h"
#include "program/run/outcomes.h"

typedef struct live live;

/* The log and the outcomes are borrowed. With `counts_only` there is no thread, socket and row. */
live *live_open(log *l, const outcomes *o, int counts_only);

/* Removes socket and row. After the pipeline was closed, and before the store is. */
void live_close(live *all);

/* Right before the process ends without closing anything. */
void live_abandon(live *all);

/* What the process runs; the configuration is read, not kept. */
void live_configure(live *all, const config *configured);

/* Once, when it is open. */
void live_use_store(live *all, semel_store *store);

/* What health asks: NULL while there is none. The old one may be closed when this returns. */
void live_use_pipeline(live *all, semel_pipeline *pipeline);

enum { LIVE_COMPONENT_SIZE = 288 }; /* "queue orders" and the like; a longer one is cut */

/* What the process waits for before it can work, and why: "store"; NULL: nothing any more. */
void live_wait_for(live *all, const char *component, const char *why);

void live_stopping(live *all);

/* From the observer of the store. */
void live_observe(live *all, const semel_event *event);

/* The id of the process, as in its row in the store. */
const char *live_id(const live *all);

/* The counters of an inbox; NULL: it is not counted. */
meter *live_meter(live *all, const char *inbox);

#endif
