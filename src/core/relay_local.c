/* Local hand-off: out of the outbox and into the inbox in one transaction.
 *
 * The lease is taken as for a broker (and counts the attempt, so a handler that kills its process is found
 * out). Then, for each message, one transaction: marker, handler's work, outgoing messages, and the row
 * leaving the outbox, which only the owner of the lease can do. Before its commit nothing has happened;
 * after it the message is both sent and received. */
#include "core/relay.h"

#include <string.h>

static semel_status local_settle(semel_relay *relay, work_unit *unit, const relay_item *item,
                                 semel_verdict verdict, uint32_t delay_ms, semel_error *err)
{
    semel_item_settlement settlement = {
        .seq = item->seq, .token = item->token, .verdict = verdict, .delay_ms = delay_ms};
    semel_status status = relay->store->driver->outbox->settle(unit->state, relay->outbox->scope,
                                                               &settlement, 1, err);
    if (!status && settlement.lost)
        status = semel_fail(err, SEMEL_ELOST,
                            "the lease on an outgoing message ended before its work did");
    return status;
}

/* What a transaction of its own does with one message. */
typedef struct local_end {
    semel_relay *relay;
    const relay_item *item;
    semel_verdict verdict;
    uint32_t delay_ms;
    const char *why; /* of a dead letter */
} local_end;

static semel_status store_end(work_unit *unit, void *context, semel_error *err)
{
    const local_end *end = context;
    semel_status status =
        local_settle(end->relay, unit, end->item, end->verdict, end->delay_ms, err);
    if (!status && end->why)
        status = unit_note_failure(unit, 1, end->why, err);
    return status || !end->why ? status : unit_flush_pending(unit, err);
}

/* The message is given up on, or refused by the inbox: one transaction moves it to the dead letters. */
static semel_status local_bury(semel_relay *relay, work_unit *unit, relay_item *item,
                               const char *why, semel_error *err)
{
    local_end end = {.relay = relay, .item = item, .verdict = SEMEL_VERDICT_ACK, .why = why};
    unit->item.attempt = item->attempts;
    semel_status status = unit_transact(unit, SEMEL_BEGIN_DURABLE, store_end, &end, err);
    unit_drop_pending(unit);
    if (!status)
        item->verdict = SEMEL_VERDICT_ACK;
    return status;
}

static semel_status local_put_back(semel_relay *relay, work_unit *unit, relay_item *item,
                                   semel_verdict verdict, uint32_t delay_ms, semel_error *err)
{
    local_end end = {.relay = relay, .item = item, .verdict = verdict, .delay_ms = delay_ms};
    semel_status status = unit_transact(unit, SEMEL_BEGIN_RELAXED, store_end, &end, err);
    item->verdict = verdict;
    return status;
}

static semel_status local_retry(semel_relay *relay, work_unit *unit, relay_item *item,
                                semel_error *err)
{
    return local_put_back(relay, unit, item, SEMEL_VERDICT_RETRY,
                          relay_backoff_ms(relay, item->attempts), err);
}

/* The inbox refuses it for good: kept as a dead letter of the inbox, then taken out of the outbox. A crash
 * in between makes the same letter again, not a second one. */
static semel_status local_refuse(semel_relay *relay, work_unit *unit, relay_item *item,
                                 const char *why, semel_error *err)
{
    semel_status status =
        inbox_bury_refused(relay->inbox, relay->inbox->name, item->message, why, err);
    return status ? status : local_put_back(relay, unit, item, SEMEL_VERDICT_ACK, 0, err);
}

static semel_status local_commit(semel_relay *relay, work_unit *unit, relay_item *item,
                                 semel_outcome *outcome, semel_error *err)
{
    semel_status status = local_settle(relay, unit, item, SEMEL_VERDICT_ACK, 0, err);
    if (!status)
        status = unit_complete(unit, err);
    if (status)
        return status;
    item->verdict = SEMEL_VERDICT_ACK;
    if (*outcome == SEMEL_CLAIMED)
        *outcome = SEMEL_PROCESSED;
    return store_fault(relay->store, "handoff.committed", err);
}

/* All that the work did and would have sent. */
static void local_undo(work_unit *unit)
{
    unit->captured = 0;
    unit->item.result = (semel_bytes){NULL, 0};
    unit_drop_pending(unit);
    unit_tx_rollback(unit);
}

