/* A unit: one transaction on one connection.
 *
 * Nothing waits that need not. Without autocommit the first statement begins the transaction; what
 * is put off goes with the COMMIT, in one text; the ROLLBACK of a unit that holds nothing is sent,
 * and its answer read by the next user of the connection.
 *
 * A handler that has the connection could end our transaction. A savepoint is set before it gets
 * it, and released just before the COMMIT: it is gone if the transaction was ended, be it by a
 * COMMIT in a stored procedure or by the server itself, and then all is rolled back.
 *
 * If the process dies, the server rolls back. If the connection is lost before COMMIT was sent, it
 * does the same (EUNAVAILABLE); after that the outcome is not known (EUNKNOWN), and the marker
 * itself is the answer: the message is received again. */
#include "store/mariadb/mariadb.h"

#include <mysqld_error.h>
#include <semel/mariadb.h>
#include <string.h>

static const maria_bound patient = {PATIENT, 0};

/* --- enqueueing ------------------------------------------------------------------------------- */

semel_status mariadb_begin(void *store_state, void *unit_state, semel_begin durability,
                           uint32_t wait_ms, semel_error *err)
{
    mariadb_store *store = store_state;
    mariadb_unit *unit = unit_state;
    void *taken = NULL;
    semel_status status = pool_take(&taken, &store->connections, wait_ms, err);
    if (status)
        return status;
    unit->store = store;
    unit->on = taken;
    unit->on->fresh = 1;
    unit->durability = durability;
    return SEMEL_OK;
}

/* Leases and counts are taken by many at once: at other levels of isolation they would run into
 * each other. */
static void begin_unit(mariadb_unit *unit)
{
    maria_session_mode wanted =
        unit->durability == SEMEL_BEGIN_RELAXED ? MODE_RELAXED : MODE_DURABLE;
    if (!unit->begun && !unit->joined)
        unit->moded = maria_enqueue_mode(unit->on, wanted);
    unit->begun = 1;
}

/* All but mere looks: even where they change nothing, others wait for what they have found. */
static int may_lock(maria_statement which)
{
    int lists_letters = which >= ST_DEAD_LIST && which <= ST_DEAD_LIST_LETTER;
    return which != ST_LOOK && which != ST_NOTE_READ && !lists_letters;
}

maria_query maria_unit_enqueue(mariadb_unit *unit, maria_statement which, maria_bound limit)
{
    begin_unit(unit);
    unit->locks |= may_lock(which);
    return maria_enqueue_bounded(unit->on, which, limit);
}

maria_query maria_unit_enqueue_text(mariadb_unit *unit, const char *text)
{
    begin_unit(unit);
    return maria_start(&unit->on->out, text, patient);
}

static void enqueue_plain(mariadb_unit *unit, maria_statement which)
{
    maria_query q = maria_unit_enqueue(unit, which, patient);
    (void)maria_end(&q);
}

/* --- flushing --------------------------------------------------------------------------------- */

semel_status maria_unit_trouble(const mariadb_unit *unit, semel_error *err)
{
    if (err)
        *err = unit->trouble_is;
    return unit->trouble;
}

static int is_in_transaction(const mariadb_unit *unit)
{
    return (unit->on->my->server_status & SERVER_STATUS_IN_TRANS) != 0;
}

/* What the handler left behind. */
static semel_status check_handler(mariadb_unit *unit, semel_error *err)
{
    maria_connection *on = unit->on;
    if (unit->trouble)
        return maria_unit_trouble(unit, err);
    if (!unit->shared || on->lost)
        return SEMEL_OK;
    if (!maria_is_ready(on)) {
        unit->spoiled = 1;
        return semel_fail(err, SEMEL_EMISUSE,
                          "the handler left results on the connection that it has not read");
    }
    if (!unit->joined && on->my->server_status & SERVER_STATUS_AUTOCOMMIT) {
        unit->spoiled = 1;
        return semel_fail(err, SEMEL_EMISUSE,
                          "the handler switched autocommit on, which ended the transaction");
    }
    if (maria_is_conflict(mysql_errno(on->my)))
        return maria_fail(on, "in the handler's work", err);
    return is_in_transaction(unit) ? SEMEL_OK : maria_ended_inside(unit, err);
}

