/* A unit: one transaction on one connection.
 *
 * Nothing waits that need not. BEGIN goes with the first statement, a message's savepoint is set
 * only if the handler wants the connection itself, and all that is put off goes with the COMMIT.
 * When the unit has nothing to keep, its ROLLBACK is sent, and the next user of the connection
 * reads the answer.
 *
 * If the process dies, the server rolls back. If the connection is lost before COMMIT was sent, it
 * does the same (EUNAVAILABLE); after that the driver cannot tell (EUNKNOWN), and the marker itself
 * is the answer: the message is received again. */
#include "store/postgres/postgres.h"

#include "store/sql/sql.h"

#include <semel/postgres.h>
#include <stdio.h>
#include <string.h>

/* --- after the handler ------------------------------------------------------------------------ */

/* What the handler left behind. */
static semel_status check_handler(const postgres_unit *unit, semel_error *err)
{
    pg_connection *on = unit->on;
    if (on->lost || PQstatus(on->pg) == CONNECTION_BAD) { /* a goodbye comes before the end */
        on->lost = 1;
        return pg_fail(on, NULL, "after the handler's work", err);
    }
    switch (PQtransactionStatus(on->pg)) {
    case PQTRANS_INTRANS:
        return SEMEL_OK;
    case PQTRANS_INERROR:
        if (on->conflict[0])
            return semel_fail(err, SEMEL_ECONFLICT,
                              "postgres: a conflict with another transaction (%s)", on->conflict);
        return semel_fail(err, unit->joined ? SEMEL_EMISUSE : SEMEL_EHANDLER,
                          "a statement of the handler's failed, and the handler went on as if it "
                          "had not: its transaction cannot be committed");
    case PQTRANS_IDLE:
        return semel_fail(err, SEMEL_EMISUSE,
                          "the transaction was ended inside the unit, by the handler's own COMMIT "
                          "or ROLLBACK");
    default:
        return semel_fail(err, SEMEL_EMISUSE,
                          "the handler left the connection in the middle of a command");
    }
}

/* The first statement of ours after the handler's: outside of a transaction it would commit by
 * itself, so if anything is wrong nothing more is sent. */
static void take_back(postgres_unit *unit)
{
    if (unit->shared && !unit->on->refusal && !unit->on->step_count)
        unit->on->refusal = check_handler(unit, &unit->on->refusal_is);
    unit->suspicious |= unit->shared && unit->on->ended;
    unit->shared = unit->joined; /* the caller goes on with its connection between any two calls */
}

/* --- beginning -------------------------------------------------------------------------------- */

semel_status postgres_begin(void *store_state, void *unit_state, semel_begin durability,
                            uint32_t wait_ms, semel_error *err)
{
    postgres_store *store = store_state;
    postgres_unit *unit = unit_state;
    void *taken = NULL;
    semel_status status = pool_take(&taken, &store->connections, wait_ms, err);
    if (status)
        return status;
    unit->store = store;
    unit->on = taken;
    unit->on->conflict[0] = 0;
    unit->on->last_error[0] = 0;
    unit->on->unreplicated = 0;
    unit->patience_ms = unit->on->session_ms;
    unit->durability = durability;
    return SEMEL_OK;
}

void pg_unit_begin(postgres_unit *unit)
{
    if (unit->begun)
        pg_connection_check(unit->on);
    take_back(unit);
    if (unit->begun)
        return;
    unit->begun = 1;
    if (unit->durability == SEMEL_BEGIN_RELAXED) {
        pg_begin_relaxed(unit->on);
        unit->patience_ms = unit->on->limits.busy_ms;
    } else {
        pg_enqueue_plain(unit->on, unit->store->at.isolation ? ST_BEGIN_ASKED : ST_BEGIN);
    }
}

/* On a caller's connection it lasts until the next answers are waited for: see
 * pg_connection_push(). */
void pg_unit_patience(postgres_unit *unit, uint32_t ms)
{
    pg_connection *on = unit->on;
    if (unit->joined && !on->bounded)
        unit->patience_ms = 0;
    if (unit->patience_ms == ms)
        return;
    pg_patience_ms(on, ms);
    unit->patience_ms = ms;
    on->bounded = unit->joined;
}

