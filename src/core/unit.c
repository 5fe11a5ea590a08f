/* The life of a unit.
 *
 * Transaction mode: IDLE -> OPEN (begin, mark) -> handler -> flush, commit.
 * Queued mode:      IDLE -> PLANNING (handler) -> OPEN (begin, assume, flush) -> commit.
 * Claim mode:       IDLE -> CLAIMING (begin, claim, commit) -> handler -> OPEN (begin, finish, flush) ->
 *                   commit. No transaction is open while the handler runs.
 *
 * Units are kept in a list and used again, arena and all, so that in the steady state none is allocated.
 * If the process dies at any point before a commit, the driver's transaction is gone and with it all that
 * the unit did; a stored claim is free again when its lease ends. */
#include "core/unit.h"

#include <string.h>

/* --- making and freeing ---------------------------------------------------------------------------- */

static semel_unit *take_free(semel_store *store)
{
    semel_unit *unit = atomic_exchange(&store->spare_unit, NULL);
    if (unit)
        return unit;
    pthread_mutex_lock(&store->lock);
    unit = store->free_units;
    if (unit) {
        store->free_units = unit->next;
        store->free_count--;
    }
    pthread_mutex_unlock(&store->lock);
    return unit;
}

semel_status unit_new(semel_unit **out, semel_store *store, semel_error *err)
{
    semel_unit *unit = take_free(store);
    if (!unit)
        unit = mem_alloc(sizeof *unit + store->driver->unit_size);
    if (!unit)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a unit of work");
    unit->store = store;
    *out = unit;
    return SEMEL_OK;
}

static void unit_destroy(semel_unit *unit)
{
    arena_free(&unit->arena);
    mem_free(unit);
}

/* What the next user of the unit must find empty. */
static void unit_clear(semel_unit *unit)
{
    unit->phase = UNIT_IDLE;
    unit->joined = 0;
    unit->claimed = 0;
    unit->bodiless = 0;
    unit->counted = 0;
    unit->replaying = 0;
    unit->inbox = NULL;
    unit->message = NULL;
    unit->whole_key = (semel_bytes){NULL, 0};
    unit->mark = (semel_mark){0};
    unit->attempt = 0;
    unit->captured = 0;
    unit->result = (semel_bytes){NULL, 0};
    unit_drop_pending(unit);
    mem_free(unit->replay);
    unit->replay = NULL;
    unit->replay_len = 0;
    arena_reset(&unit->arena);
}

void unit_free(semel_unit *unit)
{
    semel_store *store = unit->store;
    semel_unit *none = NULL;
    unit_clear(unit);
    if (atomic_compare_exchange_strong(&store->spare_unit, &none, unit))
        return;
    pthread_mutex_lock(&store->lock);
    int keep = store->free_count < FREE_UNITS_MAX;
    if (keep) {
        unit->next = store->free_units;
        store->free_units = unit;
        store->free_count++;
    }
    pthread_mutex_unlock(&store->lock);
    if (!keep)
        unit_destroy(unit);
}

void unit_free_all(semel_store *store)
{
    for (semel_unit *unit; (unit = take_free(store));)
        unit_destroy(unit);
}

/* --- the driver's transaction ----------------------------------------------------------------------- */

semel_status unit_open(semel_unit *unit, semel_begin durability, semel_error *err)
{
    semel_store *store = unit->store;
    memset(unit->state, 0, store->driver->unit_size);
    semel_status status =
        store->driver->begin(store->state, unit->state, durability, store->settings.busy_ms, err);
    if (!status)
        unit->phase = UNIT_OPEN;
    return status;
}

void unit_abandon(semel_unit *unit)
{
    if (unit->phase == UNIT_OPEN)
        unit->store->driver->rollback(unit->state);
    unit->phase = UNIT_IDLE;
}

semel_status unit_close(semel_unit *unit, semel_error *err)
{
    unit->phase = UNIT_IDLE;
    return unit->store->driver->commit(unit->state, err);
}

