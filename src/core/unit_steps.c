/* The public steps of <semel/unit.h>.
 *
 * Units are used again, so a pointer to one that has ended would sooner or later be a pointer to
 * another caller's unit. What a caller holds is therefore a handle, and each life of a unit has
 * another one: a step on a handle whose unit has ended is SEMEL_EMISUSE and changes nothing. While
 * a handler runs, its unit is the library's to end: commit, fail and rollback are refused, and if
 * the handler returns SEMEL_OK all the same, its work is rolled back as failed. */
#include "core/unit.h"

#include <string.h>

/* The unit behind the handle; NULL if it has ended. */
static work_unit *unit_of(const semel_unit *handle)
{
    work_unit *unit = handle ? handle->of : NULL;
    int alive = unit && atomic_load_explicit(&unit->alive, memory_order_relaxed) &&
                handle == unit_handle(unit);
    return alive ? unit : NULL;
}

static semel_status unit_has_ended(semel_error *err)
{
    return semel_fail(
        err, SEMEL_EMISUSE,
        "this unit has ended: commit, fail and rollback free it, and a handler's unit "
        "ends when the handler returns");
}

/* --- beginning -------------------------------------------------------------------------------- */

semel_status semel_unit_begin(semel_unit **out, semel_store *store, semel_error *err)
{
    work_unit *unit = NULL;
    semel_status status = unit_new(&unit, store, err);
    if (status)
        return status;
    status = unit_tx_begin(unit, SEMEL_BEGIN_DURABLE, err);
    if (status)
        unit_free(unit);
    else
        *out = unit_handle(unit);
    return status;
}

semel_status semel_unit_join_native(semel_unit **out, semel_store *store, const char *scheme,
                                    void *native, semel_error *err)
{
    work_unit *unit = NULL;
    if (strcmp(store->driver->scheme, scheme) != 0 || !store->driver->units->join)
        return semel_fail(err, SEMEL_EUNSUPPORTED, "a %s: store cannot join a %s transaction",
                          store->driver->scheme, scheme);
    semel_status status = unit_new(&unit, store, err);
    if (status)
        return status;
    memset(unit->state, 0, store->driver->unit_size);
    status = store->driver->units->join(store->state, unit->state, native, err);
    if (status) {
        unit_free(unit);
        return status;
    }
    unit->joined = 1;
    unit->phase = UNIT_OPEN;
    *out = unit_handle(unit);
    return SEMEL_OK;
}

semel_status semel_unit_claim(semel_outcome *out, semel_unit *handle, semel_inbox *inbox,
                              const semel_message *message, semel_error *err)
{
    work_unit *unit = unit_of(handle);
    *out = SEMEL_UNDECIDED;
    return unit ? unit_claim(out, unit, inbox, message, err) : unit_has_ended(err);
}

/* --- the work --------------------------------------------------------------------------------- */

void *semel_unit_native(semel_unit *handle, const char *scheme)
{
    work_unit *unit = unit_of(handle);
    if (!unit || unit->phase != UNIT_OPEN || strcmp(unit->store->driver->scheme, scheme) != 0)
        return NULL;
    const semel_store_units *units = unit->store->driver->units;
    return units->native ? units->native(unit->state) : NULL;
}

semel_bytes semel_unit_key(const semel_unit *handle)
{
    const work_unit *unit = unit_of(handle);
    return unit ? unit->item.whole_key : (semel_bytes){NULL, 0};
}

semel_bytes semel_unit_result(const semel_unit *handle)
{
    const work_unit *unit = unit_of(handle);
    if (!unit)
        return (semel_bytes){NULL, 0};
    return unit->item.replay ? (semel_bytes){unit->item.replay, unit->item.replay_len}
                             : unit->item.result;
}

semel_status semel_unit_idempotency_key(char out[SEMEL_IDEMPOTENCY_KEY_SIZE],
                                        const semel_unit *handle, semel_error *err)
{
    const work_unit *unit = unit_of(handle);
    if (!unit)
        return unit_has_ended(err);
    if (!unit->item.inbox)
        return semel_fail(err, SEMEL_EMISUSE, "this unit has claimed no key yet");
    return inbox_idempotency_key(out, unit->item.inbox, unit->item.whole_key, err);
}

uint32_t semel_unit_attempt(const semel_unit *handle)
{
    const work_unit *unit = unit_of(handle);
    return unit ? unit->item.attempt : 0;
}

semel_bytes semel_unit_traceparent(const semel_unit *handle)
{
    const work_unit *unit = unit_of(handle);
    if (unit && unit->item.traceparent[0])
        return (semel_bytes){unit->item.traceparent, strlen(unit->item.traceparent)};
    return unit && unit->item.message ? semel_message_header(unit->item.message, "traceparent")
                                      : (semel_bytes){NULL, 0};
}

int semel_unit_stopping(const semel_unit *handle)
{
    const work_unit *unit = unit_of(handle);
    return unit && unit->terms.stopped && atomic_load(unit->terms.stopped);
}

semel_outbox *semel_unit_outbox(const semel_unit *handle, const char *name)
{
    const work_unit *unit = unit_of(handle);
    return unit && name ? outbox_find(unit->store, name) : NULL;
}

semel_status semel_unit_send(semel_unit *handle, semel_outbox *outbox, const semel_message *message,
                             semel_error *err)
{
    work_unit *unit = unit_of(handle);
    return unit ? unit_send(unit, outbox, message, err) : unit_has_ended(err);
}

semel_status semel_unit_queue(semel_unit *handle, const char *sql, const semel_value values[],
                              size_t count, semel_error *err)
{
    work_unit *unit = unit_of(handle);
    return unit ? unit_queue(unit, sql, values, count, err) : unit_has_ended(err);
}

