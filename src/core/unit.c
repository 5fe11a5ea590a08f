/* The life of a unit.
 *
 * Transaction mode: IDLE -> OPEN (begin, mark) -> handler -> flush, commit.
 * Queued mode:      IDLE -> PLANNING (handler) -> OPEN (begin, assume, flush) -> commit.
 * Claim mode:       IDLE -> CLAIMING (begin, claim, commit) -> handler -> OPEN (begin, finish,
 *                   flush) -> commit. No transaction is open while the handler runs.
 *
 * Units are kept in a list and used again, arena and all, so that in the steady state none is
 * allocated. If the process dies at any point before a commit, the driver's transaction is gone and
 * with it all that the unit did; a stored claim is free again when its lease ends. */
#include "core/unit.h"

#include "base/wait.h"

#include <string.h>

/* --- making and freeing ----------------------------------------------------------------------- */

static work_unit *unit_reuse(semel_store *store)
{
    work_unit *unit = atomic_exchange(&store->spare_unit, NULL);
    if (unit)
        return unit;
    pthread_mutex_lock(&store->lock);
    unit = store->free_units;
    if (unit)
        store->free_units = unit->next;
    pthread_mutex_unlock(&store->lock);
    return unit;
}

static work_unit *unit_make(const semel_store *store)
{
    work_unit *unit = mem_alloc(sizeof *unit + store->driver->unit_size);
    for (int i = 0; unit && i < UNIT_LIVES; i++)
        unit->handles[i].of = unit;
    return unit;
}

semel_status unit_new(work_unit **out, semel_store *store, semel_error *err)
{
    work_unit *unit = unit_reuse(store);
    if (!unit)
        unit = unit_make(store);
    if (!unit)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a unit of work");
    unit->store = store;
    unit->life = (unit->life + 1) % UNIT_LIVES;
    atomic_store_explicit(&unit->alive, 1, memory_order_relaxed);
    *out = unit;
    return SEMEL_OK;
}

semel_unit *unit_handle(work_unit *unit)
{
    return &unit->handles[unit->life];
}

static void unit_destroy(work_unit *unit)
{
    arena_free(&unit->arena);
    mem_free(unit);
}

/* What the next user of the unit must find empty. */
static void unit_clear(work_unit *unit)
{
    atomic_store_explicit(&unit->alive, 0, memory_order_relaxed);
    unit->handler = HANDLER_IDLE;
    unit->phase = UNIT_IDLE;
    unit->at_once = unit->joined = unit->final_try = unit->full = 0;
    unit->operation = SEMEL_OPERATION_OTHER;
    unit->began_ns = 0;
    unit->terms = (unit_terms){0};
    unit->marks = 0;
    unit_drop_captured(unit);
    mem_free(unit->item.replay);
    unit->item = (unit_item){0};
    unit_drop_pending(unit);
    arena_reset(&unit->arena);
}

/* It is kept until the store is closed, so that a handle can always be asked whether it is
 * alive. */
void unit_free(work_unit *unit)
{
    semel_store *store = unit->store;
    work_unit *none = NULL;
    unit_clear(unit);
    if (atomic_compare_exchange_strong(&store->spare_unit, &none, unit))
        return;
    pthread_mutex_lock(&store->lock);
    unit->next = store->free_units;
    store->free_units = unit;
    pthread_mutex_unlock(&store->lock);
}

void unit_free_all(semel_store *store)
{
    for (work_unit *unit; (unit = unit_reuse(store));)
        unit_destroy(unit);
}

/* --- the driver's transaction ----------------------------------------------------------------- */

semel_status unit_tx_begin(work_unit *unit, semel_begin durability, semel_error *err)
{
    semel_store *store = unit->store;
    memset(unit->state, 0, store->driver->unit_size);
    uint32_t wait_ms = unit->at_once ? 0 : store->settings.busy_ms;
    unit->began_ns = store->transactions ? wait_clock_ns() : 0;
    semel_status status =
        store->driver->units->begin(store->state, unit->state, durability, wait_ms, err);
    if (!status)
        unit->phase = UNIT_OPEN;
    return status;
}

void unit_tx_rollback(work_unit *unit)
{
    if (unit->phase == UNIT_OPEN) {
        unit->store->driver->units->rollback(unit->state);
        unit_report_transaction(unit, 0);
    }
    unit->phase = UNIT_IDLE;
}

