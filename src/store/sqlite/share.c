/* Units that share a commit.
 *
 * A durable commit waits for the disk, and SQLite has one writer: units that each commit by
 * themselves wait for the disk one after the other. So a unit that has done its work, while another
 * thread waits at the gate, does not commit. It hands the open transaction to that thread and
 * becomes a *member*: it waits until the transaction is committed. The last unit commits for all.
 * Each unit is a savepoint, so that one that fails is undone by itself; a savepoint that is
 * released leaves nothing that a later handler could roll back to by mistake.
 *
 * Which thread comes last is not known beforehand. A transaction is handed on while a thread waits
 * whose unit may share, up to UNITS_MAX units, and for about as long as a commit takes: then the
 * members wait for each other no longer than for the disk, and other processes get their turn. The
 * estimate of how long a unit takes is part of that, so that slow handlers, which the members would
 * wait for, do not share. Threads whose commit has just ended will be back in a moment; the unit
 * that comes first waits a little for them, since otherwise it would commit alone and let all of
 * them wait for that.
 *
 * Only durable transactions are shared: there is nothing to gain by it elsewhere.
 *
 * What can end a shared transaction, and what its members are told:
 *
 *   - COMMIT succeeds: OK. It fails, and nothing of it is there: ECONFLICT, on which the core
 *     begins a unit anew. The disk does not answer: EUNKNOWN.
 *   - A handler ends the transaction (its COMMIT is turned into a rollback, see sqlite.c), or
 *     SQLite does, after an error: ECONFLICT. What the unit itself is told is as if it had been
 *     alone. Transactions are not shared for a while then, so that a unit which does that each time
 *     does not undo the same members again and again.
 *   - It does not end within busy_ms, because the unit that has it does not: EUNKNOWN. A member
 *     cannot take its work back, and must not wait for ever.
 *   - The process dies: nothing is there, and no member was told otherwise.
 *
 * A unit sees what members have done before it is committed. If it commits, too, it commits with
 * them or after them. But a unit that ends without a commit must not report what may yet be undone:
 * before a key is called done, what made it so is committed (sqlite_share_settle_others()). A note
 * decides over messages without their units' commit; so a unit that writes one is the last
 * (unit->closes). Units that only look are relaxed, and no part of it. */
#include "base/wait.h"
#include "store/sqlite/sqlite.h"

#include <errno.h>

enum {
    UNITS_MAX = 64,
    GATHER_MIN_NS = 1000000,
    GATHER_MAX_NS = 8000000,
    UNITS_PAUSED = 64, /* begun without sharing after a unit ended a shared transaction */
    VAIN_MAX = 6
};

int sqlite_share_init(sqlite_share *share, int allowed)
{
    share->allowed = allowed;
    share->units_max = UNITS_MAX;
    share->gather_min_ns = GATHER_MIN_NS;
    share->gather_max_ns = GATHER_MAX_NS;
    int error = wait_condition_init(&share->settled);
    if (error)
        return error;
    error = wait_condition_init(&share->arrived);
    if (error)
        pthread_cond_destroy(&share->settled);
    return error;
}

void sqlite_share_destroy(sqlite_share *share)
{
    pthread_cond_destroy(&share->settled);
    pthread_cond_destroy(&share->arrived);
}

static sqlite_share *share_of(const sqlite_unit *unit)
{
    return &unit->store->share;
}

/* --- how long things take --------------------------------------------------------------------- */

static void estimate(int64_t *average, int64_t took)
{
    *average += (took - *average) / 4;
}

/* For how long units may be gathered before the commit. */
static int64_t gather_ns(const sqlite_share *share)
{
    int64_t wanted =
        share->commit_ns < share->gather_max_ns ? share->commit_ns : share->gather_max_ns;
    return wanted > share->gather_min_ns ? wanted : share->gather_min_ns;
}

static int within_bounds(const sqlite_unit *unit, int64_t now)
{
    const sqlite_share *share = share_of(unit);
    return !unit->closes && share->units < share->units_max &&
           now - share->began_ns + share->unit_ns <= gather_ns(share);
}