static semel_status local_after_failure(semel_relay *relay, work_unit *unit, relay_item *item,
                                        semel_outcome *outcome, const semel_error *why,
                                        semel_error *err)
{
    int dead = why->status == SEMEL_EGIVEUP || item->attempts >= relay->options.attempts_max;
    local_undo(unit);
    *outcome = dead ? SEMEL_DEAD : SEMEL_FAILED;
    return dead ? local_bury(relay, unit, item, why->text, err)
                : local_retry(relay, unit, item, err);
}

/* Started too often without an end: its handler kills the process, and is not started once more. The inbox
 * was asked first: what was handled another way meanwhile is no dead letter. */
static semel_status local_stop_trying(semel_relay *relay, work_unit *unit, relay_item *item,
                                      semel_outcome *outcome, semel_error *err)
{
    unit_tx_rollback(unit);
    item->attempts--;
    *outcome = SEMEL_DEAD;
    return local_bury(relay, unit, item, "gave up: its handler killed the process each time", err);
}

/* Whose failure is it? Settling the message is the question: if that can be done now, the store answers, and it was the
 * work that ran into a limit of the server; if not, it is an outage, and nobody's fault. */
static semel_status local_after_limit(semel_relay *relay, work_unit *unit, relay_item *item,
                                      semel_outcome *outcome, const semel_error *why,
                                      semel_error *err)
{
    semel_error ignored;
    unit->at_once = 1;
    semel_status status = local_after_failure(relay, unit, item, outcome, why, &ignored);
    unit->at_once = 0;
    if (!status || status == SEMEL_ELOST)
        return status;
    item->verdict = (semel_verdict)0; /* it was not settled */
    return semel_fail(err, why->status, "%s", why->text);
}

static semel_status local_handler_failed(semel_relay *relay, work_unit *unit, relay_item *item,
                                         semel_outcome *outcome, semel_status failure,
                                         const semel_error *why, semel_error *err)
{
    semel_error found = *why;
    semel_status truth = failure == SEMEL_ECONFLICT ? failure : unit_verify(unit, &found);
    if (!truth)
        return local_after_failure(relay, unit, item, outcome, why, err);
    if (truth == SEMEL_EUNAVAILABLE)
        return local_after_limit(relay, unit, item, outcome, &found, err);
    if (err)
        *err = found; /* not its own fault: see below */
    return truth;
}

/* What the inbox says of the message, if it is not to be handled. 1 if that is the end of it. */
static int is_settled_by_inbox(semel_relay *relay, work_unit *unit, relay_item *item,
                               semel_outcome outcome, semel_status *status, const semel_error *why,
                               semel_error *err)
{
    if (*status == SEMEL_EREJECTED) {
        unit_tx_rollback(unit);
        *status = local_refuse(relay, unit, item, why->text, err);
        return 1;
    }
    if (*status == SEMEL_EBUSY && outcome == SEMEL_IN_PROGRESS) {
        unit_tx_rollback(unit);
        *status = local_retry(relay, unit, item, err);
        return 1;
    }
    if (*status)
        *status = semel_fail(err, *status, "%s", why->text);
    return *status != SEMEL_OK;
}

static semel_status local_finish(semel_relay *relay, work_unit *unit, relay_item *item,
                                 semel_outcome *outcome, semel_error *err)
{
    semel_error why = {0};
    semel_status status = local_commit(relay, unit, item, outcome, &why);
    if (unit_blames_handler(status))
        return local_after_failure(relay, unit, item, outcome, &why, err);
    if (status == SEMEL_EUNAVAILABLE && *outcome == SEMEL_CLAIMED)
        return local_after_limit(relay, unit, item, outcome, &why, err);
    if (status && err)
        *err = why;
    return status;
}

/* One message, one transaction. Only trouble with the store is an error; a handler's failure is not. */
static semel_status local_receive(semel_relay *relay, work_unit *unit, relay_item *item,
                                  semel_outcome *outcome, semel_error *err)
{
    semel_error why = {0};
    semel_status status = unit_claim_key(outcome, unit, relay->inbox, item->message, &why);
    if (status == SEMEL_EREJECTED && *outcome == SEMEL_DUPLICATE)
        status = SEMEL_OK; /* rejecting is an answer to a sender, and here is none: it just goes */
    if (!status)
        status = store_fault(relay->store, "handoff.marked", &why);
    if (is_settled_by_inbox(relay, unit, item, *outcome, &status, &why, err))
        return status;
    if (*outcome == SEMEL_CLAIMED && item->attempts > relay->options.attempts_max)
        return local_stop_trying(relay, unit, item, outcome, err);
    if (*outcome == SEMEL_CLAIMED) {
        unit->item.attempt = item->attempts;
        status = unit_run(unit, relay->handler, item->message, relay->context, &why);
        if (!status)
            status = store_fault(relay->store, "handoff.handled", &why);
        if (status)
            return local_handler_failed(relay, unit, item, outcome, status, &why, err);
    }
    return local_finish(relay, unit, item, outcome, err);
}