semel_status unit_tx_commit(work_unit *unit, semel_error *err)
{
    unit->phase = UNIT_IDLE;
    semel_status status = unit->store->driver->units->commit(unit->state, err);
    unit_report_transaction(unit, status == SEMEL_OK);
    return status;
}

semel_status unit_transact(work_unit *unit, semel_begin durability, unit_work *work, void *context,
                           semel_error *err)
{
    semel_status status = unit_tx_begin(unit, durability, err);
    if (!status)
        status = work(unit, context, err);
    if (!status)
        status = unit_tx_commit(unit, err);
    unit_tx_rollback(unit);
    return status;
}

semel_status store_transact(semel_store *store, semel_begin durability, unit_work *work,
                            void *context, semel_error *err)
{
    work_unit *unit = NULL;
    semel_status status = unit_new(&unit, store, err);
    if (status)
        return status;
    status = unit_transact(unit, durability, work, context, err);
    unit_free(unit);
    return status;
}

static semel_status renew_claim(work_unit *unit, void *context, semel_error *err)
{
    const uint32_t *lease_ms = context;
    semel_status status =
        unit->store->driver->markers->renew(unit->state, &unit->item.mark, *lease_ms, err);
    return status ? status : store_fault(unit->store, "renew.stored", err);
}

semel_status unit_renew(work_unit *unit, uint32_t lease_ms, semel_error *err)
{
    if (unit->phase != UNIT_CLAIMING || !unit->item.mark.inbox)
        return semel_fail(err, SEMEL_EMISUSE, "only a claim has a lease to renew");
    if (!lease_ms)
        lease_ms = unit->item.inbox->options.lease_ms;
    semel_status status = unit_transact(unit, SEMEL_BEGIN_RELAXED, renew_claim, &lease_ms, err);
    unit->phase = UNIT_CLAIMING;
    return status;
}

/* --- ending ----------------------------------------------------------------------------------- */

/* All that goes with the commit. */
static semel_status unit_flush(work_unit *unit, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (unit->item.result.data)
        status = unit->store->driver->markers->result_set(unit->state, &unit->item.mark,
                                                          unit->item.result, err);
    return status ? status : unit_flush_pending(unit, err);
}

static semel_status complete_transaction(work_unit *unit, semel_error *err)
{
    semel_status status = unit_flush(unit, err);
    return status ? status : unit_tx_commit(unit, err);
}

static semel_status finish_claim(work_unit *unit, void *context, semel_error *err)
{
    semel_status status = SEMEL_OK;
    (void)context;
    if (unit->item.mark.inbox)
        status = unit->store->driver->markers->finish(unit->state, &unit->item.mark, err);
    if (!status)
        status = unit_flush(unit, err);
    return status ? status : store_fault(unit->store, "finish.stored", err);
}

static semel_status complete_claim(work_unit *unit, semel_error *err)
{
    semel_status status = unit_transact(unit, SEMEL_BEGIN_DURABLE, finish_claim, NULL, err);
    return status ? status : store_fault(unit->store, "finish.committed", err);
}

/* The work of a claim is done and cannot be taken back: a conflict is no reason to do it again.
 * What was sent and queued is still there. */
static semel_status complete_claim_retrying(work_unit *unit, semel_error *err)
{
    semel_status status;
    semel_error why; /* a success says nothing of the conflicts before it */
    uint32_t tries = 0;
    do {
        status = complete_claim(unit, &why);
        if (status)
            unit_tx_rollback(unit);
    } while (store_retry_after_pause(unit->store, status, NULL, &tries));
    if (status && err)
        *err = why;
    return status;
}

semel_status unit_complete(work_unit *unit, semel_error *err)
{
    semel_status status = unit->phase == UNIT_OPEN ? complete_transaction(unit, err)
                                                   : complete_claim_retrying(unit, err);
    unit_tx_rollback(unit);
    if (!status && unit->item.inbox && !unit->item.mark.inbox && !unit->item.inbox->positions)
        inbox_add(unit->item.inbox, TALLY_UNPROTECTED, 1);
    if (!status)
        unit_count_captured(unit);
    return status;
}

/* A unit that was undone and of which nothing is committed is begun anew, as after a deadlock. A
 * handler that rolls back each time, and says that it failed, has failed. */
