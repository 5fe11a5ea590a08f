/* Local hand-off: out of the outbox and into the inbox in one transaction.
 *
 * The lease is taken as for a broker (and counts the attempt, so a handler that kills its process is found
 * out). Then, for each message, one transaction: marker, handler's work, outgoing messages, and the row
 * leaving the outbox, which only the owner of the lease can do. Before its commit nothing has happened;
 * after it the message is both sent and received. */
#include "core/relay.h"

#include <string.h>

static semel_status settle_one(semel_relay *relay, work_unit *unit, const relay_item *item,
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

/* The message is given up on, or refused by the inbox: one transaction moves it to the dead letters. */
static semel_status give_up(semel_relay *relay, work_unit *unit, relay_item *item, const char *why,
                            semel_error *err)
{
    semel_status status = unit_open(unit, SEMEL_BEGIN_DURABLE, err);
    unit->attempt = item->attempts;
    if (!status)
        status = settle_one(relay, unit, item, SEMEL_VERDICT_ACK, 0, err);
    if (!status)
        status = unit_note_failure(unit, 1, why, err);
    if (!status)
        status = unit_deliver(unit, err);
    if (!status)
        status = unit_close(unit, err);
    unit_drop_pending(unit);
    unit_abandon(unit);
    if (!status)
        item->verdict = SEMEL_VERDICT_ACK;
    return status;
}

static semel_status put_back(semel_relay *relay, work_unit *unit, relay_item *item,
                             semel_verdict verdict, uint32_t delay_ms, semel_error *err)
{
    semel_status status = unit_open(unit, SEMEL_BEGIN_RELAXED, err);
    if (!status)
        status = settle_one(relay, unit, item, verdict, delay_ms, err);
    if (!status)
        status = unit_close(unit, err);
    unit_abandon(unit);
    item->verdict = verdict;
    return status;
}

static semel_status retry_later(semel_relay *relay, work_unit *unit, relay_item *item,
                                semel_error *err)
{
    return put_back(relay, unit, item, SEMEL_VERDICT_RETRY, relay_backoff_ms(relay, item->attempts),
                    err);
}

/* The inbox refuses it for good: kept as a dead letter of the inbox, then taken out of the outbox. A crash
 * in between makes the same letter again, not a second one. */
static semel_status refuse(semel_relay *relay, work_unit *unit, relay_item *item, const char *why,
                           semel_error *err)
{
    semel_status status =
        inbox_bury_refused(relay->inbox, relay->inbox->name, item->message, why, err);
    return status ? status : put_back(relay, unit, item, SEMEL_VERDICT_ACK, 0, err);
}

static semel_status commit(semel_relay *relay, work_unit *unit, relay_item *item,
                           semel_outcome *outcome, semel_error *err)
{
    semel_status status = settle_one(relay, unit, item, SEMEL_VERDICT_ACK, 0, err);
    if (!status)
        status = unit_finish(unit, err);
    if (status)
        return status;
    item->verdict = SEMEL_VERDICT_ACK;
    if (*outcome == SEMEL_CLAIMED)
        *outcome = SEMEL_PROCESSED;
    return store_fault(relay->store, "handoff.committed", err);
}

/* All that the work did and would have sent. */
static void undo(work_unit *unit)
{
    unit->captured = 0;
    unit->result = (semel_bytes){NULL, 0};
    unit_drop_pending(unit);
    unit_abandon(unit);
}

static semel_status after_failure(semel_relay *relay, work_unit *unit, relay_item *item,
                                  semel_outcome *outcome, const semel_error *why, semel_error *err)
{
    int dead = why->status == SEMEL_EGIVEUP || item->attempts >= relay->options.attempts_max;
    undo(unit);
    *outcome = dead ? SEMEL_DEAD : SEMEL_FAILED;
    return dead ? give_up(relay, unit, item, why->text, err) : retry_later(relay, unit, item, err);
}

/* Started too often without an end: its handler kills the process, and is not started once more. The inbox
 * was asked first: what was handled another way meanwhile is no dead letter. */
static semel_status stop_trying(semel_relay *relay, work_unit *unit, relay_item *item,
                                semel_outcome *outcome, semel_error *err)
{
    unit_abandon(unit);
    item->attempts--;
    *outcome = SEMEL_DEAD;
    return give_up(relay, unit, item, "gave up: its handler killed the process each time", err);
}

/* Whose failure is it? Settling the message is the question: if that can be done now, the store answers, and it was the
 * work that ran into a limit of the server; if not, it is an outage, and nobody's fault. */
static semel_status after_limit(semel_relay *relay, work_unit *unit, relay_item *item,
                                semel_outcome *outcome, const semel_error *why, semel_error *err)
{
    semel_error ignored;
    unit->at_once = 1;
    semel_status status = after_failure(relay, unit, item, outcome, why, &ignored);
    unit->at_once = 0;
    if (!status || status == SEMEL_ELOST)
        return status;
    item->verdict = (semel_verdict)0; /* it was not settled */
    return semel_fail(err, why->status, "%s", why->text);
}

static semel_status handler_failed(semel_relay *relay, work_unit *unit, relay_item *item,
                                   semel_outcome *outcome, semel_status failure,
                                   const semel_error *why, semel_error *err)
{
    semel_error found = *why;
    semel_status truth = failure == SEMEL_ECONFLICT ? failure : unit_verify(unit, &found);
    if (!truth)
        return after_failure(relay, unit, item, outcome, why, err);
    if (truth == SEMEL_EUNAVAILABLE)
        return after_limit(relay, unit, item, outcome, &found, err);
    return semel_fail(err, truth, "%s", found.text); /* not its own fault: see below */
}

/* What the inbox says of the message, if it is not to be handled. 1 if that is the end of it. */
static int is_settled_by_inbox(semel_relay *relay, work_unit *unit, relay_item *item,
                               semel_outcome outcome, semel_status *status, const semel_error *why,
                               semel_error *err)
{
    if (*status == SEMEL_EREJECTED) {
        unit_abandon(unit);
        *status = refuse(relay, unit, item, why->text, err);
        return 1;
    }
    if (*status == SEMEL_EBUSY && outcome == SEMEL_IN_PROGRESS) {
        unit_abandon(unit);
        *status = retry_later(relay, unit, item, err);
        return 1;
    }
    if (*status)
        *status = semel_fail(err, *status, "%s", why->text);
    return *status != SEMEL_OK;
}

static semel_status finish(semel_relay *relay, work_unit *unit, relay_item *item,
                           semel_outcome *outcome, semel_error *err)
{
    semel_error why = {0};
    semel_status status = commit(relay, unit, item, outcome, &why);
    if (unit_blames_handler(status))
        return after_failure(relay, unit, item, outcome, &why, err);
    if (status == SEMEL_EUNAVAILABLE && *outcome == SEMEL_CLAIMED)
        return after_limit(relay, unit, item, outcome, &why, err);
    return status ? semel_fail(err, status, "%s", why.text) : SEMEL_OK;
}

/* One message, one transaction. Only trouble with the store is an error; a handler's failure is not. */
static semel_status hand_over(semel_relay *relay, work_unit *unit, relay_item *item,
                              semel_outcome *outcome, semel_error *err)
{
    semel_error why = {0};
    semel_status status = unit_take(outcome, unit, relay->inbox, item->message, &why);
    if (status == SEMEL_EREJECTED && *outcome == SEMEL_DUPLICATE)
        status = SEMEL_OK; /* rejecting is an answer to a sender, and here is none: it just goes */
    if (!status)
        status = store_fault(relay->store, "handoff.marked", &why);
    if (is_settled_by_inbox(relay, unit, item, *outcome, &status, &why, err))
        return status;
    if (*outcome == SEMEL_CLAIMED && item->attempts > relay->options.attempts_max)
        return stop_trying(relay, unit, item, outcome, err);
    if (*outcome == SEMEL_CLAIMED) {
        unit->attempt = item->attempts;
        status = unit_run(unit, relay->handler, item->message, relay->context, &why);
        if (!status)
            status = store_fault(relay->store, "handoff.handled", &why);
        if (status)
            return handler_failed(relay, unit, item, outcome, status, &why, err);
    }
    return finish(relay, unit, item, outcome, err);
}

/* A conflict is begun anew, a few times, each after a moment. If it does not end, or if it is a lock that is not to be
 * had, the message goes back untried, and is due again after a while: others are not kept waiting, nor is the store
 * asked without a pause. */
static semel_status hand_over_in_the_end(semel_relay *relay, work_unit *unit, relay_item *item,
                                         semel_outcome *outcome, semel_error *err)
{
    semel_status status;
    uint32_t tries = 0;
    do {
        *outcome = SEMEL_UNDECIDED;
        status = hand_over(relay, unit, item, outcome, err);
        if (status)
            undo(unit);
    } while (!item->verdict && store_begins_anew(relay->store, status, err, &tries));
    int untried = status == SEMEL_ECONFLICT || status == SEMEL_EBUSY;
    if (!untried || item->verdict)
        return status;
    *outcome = SEMEL_UNDECIDED;
    return put_back(relay, unit, item, SEMEL_VERDICT_RELEASE,
                    relay_backoff_ms(relay, tries ? tries : 1), err);
}

static semel_status hand_over_next(semel_relay *relay, relay_item *item, int shed, semel_error *err)
{
    work_unit *unit = NULL;
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_status status = unit_new(&unit, relay->store, err);
    if (status)
        return status;
    item->tried = !shed;
    status = shed ? put_back(relay, unit, item, SEMEL_VERDICT_RELEASE, 0, err)
                  : hand_over_in_the_end(relay, unit, item, &outcome, err);
    unit_abandon(unit);
    unit_free(unit);
    if (!status)
        inbox_count(relay->inbox, outcome);
    return status;
}

/* An item that was started before and did not come to its end may be one that kills the process. The items
 * behind it are leased, too, and their attempt is counted: they go back before it starts, or they would be
 * blamed with it and become dead letters. The next turns are small, to find out who it was. */
static semel_status run_apart(semel_relay *relay, size_t index, size_t *count, semel_error *err)
{
    for (size_t i = index + 1; i < *count; i++) {
        semel_status status = hand_over_next(relay, &relay->now->items[i], 1, err);
        if (status && status != SEMEL_ELOST)
            return status;
    }
    *count = index + 1;
    relay->limit = 1;
    return SEMEL_OK;
}

/* The store is in trouble: what was leased and not ended goes back uncounted, as far as that can be done. But for one whose
 * commit got no answer: its lease ends by itself, and its attempt stays counted, since it may be its own doing. */
static void give_back_from(semel_relay *relay, size_t index, semel_status status)
{
    semel_error ignored;
    relay_batch *batch = relay->now;
    for (size_t i = index + (status == SEMEL_EUNKNOWN); i < batch->count; i++)
        if (!batch->items[i].verdict)
            (void)hand_over_next(relay, &batch->items[i], 1, &ignored);
}

semel_status relay_hand_over(semel_relay *relay, size_t *done, semel_error *err)
{
    relay_batch *batch = relay->now;
    size_t count = batch->count;
    for (size_t i = 0; i < count; i++) {
        relay_item *item = &batch->items[i];
        int shed = relay_is_late(relay, batch) || relay_is_blocked(batch, item);
        semel_status status =
            !shed && item->attempts > 1 ? run_apart(relay, i, &count, err) : SEMEL_OK;
        if (!status)
            status = hand_over_next(relay, item, shed, err);
        if (status && status != SEMEL_ELOST) {
            give_back_from(relay, i, status);
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