semel_status semel_unit_begin(semel_unit **out, semel_store *store, semel_error *err)
{
    semel_unit *unit = NULL;
    semel_status status = unit_new(&unit, store, err);
    if (status)
        return status;
    status = unit_open(unit, SEMEL_BEGIN_DURABLE, err);
    if (status)
        unit_free(unit);
    else
        *out = unit;
    return status;
}

semel_status semel_unit_join_native(semel_unit **out, semel_store *store, const char *scheme,
                                    void *native, semel_error *err)
{
    semel_unit *unit = NULL;
    if (strcmp(store->driver->scheme, scheme) != 0 || !store->driver->join)
        return semel_fail(err, SEMEL_EUNSUPPORTED, "a %s: store cannot join a %s transaction",
                          store->driver->scheme, scheme);
    semel_status status = unit_new(&unit, store, err);
    if (status)
        return status;
    memset(unit->state, 0, store->driver->unit_size);
    status = store->driver->join(store->state, unit->state, native, err);
    if (status) {
        unit_free(unit);
        return status;
    }
    unit->joined = 1;
    unit->phase = UNIT_OPEN;
    *out = unit;
    return SEMEL_OK;
}

void *semel_unit_native(semel_unit *unit, const char *scheme)
{
    if (unit->phase != UNIT_OPEN || strcmp(unit->store->driver->scheme, scheme) != 0)
        return NULL;
    return unit->store->driver->native(unit->state);
}

/* --- what a handler asks for ------------------------------------------------------------------------- */

semel_bytes semel_unit_key(const semel_unit *unit)
{
    return unit->whole_key;
}

uint32_t semel_unit_attempt(const semel_unit *unit)
{
    return unit->attempt;
}

semel_status semel_unit_set_result(semel_unit *unit, const void *data, size_t len, semel_error *err)
{
    if (!unit->mark.inbox)
        return semel_fail(err, SEMEL_EMISUSE,
                          "a result is kept with a key, and this unit has none");
    if (len > SEMEL_RESULT_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "a result of %zu bytes; SEMEL_RESULT_MAX is %zu", len,
                          SEMEL_RESULT_MAX);
    void *copy = arena_copy(&unit->arena, data, len);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a result");
    unit->result = (semel_bytes){copy, len};
    return SEMEL_OK;
}

semel_status semel_unit_renew(semel_unit *unit, uint32_t lease_ms, semel_error *err)
{
    if (unit->phase != UNIT_CLAIMING || !unit->mark.inbox)
        return semel_fail(err, SEMEL_EMISUSE, "only a claim has a lease to renew");
    if (!lease_ms)
        lease_ms = unit->inbox->options.lease_ms;
    semel_status status = unit_open(unit, SEMEL_BEGIN_RELAXED, err);
    if (!status)
        status = unit->store->driver->renew(unit->state, &unit->mark, lease_ms, err);
    if (!status)
        status = store_fault(unit->store, "renew.stored", err);
    if (!status)
        status = unit_close(unit, err);
    unit_abandon(unit);
    unit->phase = UNIT_CLAIMING;
    return status;
}

/* --- ending -------------------------------------------------------------------------------------------- */

/* All that goes with the commit. */
static semel_status flush(semel_unit *unit, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (unit->result.data)
        status = unit->store->driver->result_set(unit->state, &unit->mark, unit->result, err);
    return status ? status : unit_deliver(unit, err);
}

static semel_status finish_transaction(semel_unit *unit, semel_error *err)
{
    semel_status status = flush(unit, err);
    return status ? status : unit_close(unit, err);
}

static semel_status finish_claim(semel_unit *unit, semel_error *err)
{
    semel_store *store = unit->store;
    semel_status status = unit_open(unit, SEMEL_BEGIN_DURABLE, err);
    if (!status && unit->mark.inbox)
        status = store->driver->finish(unit->state, &unit->mark, err);
    if (!status)
        status = flush(unit, err);
    if (!status)
        status = store_fault(store, "finish.stored", err);
    if (!status)
        status = unit_close(unit, err);
    return status ? status : store_fault(store, "finish.committed", err);
}

/* The work of a claim is done and cannot be taken back: a conflict is no reason to do it again. What was sent
 * and queued is still there. */