semel_status unit_verify(work_unit *unit, semel_error *err)
{
    const semel_store_driver *driver = unit->store->driver;
    semel_error why = {0};
    if (unit->phase != UNIT_OPEN || !driver->units->verify)
        return SEMEL_OK;
    semel_status status = driver->units->verify(unit->state, &why);
    if (status == SEMEL_EMISUSE && why.retryable && unit->final_try)
        return SEMEL_OK;
    if (status && err)
        *err = why;
    return status;
}

/* A queued statement failed, or is none, or something is larger than the store takes. */
int unit_blames_handler(semel_status status)
{
    return status == SEMEL_EHANDLER || status == SEMEL_EINVAL || status == SEMEL_ELIMIT;
}

int unit_blames_store(semel_status status)
{
    return status == SEMEL_ECONFLICT || status == SEMEL_EBUSY || status == SEMEL_EUNAVAILABLE;
}

static semel_status lower_count(work_unit *unit, void *mark, semel_error *err)
{
    return unit->store->driver->markers->fail(unit->state, mark, "", err);
}

/* Gives the key back with one attempt less, since nothing was attempted that failed. If that cannot
 * be stored, a claim is free when its lease ends, and an attempt too many has been counted. */
static void unit_give_back(work_unit *unit)
{
    semel_mark mark = unit->item.mark;
    semel_error ignored;
    mark.attempts = unit->item.attempt ? unit->item.attempt - 1 : 0;
    (void)unit_transact(unit, SEMEL_BEGIN_RELAXED, lower_count, &mark, &ignored);
}

void unit_uncount(work_unit *unit)
{
    if (!unit->item.counted)
        return;
    unit->item.counted = 0;
    unit_tx_rollback(unit);
    unit_give_back(unit);
}

static void end_claim(work_unit *unit)
{
    if (unit->phase == UNIT_CLAIMING && unit->item.mark.inbox)
        unit_give_back(unit);
    unit_tx_rollback(unit);
}

void unit_take_back(work_unit *unit)
{
    unit_drop_captured(unit);
    unit_drop_pending(unit);
    end_claim(unit);
    unit_uncount(unit);
}

void unit_rollback(work_unit *unit)
{
    end_claim(unit);
    if (unit->item.known)
        unit_report(unit, unit->item.inbox, unit->item.known, NULL);
    unit_free(unit);
}

static semel_status unit_call_handler(work_unit *unit, semel_handler *handler,
                                      const semel_message *message, void *context, semel_error *err)
{
    unit->handler = HANDLER_RUNS;
    semel_status status = handler(unit_handle(unit), message, context, err);
    int ended = unit->handler == HANDLER_ENDED_UNIT;
    unit->handler = HANDLER_IDLE;
    if (status || !ended)
        return status;
    return semel_fail(err, SEMEL_EMISUSE,
                      "the handler ended its own unit, which is not its to end: return SEMEL_OK to "
                      "commit, SEMEL_EHANDLER or SEMEL_EGIVEUP to fail");
}

void pace_restart(const unit_terms *terms)
{
    if (terms && terms->pace)
        terms->pace->used_ms = terms->pace->begun = 0;
}

int pace_is_over(const unit_terms *terms)
{
    unit_pace *pace = terms ? terms->pace : NULL;
    if (!pace)
        return 0;
    int stops = terms->stopped && atomic_load(terms->stopped);
    if (pace->used_ms <= (int64_t)pace->budget_ms && !(stops && pace->begun))
        return 0;
    pace->cut = 1;
    return 1;
}

semel_status unit_run(work_unit *unit, semel_handler *handler, const semel_message *message,
                      void *context, semel_error *err)
{
    semel_error local = {0};
    unit_pace *pace = unit->terms.pace;
    int64_t began_ms = pace ? seam_steady_ms(&unit->store->seam) : 0;
    unit->item.started_ns = observe_start(unit->store);
    unit_announce(unit, message);
    semel_status status = unit_call_handler(unit, handler, message, context, &local);
    unit->item.handler_ns = observe_since(unit->store, unit->item.started_ns);
    if (pace) {
        pace->used_ms += seam_steady_ms(&unit->store->seam) - began_ms;
        pace->begun = 1;
    }
    if (status && local.status != status)
        semel_fail(&local, status, "%s", local.text[0] ? local.text : "the handler failed");
    if (status && err)
        *err = local;
    return status;
}