/* Where the caller's session commits each statement by itself, ours would be committed alone if the
 * caller's transaction had ended: so it is looked at first. A savepoint that is gone tells it, and
 * nothing else does. */
static semel_status check_caller(mariadb_unit *unit, semel_error *err)
{
    MYSQL *my = unit->on->my;
    if (!unit->joined || unit->on->lost || !unit->on->out.count ||
        !(my->server_status & SERVER_STATUS_AUTOCOMMIT))
        return SEMEL_OK;
    if (!maria_execute(unit->on, "RELEASE SAVEPOINT semel_live") &&
        !maria_execute(unit->on, "SAVEPOINT semel_live"))
        return SEMEL_OK;
    return mysql_errno(my) == ER_SP_DOES_NOT_EXIST
               ? maria_ended_inside(unit, err)
               : maria_fail(unit->on, "looking for the caller's transaction", err);
}

/* Nothing is sent before it was seen that the transaction is still there. */
semel_status maria_unit_flush(mariadb_unit *unit, maria_failure *failed, const char *doing,
                              semel_error *err)
{
    maria_connection *on = unit->on;
    if (failed)
        *failed = (maria_failure){0};
    semel_status status = check_handler(unit, err);
    if (!status)
        status = check_caller(unit, err);
    if (status)
        return status;
    unit->sent |= on->out.count > 0;
    status = maria_flush(on, failed, doing, err);
    if (status && unit->moded)
        on->mode = MODE_UNKNOWN; /* it may not have come to that */
    if (!status)
        unit->guard_at = 0;
    unit->moded = 0;
    return status;
}

/* Of the application's statements every failure is the handler's, but for those that may pass. A
 * limit of the server's for one statement is the statement's own. */
static semel_status blame_handler(semel_status status, unsigned number, semel_error *err)
{
    enum { ER_STATEMENT_TOOK_TOO_LONG = 1969 };
    int cut_short = number == ER_STATEMENT_TOOK_TOO_LONG || number == ER_QUERY_INTERRUPTED;
    if (!cut_short && (status == SEMEL_ECONFLICT || status == SEMEL_EBUSY ||
                       status == SEMEL_EUNAVAILABLE || status == SEMEL_ENOMEM))
        return status;
    if (err) {
        err->status = SEMEL_EHANDLER;
        err->retryable = 1;
    }
    return SEMEL_EHANDLER;
}

/* A statement failed behind, or in, one that might have ended the transaction. */
static int is_doubtful(const mariadb_unit *unit, const maria_failure *failed)
{
    return unit->watched && failed->at >= unit->guard_at && failed->kind != STEP_GUARD &&
           !failed->unknown && !unit->on->lost && !maria_is_conflict(failed->number);
}

/* What the failure of something that was put off means. */
static semel_status explain_failure(mariadb_unit *unit, semel_status status, maria_failure *failed,
                                    semel_error *err)
{
    if (failed->kind == STEP_BLOCK && !failed->unknown && unit->assumed) {
        int settled;
        status = maria_assumed_failed(unit, status, failed, &settled, err);
        if (settled)
            return status;
    }
    semel_error why = *err;
    if (is_doubtful(unit, failed) && maria_look_for_guard(unit, err))
        return SEMEL_EMISUSE;
    if (failed->kind == STEP_BLOCK && !failed->unknown && !maria_is_conflict(failed->number))
        (void)maria_compound_locate_failure(unit, failed, err);
    *err = why;
    if (failed->unknown) {
        return semel_fail(err, SEMEL_EUNKNOWN,
                          "%s; the COMMIT may have taken place: receive the message again",
                          why.text);
    }
    switch (failed->kind) {
    case STEP_ASSUME:
        return maria_assumed_answer(unit, failed, status, err);
    case STEP_QUEUED:
        return blame_handler(status, failed->number, err);
    case STEP_GUARD:
        return failed->number == ER_SP_DOES_NOT_EXIST ? maria_ended_inside(unit, err) : status;
    case STEP_EXPECT:
        return failed->number == ER_DATA_OUT_OF_RANGE
                   ? semel_fail(err, SEMEL_ELOST,
                                "a row is not as this unit left it: another client changed it")
                   : status;
    default:
        return status;
    }
}

