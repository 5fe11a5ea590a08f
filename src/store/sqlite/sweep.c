/* Retention without an index on time.
 *
 * A sweep looks at the markers of an inbox in key order, a bounded number at a time, on a
 * connection of its own that keeps no writer waiting; then it removes the expired among them in
 * one short transaction, which checks each one again, since it may have changed in between.
 * Every row is looked at once in a round whatever its state, so there is none that no sweep can
 * see. Several sweepers do each other no harm: the second finds nothing to remove.
 *
 * The same transaction notes the time of the newest marker that it removes: the inbox must not
 * forget a key without knowing that it did. If the process dies in between, the next round looks
 * again; the position is not worth storing. */
#include "store/sql/keys.h"
#include "store/sqlite/sqlite.h"

static semel_status find_old(sql_keys *out, sqlite_store *store, int64_t inbox, int64_t cutoff_ms,
                             uint32_t rows, const semel_sweep_position *from, semel_error *err)
{
    int got = 0;
    semel_status status = SEMEL_OK;
    sqlite_query q = sqlite_query_start(&store->reader, ST_SWEEP_LOOK);
    sqlite_query_int(&q, cutoff_ms);
    sqlite_query_int(&q, sqlite_clock_now(store));
    sqlite_query_int(&q, inbox);
    sqlite_query_bytes(&q, (semel_bytes){from->key, from->len});
    sqlite_query_int(&q, rows);
    while (!status && (got = sqlite_query_row(&q, "looking for old markers", err)) > 0)
        status = sql_keys_look(out, sqlite_row_bytes(&q, 0), sqlite_row_int(&q, 1) != 0, err);
    sqlite_query_end(&q);
    return got < 0 ? q.status : status;
}

static semel_status find_old_locked(sql_keys *out, sqlite_store *store, int64_t inbox,
                                    int64_t cutoff_ms, uint32_t rows,
                                    const semel_sweep_position *from, semel_error *err)
{
    semel_status status = sqlite_reader_enter(store, err);
    if (status)
        return status;
    status = find_old(out, store, inbox, cutoff_ms, rows, from, err);
    sqlite_reader_leave(store);
    return status ? status : seam_fault(store->seam, "sweep.looked", err);
}

typedef struct removal {
    size_t count;
    int64_t newest_ms; /* the newest last change among the removed markers */
} removal;

static semel_status remove_one(sqlite_unit *unit, int64_t inbox, semel_bytes key, int64_t cutoff_ms,
                               removal *done, semel_error *err)
{
    sqlite_query q = sqlite_query_start(unit->on, ST_SWEEP_DELETE);
    sqlite_query_int(&q, inbox);
    sqlite_query_bytes(&q, key);
    sqlite_query_int(&q, cutoff_ms);
    sqlite_query_int(&q, sqlite_clock_now(unit->store));
    int got = sqlite_query_row(&q, "removing an old marker", err);
    if (got > 0 && (done->count++ == 0 || sqlite_row_int(&q, 0) > done->newest_ms))
        done->newest_ms = sqlite_row_int(&q, 0);
    sqlite_query_end(&q);
    return got < 0 ? q.status : SEMEL_OK;
}

static semel_status remove_all(sqlite_store *store, int64_t inbox, int64_t cutoff_ms,
                               const sql_keys *found, size_t *removed, semel_error *err)
{
    removal done = {0};
    sqlite_unit unit = {0};
    semel_status status = sqlite_begin(store, &unit, SEMEL_BEGIN_RELAXED, store->busy_ms, err);
    if (status)
        return status;
    for (size_t i = 0; !status && i < found->count; i++)
        status = remove_one(&unit, inbox, found->keys[i], cutoff_ms, &done, err);
    if (!status)
        status = seam_fault(store->seam, "sweep.removed", err);
    if (!status && done.count)
        status = sqlite_note_forgotten(&unit, inbox, done.newest_ms, err);
    *removed = done.count;
    if (status) {
        sqlite_rollback(&unit);
        return status;
    }
    status = sqlite_commit(&unit, err);
    return status ? status : seam_fault(store->seam, "sweep.committed", err);
}

semel_status sqlite_sweep(void *state, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                          semel_sweep_position *position, size_t *swept, semel_error *err)
{
    sqlite_store *store = state;
    mem_arena arena = {0};
    sql_keys found;
    size_t removed = 0;
    semel_status status = sql_keys_init(&found, &arena, rows, err);
    if (!status)
        status = find_old_locked(&found, store, inbox, cutoff_ms, rows, position, err);
    if (!status && found.count)
        status = remove_all(store, inbox, cutoff_ms, &found, &removed, err);
    if (!status) {
        *position = found.looked < rows ? (semel_sweep_position){0} : found.last;
        *swept = removed;
    }
    arena_free(&arena);
    return status;
}
