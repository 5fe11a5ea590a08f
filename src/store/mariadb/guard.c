/* Checks that the unit's transaction is still open. A handler that has the connection, or a
 * procedure that it calls or queues, may end it.
 *
 * The driver sets a savepoint before that can happen, and looks for it afterwards: it is gone if
 * anything has ended the transaction. Then the marker tells how. If the marker is there, what
 * the unit did until then is committed, and the core must not take what came after for a failure
 * that can be tried again. If it is not, nothing is committed: as a rule the server has undone
 * all of it by a deadlock, and the core begins anew.
 *
 * The savepoint is set behind the marker, in the same round trip, for every handler. Set when a
 * handler asks for the connection, it costs a round trip (6 to 9 % without a network); for a
 * handler that never asks it costs 5 %. */
#include "store/mariadb/mariadb.h"

#include <mysqld_error.h>

static const maria_bound patient = {PATIENT, 0};

/* Is a marker of this unit's to be seen, although what is open of it has been rolled back? */
static semel_status look_for_marker(int *committed, mariadb_unit *unit, semel_error *err)
{
    sql_marker_row found = {0};
    maria_connection *on = unit->on;
    const semel_mark *mark = unit->kept;
    for (size_t i = 0; i < unit->kept_count && unit->kept_count > 1; i++)
        if (unit->kept[i].state == SEMEL_MARK_TAKEN)
            mark = &unit->kept[i];
    maria_script_clear(&on->out);
    maria_enqueue_plain(on, ST_ROLLBACK);
    maria_enqueue_look(&found, unit, ST_LOOK, mark);
    maria_enqueue_plain(on, ST_ROLLBACK);
    semel_status status = maria_flush(on, NULL, "looking for the marker", err);
    *committed = found.found && found.state != STATE_OPEN;
    return status;
}

/* If nothing of the unit is committed, it may be begun anew: that a deadlock has undone it is all
 * that the server lets us see. A handler that rolls back itself does so each time, and is told in
 * the end. */
semel_status maria_ended_inside(mariadb_unit *unit, semel_error *err)
{
    int committed = 1;
    if (unit->kept && !unit->joined && !unit->spoiled && !unit->on->lost &&
        look_for_marker(&committed, unit, err))
        committed = 1;
    semel_fail(err, SEMEL_EMISUSE,
               committed ? "the transaction was ended inside the unit, by a COMMIT or a statement "
                           "that commits by the way (CREATE TABLE and the like) of the handler's: "
                           "what it did until then is committed, with the marker"
                         : "the transaction was undone inside the unit, by a ROLLBACK of the "
                           "handler's or by a deadlock that the handler ignored");
    if (err)
        err->retryable = !committed;
    return SEMEL_EMISUSE;
}

/* --- the savepoint ---------------------------------------------------------------------------- */

static void enqueue_check(mariadb_unit *unit)
{
    maria_query q = unit->joined ? maria_unit_enqueue_text(unit, "RELEASE SAVEPOINT semel_live")
                                 : maria_unit_enqueue(unit, ST_GUARD_RELEASE, patient);
    maria_end(&q)->kind = STEP_GUARD;
}

static void enqueue_guard(mariadb_unit *unit)
{
    maria_query q = unit->joined ? maria_unit_enqueue_text(unit, "SAVEPOINT semel_live")
                                 : maria_unit_enqueue(unit, ST_GUARD, patient);
    (void)maria_end(&q);
}

void maria_unit_guard(mariadb_unit *unit)
{
    if (!unit->joined && !unit->guarded) {
        maria_query q = maria_unit_enqueue(unit, ST_GUARD, patient);
        (void)maria_end(&q);
        unit->guard_at = unit->on->out.count;
    }
    unit->guarded = 1;
}

void maria_unit_watch(mariadb_unit *unit)
{
    maria_unit_guard(unit);
    unit->watched = 1;
}

void maria_unit_watched(mariadb_unit *unit)
{
    enqueue_check(unit);
    enqueue_guard(unit);
}

semel_status maria_look_for_guard(mariadb_unit *unit, semel_error *err)
{
    maria_failure failed;
    semel_error ignored;
    if (unit->spoiled || !maria_is_ready(unit->on))
        return SEMEL_OK; /* nothing of it will be committed: the connection is given up */
    maria_script_clear(&unit->on->out);
    enqueue_check(unit);
    enqueue_guard(unit);
    if (maria_flush(unit->on, &failed, "looking for the transaction", &ignored) &&
        failed.number == ER_SP_DOES_NOT_EXIST)
        return maria_ended_inside(unit, err);
    return SEMEL_OK;
}

/* The handler has failed. Why is told by its last statement, as a rule; whether the transaction is
 * still ours, by the savepoint. A message of a batch has one of its own: whether that is there is
 * seen when it is undone. */
semel_status mariadb_verify(void *unit_state, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    maria_connection *on = unit->on;
    unsigned number = mysql_errno(on->my);
    if (unit->joined || (!unit->shared && !on->lost))
        return SEMEL_OK;
    if (unit->trouble)
        return maria_unit_trouble(unit, err);
    if (on->lost || maria_is_lost(number)) {
        on->lost = 1;
        return semel_fail(err, SEMEL_EUNAVAILABLE,
                          "mariadb: the connection was lost in the handler's work (%u)", number);
    }
    if (maria_is_conflict(number) || number == ER_LOCK_WAIT_TIMEOUT)
        return maria_fail(on, "in the handler's work", err);
    return unit->item == ITEM_SET ? SEMEL_OK : maria_look_for_guard(unit, err);
}
