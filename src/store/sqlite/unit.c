/* Transactions.
 *
 * BEGIN IMMEDIATE always: a transaction that reads first and writes later is refused at once when
 * another one wrote in between, whatever the timeout. Durable transactions commit with
 * synchronous=FULL, so a commit that returned has been fsynced; relaxed ones (leases, counts, sent
 * marks) with NORMAL, which is as atomic and survives kill -9, and which the next durable commit
 * makes durable too.
 *
 * A file that was removed or replaced still works for the processes that have it open, and what
 * they commit is lost with them: a key would be answered as done, and a store that is opened anew
 * would not know it. So each unit checks first.
 *
 * A handler works on our connection and could end our transaction. Two hooks count every end, so
 * that a COMMIT or ROLLBACK of its own is noticed, even one followed by a BEGIN.
 *
 * Units of several threads may share a transaction and its commit: share.c. */
#include "base/wait.h"
#include "store/sqlite/sqlite.h"

/* A pragma takes effect when it is prepared, so it cannot be kept as a statement. */
static semel_status choose_durability(sqlite_store *store, semel_begin durability, semel_error *err)
{
    int relaxed = durability == SEMEL_BEGIN_RELAXED || store->relaxed_always;
    if (store->writer.relaxed == relaxed)
        return SEMEL_OK;
    semel_status status = sqlite_connection_exec(
        &store->writer, relaxed ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL",
        "setting synchronous", err);
    if (!status)
        store->writer.relaxed = relaxed;
    return status;
}

static semel_status begin_on_writer(sqlite_unit *unit, semel_error *err)
{
    sqlite_store *store = unit->store;
    semel_status status = sqlite_gate_check_file(store->writer.db, err);
    if (status)
        return status;
    store->writer.deadline_ms = wait_clock_ms() + unit->wait_ms;
    if (!sqlite3_get_autocommit(store->writer.db)) /* a rollback that ran out of memory */
        sqlite3_exec(store->writer.db, "ROLLBACK", NULL, NULL, NULL);
    status = choose_durability(store, unit->durability, err);
    return status ? status
                  : sqlite_connection_run(&store->writer, ST_BEGIN, "beginning a transaction", err);
}

void sqlite_unit_note_start(sqlite_unit *unit)
{
    unit->ends = unit->on->ends;
    unit->changes = sqlite3_total_changes(unit->on->db);
    unit->on->in_unit = 1;
}

semel_status sqlite_unit_start(sqlite_unit *unit, semel_error *err)
{
    sqlite_store *store = unit->store;
    semel_status status = begin_on_writer(unit, err);
    if (status)
        return status;
    if (store->clock_loaded)
        status = sqlite_clock_save(store, err);
    if (!status && unit->entry == ENTERED_IN_COMPANY)
        status = sqlite_share_open(unit, err);
    if (status)
        sqlite3_exec(store->writer.db, "ROLLBACK", NULL, NULL, NULL);
    else
        sqlite_unit_note_start(unit);
    return status;
}

static void leave_gate(sqlite_unit *unit)
{
    unit->on->in_unit = 0;
    pthread_mutex_lock(&unit->store->gate);
    sqlite_gate_leave_locked(unit->store);
    pthread_mutex_unlock(&unit->store->gate);
}

semel_status sqlite_begin(void *state, void *unit_state, semel_begin durability, uint32_t wait_ms,
                          semel_error *err)
{
    sqlite_store *store = state;
    sqlite_unit *unit = unit_state;
    unit->store = store;
    unit->on = &store->writer;
    unit->durability = durability;
    unit->wait_ms = wait_ms;
    unit->shares = store->share.allowed && durability == SEMEL_BEGIN_DURABLE && !unit->alone;
    semel_status status = sqlite_gate_enter(store, unit, err);
    if (status)
        return status;
    if (unit->entry == HANDED)
        return sqlite_share_join(unit, err);
    status = sqlite_unit_start(unit, err);
    if (status)
        leave_gate(unit);
    return status;
}

/* --- ending ----------------------------------------------------------------------------------- */

int sqlite_unit_ended(const sqlite_unit *unit)
{
    return unit->on->ends != unit->ends || sqlite3_get_autocommit(unit->on->db);
}

