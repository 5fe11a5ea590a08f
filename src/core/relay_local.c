/* Local hand-off of one message: out of the outbox and into the inbox in one transaction.
 *
 * Most messages go in batches (relay_local_batch.c). One goes by itself if it was leased before, if
 * the inbox refuses it or has no key for it, or if the batch that it was in failed as a whole.
 *
 * The lease is taken as for a broker (and counts the attempt, so a handler that kills its process
 * is found out). Then, for each message, one transaction: marker, handler's work, outgoing
 * messages, and the row leaving the outbox, which only the owner of the lease can do. Before its
 * commit nothing has happened; after it the message is both sent and received. */
#include "core/relay.h"

#include <stdio.h>
#include <string.h>

static semel_status local_settle(semel_relay *relay, work_unit *unit, const relay_item *item,
                                 semel_item_settlement settlement, semel_error *err)
{
    settlement.seq = item->seq;
    settlement.token = item->token;
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
    semel_item_settlement as;
    const char *why; /* of a dead letter */
} local_end;

static semel_status store_end(work_unit *unit, void *context, semel_error *err)
{
    const local_end *end = context;
    unit->operation = SEMEL_OPERATION_RELAY;
    semel_status status = local_settle(end->relay, unit, end->item, end->as, err);
    if (!status && end->why)
        status = unit_note_failure(unit, 1, end->why, err);
    return status || !end->why ? status : unit_flush_pending(unit, err);
}

/* The message is given up on, or refused by the inbox: one transaction moves it to the dead
 * letters. */
static semel_status local_bury(semel_relay *relay, work_unit *unit, relay_item *item,
                               const char *why, semel_error *err)
{
    local_end end = {
        .relay = relay, .item = item, .as = {.verdict = SEMEL_VERDICT_ACK}, .why = why};
    unit->item.attempt = item->attempts;
    semel_status status = unit_transact(unit, SEMEL_BEGIN_DURABLE, store_end, &end, err);
    unit_drop_pending(unit);
    if (status)
        return status;
    item->verdict = SEMEL_VERDICT_ACK;
    unit_count_captured(unit); /* the announcement */
    return SEMEL_OK;
}

static semel_status local_end_apart(semel_relay *relay, work_unit *unit, relay_item *item,
                                    semel_item_settlement as, semel_error *err)
{
    local_end end = {.relay = relay, .item = item, .as = as};
    semel_status status;
    uint32_t tries = 0;
    do
        status = unit_transact(unit, SEMEL_BEGIN_RELAXED, store_end, &end, err);
    while (store_retry_after_pause(relay->store, status, NULL, &tries));
    item->verdict = as.verdict; /* the handler is not called again, whatever became of this */
    return status;
}

static semel_status local_put_back(semel_relay *relay, work_unit *unit, relay_item *item,
                                   semel_verdict verdict, uint32_t delay_ms, semel_error *err)
{
    semel_item_settlement as = {.verdict = verdict, .delay_ms = delay_ms};
    return local_end_apart(relay, unit, item, as, err);
}

/* `why` is kept with the message; NULL: it has not failed. */
static semel_status local_retry(semel_relay *relay, work_unit *unit, relay_item *item,
                                const char *why, semel_error *err)
{
    char beginning[SETTLER_ERROR_MAX + 1];
    semel_item_settlement as = {.verdict = SEMEL_VERDICT_RETRY,
                                .delay_ms = relay_backoff_ms(relay, item->attempts)};
    if (why) {
        (void)snprintf(beginning, sizeof beginning, "%s", why);
        as.error = beginning;
    }
    return local_end_apart(relay, unit, item, as, err);
}

/* The inbox refuses it for good: kept as a dead letter of the inbox, then taken out of the outbox.
 * A crash in between makes the same letter again, not a second one. */
static semel_status local_refuse(semel_relay *relay, work_unit *unit, relay_item *item,
                                 semel_outcome outcome, const char *why, semel_error *err)
{
    semel_status status =
        inbox_bury_refused(relay->inbox, relay->inbox->name, item->message, outcome, why, err);
    return status ? status : local_put_back(relay, unit, item, SEMEL_VERDICT_ACK, 0, err);
}

