/* semel_inbox_receive(): begin, claim, handler, commit. Nothing here that a caller could not do with the
 * public steps; it is the place where they are put together right.
 *
 * A conflict (deadlock, serialization failure) is retried here with a new unit, a few times: the handler
 * then runs again, in a transaction that saw nothing of the first one.
 *
 * In queued mode the handler runs first, and what it planned is sent together with the marker, which is
 * assumed to be new. Whatever does not go as assumed is received once more in the ordinary way. */
#include "core/unit.h"

#include <string.h>

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
static semel_status prepare_result(semel_result **out, const work_unit *unit, semel_error *err)
{
    if (!unit->result.data)
        return SEMEL_OK;
    void *copy = mem_alloc(unit->result.len + 1);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a result");
    memcpy(copy, unit->result.data, unit->result.len);
    return result_new(out, copy, unit->result.len, err);
}

static semel_status give_replay(semel_outcome *outcome, semel_result **out, work_unit *unit,
                                semel_error *err)
{
    if (!unit->replay)
        return SEMEL_OK;
    void *data = unit->replay;
    unit->replay = NULL;
    semel_status status = result_new(out, data, unit->replay_len, err);
    if (status)
        *outcome = SEMEL_UNDECIDED;
    return status;
}

/* The handler has run and failed. Its error is what the caller wants to see, unless it is a dead letter
 * by now, which is dealt with. */
static semel_status after_failure(semel_outcome *out, work_unit *unit, semel_status failure,
                                  const semel_error *why, semel_error *err)
{
    semel_error trouble;
    unit->captured = 0;
    unit_drop_pending(unit);
    if (unit->phase == UNIT_OPEN)
        unit_tx_rollback(unit);
    semel_status status = unit_record_failure(out, unit, why, &trouble);
    if (err)
        *err = *why;
    return !status && *out == SEMEL_DEAD ? SEMEL_OK : failure;
}

/* The work ran into a limit of the server, or took its connection down. If the store answers, it is this message, and
 * the attempt counts; if not, it is an outage, and nobody's fault. */
static semel_status after_limit(semel_outcome *out, work_unit *unit, semel_status status,
                                const semel_error *why, semel_error *err)
{
    unit->captured = 0;
    unit_drop_pending(unit);
    unit_tx_rollback(unit);
    if (!unit_record_limit(out, unit, why, err))
        return *out == SEMEL_DEAD ? SEMEL_OK : SEMEL_EHANDLER;
    *out = SEMEL_UNDECIDED;
    unit_uncount(unit);
    return status;
}

/* The handler says that it failed. Whose fault that is, the store knows better. */
static semel_status handler_failed(semel_outcome *out, work_unit *unit, semel_status failure,
                                   const semel_error *why, semel_error *err)
{
    semel_error found = *why;
    semel_status truth = failure == SEMEL_ECONFLICT && unit->phase == UNIT_OPEN
                             ? SEMEL_ECONFLICT
                             : unit_verify(unit, &found);
    if (!truth)
        return after_failure(out, unit, failure, why, err);
    if (truth == SEMEL_EUNAVAILABLE)
        return after_limit(out, unit, truth, &found, err);
    if (unit_blames_nobody(truth) || (truth == SEMEL_EMISUSE && found.retryable))
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
    if (unit_blames_nobody(status) || (status == SEMEL_EMISUSE && why->retryable))
        unit_uncount(unit);
    if (status == SEMEL_ECONFLICT && !in_transaction && unit->mark.inbox)
        *out = SEMEL_IN_PROGRESS; /* it is not begun anew: the claim lives until its lease ends */
    if (err)
        *err = *why;
    return status;
}

static semel_status run_and_commit(semel_outcome *out, semel_result **result, work_unit *unit,
                                   semel_handler *handler, void *context, semel_error *err)
{
    semel_error why; /* written by whatever fails */
    int in_transaction = unit->phase == UNIT_OPEN;
    semel_status status = unit_run(unit, handler, unit->message, context, &why);
    if (!status)
        status =
            store_fault(unit->store, in_transaction ? "receive.handled" : "claim.handled", &why);
    if (status)
        return handler_failed(out, unit, status, &why, err);
    status = result ? prepare_result(result, unit, &why) : SEMEL_OK;
    if (!status)
        status = unit_complete(unit, &why);
    if (status)
        return commit_failed(out, unit, in_transaction, status, &why, err);
    *out = SEMEL_PROCESSED;
    return in_transaction ? store_fault(unit->store, "receive.committed", err) : SEMEL_OK;
}

/* --- queued mode ------------------------------------------------------------------------------------- */

/* What can be decided in one go: a first delivery with a key that the store can assume to be free. */
static int can_assume(const work_unit *unit, const semel_inbox *inbox)
{
    return unit->store->driver->markers->assume && unit->mark.inbox &&
           unit->message->delivery < 2 && !inbox_is_stale(inbox, unit->message);
}