void pg_unit_begin_anew(postgres_unit *unit)
{
    pg_enqueue_plain(unit->on, ST_ROLLBACK);
    unit->begun = 0;
    unit->began_us = 0;
    unit->number = 0;
    unit->patience_ms = unit->on->session_ms;
}

pg_query pg_unit_query(postgres_unit *unit, pg_statement which)
{
    pg_unit_begin(unit);
    pg_unit_patience(unit, unit->on->limits.busy_ms);
    unit->leased = 0;
    return pg_start(unit->on, which);
}

void pg_unit_enqueue_began(postgres_unit *unit, PGresult **answer)
{
    pg_unit_begin(unit);
    pg_query q = pg_start(unit->on, ST_BEGAN);
    q.answer = answer;
    pg_enqueue(&q);
}

void pg_unit_note_began(postgres_unit *unit, const PGresult *answer)
{
    unit->began_us = pg_answer_int(answer, 0, 0);
    unit->number = (uint64_t)pg_answer_int(answer, 0, 1);
}

/* --- the handler's part ----------------------------------------------------------------------- */

/* From here on the application speaks on the connection: everything sent is answered first, the
 * transaction is open, and we know it by the moment at which it began. */
void *postgres_native(void *unit_state)
{
    postgres_unit *unit = unit_state;
    pg_connection *on = unit->on;
    PGresult *began = NULL;
    pg_unit_begin(unit);
    pg_unit_patience(
        unit, on->limits.busy_ms); /* of the handler's statements, too: every wait has an end */
    if (!unit->began_us)
        pg_unit_enqueue_began(unit, &began);
    if (unit->savepoint == SAVEPOINT_WANTED) {
        pg_enqueue_plain(on, ST_SAVEPOINT);
        unit->savepoint = SAVEPOINT_SET;
    }
    if (!on->refusal && on->step_count)
        on->refusal = pg_flush(on, 0, NULL, "before the handler's work", &on->refusal_is);
    if (began)
        pg_unit_note_began(unit, began);
    PQclear(began);
    if (!on->refusal)
        on->refusal = pg_connection_leave_pipeline(on, &on->refusal_is);
    unit->shared = 1;
    on->ended = 0;
    on->conflict[0] = 0;
    on->last_error[0] = 0;
    return on->refusal ? NULL : on->pg;
}

struct pg_conn *semel_unit_postgres(semel_unit *unit)
{
    return semel_unit_native(unit, "postgres");
}

/* --- after a failure -------------------------------------------------------------------------- */

/* Is what the unit wrote committed? Whatever is open is rolled back first: the handler has
 * failed. */
static semel_status look_up_committed(int *out, postgres_unit *unit, semel_error *err)
{
    char number[24];
    PGresult *answer = NULL;
    pg_connection *on = unit->on;
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)unit->number);
    unit->shared = 0;
    on->refusal = SEMEL_OK; /* it was there to keep our statements from running by themselves */
    if (PQtransactionStatus(on->pg) != PQTRANS_IDLE)
        pg_enqueue_plain(on, ST_ROLLBACK);
    pg_query q = pg_start(on, ST_COMMITTED);
    pg_text(&q, number);
    semel_status status = pg_execute(&answer, &q, "looking for the transaction", err);
    if (!status)
        *out = (int)pg_answer_int(answer, 0, 0);
    PQclear(answer);
    return status;
}

/* The handler has ended a transaction, or rolled back to a savepoint. A message of a batch has a
 * savepoint of ours: whether that is there is seen when it is undone. */
static semel_status verify_ended(postgres_unit *unit, semel_error *err)
{
    int committed = unit->number == 0;
    PGTransactionStatusType left = PQtransactionStatus(unit->on->pg);
    if (unit->savepoint == SAVEPOINT_SET && left != PQTRANS_IDLE)
        return SEMEL_OK;
    if (left == PQTRANS_ACTIVE)
        return check_handler(unit, err);
    semel_status status = unit->number ? look_up_committed(&committed, unit, err) : SEMEL_OK;
    if (status || !committed)
        return status;
    return semel_fail(err, SEMEL_EMISUSE,
                      "the handler failed, but had ended the transaction by a COMMIT of its own: "
                      "the first part of its work is committed, with the marker");
}

