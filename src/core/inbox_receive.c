/* semel_inbox_receive(): begin, claim, handler, commit.
 *
 * A conflict (deadlock, serialization failure) is retried here with a new unit, a few times: the
 * handler then runs again, in a transaction that saw nothing of the first one.
 *
 * In queued mode the handler runs first, and what it planned is sent together with the marker,
 * which is assumed to be new. Whatever does not go as assumed is received once more in the ordinary
 * way. */
#include "core/unit.h"

#include <string.h>

/* One call: what came, what is to be done with it, and what became of it. */
typedef struct reception {
    semel_inbox *inbox;
    const semel_message *message;
    semel_handler *handler;
    void *context;
    const unit_terms *terms; /* NULL: none */
    int wants_result;
    uint32_t tries; /* how often it was begun anew */
    int buried;     /* it became a dead letter by this call */
    int planned_ok; /* queued mode: what the handler planned decided it */
    semel_outcome outcome;
    semel_result *result;
} reception;

semel_status result_new(semel_result **out, void *data, size_t len, semel_error *err)
{
    semel_result *result = mem_alloc(sizeof *result);
    if (!result) {
        mem_free(data);
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a result");
    }
    *result = (semel_result){len, data};
    *out = result;
    return SEMEL_OK;
}

semel_bytes semel_result_bytes(const semel_result *result)
{
    return result ? (semel_bytes){result->data, result->len} : (semel_bytes){NULL, 0};
}

void semel_result_free(semel_result *result)
{
    if (!result)
        return;
    mem_free(result->data);
    mem_free(result);
}

/* The result for the caller is made before the commit: after it, running out of memory would turn a
 * processed message into a failed call. */
static semel_status prepare_result(reception *r, const work_unit *unit, semel_error *err)
{
    if (!r->wants_result || !unit->item.result.data)
        return SEMEL_OK;
    void *copy = mem_alloc(unit->item.result.len + 1);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a result");
    memcpy(copy, unit->item.result.data, unit->item.result.len);
    return result_new(&r->result, copy, unit->item.result.len, err);
}

static semel_status give_replay(reception *r, work_unit *unit, semel_error *err)
{
    if (!r->wants_result || !unit->item.replay)
        return SEMEL_OK;
    void *data = unit->item.replay;
    unit->item.replay = NULL;
    semel_status status = result_new(&r->result, data, unit->item.replay_len, err);
    if (status)
        r->outcome = SEMEL_UNDECIDED;
    return status;
}

/* The handler has run and failed. Its error is what the caller wants to see, unless it is a dead
 * letter by now, which is dealt with. */
static semel_status after_failure(semel_outcome *out, work_unit *unit, semel_status failure,
                                  const semel_error *why, semel_error *err)
{
    semel_error trouble;
    unit_drop_captured(unit);
    unit_drop_pending(unit);
    if (unit->phase == UNIT_OPEN)
        unit_tx_rollback(unit);
    semel_status status = unit_record_failure(out, unit, why, &trouble);
    if (err)
        *err = *why;
    return !status && *out == SEMEL_DEAD ? SEMEL_OK : failure;
}

/* The work ran into a limit of the server, or took its connection down. If the store answers, this
 * message is the cause, and the attempt counts; if not, it is an outage, and the attempt does not
 * count. */
static semel_status after_limit(semel_outcome *out, work_unit *unit, semel_status status,
                                const semel_error *why, semel_error *err)
{
    unit_drop_captured(unit);
    unit_drop_pending(unit);
    unit_tx_rollback(unit);
    if (!unit_record_limit(out, unit, why, err))
        return *out == SEMEL_DEAD ? SEMEL_OK : SEMEL_EHANDLER;
    *out = SEMEL_UNDECIDED;
    unit_uncount(unit);
    return status;
}

/* The handler has ended early because the program stops. */
static semel_status after_stop(work_unit *unit, const semel_error *why, semel_error *err)
{
    unit_take_back(unit);
    if (err)
        *err = *why;
    return SEMEL_ESTOPPED;
}

/* The handler says that it failed. The state of the store's transaction tells whether the handler
 * or the store is the cause. */
static semel_status handler_failed(semel_outcome *out, work_unit *unit, semel_status failure,
                                   const semel_error *why, semel_error *err)
{
    semel_error found = *why;
    semel_status truth = failure == SEMEL_ECONFLICT && unit->phase == UNIT_OPEN
                             ? SEMEL_ECONFLICT
                             : unit_verify(unit, &found);
    if (!truth && failure == SEMEL_ESTOPPED)
        return after_stop(unit, why, err);
    if (!truth)
        return after_failure(out, unit, failure, why, err);
    if (truth == SEMEL_EUNAVAILABLE)
        return after_limit(out, unit, truth, &found, err);
    if (unit_blames_store(truth) || (truth == SEMEL_EMISUSE && found.retryable))
        unit_uncount(unit);
    if (err)
        *err = found;
    return truth;
}