/* --- handing on ------------------------------------------------------------------------------- */

/* A wait in vain is followed by commits without one, twice as many each time. */
static void await_heir_locked(sqlite_store *store, int64_t now)
{
    sqlite_share *share = &store->share;
    struct timespec until = wait_until_ns(now + share->commit_ns / 4);
    if (!share->returning || sqlite_gate_has_heir_locked(store))
        return;
    if (share->skip) {
        share->skip--;
        return;
    }
    share->awaiting = 1;
    while (!sqlite_gate_has_heir_locked(store))
        if (pthread_cond_timedwait(&share->arrived, &store->gate, &until))
            break;
    share->awaiting = 0;
    int came = sqlite_gate_has_heir_locked(store);
    share->vain = came ? 0 : share->vain + (share->vain < VAIN_MAX);
    share->skip = came ? 0 : 1U << share->vain;
}

static int may_hand_on(sqlite_unit *unit, int waits)
{
    sqlite_store *store = unit->store;
    int64_t now = wait_clock_ns();
    estimate(&store->share.unit_ns, now - unit->began_ns);
    if (!within_bounds(unit, now))
        return 0;
    pthread_mutex_lock(&store->gate);
    if (waits)
        await_heir_locked(store, now);
    int found = sqlite_gate_has_heir_locked(store);
    pthread_mutex_unlock(&store->gate);
    return found;
}

/* 1 if the transaction is another thread's now. */
static int hand_on(sqlite_unit *unit)
{
    pthread_mutex_lock(&unit->store->gate);
    int handed = sqlite_gate_hand_on_locked(unit->store);
    pthread_mutex_unlock(&unit->store->gate);
    return handed;
}

static void remove_member(sqlite_share *share, const sqlite_member *member)
{
    sqlite_member **at = &share->members;
    while (*at != member)
        at = &(*at)->next;
    *at = member->next;
}

/* A handler that comes after may wait for something that this thread has: then this one goes, as a
 * thread does that has waited for too long at the gate. But its work is another unit's to commit.
 * */
static semel_status wait_for_commit(sqlite_store *store, sqlite_member *me)
{
    sqlite_share *share = &store->share;
    struct timespec until = wait_until(wait_clock_ms() + store->busy_ms);
    int late = 0;
    while (!me->settled && !(late && !share->committing))
        if (share->committing)
            pthread_cond_wait(&share->settled, &store->gate);
        else
            late = pthread_cond_timedwait(&share->settled, &store->gate, &until) == ETIMEDOUT;
    if (me->settled)
        return me->status;
    remove_member(share, me);
    return semel_fail(me->err, SEMEL_EUNKNOWN,
                      "waited %u ms for a unit that shares the transaction; shorten it, or raise "
                      "busy_ms",
                      store->busy_ms);
}

/* The same for a unit whose work is part of it. */
static int hand_on_and_wait(sqlite_unit *unit, semel_status *status, semel_error *err)
{
    sqlite_store *store = unit->store;
    sqlite_member me = {.err = err};
    pthread_mutex_lock(&store->gate);
    int handed = sqlite_gate_hand_on_locked(store);
    if (handed) {
        store->share.kept++;
        me.next = store->share.members;
        store->share.members = &me;
        *status = wait_for_commit(store, &me);
    }
    pthread_mutex_unlock(&store->gate);
    return handed;
}

/* --- the end of the transaction --------------------------------------------------------------- */

static void settle_locked(sqlite_share *share, semel_status status, const semel_error *why)
{
    share->returning = 1;
    for (sqlite_member *m = share->members; m; m = m->next) {
        if (status && m->err)
            *m->err = *why;
        m->status = status;
        m->settled = 1;
        share->returning++;
    }
    share->members = NULL;
    share->committing = 0;
    share->open = 0;
    if (share->returning == 1)
        share->returning = 0; /* it was alone */
    else
        pthread_cond_broadcast(&share->settled);
}