semel_status postgres_verify(void *unit_state, semel_error *err)
{
    postgres_unit *unit = unit_state;
    pg_connection *on = unit->on;
    if (unit->joined)
        return SEMEL_OK;
    if (on->conflict[0])
        return semel_fail(err, SEMEL_ECONFLICT,
                          "postgres: a conflict with another transaction (%s)", on->conflict);
    if (on->lost || PQstatus(on->pg) == CONNECTION_BAD) {
        on->lost = 1;
        return pg_fail(on, NULL, "in the handler's work", err);
    }
    if (unit->shared && PQtransactionStatus(on->pg) == PQTRANS_INERROR &&
        strcmp(on->last_error, "55P03") == 0)
        return semel_fail(err, SEMEL_EBUSY,
                          "postgres: a statement of the handler's waited too long for a lock "
                          "(lock_timeout, which is busy_ms)");
    return unit->suspicious || (unit->shared && on->ended) ? verify_ended(unit, err) : SEMEL_OK;
}

/* What was written: a transaction that writes has a number. */
int postgres_used(void *unit_state)
{
    postgres_unit *unit = unit_state;
    PGresult *answer = NULL;
    if (!unit->begun || unit->leased)
        return unit->leased > 0;
    pg_query q = pg_unit_query(unit, ST_WRITTEN);
    if (pg_execute(&answer, &q, "looking for writes", NULL))
        return 1;
    int used = (int)pg_answer_int(answer, 0, 0);
    PQclear(answer);
    return used;
}

/* What is on its way does not happen. The ordinary way has a BEGIN, inside which nothing can commit
 * by itself. */
static void stop_implicit(postgres_unit *unit)
{
    pg_query q = pg_start(unit->on, ST_STOP);
    q.kind = STEP_STOP;
    pg_int(&q, 0);
    pg_enqueue(&q);
}

semel_status postgres_queue(void *unit_state, const char *sql, const semel_value values[],
                            size_t count, semel_error *err)
{
    postgres_unit *unit = unit_state;
    const char *text = NULL;
    semel_status status = sql_translate(&text, &unit->on->scratch, SQL_POSTGRES, sql, count, err);
    if (status)
        return status;
    pg_unit_begin(unit);
    if (unit->implicit && !sql_only_changes_rows(text))
        stop_implicit(unit);
    if (!unit->implicit)
        pg_unit_patience(unit, unit->on->limits.busy_ms);
    return pg_enqueue_queued(unit->on, text, values, count, &unit->on->scratch, err);
}

/* --- ending ----------------------------------------------------------------------------------- */

static void leave_connection(postgres_unit *unit, int usable)
{
    arena_reset(&unit->on->scratch);
    pg_connection_push(
        unit->on); /* what is on its way must not stand or fall with the next unit's */
    unit->on->stale = unit->on->step_count;
    if (unit->joined) {
        sql_joined_remove(&unit->place, &unit->store->joined, &unit->store->lock);
        pg_connection_return(unit->on);
    } else
        pool_give(&unit->store->connections, unit->on, usable && !unit->on->lost);
}

/* A connection on which a handler left a COPY or half-read rows is not worth saving. */
static int can_roll_back(const postgres_unit *unit)
{
    PGTransactionStatusType status = PQtransactionStatus(unit->on->pg);
    return status != PQTRANS_UNKNOWN && (status != PQTRANS_ACTIVE || unit->on->step_count);
}