/* The handler has succeeded, and the commit has not. */
static semel_status commit_failed(semel_outcome *out, work_unit *unit, int in_transaction,
                                  semel_status status, const semel_error *why, semel_error *err)
{
    if (unit_blames_handler(status))
        return after_failure(out, unit, status, why, err);
    if (status == SEMEL_EUNAVAILABLE && in_transaction)
        return after_limit(out, unit, status, why, err);
    if (unit_blames_store(status) || (status == SEMEL_EMISUSE && why->retryable))
        unit_uncount(unit);
    if (status == SEMEL_ECONFLICT && !in_transaction && unit->item.mark.inbox)
        *out = SEMEL_IN_PROGRESS; /* it is not begun anew: the claim lives until its lease ends */
    if (err)
        *err = *why;
    return status;
}

static semel_status run_and_commit(reception *r, work_unit *unit, semel_error *err)
{
    semel_error why; /* written by whatever fails */
    int in_transaction = unit->phase == UNIT_OPEN;
    semel_status status = unit_run(unit, r->handler, r->message, r->context, &why);
    if (!status)
        status =
            store_fault(unit->store, in_transaction ? "receive.handled" : "claim.handled", &why);
    if (status)
        return handler_failed(&r->outcome, unit, status, &why, err);
    status = prepare_result(r, unit, &why);
    if (!status)
        status = unit_complete(unit, &why);
    if (status)
        return commit_failed(&r->outcome, unit, in_transaction, status, &why, err);
    r->outcome = SEMEL_PROCESSED;
    return in_transaction ? store_fault(unit->store, "receive.committed", err) : SEMEL_OK;
}

/* --- queued mode ------------------------------------------------------------------------------ */

/* What can be decided in one go: a first delivery with a key that the store can assume to be
 * free. */
static int can_assume(const work_unit *unit, const semel_inbox *inbox)
{
    return unit->store->driver->markers->assume && unit->item.mark.inbox &&
           unit->item.message->delivery < 2 && !inbox_is_old_soon(inbox, unit->item.message);
}

static semel_status commit_plan(work_unit *unit, semel_error *err)
{
    const semel_inbox_options *options = &unit->item.inbox->options;
    uint32_t wait_ms = options->on_in_flight == SEMEL_IN_FLIGHT_WAIT ? options->wait_ms : 0;
    semel_status status = unit_tx_begin(unit, SEMEL_BEGIN_DURABLE, err);
    if (!status)
        status = unit->store->driver->markers->assume(unit->state, &unit->item.mark, wait_ms, err);
    if (!status &&
        unit->item.mark.state == SEMEL_MARK_TAKEN) /* it is known already how often it failed */
        unit->item.attempt = unit->item.mark.attempts + 1;
    return status ? status : unit_complete(unit, err);
}

/* A copy that needs nothing but to be told so; a stored result must be fetched in a transaction. */
static int is_decided(const work_unit *unit)
{
    return unit->item.mark.state && unit->item.mark.state != SEMEL_MARK_TAKEN &&
           (unit->item.mark.state != SEMEL_MARK_DONE ||
            unit->item.inbox->options.on_duplicate != SEMEL_DUPLICATE_REPLAY);
}

/* The handler has planned; the plan and the marker go to the store together. If that does not
 * decide it, nothing was changed, and the message is received in the ordinary way. */
static semel_status commit_queued(reception *r, work_unit *unit, semel_error *err)
{
    semel_error why;
    semel_status status = prepare_result(r, unit, err);
    r->planned_ok = 1;
    if (status)
        return status;
    status = commit_plan(unit, &why);
    unit_tx_rollback(unit);
    if (status == SEMEL_EREJECTED) {
        r->planned_ok = is_decided(unit);
        return r->planned_ok ? inbox_decide(&r->outcome, r->inbox, &unit->item.mark, err)
                             : SEMEL_OK;
    }
    if (status)
        return commit_failed(&r->outcome, unit, 1, status, &why, err);
    r->outcome = SEMEL_PROCESSED;
    return store_fault(unit->store, "receive.committed", err);
}

/* A handler that fails here may have been called for a copy: the ordinary way tells. One that
 * stops has no time for that, and nothing has happened. */
