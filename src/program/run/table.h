/* Tables of the application whose rows are sent (outboxes.NAME.table): a trigger puts each row that
 * is inserted into the outbox, in the transaction that inserts it. So nothing polls, and a row may
 * be deleted right after it was inserted. */
#ifndef SEMEL_PROGRAM_RUN_TABLE_H
#define SEMEL_PROGRAM_RUN_TABLE_H

#include "program/config/config.h"
#include "program/support/memory.h"

/* The statement that makes the store send the rows of the outbox's table; it may be run again. In
 * the region. NULL if the outbox has no table, or the store no way to do it. */
const char *table_statement(region *to, const config *all, const outbox_config *outbox);

/* Runs those of all outboxes. */
semel_status table_capture(semel_store *store, const config *all, semel_error *err);

#endif