static semel_status report_ended(sqlite_unit *unit, semel_error *err)
{
    semel_status status = sqlite_connection_ended(unit->on, err);
    if (!sqlite3_get_autocommit(unit->on->db))
        sqlite3_exec(unit->on->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* A queued statement failed, and the handler passed over it: no half of its work is to be kept. */
static semel_status report_failure(sqlite_unit *unit, semel_error *err)
{
    semel_status status = sqlite_queue_failure(unit, err);
    if (status && !sqlite3_get_autocommit(unit->on->db))
        sqlite3_exec(unit->on->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* After an I/O error the driver cannot tell whether the commit record reached the disk. A
 * constraint that is looked at only now (a deferred foreign key) is the failure of the queued
 * statement that broke it. */
static semel_status commit_failed(sqlite_unit *unit, semel_error *err)
{
    int code = sqlite3_errcode(unit->on->db) & 0xff;
    semel_error why;
    sqlite_connection_fail(unit->on, code, "committing", &why);
    if (!sqlite3_get_autocommit(unit->on->db))
        sqlite3_exec(unit->on->db, "ROLLBACK", NULL, NULL, NULL);
    semel_status status = why.status;
    if (code == SQLITE_IOERR)
        status = SEMEL_EUNKNOWN;
    else if (code == SQLITE_CONSTRAINT) /* ours are checked at once: it is the application's */
        status = SEMEL_EHANDLER;
    semel_fail(err, status, "%s", why.text);
    if (err)
        err->native = why.native;
    return status;
}

semel_status sqlite_unit_run_commit(sqlite_unit *unit, semel_error *err)
{
    semel_status status = SEMEL_OK;
    unit->on->committing = 1;
    if (sqlite_connection_run(unit->on, ST_COMMIT, "committing", NULL))
        status = commit_failed(unit, err);
    unit->on->committing = 0;
    return status;
}

semel_status sqlite_commit(void *unit_state, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    if (sqlite_is_joined(unit))
        return sqlite_end_joined(unit, 1, err);
    sqlite_connection_reset_reads(unit->on);
    if (unit->store->share.open)
        return sqlite_share_commit(unit, err);
    semel_status status = report_failure(unit, err);
    if (!status && sqlite_unit_ended(unit))
        status = report_ended(unit, err);
    if (!status)
        status = sqlite_unit_run_commit(unit, err);
    leave_gate(unit);
    return status;
}

void sqlite_rollback(void *unit_state)
{
    sqlite_unit *unit = unit_state;
    if (sqlite_is_joined(unit)) {
        (void)sqlite_end_joined(unit, 0,
                                NULL); /* the transaction is the caller's; nothing is left to do */
        return;
    }
    sqlite_connection_reset_reads(unit->on);
    if (unit->store->share.open) {
        sqlite_share_rollback(unit);
        return;
    }
    if (!sqlite3_get_autocommit(unit->on->db))
        (void)sqlite_connection_run(unit->on, ST_ROLLBACK, "rolling back",
                                    NULL); /* fails only if it is over already */
    leave_gate(unit);
}

/* --- savepoints ------------------------------------------------------------------------------- */

semel_status sqlite_savepoint(void *unit_state, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    semel_status status = sqlite_queue_failure(unit, err);
    return status ? status
                  : sqlite_connection_run(unit->on, ST_SAVEPOINT, "setting a savepoint", err);
}

semel_status sqlite_keep(void *unit_state, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    semel_status status = sqlite_queue_failure(unit, err);
    if (!status && sqlite_unit_ended(unit))
        status = report_ended(unit, err);
    return status ? status
                  : sqlite_connection_run(unit->on, ST_RELEASE, "releasing a savepoint", err);
}

semel_status sqlite_undo(void *unit_state, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    if (sqlite_unit_ended(unit)) /* perhaps by the statement that failed: INSERT OR ROLLBACK */
        return unit->failure.status ? report_failure(unit, err) : report_ended(unit, err);
    sqlite_connection_reset_reads(unit->on);
    unit->failure.status = SEMEL_OK;
    semel_status status =
        sqlite_connection_run(unit->on, ST_ROLLBACK_TO, "undoing to a savepoint", err);
    return status ? status
                  : sqlite_connection_run(unit->on, ST_RELEASE, "releasing a savepoint", err);
}

int sqlite_used(void *unit_state)
{
    sqlite_unit *unit = unit_state;
    return sqlite3_total_changes(unit->on->db) != unit->changes;
}

void *sqlite_native(void *unit_state)
{
    sqlite_unit *unit = unit_state;
    return unit->on->db;
}