void maria_unit_begin_anew(mariadb_unit *unit)
{
    unit->guarded = 0;
    unit->begun = 0;
    unit->moded = 0;
}

/* Flushes the statements that were put off, before the commit. */
static semel_status flush_now(mariadb_unit *unit, semel_error *err)
{
    maria_failure failed;
    semel_error local;
    semel_error *why = err ? err : &local;
    semel_status status =
        maria_unit_flush(unit, &failed, "running statements ahead of the commit", why);
    return status ? explain_failure(unit, status, &failed, why) : SEMEL_OK;
}

semel_status maria_unit_begin_alone(mariadb_unit *unit, semel_error *err)
{
    begin_unit(unit);
    return flush_now(unit, err);
}

semel_status maria_unit_make_room(mariadb_unit *unit, size_t bytes, semel_error *err)
{
    maria_connection *on = unit->on;
    if (bytes > on->text_max)
        return semel_fail(err, SEMEL_ELIMIT,
                          "mariadb: a statement of %zu bytes; the server's max_allowed_packet lets "
                          "through about %zu: raise it",
                          bytes, on->text_max);
    if (on->out.text.len + bytes <= on->text_max)
        return SEMEL_OK;
    return flush_now(unit, err);
}

/* --- the handler's part ----------------------------------------------------------------------- */

static semel_status prepare_handler(mariadb_unit *unit, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (!unit->sent || !is_in_transaction(unit)) { /* which a START TRANSACTION would end */
        if (unit->on->out.count > (size_t)unit->moded)
            status = flush_now(unit, err);
        if (status)
            return status;
        enqueue_plain(unit, ST_START);
    }
    maria_unit_guard(unit);
    if (unit->item == ITEM_WANTED) {
        enqueue_plain(unit, ST_ITEM);
        unit->item = ITEM_SET;
    }
    return flush_now(unit, err);
}

/* From here on the handler uses the connection. The commit reports what went wrong here; until then
 * nothing that the handler does is committed by itself. */
void *mariadb_native(void *unit_state)
{
    mariadb_unit *unit = unit_state;
    if (!unit->trouble)
        unit->trouble = prepare_handler(unit, &unit->trouble_is);
    unit->shared = 1;
    return unit->on->my;
}

/* MariaDB does not tell whether a transaction has written: one that was in a handler's hands may
 * have. */
int mariadb_used(void *unit_state)
{
    const mariadb_unit *unit = unit_state;
    return unit->wrote || unit->shared;
}

/* --- ending ----------------------------------------------------------------------------------- */

static void leave_connection(mariadb_unit *unit, int usable)
{
    maria_connection *on = unit->on;
    maria_script_clear(&on->out);
    arena_reset(&on->scratch);
    if (unit->joined) {
        sql_joined_remove(&unit->place, &unit->store->joined, &unit->store->lock);
        maria_return(on);
    } else {
        pool_give(&unit->store->connections, on, usable && !on->lost && !unit->spoiled);
    }
}

/* Others may wait for the rows of a unit: when this returns they are free. One that has none need
 * not wait itself. */
static void roll_back(mariadb_unit *unit)
{
    maria_connection *on = unit->on;
    maria_script_clear(&on->out);
    unit->spoiled |= unit->shared && !on->lost && !maria_is_ready(on);
    if (on->lost || unit->spoiled) {
        leave_connection(unit, 0);
        return;
    }
    if (unit->joined) {
        maria_enqueue_plain(on, ST_JOIN_ROLLBACK);
        maria_enqueue_plain(on, ST_JOIN_RELEASE);
        (void)maria_flush(on, NULL, "rolling back", NULL); /* the caller's to notice */
    } else if (unit->sent && (unit->wrote || unit->locks || unit->shared)) {
        maria_enqueue_plain(on, ST_ROLLBACK);
        if (maria_flush(on, NULL, "rolling back", NULL))
            on->lost = 1;
    } else if (unit->sent) {
        maria_push_rollback(on);
    }
    leave_connection(unit, 1);
}