static void roll_back(postgres_unit *unit)
{
    int usable = can_roll_back(unit);
    unit->on->refusal = SEMEL_OK;
    if (unit->implicit && unit->on->unsynced) {
        stop_implicit(unit); /* or the sync would commit it */
        pg_connection_push(unit->on);
    } else if (usable && unit->joined) {
        pg_enqueue_plain(unit->on, ST_ROLLBACK_TO);
        pg_enqueue_plain(unit->on, ST_RELEASE);
        (void)pg_flush(unit->on, 0, NULL, "rolling back", NULL); /* the caller's to notice */
    } else if (usable && unit->begun &&
               (unit->on->step_count || PQtransactionStatus(unit->on->pg) != PQTRANS_IDLE)) {
        pg_connection_push(unit->on); /* a failure before must not take the ROLLBACK with it */
        pg_enqueue_plain(unit->on, ST_ROLLBACK);
        if (!unit->only_looked ||
            unit->shared) /* others may want its rows: when this returns they are free */
            (void)pg_flush(unit->on, 0, NULL, "rolling back", NULL);
    }
    leave_connection(unit, usable);
}

void postgres_rollback(void *unit_state)
{
    roll_back(unit_state);
}

static int is_committing(const pg_failure *failed)
{
    return failed->kind == STEP_COMMIT || failed->kind == STEP_SYNC;
}

/* A queued statement; or at the COMMIT itself a constraint or trigger of the application's that was
 * deferred until then, and has any SQLSTATE that its author chose: semel itself defers none. */
static int is_applications_fault(const postgres_unit *unit, const pg_failure *failed,
                                 semel_status status)
{
    int timed_out = strcmp(failed->sqlstate, "57014") == 0; /* the server's statement_timeout */
    int at_commit = is_committing(failed) && !failed->is_final && !unit->joined;
    if (failed->which != ST_APPLICATIONS && !at_commit)
        return 0;
    return timed_out || (status != SEMEL_ECONFLICT && status != SEMEL_EBUSY &&
                         status != SEMEL_EUNAVAILABLE && status != SEMEL_ENOMEM);
}

/* Has the server told that there is no commit? An error does: it has undone the transaction. A
 * session that ends in the middle of a COMMIT does not, unless it ended because it had been idle. A
 * pooler that has lost the server says so in place of whichever answer comes next: the COMMIT
 * behind it may have happened. */
static int is_told(const postgres_unit *unit, const pg_failure *failed)
{
    if (!failed->sqlstate[0])
        return 0;
    if (!failed->is_final || strcmp(failed->sqlstate, "25P03") == 0)
        return 1;
    return !is_committing(failed) && unit->store->direct;
}

/* Why the pipeline with the COMMIT in it came to nothing. */
static semel_status commit_failed(postgres_unit *unit, int was_lost, semel_status status,
                                  const pg_failure *failed, const semel_error *why,
                                  semel_error *err)
{
    if (unit->on->lost && !was_lost && !is_told(unit, failed))
        return semel_fail(err, SEMEL_EUNKNOWN,
                          "the connection was lost while committing (%s): receive the message "
                          "again, and the store will know",
                          why->text);
    if (failed->kind == STEP_ASSUME || failed->kind == STEP_STOP)
        return pg_assumed_answer(unit, failed, err);
    int held = failed->kind == STEP_HOLD && strcmp(failed->sqlstate, "22012") == 0;
    if ((failed->kind == STEP_GUARD && strcmp(failed->sqlstate, "22012") == 0) ||
        (held && unit->suspicious)) /* a handler that had the connection had no lease */
        return semel_fail(err, SEMEL_EMISUSE,
                          "the transaction was ended inside the unit, by the handler's own COMMIT "
                          "or ROLLBACK, and another one begun");
    if (held)
        return semel_fail(err, SEMEL_ELOST,
                          "completing: the lease has ended, and the key is not ours any more");
    if (err)
        *err = *why;
    if (!is_applications_fault(unit, failed, status))
        return status;
    if (err) {
        err->status = SEMEL_EHANDLER;
        err->retryable = 1;
    }
    return SEMEL_EHANDLER;
}

static void enqueue_guard(postgres_unit *unit)
{
    pg_query q = pg_start(unit->on, ST_GUARD);
    q.kind = STEP_GUARD;
    pg_time(&q, unit->began_us);
    pg_enqueue(&q);
}

