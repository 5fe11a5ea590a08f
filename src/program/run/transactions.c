/* See transactions.h. */
#include "program/run/transactions.h"

static buckets counted[TRANSACTION_OPERATIONS][2]; /* rolled back, committed */

void transactions_observe(void *context, const semel_transaction_end *end)
{
    size_t operation = (size_t)end->operation;
    (void)context;
    if (operation < TRANSACTION_OPERATIONS)
        buckets_add(&counted[operation][end->is_committed != 0], end->took_ns);
}

const char *transactions_name(semel_operation operation)
{
    static const char *const names[TRANSACTION_OPERATIONS] = {[SEMEL_OPERATION_OTHER] = "other",
                                                              [SEMEL_OPERATION_RECEIVE] = "receive",
                                                              [SEMEL_OPERATION_RELAY] = "relay",
                                                              [SEMEL_OPERATION_QUEUE] = "queue"};
    return names[operation];
}

buckets_seen transactions_read(semel_operation operation, int is_committed)
{
    return buckets_read(&counted[operation][is_committed != 0]);
}