void mariadb_rollback(void *unit_state)
{
    roll_back(unit_state);
}

/* Before all that was put off, so that none of it is run outside of our transaction; but behind a
 * procedure that was called, and behind everything on a caller's connection, where it is the end of
 * the unit. */
static void enqueue_release(mariadb_unit *unit)
{
    maria_query q =
        maria_unit_enqueue(unit, unit->joined ? ST_JOIN_RELEASE : ST_GUARD_RELEASE, patient);
    maria_end(&q)->kind = STEP_GUARD;
    if (!unit->joined && !unit->watched)
        maria_script_rotate(&unit->on->out);
}

static semel_status commit_begun(mariadb_unit *unit, semel_error *err)
{
    maria_failure failed;
    maria_query q;
    if (unit->joined || (unit->guarded && (unit->shared || unit->watched)))
        enqueue_release(unit);
    if (!unit->joined) {
        q = maria_unit_enqueue(unit, ST_COMMIT, patient);
        maria_end(&q)->kind = STEP_COMMIT;
    }
    maria_compound(unit);
    semel_status status = maria_unit_flush(unit, &failed, "committing", err);
    if (!status && unit->assumed)
        maria_note_copy(unit->store, 0);
    return status ? explain_failure(unit, status, &failed, err) : SEMEL_OK;
}

/* A session that the server has ended while the handler worked is known to have committed nothing;
 * once the COMMIT is sent, that could not be known any more. */
static semel_status check_session(mariadb_unit *unit, semel_error *err)
{
    maria_connection *on = unit->on;
    if (!unit->sent || unit->joined || on->lost || on->owes || maria_is_alive(on))
        return SEMEL_OK;
    on->lost = 1;
    return semel_fail(err, SEMEL_EUNAVAILABLE,
                      "mariadb, committing: the server has ended the session (wait_timeout, "
                      "idle_transaction_timeout, or KILL)");
}

semel_status mariadb_commit(void *unit_state, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    semel_error local;
    semel_error *why = err ? err : &local;
    semel_status status = check_handler(unit, why);
    if (!status)
        status = check_session(unit, why);
    if (!status && (unit->begun || unit->joined))
        status = commit_begun(unit, why);
    if (status)
        roll_back(unit);
    else
        leave_connection(unit, 1);
    return status;
}

/* --- one message in a batch ------------------------------------------------------------------- */

/* Set only if the handler wants the connection: until then there is nothing to go back from. */
semel_status mariadb_savepoint(void *unit_state, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    (void)err;
    unit->item = ITEM_WANTED;
    unit->item_from = unit->on->out.count;
    return SEMEL_OK;
}

/* It is not released: the next one of the same name takes its place, and the COMMIT ends the
 * last. */
semel_status mariadb_keep(void *unit_state, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    semel_status status = unit->item == ITEM_SET ? check_handler(unit, err) : SEMEL_OK;
    if (!status)
        unit->item = ITEM_NONE;
    return status;
}

semel_status mariadb_undo(void *unit_state, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    maria_failure failed;
    maria_item_state was = unit->item;
    unit->item = ITEM_NONE;
    if (was == ITEM_WANTED)
        maria_script_keep(&unit->on->out, unit->item_from);
    if (was != ITEM_SET)
        return SEMEL_OK;
    semel_status status = check_handler(unit, err);
    if (status)
        return status;
    maria_script_clear(&unit->on->out);
    enqueue_plain(unit, ST_ITEM_ROLLBACK);
    status = maria_unit_flush(unit, &failed, "undoing one message", err);
    return status && failed.number == ER_SP_DOES_NOT_EXIST ? maria_ended_inside(unit, err) : status;
}