static semel_status commit_plan(work_unit *unit, semel_error *err)
{
    const semel_inbox_options *options = &unit->inbox->options;
    uint32_t wait_ms = options->on_in_flight == SEMEL_IN_FLIGHT_WAIT ? options->wait_ms : 0;
    semel_status status = unit_tx_begin(unit, SEMEL_BEGIN_DURABLE, err);
    if (!status)
        status = unit->store->driver->markers->assume(unit->state, &unit->mark, wait_ms, err);
    if (!status &&
        unit->mark.state == SEMEL_MARK_TAKEN) /* it is known already how often it failed */
        unit->attempt = unit->mark.attempts + 1;
    return status ? status : unit_complete(unit, err);
}

/* A copy that needs nothing but to be told so; a stored result must be fetched in a transaction. */
static int is_decided(const work_unit *unit)
{
    return unit->mark.state && unit->mark.state != SEMEL_MARK_TAKEN &&
           (unit->mark.state != SEMEL_MARK_DONE ||
            unit->inbox->options.on_duplicate != SEMEL_DUPLICATE_REPLAY);
}

/* The handler has planned; the plan and the marker go to the store together. *done is 0 if that did not
 * settle it: nothing was changed then, and the message is received in the ordinary way. */
static semel_status commit_queued(int *done, semel_outcome *out, semel_result **result,
                                  work_unit *unit, semel_error *err)
{
    semel_error why;
    semel_status status = result ? prepare_result(result, unit, err) : SEMEL_OK;
    *done = 1;
    if (status)
        return status;
    status = commit_plan(unit, &why);
    unit_tx_rollback(unit);
    if (status == SEMEL_EREJECTED) {
        *done = is_decided(unit);
        return *done ? inbox_decide(out, unit->inbox, &unit->mark, err) : SEMEL_OK;
    }
    if (status)
        return commit_failed(out, unit, 1, status, &why, err);
    *out = SEMEL_PROCESSED;
    return store_fault(unit->store, "receive.committed", err);
}

/* A handler that fails here may have been called for a copy: the ordinary way tells. */
static semel_status receive_queued(int *done, semel_outcome *out, semel_result **result,
                                   semel_inbox *inbox, const semel_message *message,
                                   semel_handler *handler, void *context, semel_error *err)
{
    int missing;
    semel_error ignored;
    work_unit *unit = NULL;
    semel_status status = unit_new(&unit, inbox->store, err);
    if (status)
        return status;
    *done = 0;
    if (!unit_identify(&missing, unit, inbox, message, &ignored) && can_assume(unit, inbox)) {
        unit->phase = UNIT_PLANNING;
        unit->attempt = 1;
        int failed = unit_run(unit, handler, message, context, &ignored) ||
                     store_fault(unit->store, "receive.handled", &ignored);
        unit->phase = UNIT_IDLE;
        if (!failed)
            status = commit_queued(done, out, result, unit, err);
    }
    unit_free(unit);
    return status;
}

/* --- all modes --------------------------------------------------------------------------------------- */

static semel_status receive_stepwise(semel_outcome *out, semel_result **result, semel_inbox *inbox,
                                     const semel_message *message, semel_handler *handler,
                                     void *context, uint32_t tries, semel_error *err)
{
    work_unit *unit = NULL;
    semel_status status = unit_new(&unit, inbox->store, err);
    if (status)
        return status;
    unit->final_try = tries == STORE_RETRIES;
    status = unit_claim_key(out, unit, inbox, message, err);
    if (!status && *out == SEMEL_CLAIMED) {
        *out = SEMEL_UNDECIDED;
        status = run_and_commit(out, result, unit, handler, context, err);
    } else if (!status && result) {
        status = give_replay(out, result, unit, err);
    }
    unit_tx_rollback(unit);
    unit_free(unit);
    return status;
}

static semel_status receive_once(semel_outcome *out, semel_result **result, semel_inbox *inbox,
                                 const semel_message *message, semel_handler *handler,
                                 void *context, uint32_t tries, semel_error *err)
{
    int done = 0;
    semel_status status = SEMEL_OK;
    if (inbox->options.mode == SEMEL_QUEUED)
        status = receive_queued(&done, out, result, inbox, message, handler, context, err);
    if (status || done)
        return status;
    if (result) {
        semel_result_free(*result);
        *result = NULL;
    }
    return receive_stepwise(out, result, inbox, message, handler, context, tries, err);
}

semel_status semel_inbox_receive_result(semel_outcome *out, semel_result **result,
                                        semel_inbox *inbox, const semel_message *message,
                                        semel_handler *handler, void *context, semel_error *err)
{
    semel_result *found = NULL;
    semel_status status;
    semel_error local, *why = err ? err : &local;
    uint32_t tries = 0;
    do {
        semel_result_free(found);
        found = NULL;
        *out = SEMEL_UNDECIDED;
        status =
            receive_once(out, result ? &found : NULL, inbox, message, handler, context, tries, why);
    } while (*out == SEMEL_UNDECIDED && store_retry_after_pause(inbox->store, status, why, &tries));
    inbox_count(inbox, *out);
    if (result && *out != SEMEL_PROCESSED && *out != SEMEL_REPLAYED) {
        semel_result_free(found);
        found = NULL;
    }
    if (result)
        *result = found;
    return status;
}

semel_status semel_inbox_receive(semel_outcome *out, semel_inbox *inbox,
                                 const semel_message *message, semel_handler *handler,
                                 void *context, semel_error *err)
{
    return semel_inbox_receive_result(out, NULL, inbox, message, handler, context, err);
}
