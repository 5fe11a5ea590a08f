/* One apply() of the driver's, and what its answer means.
 *
 * An answer that was lost is settled by writing, not by looking: what was looked at may change a
 * moment later, when the lost request arrives after all. The same changes, with the same new
 * versions, are sent again. If they are applied now, the lost request can never be, because what it
 * expects is gone: versions and tokens are never used twice. If they are refused, either a record
 * with one of our versions is there, and the lost request was applied; or what is there is
 * another's, and the lost request was not applied or has been overtaken. */
#include "store/keyed/apply.h"

#include <string.h>

enum { BACKOFF_MS = 2, BACKOFF_MAX_MS = 200 };

int keyed_try_again(keyed_patience *patience, const keyed_store *store, uint32_t limit_ms)
{
    int64_t now_ms = seam_steady_ms(store->seam);
    if (!patience->begun) {
        patience->begun = 1;
        patience->end_ms = now_ms + limit_ms;
    }
    if (now_ms >= patience->end_ms && patience->tries)
        return 0;
    patience->tries++;
    seam_sleep_ms(store->seam,
                  seam_backoff_ms(store->seam, BACKOFF_MS, BACKOFF_MAX_MS, patience->tries));
    return 1;
}

size_t keyed_refused(const semel_keyed_change changes[], size_t count)
{
    size_t refused = 0;
    for (size_t i = 0; i < count; i++)
        refused += changes[i].refused != 0;
    return refused;
}

/* What the driver did not tell. Refused changes are few, so they are read one by one. */
static semel_status read_refused(keyed_rows *there, keyed_store *store,
                                 const semel_keyed_change changes[], size_t count, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const semel_keyed_record *at = &changes[i].record;
        if (changes[i].refused && !keyed_rows_find(there, at->space, at->key))
            status = keyed_get_many(there, store, at->space, &at->key, 1, 0, err);
    }
    return status;
}

semel_status keyed_apply_once(keyed_store *store, semel_keyed_change changes[], size_t count,
                              semel_begin durability, keyed_rows *there, semel_error *err)
{
    semel_error why;
    for (size_t i = 0; i < count; i++)
        changes[i].refused = 0;
    there->first = there->last = NULL;
    there->count = 0;
    semel_status status =
        store->driver->apply(store->state, changes, count, durability, keyed_keep_row, there, err);
    if (status != SEMEL_ECONFLICT || !keyed_refused(changes, count))
        return status;
    semel_status read = read_refused(there, store, changes, count, &why);
    return read ? semel_fail(err, read, "%s", why.text) : status;
}

int keyed_was_applied(const semel_keyed_change changes[], size_t count, const keyed_rows *there)
{
    for (size_t i = 0; i < count; i++) {
        const semel_keyed_record *record = &changes[i].record;
        const keyed_row *row = changes[i].kind == SEMEL_KEYED_WRITE
                                   ? keyed_rows_find(there, record->space, record->key)
                                   : NULL;
        if (row && memcmp(row->record.version, record->version, sizeof record->version) == 0)
            return 1;
    }
    return 0;
}

/* The database gave up, for a reason of its own, or the answer is not known. */
static int wants_another_try(keyed_patience *patience, const keyed_store *store,
                             semel_status status, size_t refused, int lost)
{
    if (status == SEMEL_ECONFLICT && !refused)
        return keyed_try_again(patience, store, store->settings->busy_ms);
    return lost &&
           (status == SEMEL_EUNKNOWN || status == SEMEL_EUNAVAILABLE || status == SEMEL_EBUSY) &&
           keyed_try_again(patience, store, store->settings->answer_ms);
}

static semel_status apply_until_known(keyed_store *store, semel_keyed_change changes[],
                                      size_t count, semel_begin durability, keyed_rows *there,
                                      semel_error *err)
{
    keyed_patience patience = {0};
    semel_error why;
    semel_status status;
    int lost = 0; /* an answer */
    size_t refused;
    do {
        status = keyed_apply_once(store, changes, count, durability, there, &why);
        refused = status == SEMEL_ECONFLICT ? keyed_refused(changes, count) : 0;
        lost |= status == SEMEL_EUNKNOWN;
    } while (wants_another_try(&patience, store, status, refused, lost));
    if (lost && refused && keyed_was_applied(changes, count, there))
        return SEMEL_OK;
    if (lost && status && !refused)
        return semel_fail(err, SEMEL_EUNKNOWN, "%s", why.text);
    if (status && err)
        *err = why;
    return status;
}

semel_status keyed_apply_now(keyed_store *store, semel_keyed_change changes[], size_t count,
                             semel_begin durability, keyed_rows *there, semel_error *err)
{
    mem_arena arena = {0};
    keyed_rows local = {.arena = &arena};
    semel_status status =
        apply_until_known(store, changes, count, durability, there ? there : &local, err);
    arena_free(&arena);
    return status;
}