/* A conflict is begun anew, a few times, each after a moment. If it does not end, or if it is a lock that is not to be
 * had, the message goes back untried, and is due again after a while: others are not kept waiting, nor is the store
 * asked without a pause. */
static semel_status local_receive_retrying(semel_relay *relay, work_unit *unit, relay_item *item,
                                           semel_outcome *outcome, semel_error *err)
{
    semel_status status;
    uint32_t tries = 0;
    do {
        *outcome = SEMEL_UNDECIDED;
        unit->final_try = tries == STORE_RETRIES;
        status = local_receive(relay, unit, item, outcome, err);
        if (status)
            local_undo(unit);
    } while (!item->verdict && store_retry_after_pause(relay->store, status, err, &tries));
    int untried = status == SEMEL_ECONFLICT || status == SEMEL_EBUSY;
    if (!untried || item->verdict)
        return status;
    *outcome = SEMEL_UNDECIDED;
    return local_put_back(relay, unit, item, SEMEL_VERDICT_RELEASE,
                          relay_backoff_ms(relay, tries ? tries : 1), err);
}

static semel_status local_receive_next(semel_relay *relay, relay_item *item, int shed,
                                       semel_error *err)
{
    work_unit *unit = NULL;
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_status status = unit_new(&unit, relay->store, err);
    if (status)
        return status;
    item->tried = !shed;
    status = shed ? local_put_back(relay, unit, item, SEMEL_VERDICT_RELEASE, 0, err)
                  : local_receive_retrying(relay, unit, item, &outcome, err);
    unit_tx_rollback(unit);
    unit_free(unit);
    if (!status)
        inbox_count(relay->inbox, outcome);
    return status;
}

/* An item that was started before and did not come to its end may be one that kills the process. The items
 * behind it are leased, too, and their attempt is counted: they go back before it starts, or they would be
 * blamed with it and become dead letters. The next passes are small, to find out which it was. */
static semel_status local_isolate(semel_relay *relay, size_t index, size_t *count, semel_error *err)
{
    for (size_t i = index + 1; i < *count; i++) {
        semel_status status = local_receive_next(relay, &relay->now->items[i], 1, err);
        if (status && status != SEMEL_ELOST)
            return status;
    }
    *count = index + 1;
    relay->limit = 1;
    return SEMEL_OK;
}

/* The store is in trouble: what was leased and not ended goes back uncounted, as far as that can be done. But for
 * one whose commit got no answer: its lease ends by itself, and its attempt stays counted, since it may be its own
 * doing. */
static void local_release_from(semel_relay *relay, size_t index, semel_status status)
{
    semel_error ignored;
    relay_batch *batch = relay->now;
    for (size_t i = index + (status == SEMEL_EUNKNOWN); i < batch->count; i++)
        if (!batch->items[i].verdict)
            (void)local_receive_next(relay, &batch->items[i], 1, &ignored);
}

semel_status relay_receive_local(semel_relay *relay, size_t *done, semel_error *err)
{
    relay_batch *batch = relay->now;
    size_t count = batch->count;
    for (size_t i = 0; i < count; i++) {
        relay_item *item = &batch->items[i];
        int shed = relay_is_late(relay, batch) || relay_is_blocked(batch, item);
        semel_status status =
            !shed && item->attempts > 1 ? local_isolate(relay, i, &count, err) : SEMEL_OK;
        if (!status)
            status = local_receive_next(relay, item, shed, err);
        if (status && status != SEMEL_ELOST) {
            local_release_from(relay, i, status);
            return status;
        }
        if (!status && item->verdict == SEMEL_VERDICT_ACK) {
            store_count(relay->store, TALLY_SENT, 1);
            store_count(relay->store, TALLY_RESENT, item->attempts > 1);
            ++*done;
        }
    }
    return SEMEL_OK;
}
