/* How long the transactions of the store took, by what they were for. The counters live as long as
 * the process: a thread that hangs in the store may end its transaction after everything else has
 * been closed. */
#ifndef SEMEL_PROGRAM_RUN_TRANSACTIONS_H
#define SEMEL_PROGRAM_RUN_TRANSACTIONS_H

#include "program/support/buckets.h"

#include <semel/observe.h>

enum { TRANSACTION_OPERATIONS = SEMEL_OPERATION_QUEUE + 1 };

/* For semel_store_options.transactions; the context is not used. */
void transactions_observe(void *context, const semel_transaction_end *end);

/* "receive" */
const char *transactions_name(semel_operation operation);
buckets_seen transactions_read(semel_operation operation, int is_committed);

#endif
