/* Transactions.
 *
 * BEGIN IMMEDIATE always: a transaction that reads first and writes later is refused at once when another
 * one wrote in between, whatever the timeout. Durable transactions commit with synchronous=FULL, so a
 * commit that returned has been fsynced; relaxed ones (leases, counts, sent marks) with NORMAL, which is
 * as atomic and survives kill -9, and which the next durable commit makes durable too.
 *
 * A file that was removed or replaced goes on to work for those who have it open, and what they commit is gone with
 * them: a key would be answered as done, and a store that is opened anew would not know it. So each unit looks first.
 *
 * A handler works on our connection and could end our transaction. Two hooks count every end, so that a
 * COMMIT or ROLLBACK of its own is noticed, even one followed by a BEGIN. */
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

static semel_status begin_on_writer(sqlite_store *store, semel_begin durability, uint32_t wait_ms,
                                    semel_error *err)
{
    semel_status status = sqlite_gate_check_file(store->writer.db, err);
    if (status)
        return status;
    store->writer.deadline_ms = wait_clock_ms() + wait_ms;
    if (!sqlite3_get_autocommit(store->writer.db)) /* a rollback that ran out of memory */
        sqlite3_exec(store->writer.db, "ROLLBACK", NULL, NULL, NULL);
    status = choose_durability(store, durability, err);
    return status ? status
                  : sqlite_connection_run(&store->writer, ST_BEGIN, "beginning a transaction", err);
}

semel_status sqlite_begin(void *state, void *unit_state, semel_begin durability, uint32_t wait_ms,
                          semel_error *err)
{
    sqlite_store *store = state;
    sqlite_unit *unit = unit_state;
    semel_status status = sqlite_gate_enter(store, wait_ms, err);
    if (status)
        return status;
    status = begin_on_writer(store, durability, wait_ms, err);
    if (!status && store->clock_loaded) {
        status = sqlite_clock_save(store, err);
        if (status)
            sqlite3_exec(store->writer.db, "ROLLBACK", NULL, NULL, NULL);
    }
    if (status) {
        sqlite_gate_leave(store);
        return status;
    }
    unit->store = store;
    unit->on = &store->writer;
    unit->ends = store->writer.ends;
    unit->changes = sqlite3_total_changes(store->writer.db);
    unit->on->in_unit = 1;
    return SEMEL_OK;
}

/* --- ending ---------------------------------------------------------------------------------------------- */

static int was_ended(const sqlite_unit *unit)
{
    return unit->on->ends != unit->ends || sqlite3_get_autocommit(unit->on->db);
}

static void leave_gate(sqlite_unit *unit)
{
    unit->on->in_unit = 0;
    sqlite_gate_leave(unit->store);
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

/* After an I/O error nobody can say whether the commit record reached the disk. A constraint that is looked at
 * only now (a deferred foreign key) is the failure of the queued statement that broke it. */
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

semel_status sqlite_commit(void *unit_state, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    if (sqlite_is_joined(unit))
        return sqlite_end_joined(unit, 1, err);
    sqlite_connection_reset_reads(unit->on);
    semel_status status = report_failure(unit, err);
    if (!status && was_ended(unit))
        status = report_ended(unit, err);
    unit->on->committing = 1;
    if (!status && sqlite_connection_run(unit->on, ST_COMMIT, "committing", NULL))
        status = commit_failed(unit, err);
    unit->on->committing = 0;
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
    if (!sqlite3_get_autocommit(unit->on->db))
        (void)sqlite_connection_run(unit->on, ST_ROLLBACK, "rolling back",
                                    NULL); /* fails only if it is over already */
    leave_gate(unit);
}

/* --- savepoints -------------------------------------------------------------------------------------------- */

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
    if (!status && was_ended(unit))
        status = report_ended(unit, err);
    return status ? status
                  : sqlite_connection_run(unit->on, ST_RELEASE, "releasing a savepoint", err);
}

semel_status sqlite_undo(void *unit_state, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    if (was_ended(unit)) /* perhaps by the statement that failed: INSERT OR ROLLBACK */
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