static semel_status local_commit(semel_relay *relay, work_unit *unit, relay_item *item,
                                 semel_outcome *outcome, semel_error *err)
{
    semel_item_settlement as = {.verdict = SEMEL_VERDICT_ACK,
                                .sent = relay->options.keep_sent_ms != 0};
    semel_status status = local_settle(relay, unit, item, as, err);
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
    unit_drop_captured(unit);
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
    unit->item.failure = observe_text(unit->store, &unit->arena, why->text);
    *outcome = dead ? SEMEL_DEAD : SEMEL_FAILED;
    return dead ? local_bury(relay, unit, item, why->text, err)
                : local_retry(relay, unit, item, why->text, err);
}

/* Started too often without an end: its handler kills the process, and is not started once more.
 * The inbox was asked first: what was handled another way meanwhile is no dead letter. */
static semel_status local_stop_trying(semel_relay *relay, work_unit *unit, relay_item *item,
                                      semel_outcome *outcome, semel_error *err)
{
    unit_tx_rollback(unit);
    item->attempts--;
    *outcome = SEMEL_DEAD;
    unit->item.failure = "gave up: its handler killed the process each time";
    return local_bury(relay, unit, item, unit->item.failure, err);
}

/* Finds the cause of a failure by settling the message. If that succeeds, the store answers, and
 * the work ran into a limit of the server. If not, it is an outage, and the attempt does not
 * count. */
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
    if (!truth && failure == SEMEL_ESTOPPED)
        truth = failure;
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
    if (*status)
        unit->item.failure = observe_text(unit->store, &unit->arena, why->text);
    if (*status == SEMEL_EREJECTED) {
        unit_tx_rollback(unit);
        *status = local_refuse(relay, unit, item, outcome, why->text, err);
        return 1;
    }
    if (*status == SEMEL_EBUSY && outcome == SEMEL_IN_PROGRESS) {
        unit_tx_rollback(unit);
        *status = local_retry(relay, unit, item, NULL, err);
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

/* One message, one transaction. Only trouble with the store is an error; a handler's failure is
 * not. */
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
        unit->terms.stopped = &relay->stopped;
        status = unit_run(unit, relay->handler, item->message, relay->context, &why);
        if (!status)
            status = store_fault(relay->store, "handoff.handled", &why);
        if (status)
            return local_handler_failed(relay, unit, item, outcome, status, &why, err);
    }
    return local_finish(relay, unit, item, outcome, err);
}

/* When a message that goes back untried is due again: after a while, so that others are not kept
 * waiting nor the store is asked without a pause; at once if this relay stops, for another one. */
static uint32_t untried_delay_ms(semel_relay *relay, semel_status status, uint32_t tries)
{
    if (status == SEMEL_ESTOPPED && atomic_load(&relay->stopped))
        return 0;
    return relay_backoff_ms(relay, tries ? tries : 1);
}

/* A conflict is begun anew, a few times, each after a moment. If it does not end, or if it is a
 * lock that is not to be had, or if the handler ends early because the relay stops, the message
 * goes back untried. */
static semel_status local_receive_retrying(semel_relay *relay, work_unit *unit, relay_item *item,
                                           semel_outcome *outcome, semel_error *err)
{
    semel_status status;
    uint32_t tries = 0;
    do {
        *outcome = SEMEL_UNDECIDED;
        unit->item.handler_ns = unit->item.started_ns = 0; /* of a try that was undone */
        unit->item.failure = NULL;
        unit->final_try = tries == STORE_RETRIES;
        status = local_receive(relay, unit, item, outcome, err);
        if (status)
            local_undo(unit);
    } while (!item->verdict && store_retry_after_pause(relay->store, status, err, &tries));
    int untried = status == SEMEL_ECONFLICT || status == SEMEL_EBUSY || status == SEMEL_ESTOPPED;
    if (!untried || item->verdict)
        return status;
    relay->cut_short |= status == SEMEL_ESTOPPED;
    *outcome = SEMEL_UNDECIDED;
    return local_put_back(relay, unit, item, SEMEL_VERDICT_RELEASE,
                          untried_delay_ms(relay, status, tries), err);
}

semel_status relay_receive_item(semel_relay *relay, relay_item *item, semel_error *err)
{
    work_unit *unit = NULL;
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_status status = unit_new(&unit, relay->store, err);
    if (status)
        return status;
    item->tried = 1;
    unit->terms.retry_ms = relay_retry_ms;
    unit->terms.retry_context = relay;
    status = local_receive_retrying(relay, unit, item, &outcome, err);
    unit_tx_rollback(unit);
    if (!status)
        unit_report(unit, relay->inbox, outcome, NULL);
    unit_free(unit);
    return status;
}