static semel_status finish_claim_in_the_end(semel_unit *unit, semel_error *err)
{
    semel_status status;
    uint32_t tries = 0;
    do {
        status = finish_claim(unit, err);
        if (status)
            unit_abandon(unit);
    } while (store_begins_anew(unit->store, status, &tries));
    return status;
}

semel_status unit_finish(semel_unit *unit, semel_error *err)
{
    size_t captured = unit->captured;
    semel_status status = unit->phase == UNIT_OPEN ? finish_transaction(unit, err)
                                                   : finish_claim_in_the_end(unit, err);
    unit_abandon(unit);
    if (!status && unit->inbox && !unit->mark.inbox)
        store_count(unit->store, TALLY_UNPROTECTED, 1);
    if (status || !captured)
        return status;
    store_count(unit->store, TALLY_CAPTURED, captured);
    store_wake(unit->store);
    return SEMEL_OK;
}

int unit_conflicted(semel_unit *unit)
{
    const semel_store_driver *driver = unit->store->driver;
    return unit->phase == UNIT_OPEN && driver->conflicted && driver->conflicted(unit->state);
}

/* A queued statement failed, or is none, or something is larger than the store takes. */
int unit_blames_handler(semel_status status)
{
    return status == SEMEL_EHANDLER || status == SEMEL_EINVAL || status == SEMEL_ELIMIT;
}

int unit_blames_nobody(semel_status status)
{
    return status == SEMEL_ECONFLICT || status == SEMEL_EBUSY || status == SEMEL_EUNAVAILABLE;
}

/* The failure of what was queued counts as that of the work. Whether it could be recorded or not, the
 * caller wants to see the failure itself. */
static void record_blame(semel_unit *unit, semel_status status, const semel_error *err)
{
    semel_outcome outcome;
    semel_error why = {.status = status, .text = "a queued statement failed"}, ignored;
    unit_drop_pending(unit);
    unit->captured = 0;
    (void)unit_record_failure(&outcome, unit, err ? err : &why, &ignored);
    inbox_count(unit->inbox, outcome);
}

semel_status semel_unit_commit(semel_unit *unit, semel_error *err)
{
    semel_inbox *inbox = unit->inbox;
    if (inbox && !unit->claimed) {
        semel_unit_rollback(unit);
        return semel_fail(
            err, SEMEL_EMISUSE,
            "the message was not claimed, so there is nothing to commit: rolled back");
    }
    semel_status status = unit_finish(unit, err);
    if (!status && inbox)
        inbox_count(inbox, SEMEL_PROCESSED);
    if (unit_blames_handler(status) && inbox && !unit->joined)
        record_blame(unit, status, err);
    if (unit_blames_nobody(status))
        unit_uncount(unit);
    unit_free(unit);
    return status;
}

/* Gives the key back with one attempt less, since nothing was attempted that failed. If that cannot be
 * stored, a claim is free when its lease ends, and an attempt too many has been counted. */
static void give_back(semel_unit *unit)
{
    semel_mark mark = unit->mark;
    semel_error ignored;
    mark.attempts = unit->attempt ? unit->attempt - 1 : 0;
    if (unit_open(unit, SEMEL_BEGIN_RELAXED, &ignored))
        return;
    if (!unit->store->driver->fail(unit->state, &mark, "", &ignored))
        (void)unit_close(unit, &ignored);
    unit_abandon(unit);
}

void unit_uncount(semel_unit *unit)
{
    if (!unit->counted)
        return;
    unit->counted = 0;
    unit_abandon(unit);
    give_back(unit);
}

void semel_unit_rollback(semel_unit *unit)
{
    if (!unit)
        return;
    if (unit->phase == UNIT_CLAIMING && unit->mark.inbox)
        give_back(unit);
    unit_abandon(unit);
    unit_free(unit);
}

semel_status unit_run(semel_unit *unit, semel_handler *handler, const semel_message *message,
                      void *context, semel_error *err)
{
    semel_error local = {0};
    semel_status status = handler(unit, message, context, &local);
    if (status && local.status != status)
        semel_fail(&local, status, "%s", local.text[0] ? local.text : "the handler failed");
    if (status && err)
        *err = local;
    return status;
}
