/* Units in the caller's transaction: the marker and the outgoing messages commit with the caller's
 * work.
 *
 * Such a unit is a savepoint on the caller's connection, with prepared statements of its own. The
 * caller's COMMIT decides; ending the unit releases the savepoint or rolls back to it. */
#include "store/sqlite/sqlite.h"

#include <string.h>

static semel_status check_joined(const sqlite_store *store, sqlite3 *db, semel_error *err)
{
    const char *ours = sqlite3_db_filename(store->writer.db, "main");
    const char *theirs = db ? sqlite3_db_filename(db, "main") : NULL;
    if (!db || sqlite3_get_autocommit(db))
        return semel_fail(
            err, SEMEL_EMISUSE,
            "no transaction is open on that connection: run BEGIN IMMEDIATE on it first");
    if (!ours || !theirs || strcmp(ours, theirs) != 0)
        return semel_fail(
            err, SEMEL_EINVAL,
            "that connection is on another file than the store: a marker there would not "
            "commit with the work");
    return SEMEL_OK;
}

semel_status sqlite_join(void *state, void *unit_state, void *native, semel_error *err)
{
    sqlite_store *store = state;
    sqlite_unit *unit = unit_state;
    semel_status status = sql_check_process(store->pid, err);
    if (!status)
        status = check_joined(store, native, err);
    if (!status)
        status = sqlite_gate_check_file(native, err);
    if (!status)
        status = sql_joined_add(&unit->place, &store->joined, &store->gate, native, err);
    if (status)
        return status;
    unit->store = store;
    unit->own.db = native;
    unit->on = &unit->own;
    status = sqlite_schema_check(unit->on, err);
    if (!status)
        status = sqlite_connection_run(unit->on, ST_SAVEPOINT, "joining a transaction", err);
    if (status) {
        sql_joined_remove(&unit->place, &store->joined, &store->gate);
        sqlite_connection_finalize(&unit->own);
    }
    unit->own.in_unit = !status;
    unit->changes = sqlite3_total_changes(native);
    return status;
}

int sqlite_is_joined(const sqlite_unit *unit)
{
    return unit->on == &unit->own;
}

static semel_status end_savepoint(sqlite_unit *unit, int keep, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (sqlite3_get_autocommit(unit->own.db))
        status =
            semel_fail(err, SEMEL_EMISUSE,
                       "the joined transaction was ended before the unit: commit the unit first");
    if (!status && !keep)
        status = sqlite_connection_run(unit->on, ST_ROLLBACK_TO, "undoing a joined unit", err);
    return status ? status
                  : sqlite_connection_run(unit->on, ST_RELEASE, "ending a joined unit", err);
}

semel_status sqlite_end_joined(sqlite_unit *unit, int keep, semel_error *err)
{
    semel_status failure = keep ? sqlite_queue_failure(unit, err) : SEMEL_OK;
    semel_status status = end_savepoint(unit, keep && !failure, failure ? NULL : err);
    if (failure)
        status = failure;
    sql_joined_remove(&unit->place, &unit->store->joined, &unit->store->gate);
    arena_free(&unit->scratch);
    sqlite_connection_finalize(&unit->own);
    return status;
}
