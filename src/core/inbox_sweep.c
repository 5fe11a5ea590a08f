/* Retention: a step of a sweep, and the one-off removal of everything older than some age.
 *
 * The driver removes markers and notes the newest of them in one transaction; here is decided what
 * is old. A purge to an age below the horizon lowers the horizon first, in a transaction of its
 * own: if the process dies in between, the horizon is lower than necessary, and more messages than
 * necessary are looked up, which is harmless. The other order would forget keys without knowing
 * it. A purge that is interrupted has removed some markers, and is begun again. */
#include "core/unit.h"

/* Everything last changed before this moment may go. A retention longer than the time since 1970
 * must not wrap around to "everything". */
int64_t retention_cutoff_ms(int64_t now_ms, uint64_t retention_ms)
{
    if (retention_ms == SEMEL_RETENTION_NONE || retention_ms == 0)
        return now_ms == INT64_MAX ? now_ms
                                   : now_ms + 1; /* what was done in this millisecond, too */
    if (retention_ms == SEMEL_RETENTION_FOREVER || now_ms <= 0 || retention_ms >= (uint64_t)now_ms)
        return INT64_MIN;
    return now_ms - (int64_t)retention_ms;
}

static semel_status remove_some(size_t *removed, semel_inbox *inbox, uint64_t age_ms, uint32_t rows,
                                semel_sweep_position *position, semel_error *err)
{
    semel_store *store = inbox->store;
    uint64_t age = age_ms == SEMEL_RETENTION_NONE ? SEMEL_RETENTION_FOREVER : age_ms; /* no age */
    int64_t now;
    size_t count = 0;
    semel_status status = semel_store_now(&now, store, err);
    if (!status)
        status =
            store->driver->markers->sweep(store->state, inbox->scope, retention_cutoff_ms(now, age),
                                          rows ? rows : SEMEL_SWEEP_BATCH, position, &count, err);
    if (status)
        return status;
    inbox_add(inbox, TALLY_SWEPT, count);
    *removed = count;
    return SEMEL_OK;
}

static semel_status learn_horizon(work_unit *unit, void *context, semel_error *err)
{
    return inbox_learn_horizon(unit, context, err);
}

/* A round begins with what other processes have noted since. */
static semel_status begin_round(semel_inbox *inbox, semel_error *err)
{
    if (inbox->sweep_position.len || !inbox->store->driver->notes)
        return SEMEL_OK;
    return store_transact(inbox->store, SEMEL_BEGIN_RELAXED, learn_horizon, inbox, err);
}

static semel_status sweep_markers(size_t *removed, int *more, semel_inbox *inbox, uint32_t rows,
                                  semel_error *err)
{
    if (!inbox->store->driver->markers->sweep)
        return SEMEL_OK;
    semel_status status =
        remove_some(removed, inbox, inbox_keep_ms(inbox), rows, &inbox->sweep_position, err);
    *more = inbox->sweep_position.len != 0;
    return status;
}

/* A round begins with the letters: markers have their turn when there is no more to do there. */
static semel_status sweep_some(size_t *swept, int *more, semel_inbox *inbox, uint32_t rows,
                               semel_error *err)
{
    size_t markers = 0, letters = 0;
    semel_status status = begin_round(inbox, err);
    if (!status && !inbox->sweep_position.len)
        status = inbox_sweep_letters(&letters, more, inbox, rows, err);
    if (!status && !*more)
        status = sweep_markers(&markers, more, inbox, rows, err);
    inbox_add(inbox, TALLY_SWEPT, letters);
    *swept = markers + letters;
    return status;
}

semel_status semel_inbox_sweep(size_t *swept, int *more, semel_inbox *inbox, uint32_t rows,
                               semel_error *err)
{
    size_t removed = 0;
    int left = 0;
    pthread_mutex_lock(&inbox->sweep_lock);
    semel_status status = sweep_some(&removed, &left, inbox, rows, err);
    pthread_mutex_unlock(&inbox->sweep_lock);
    if (status)
        return status;
    *swept = removed;
    *more = left;
    return SEMEL_OK;
}

/* --- purging ---------------------------------------------------------------------------------- */

static semel_status check_purge(const semel_inbox *inbox, uint64_t age_ms, semel_error *err)
{
    const semel_store_driver *driver = inbox->store->driver;
    if (!driver->markers->sweep)
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "inbox \"%s\": a %s: store removes markers by itself, when their "
                          "retention is over",
                          inbox->name, driver->scheme);
    if (!driver->notes && age_ms < inbox_keep_ms(inbox))
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "inbox \"%s\": a %s: store cannot note that it has forgotten markers "
                          "younger than the retention (%llu ms)",
                          inbox->name, driver->scheme, (unsigned long long)inbox_keep_ms(inbox));
    return SEMEL_OK;
}

/* With a position of its own: the sweep's may be anywhere. */
static semel_status purge_some(size_t *removed, semel_inbox *inbox, uint64_t age_ms, uint32_t rows,
                               semel_sweep_position *position, semel_error *err)
{
    uint32_t tries = 0;
    semel_status status;
    position->beside = 1;
    do
        status = remove_some(removed, inbox, age_ms, rows, position, err);
    while (store_retry_after_pause(inbox->store, status, NULL, &tries));
    return status;
}

static semel_status begin_purge(semel_inbox *inbox, uint64_t age_ms, semel_error *err)
{
    semel_status status = check_purge(inbox, age_ms, err);
    if (!status && inbox->store->driver->notes)
        status = inbox_lower_horizon(inbox, age_ms, err);
    return status;
}

semel_status semel_inbox_purge(size_t *removed, semel_inbox *inbox, uint64_t older_than_ms,
                               semel_error *err)
{
    size_t all = 0;
    semel_sweep_position position = {0};
    semel_status status = begin_purge(inbox, older_than_ms, err);
    while (!status) {
        size_t count = 0;
        status = purge_some(&count, inbox, older_than_ms, 0, &position, err);
        all += count;
        if (!status && !position.len)
            break;
    }
    if (!status)
        *removed = all;
    return status;
}

semel_status semel_inbox_purge_step(size_t *removed, int *more, semel_inbox *inbox,
                                    uint64_t older_than_ms, uint32_t rows, semel_error *err)
{
    size_t count = 0;
    semel_sweep_position *position = &inbox->purge_position;
    semel_status status = position->len ? SEMEL_OK : begin_purge(inbox, older_than_ms, err);
    if (!status)
        status = purge_some(&count, inbox, older_than_ms, rows, position, err);
    if (status)
        return status;
    *removed = count;
    *more = position->len != 0;
    return SEMEL_OK;
}