/* The transaction is over. The unit that ended it keeps the gate, or leaves it. */
static void end_transaction(sqlite_unit *unit, semel_status status, const semel_error *why,
                            int keeps_gate)
{
    sqlite_store *store = unit->store;
    if (!sqlite3_get_autocommit(store->writer.db))
        sqlite3_exec(store->writer.db, "ROLLBACK", NULL, NULL, NULL);
    if (!keeps_gate)
        store->writer.in_unit = 0;
    pthread_mutex_lock(&store->gate);
    if (status && store->share.kept)
        store->share.pause = UNITS_PAUSED;
    settle_locked(&store->share, status, why);
    if (!keeps_gate)
        sqlite_gate_leave_locked(store);
    pthread_mutex_unlock(&store->gate);
}

static void break_up(sqlite_unit *unit, int keeps_gate)
{
    semel_error why;
    semel_status status =
        semel_fail(&why, SEMEL_ECONFLICT,
                   "sqlite: a unit that shared the transaction has ended it; begin anew");
    end_transaction(unit, status, &why, keeps_gate);
}

/* From here on the members wait for the disk, however long that takes. */
static void note_committing(sqlite_store *store)
{
    pthread_mutex_lock(&store->gate);
    store->share.committing = 1;
    pthread_mutex_unlock(&store->gate);
}

static semel_status run_commit(sqlite_unit *unit, int several, semel_error *why)
{
    sqlite_store *store = unit->store;
    int64_t before = wait_clock_ns();
    if (several)
        note_committing(store);
    semel_status status = several ? seam_fault(store->seam, "share.ready", why) : SEMEL_OK;
    if (!status)
        status = sqlite_unit_run_commit(unit, why);
    if (!status)
        estimate(&store->share.commit_ns, wait_clock_ns() - before);
    if (!status && several && seam_fault(store->seam, "share.committed", why))
        status = why->status = SEMEL_EUNKNOWN;
    return status;
}

/* Of several units none knows which one made the commit fail: each finds out by itself. */
static semel_status commit_for_all(sqlite_unit *unit, int keeps_gate, semel_error *err)
{
    semel_error cause, why;
    int several = share_of(unit)->kept > 0;
    semel_status status = run_commit(unit, several, &cause);
    if (status && several && status != SEMEL_EUNKNOWN) {
        status = semel_fail(&why, SEMEL_ECONFLICT, "the commit of several units failed: %.400s",
                            cause.text);
        why.native = cause.native;
    } else if (status) {
        why = cause;
    }
    end_transaction(unit, status, &why, keeps_gate);
    if (status && err)
        *err = why;
    return status;
}

/* --- the units -------------------------------------------------------------------------------- */

static semel_status set_savepoint(sqlite_unit *unit, semel_error *err)
{
    unit->began_ns = wait_clock_ns();
    return sqlite_connection_run(unit->on, ST_SHARE_SAVEPOINT, "setting a savepoint", err);
}

semel_status sqlite_share_open(sqlite_unit *unit, semel_error *err)
{
    sqlite_share *share = share_of(unit);
    semel_status status = set_savepoint(unit, err);
    if (status)
        return status;
    share->open = 1;
    share->units = 1;
    share->kept = 0;
    share->began_ns = unit->began_ns;
    share->began_ms = unit->store->clock_loaded ? sqlite_clock_now(unit->store) : 0;
    return SEMEL_OK;
}

/* 1 if what is left is the others' work, unharmed. */
static int undo_unit(sqlite_unit *unit)
{
    return !sqlite_unit_ended(unit) &&
           !sqlite_connection_run(unit->on, ST_SHARE_ROLLBACK_TO, "undoing a unit", NULL) &&
           !sqlite_connection_run(unit->on, ST_SHARE_RELEASE, "undoing a unit", NULL);
}

