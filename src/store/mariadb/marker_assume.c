/* Queued mode: a key that is assumed to be free, and all that depends on it, in one round trip.
 *
 * The marker is a plain INSERT, whose failure keeps the server from going on. On a connection of
 * our own all of it is one compound statement (compound.c). If that fails, one of its statements
 * did, and the answer does not name it:
 *   - a duplicate key: the marker's, if its row is there after a ROLLBACK; else it cannot be
 *     told whether it is one of the application's, or the marker of a unit whose commit cannot
 *     be seen yet: the message is received in the ordinary way, where the answer has a place;
 *   - a lock that was not to be had: then the message is received in the ordinary way, which
 *     waits;
 *   - anything else: all is sent once more, statement by statement, so that the answer has a
 *     place. Whatever happened the first time, the marker keeps it from happening twice. Where
 *     there have been several copies just now, the key is looked up first (marker_existing.c).
 *
 * The marker does not wait for other units: a unit that finds the key locked rejects the
 * message. */
#include "store/mariadb/mariadb.h"

#include <mysqld_error.h>
#include <string.h>

static const maria_bound impatient = {IMPATIENT, 0}, patient = {PATIENT, 0};

semel_status mariadb_assume(void *unit_state, semel_mark *mark, uint32_t wait_ms, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    int known = 0;
    (void)wait_ms;
    semel_status status = maria_look_first(unit, mark, &known, err);
    if (status)
        return status;
    if (known)
        return semel_fail(err, SEMEL_EREJECTED, "the key is not free");
    maria_query q = maria_unit_enqueue(unit, ST_ASSUME, impatient);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_mark_details(&q, mark);
    maria_end(&q)->kind = STEP_ASSUME;
    unit->assumed = mark;
    unit->kept = mark;
    unit->kept_count = 1;
    unit->wrote = unit->marked = 1;
    return SEMEL_OK;
}

/* --- the answer ------------------------------------------------------------------------------- */

static semel_status reject_key(mariadb_unit *unit, const sql_marker_row *found, semel_error *err)
{
    maria_note_copy(unit->store, 1);
    unit->assumed->state = (semel_mark_state)0;
    unit->assumed->held_until_ms = 0;
    if (found->found && !sql_marker_is_free(found))
        sql_marker_report(unit->assumed, found);
    return semel_fail(err, SEMEL_EREJECTED, "the key is not free");
}

static void enqueue_rollback(mariadb_unit *unit)
{
    maria_query q =
        maria_unit_enqueue(unit, unit->joined ? ST_JOIN_ROLLBACK : ST_ROLLBACK, patient);
    (void)maria_end(&q);
}

/* Nothing was done. What is there is looked at afresh, and then there is nothing left to roll
 * back. */
static semel_status look_again(mariadb_unit *unit, sql_marker_row *found, semel_error *err)
{
    enqueue_rollback(unit);
    maria_enqueue_look(found, unit, ST_LOOK, unit->assumed);
    enqueue_rollback(unit);
    semel_status status = maria_unit_flush(unit, NULL, "reading a marker", err);
    if (!status)
        unit->wrote = unit->locks = unit->sent = 0;
    return status;
}

/* The statement of the marker failed. */
semel_status maria_assumed_answer(mariadb_unit *unit, const maria_failure *failed,
                                  semel_status status, semel_error *err)
{
    sql_marker_row found = {0};
    if (maria_waited(failed))
        return reject_key(unit, &found, err);
    if (failed->number != ER_DUP_ENTRY)
        return status;
    status = look_again(unit, &found, err);
    return status ? status : reject_key(unit, &found, err);
}

/* A duplicate key somewhere in the block. */
static semel_status look_for_copy(mariadb_unit *unit, semel_error *err)
{
    sql_marker_row found = {0};
    semel_status status = look_again(unit, &found, err);
    if (status)
        return status;
    if (found.found)
        return reject_key(unit, &found, err);
    unit->assumed->state = (semel_mark_state)0;
    return semel_fail(err, SEMEL_EREJECTED, "something is there already, and not to be seen yet");
}

/* All of it again, as it was before it became a block. */
static semel_status repeat_one_by_one(mariadb_unit *unit, maria_failure *failed, semel_error *err)
{
    maria_connection *on = unit->on;
    maria_enqueue_plain(on, ST_ROLLBACK);
    semel_status status = maria_flush(on, NULL, "rolling back", err);
    if (status)
        return status;
    maria_compound_undo(unit);
    return maria_unit_flush(unit, failed, "committing", err);
}

/* The block failed. *settled is 1 if the outcome is known and `err` is final. It is 0 if the
 * statements were repeated one by one and one of them failed: *failed names it, and the caller
 * still has to explain the error. */
semel_status maria_assumed_failed(mariadb_unit *unit, semel_status status, maria_failure *failed,
                                  int *settled, semel_error *err)
{
    *settled = 1;
    if (maria_waited(failed))
        return reject_key(unit, &(sql_marker_row){0}, err);
    if (maria_is_conflict(failed->number))
        return status;
    if (failed->number == ER_DUP_ENTRY)
        return look_for_copy(unit, err);
    status = repeat_one_by_one(unit, failed, err);
    *settled = status == SEMEL_OK;
    return status;
}
