/* Tables of the application whose rows are sent (outboxes.NAME.table): a trigger puts each row that
 * is inserted into the outbox, in the transaction that inserts it. So nothing polls, and a row may
 * be deleted right after it was inserted. */
#ifndef SEMEL_PROGRAM_RUN_TABLE_H
#define SEMEL_PROGRAM_RUN_TABLE_H

#include "program/config/config.h"

/* Makes the store send the rows of the tables of all outboxes; it may be called again. Nothing is
 * done if no outbox has a table, or the store has no way to do it. */
semel_status table_capture(semel_store *store, const config *all, semel_error *err);

#endif