static semel_status receive_queued(reception *r, work_unit *unit, semel_error *err)
{
    int missing;
    semel_error why;
    if (unit_identify(&missing, unit, r->inbox, r->message, &why) || !can_assume(unit, r->inbox) ||
        unit_add_details(unit, &why))
        return SEMEL_OK;
    unit->phase = UNIT_PLANNING;
    unit->item.attempt = 1;
    semel_status status = unit_run(unit, r->handler, r->message, r->context, &why);
    if (!status)
        status = store_fault(unit->store, "receive.handled", &why);
    unit->phase = UNIT_IDLE;
    if (status == SEMEL_ESTOPPED)
        return after_stop(unit, &why, err);
    int can = !status && can_assume(unit, r->inbox); /* a slow handler: it may have become old */
    return can ? commit_queued(r, unit, err) : SEMEL_OK;
}

/* --- all modes -------------------------------------------------------------------------------- */

static semel_status receive_stepwise(reception *r, work_unit *unit, semel_error *err)
{
    unit->final_try = r->tries == STORE_RETRIES;
    semel_status status = unit_claim_key(&r->outcome, unit, r->inbox, r->message, err);
    if (status)
        return status;
    if (r->outcome != SEMEL_CLAIMED)
        return give_replay(r, unit, err);
    r->outcome = SEMEL_UNDECIDED;
    return run_and_commit(r, unit, err);
}

static void drop_result(reception *r)
{
    semel_result_free(r->result);
    r->result = NULL;
}

/* Each way has a unit of its own: what a handler planned for nothing must not be left in the
 * other's. */
typedef semel_status receive_way(reception *r, work_unit *unit, semel_error *err);

static semel_status receive_in_unit(reception *r, receive_way *way, semel_error *err)
{
    work_unit *unit = NULL;
    semel_status status = unit_new(&unit, r->inbox->store, err);
    if (status)
        return status;
    if (r->terms)
        unit->terms = *r->terms;
    status = way(r, unit, err);
    r->buried = unit->item.buried;
    unit_tx_rollback(unit);
    unit_report(unit, r->inbox, status == SEMEL_ELOST ? SEMEL_FAILED : r->outcome,
                status ? err : NULL);
    unit_free(unit);
    return status;
}

static semel_status receive_once(reception *r, semel_error *err)
{
    semel_status status = SEMEL_OK;
    r->outcome = SEMEL_UNDECIDED;
    r->planned_ok = 0;
    drop_result(r);
    if (r->inbox->options.mode == SEMEL_QUEUED)
        status = receive_in_unit(r, receive_queued, err);
    if (status || r->planned_ok)
        return status;
    drop_result(r);
    return receive_in_unit(r, receive_stepwise, err);
}

/* A message that succeeds after a conflict leaves no error behind; one that is dead now says
 * why. */
static semel_status receive(reception *r, semel_error *err)
{
    semel_status status;
    semel_error why;
    do {
        why.status = SEMEL_OK; /* the rest of it, half a kilobyte, is written with it */
        status = receive_once(r, &why);
    } while (r->outcome == SEMEL_UNDECIDED &&
             store_retry_after_pause(r->inbox->store, status, &why, &r->tries));
    if (err && why.status && (status || r->outcome == SEMEL_DEAD))
        *err = why;
    if (r->outcome != SEMEL_PROCESSED && r->outcome != SEMEL_REPLAYED)
        drop_result(r);
    return status;
}

semel_status semel_inbox_receive_result(semel_outcome *out, semel_result **result,
                                        semel_inbox *inbox, const semel_message *message,
                                        semel_handler *handler, void *context, semel_error *err)
{
    reception r = {.inbox = inbox,
                   .message = message,
                   .handler = handler,
                   .context = context,
                   .wants_result = result != NULL};
    semel_status status = inbox_takes_keys(inbox, err);
    if (!status)
        status = receive(&r, err);
    *out = r.outcome;
    if (result)
        *result = r.result;
    return status;
}

semel_status inbox_receive(semel_outcome *out, int *buried, semel_inbox *inbox,
                           const semel_message *message, semel_handler *handler, void *context,
                           const unit_terms *terms, semel_error *err)
{
    reception r = {
        .inbox = inbox, .message = message, .handler = handler, .context = context, .terms = terms};
    semel_status status = receive(&r, err);
    *out = r.outcome;
    if (buried)
        *buried = r.outcome == SEMEL_DEAD && r.buried;
    return status;
}

semel_status semel_inbox_receive(semel_outcome *out, semel_inbox *inbox,
                                 const semel_message *message, semel_handler *handler,
                                 void *context, semel_error *err)
{
    *out = SEMEL_UNDECIDED;
    semel_status status = inbox_takes_keys(inbox, err);
    return status ? status : inbox_receive(out, NULL, inbox, message, handler, context, NULL, err);
}

/* A lease that was lost is the message's own failure: the others go on. */
semel_status inbox_status_among_others(semel_outcome *out, semel_status status)
{
    if (status == SEMEL_ELOST)
        *out = SEMEL_FAILED;
    return *out == SEMEL_UNDECIDED ? status : SEMEL_OK;
}