semel_status semel_unit_check(semel_unit *handle, const char *sql, size_t count, size_t *position,
                              semel_error *err)
{
    work_unit *unit = unit_of(handle);
    return unit ? unit_check(unit, sql, count, position, err) : unit_has_ended(err);
}

semel_status semel_unit_set_result(semel_unit *handle, const void *data, size_t len,
                                   semel_error *err)
{
    work_unit *unit = unit_of(handle);
    if (!unit)
        return unit_has_ended(err);
    if (!data && len)
        return semel_fail(err, SEMEL_EINVAL, "a result has a length of %zu and no data", len);
    if (!unit->item.mark.inbox)
        return semel_fail(err, SEMEL_EMISUSE,
                          "a result is kept with a key, and this unit has none");
    if (len > SEMEL_RESULT_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "a result of %zu bytes; SEMEL_RESULT_MAX is %zu", len,
                          SEMEL_RESULT_MAX);
    if (!unit->store->driver->markers->result_set)
        return semel_fail(err, SEMEL_EUNSUPPORTED, "%s: this store keeps no results",
                          unit->store->driver->scheme);
    void *copy = arena_copy(&unit->arena, data, len);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a result");
    unit->item.result = (semel_bytes){copy, len};
    return SEMEL_OK;
}

semel_status semel_unit_renew(semel_unit *handle, uint32_t lease_ms, semel_error *err)
{
    work_unit *unit = unit_of(handle);
    return unit ? unit_renew(unit, lease_ms, err) : unit_has_ended(err);
}

/* --- ending ----------------------------------------------------------------------------------- */

/* The unit, if it is the caller's to end. */
static semel_status unit_to_end(work_unit **out, const semel_unit *handle, semel_error *err)
{
    work_unit *unit = unit_of(handle);
    if (!unit)
        return unit_has_ended(err);
    if (unit->handler != HANDLER_IDLE) {
        unit->handler = HANDLER_ENDED_UNIT;
        return semel_fail(err, SEMEL_EMISUSE,
                          "a handler's unit ends when the handler returns, by what it returns");
    }
    *out = unit;
    return SEMEL_OK;
}

/* The failure of what was queued counts as that of the work. Whether it could be recorded or not,
 * the caller wants to see the failure itself. */
static void record_blame(work_unit *unit, semel_status status, const semel_error *err)
{
    semel_outcome outcome;
    semel_error why = {.status = status, .text = "a queued statement failed"}, ignored;
    unit_drop_pending(unit);
    unit_drop_captured(unit);
    (void)unit_record_failure(&outcome, unit, err ? err : &why, &ignored);
    unit_report(unit, unit->item.inbox, outcome, err ? err : &why);
}

/* As receive does: see after_limit() in inbox_receive.c. */
static semel_status record_limit(work_unit *unit, semel_status status, semel_error *err)
{
    semel_outcome outcome;
    semel_error why = {.status = status, .text = "committing: the store did not answer"};
    if (unit_record_limit(&outcome, unit, err ? err : &why, err)) {
        unit_uncount(unit);
        return status;
    }
    unit_report(unit, unit->item.inbox, outcome, err);
    return SEMEL_EHANDLER;
}

static semel_status commit_unit(work_unit *unit, semel_error *err)
{
    semel_inbox *inbox = unit->item.inbox;
    int in_transaction = unit->phase == UNIT_OPEN;
    if (inbox && !unit->item.claimed) {
        unit_rollback(unit);
        return semel_fail(
            err, SEMEL_EMISUSE,
            "the message was not claimed, so there is nothing to commit: rolled back");
    }
    semel_status status = unit_complete(unit, err);
    if (inbox && (!status || status == SEMEL_ELOST))
        unit_report(unit, inbox, status ? SEMEL_FAILED : SEMEL_PROCESSED, status ? err : NULL);
    int ours = inbox && !unit->joined; /* else there is nothing to record, or no place for it */
    if (unit_blames_handler(status) && ours)
        record_blame(unit, status, err);
    if (status == SEMEL_EUNAVAILABLE && ours && in_transaction)
        status = record_limit(unit, status, err);
    else if (unit_blames_store(status))
        unit_uncount(unit);
    unit_free(unit);
    return status;
}

semel_status semel_unit_commit(semel_unit *handle, semel_error *err)
{
    work_unit *unit = NULL;
    semel_status status = unit_to_end(&unit, handle, err);
    return status ? status : commit_unit(unit, err);
}

static semel_status fail_unit(semel_outcome *out, work_unit *unit, const semel_error *why,
                              semel_error *err)
{
    static const semel_error unsaid = {.status = SEMEL_EHANDLER, .text = "the work failed"};
    semel_inbox *inbox = unit->item.inbox;
    semel_status status = SEMEL_OK;
    *out = SEMEL_FAILED;
    unit_tx_rollback(unit);
    unit_drop_pending(unit);
    if (inbox && !unit->joined)
        status = unit_record_failure(out, unit, why ? why : &unsaid, err);
    if (inbox)
        unit_report(unit, inbox, unit->item.known ? unit->item.known : *out, why ? why : &unsaid);
    unit_free(unit);
    return status;
}

semel_status semel_unit_fail(semel_outcome *out, semel_unit *handle, const semel_error *why,
                             semel_error *err)
{
    work_unit *unit = NULL;
    *out = SEMEL_UNDECIDED;
    semel_status status = unit_to_end(&unit, handle, err);
    return status ? status : fail_unit(out, unit, why, err);
}

/* A rollback cannot say that it was refused: the handler's return does. */
void semel_unit_rollback(semel_unit *handle)
{
    work_unit *unit = NULL;
    if (!unit_to_end(&unit, handle, NULL))
        unit_rollback(unit);
}
