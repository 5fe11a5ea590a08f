/* The history of a relay: rows of what it has sent, as long as its options say.
 *
 * A row is written in the transaction that removes the message from the outbox, so there is one if
 * and only if the message has left. If the process dies before that commit, the message is sent
 * again and has one row. Rows that are too old are removed by whichever relay of the outbox comes
 * first, a bounded number at a time, in a transaction of their own; two relays do each other no
 * harm. */
#include "core/relay.h"

enum { ROWS_MAX = 1000, PAUSE_MIN_MS = 1000, PAUSE_MAX_MS = 60000, PAUSES_PER_SPAN = 10 };

semel_status relay_can_keep_sent(const semel_relay *relay, semel_error *err)
{
    const semel_store_lists *lists = relay->store->driver->lists;
    if (!relay->options.keep_sent_ms || (lists && lists->sent))
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EUNSUPPORTED,
                      "%s: this store cannot keep what was sent: set keep_sent_ms to 0",
                      relay->store->driver->scheme);
}

typedef struct old_rows {
    const semel_relay *relay;
    int64_t cutoff_ms;
    uint32_t limit;
    size_t removed;
} old_rows;

static semel_status remove_old(work_unit *unit, void *context, semel_error *err)
{
    old_rows *old = context;
    const semel_relay *relay = old->relay;
    semel_status status = relay->store->driver->lists->sweep_sent(
        unit->state, relay->outbox->scope, old->cutoff_ms, old->limit, &old->removed, err);
    return status || !old->removed ? status : store_fault(relay->store, "history.removed", err);
}

/* A share of the time for which rows are kept. */
static int64_t pause_ms(uint64_t keep_ms)
{
    uint64_t share = keep_ms / PAUSES_PER_SPAN;
    return share < PAUSE_MIN_MS   ? PAUSE_MIN_MS
           : share > PAUSE_MAX_MS ? PAUSE_MAX_MS
                                  : (int64_t)share;
}

semel_status relay_forget_sent(semel_relay *relay, semel_error *err)
{
    int64_t steady_ms = seam_steady_ms(&relay->store->seam), now_ms;
    old_rows old = {.relay = relay, .limit = store_batch(relay->store, ROWS_MAX)};
    if (!relay->options.keep_sent_ms || steady_ms < relay->forget_at_ms)
        return SEMEL_OK;
    semel_status status = semel_store_now(&now_ms, relay->store, err);
    if (status)
        return status;
    old.cutoff_ms = retention_cutoff_ms(now_ms, relay->options.keep_sent_ms);
    if (old.cutoff_ms != INT64_MIN)
        status = store_transact(relay->store, SEMEL_BEGIN_RELAXED, remove_old, &old, err);
    if (!status && old.removed < old.limit)
        relay->forget_at_ms = steady_ms + pause_ms(relay->options.keep_sent_ms);
    return status || !old.removed ? status : store_fault(relay->store, "history.committed", err);
}
