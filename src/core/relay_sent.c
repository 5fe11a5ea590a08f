/* The history of a relay: rows of what it has sent, as long as its options say.
 *
 * A row is written in the transaction that removes the message from the outbox, so there is one if
 * and only if the message has left. If the process dies before that commit, the message is sent
 * again and has one row. Rows that are too old are removed by whichever relay of the outbox comes
 * first, a bounded number at a time, in a transaction of their own; two relays do each other no
 * harm. */
#include "core/relay.h"

enum { ROWS_MAX = 1000, PAUSE_MIN_MS = 1000, PAUSE_MAX_MS = 60000, PAUSES_PER_SPAN = 10 };
enum { PATIENCE = 3 }; /* failures that pass, in a row, before they are reported */

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

static semel_status forget_some(semel_relay *relay, int64_t steady_ms, semel_error *err)
{
    int64_t now_ms;
    old_rows old = {.relay = relay, .limit = store_batch(relay->store, ROWS_MAX)};
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

/* What passes by itself, such as a row that another relay has removed at the same time, is reported
 * when it has come several times in a row. */
static void note_failure(semel_relay *relay, int64_t steady_ms, const semel_error *why)
{
    relay->forget_at_ms = steady_ms + PAUSE_MIN_MS;
    relay->forget_failures++;
    if (relay->forget_reported || (why->retryable && relay->forget_failures < PATIENCE))
        return;
    relay->forget_reported = 1;
    relay_notify(relay, why);
}

static void note_success(semel_relay *relay)
{
    relay->forget_failures = 0;
    if (relay->forget_reported)
        relay_notify(relay, NULL);
    relay->forget_reported = 0;
}

/* Old rows do no harm: what cannot remove them sends all the same. An outage of the store is met,
 * and reported, by the pass. */
void relay_forget_sent(semel_relay *relay)
{
    int64_t steady_ms = seam_steady_ms(&relay->store->seam);
    semel_error why;
    if (!relay->options.keep_sent_ms || relay->in_outage || steady_ms < relay->forget_at_ms)
        return;
    if (forget_some(relay, steady_ms, &why))
        note_failure(relay, steady_ms, &why);
    else
        note_success(relay);
}