static void enqueue_commit(postgres_unit *unit, PGresult **answer)
{
    pg_query q = pg_start(unit->on, unit->joined ? ST_RELEASE : ST_COMMIT);
    q.kind = STEP_COMMIT;
    q.answer = answer;
    pg_enqueue(&q);
}

/* COMMIT of a failed transaction succeeds as a ROLLBACK, says the protocol's tag. */
static int is_committed(const postgres_unit *unit, PGresult *answer)
{
    return unit->joined || strcmp(PQcmdStatus(answer), "COMMIT") == 0;
}

static semel_status commit_begun(postgres_unit *unit, semel_error *err)
{
    pg_failure failed;
    semel_error why = {0};
    PGresult *answer = NULL;
    if (unit->suspicious && unit->began_us)
        enqueue_guard(unit);
    int was_lost = unit->on->lost; /* then it is not even sent */
    if (!unit->implicit)
        enqueue_commit(unit, &answer);
    semel_status status = pg_flush(unit->on, unit->assumed_wait_ms, &failed, "committing", &why);
    if (status && !answer)
        status = commit_failed(unit, was_lost, status, &failed, &why, err);
    else if (unit->on->unreplicated)
        status = semel_fail(err, SEMEL_EUNKNOWN,
                            "committed, but the wait for the synchronous standby was cut short: if "
                            "this server is lost, so may be the commit");
    else if (unit->implicit || is_committed(unit, answer))
        status = SEMEL_OK;
    else
        status = semel_fail(err, SEMEL_EMISUSE, "the transaction had failed before its COMMIT");
    PQclear(answer);
    return status;
}

semel_status postgres_commit(void *unit_state, semel_error *err)
{
    postgres_unit *unit = unit_state;
    if (unit->begun)
        pg_connection_check(
            unit->on); /* a session that has ended is known to have committed nothing */
    take_back(unit);
    semel_status status = unit->begun ? commit_begun(unit, err) : SEMEL_OK;
    if (status) {
        roll_back(unit);
        return status;
    }
    if (unit->captured && unit->store->at.notify && !unit->joined)
        pg_notify_after_commit(unit->store, unit->on);
    leave_connection(unit, 1);
    return SEMEL_OK;
}

/* --- savepoints ------------------------------------------------------------------------------- */

semel_status postgres_savepoint(void *unit_state, semel_error *err)
{
    postgres_unit *unit = unit_state;
    (void)err;
    unit->savepoint = SAVEPOINT_WANTED;
    return SEMEL_OK;
}

/* The answer can wait, unless the handler has used the connection: then the driver must know
 * whether one of the handler's statements has failed. */
semel_status postgres_keep(void *unit_state, semel_error *err)
{
    postgres_unit *unit = unit_state;
    if (unit->savepoint == SAVEPOINT_SET) {
        take_back(unit);
        if (unit->on->refusal)
            return pg_flush(unit->on, 0, NULL, "keeping a message's work", err);
        pg_enqueue_plain(unit->on, ST_RELEASE);
    }
    unit->savepoint = SAVEPOINT_NONE;
    return SEMEL_OK;
}

semel_status postgres_undo(void *unit_state, semel_error *err)
{
    postgres_unit *unit = unit_state;
    pg_savepoint_state was = unit->savepoint;
    unit->savepoint = SAVEPOINT_NONE;
    if (was != SAVEPOINT_SET)
        return SEMEL_OK;
    unit->shared = 0;
    unit->patience_ms = 0; /* it may have been said behind the savepoint */
    unit->on->refusal = SEMEL_OK;
    PGTransactionStatusType left = PQtransactionStatus(unit->on->pg);
    if (unit->on->step_count == 0 && left != PQTRANS_INTRANS && left != PQTRANS_INERROR)
        return check_handler(unit, err);
    pg_enqueue_plain(unit->on, ST_ROLLBACK_TO);
    pg_enqueue_plain(unit->on, ST_RELEASE);
    return pg_flush(unit->on, 0, NULL, "undoing to a savepoint", err);
}
