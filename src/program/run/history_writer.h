/* The history of deliveries, written by a running process: the observer of the store makes a record
 * of each outcome, and one thread writes what has come in the last second.
 *
 * Handling a message never waits for it. If there are more outcomes than the history is to have, a
 * share of the keys is recorded, with everything that becomes of them, and the others are counted;
 * failures are recorded as long as there is room. How many outcomes are missing is a row of its
 * own, a gap, and is logged once. A process that is killed loses the last second. */
#ifndef SEMEL_PROGRAM_RUN_HISTORY_WRITER_H
#define SEMEL_PROGRAM_RUN_HISTORY_WRITER_H

#include "program/config/config.h"
#include "program/run/log.h"

#include <semel/observe.h>

typedef struct history_writer history_writer;

/* The log is borrowed. `process` is the id of the process, as in its row in the store. */
history_writer *history_writer_open(log *l, const char *process);

/* Options of a configuration, also of one that was read again. */
void history_writer_configure(history_writer *w, const history_config *options);

/* Once, when it is open: starts the thread. */
void history_writer_use_store(history_writer *w, semel_store *store);

/* From any thread. */
void history_writer_observe(history_writer *w, const semel_event *event);

/* Outcomes that were not recorded since the process started. */
uint64_t history_writer_lost(const history_writer *w);

/* Writes what is left, when no observer can be called any more and before the store is closed. 0 if
 * the thread is still waiting for the store after a second: then the store must stay open. */
int history_writer_close(history_writer *w);

#endif
