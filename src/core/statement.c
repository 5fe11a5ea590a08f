/* The application's statements outside of messages: checked before the first one comes, and run
 * when a program starts. */
#include "core/unit.h"

#include <string.h>

static semel_status lacks_sql(const semel_store *store, const char *what, semel_error *err)
{
    return semel_fail(err, SEMEL_EUNSUPPORTED, "a %s: store cannot %s", store->driver->scheme,
                      what);
}

semel_status unit_check(work_unit *unit, const char *sql, size_t count, size_t *position,
                        semel_error *err)
{
    const semel_store_units *units = unit->store->driver->units;
    size_t ignored;
    size_t *place = position ? position : &ignored;
    *place = 0;
    if (!units->check)
        return lacks_sql(unit->store, "check statements", err);
    if (unit->phase != UNIT_OPEN)
        return semel_fail(err, SEMEL_EMISUSE,
                          "a statement is checked inside a transaction, and "
                          "none is open in this unit");
    semel_status status = unit_flush_pending(unit, err);
    if (status)
        return status;
    unit_drop_pending(unit);
    return units->check(unit->state, sql, count, place, err);
}

/* --- running ---------------------------------------------------------------------------------- */

/* One by one: what the database says of one comes, at the latest, with the next or the commit. */
static semel_status queue_all(work_unit *unit, const char *const statements[], size_t count,
                              size_t *failed, semel_error *err)
{
    const semel_store_units *units = unit->store->driver->units;
    for (size_t i = 0; i < count; i++) {
        semel_status status = SEMEL_OK;
        *failed = i;
        if (units->check)
            status = unit_check(unit, statements[i], 0, NULL, err);
        if (status == SEMEL_EHANDLER && i)
            *failed = i - 1;
        if (!status)
            status = units->queue(unit->state, statements[i], NULL, 0, err);
        if (status)
            return status;
    }
    return SEMEL_OK;
}

/* There is no handler here whose fault it could be. */
static semel_status blame_caller(semel_status status, semel_error *err)
{
    if (status != SEMEL_EHANDLER)
        return status;
    if (err) {
        err->status = SEMEL_EINVAL;
        err->retryable = 0;
    }
    return SEMEL_EINVAL;
}

static semel_status run_in_unit(semel_store *store, const char *const statements[], size_t count,
                                size_t *failed, semel_error *err)
{
    work_unit *unit = NULL;
    semel_status status = unit_new(&unit, store, err);
    if (status)
        return status;
    status = unit_tx_begin(unit, SEMEL_BEGIN_DURABLE, err);
    if (!status)
        status = queue_all(unit, statements, count, failed, err);
    if (!status)
        status = unit_complete(unit, err);
    unit_rollback(unit);
    return blame_caller(status, err);
}

static semel_status run_alone(semel_store *store, const char *const statements[], size_t count,
                              size_t *failed, semel_error *err)
{
    for (size_t i = 0; i < count; i++) {
        semel_status status = store->driver->run(store->state, statements[i], err);
        *failed = i;
        if (status)
            return status;
    }
    return SEMEL_OK;
}

semel_status semel_store_run(semel_store *store, const char *const statements[], size_t count,
                             size_t *failed, semel_error *err)
{
    size_t ignored;
    failed = failed ? failed : &ignored;
    *failed = 0;
    if (store->driver->run)
        return run_alone(store, statements, count, failed, err);
    if (!store->driver->units->queue)
        return lacks_sql(store, "run statements", err);
    uint32_t tries = 0;
    semel_status status;
    do
        status = run_in_unit(store, statements, count, failed, err);
    while (store_retry_after_pause(store, status, err, &tries));
    return status;
}