/* The unit has no part in the transaction any more. */
static void pass_on(sqlite_unit *unit, int unharmed)
{
    if (!unharmed)
        break_up(unit, 0);
    else if (!share_of(unit)->kept)
        end_transaction(unit, SEMEL_OK, NULL, 0);
    else if (!may_hand_on(unit, 0) || !hand_on(unit))
        (void)commit_for_all(unit, 0, NULL); /* the members are told */
}

void sqlite_share_rollback(sqlite_unit *unit)
{
    pass_on(unit, undo_unit(unit));
}

semel_status sqlite_share_join(sqlite_unit *unit, semel_error *err)
{
    share_of(unit)->units++;
    unit->on->deadline_ms = wait_clock_ms() + unit->wait_ms;
    semel_status status = sqlite_gate_check_file(unit->on->db, err);
    if (!status)
        status = set_savepoint(unit, err);
    if (status) {
        pass_on(unit, !sqlite3_get_autocommit(unit->on->db));
        return status;
    }
    sqlite_unit_note_start(unit);
    status = seam_fault(unit->store->seam, "share.joined", err);
    if (status)
        sqlite_share_rollback(unit);
    return status;
}

/* A deferred foreign key that the unit leaves broken would make the commit of all fail. */
static semel_status check_foreign_keys(const sqlite_unit *unit, semel_error *err)
{
    int broken = 0, highest;
    sqlite3_db_status(unit->on->db, SQLITE_DBSTATUS_DEFERRED_FKS, &broken, &highest, 0);
    if (!broken)
        return SEMEL_OK;
    semel_fail(err, SEMEL_EHANDLER, "sqlite, committing: FOREIGN KEY constraint failed");
    if (err)
        err->native = SQLITE_CONSTRAINT_FOREIGNKEY;
    return SEMEL_EHANDLER;
}

static semel_status check_unit(const sqlite_unit *unit, semel_error *err)
{
    semel_status status = sqlite_queue_failure(unit, err);
    if (!status && sqlite_unit_ended(unit))
        status = sqlite_connection_ended(unit->on, err);
    return status ? status : check_foreign_keys(unit, err);
}

/* A commit ends this setting of a handler's; the next handler has not made it. */
static semel_status end_deferral(sqlite_unit *unit, semel_error *err)
{
    return unit->store->foreign_keys
               ? sqlite_connection_exec(unit->on, "PRAGMA defer_foreign_keys = OFF",
                                        "checking foreign keys at once", err)
               : SEMEL_OK;
}

semel_status sqlite_share_commit(sqlite_unit *unit, semel_error *err)
{
    semel_status status = check_unit(unit, err);
    int hands_on = !status && may_hand_on(unit, 1);
    if (hands_on)
        status = end_deferral(unit, err);
    if (hands_on && !status)
        status = seam_fault(unit->store->seam, "share.kept", err);
    if (!status)
        status = sqlite_connection_run(unit->on, ST_SHARE_RELEASE, "releasing a savepoint", err);
    if (status) {
        sqlite_share_rollback(unit);
        return status;
    }
    if (hands_on && hand_on_and_wait(unit, &status, err))
        return status;
    return commit_for_all(unit, 0, err);
}

/* --- what is not committed yet ---------------------------------------------------------------- */

/* All that changes the state of a marker sets its time. */
int sqlite_share_is_unsettled(const sqlite_unit *unit, const sql_marker_row *found)
{
    const sqlite_share *share = share_of(unit);
    return !sqlite_is_joined(unit) && share->open && share->kept && found->at_ms >= share->began_ms;
}

semel_status sqlite_share_settle_others(sqlite_unit *unit, int has_written, semel_error *err)
{
    if (has_written)
        return semel_fail(err, SEMEL_ECONFLICT,
                          "sqlite: the key is another unit's that is about to be committed");
    if (undo_unit(unit))
        (void)commit_for_all(unit, 1, NULL); /* the members are told */
    else
        break_up(unit, 1);
    unit->entry = ENTERED_IN_COMPANY;
    unit->on->in_unit = 0;
    semel_status status = sqlite_unit_start(unit, err);
    unit->on->in_unit = 1; /* without a transaction nothing is written */
    return status;
}
