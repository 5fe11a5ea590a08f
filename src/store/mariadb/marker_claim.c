/* Claims, the ends of attempts, and what is kept with a key. Each arrow of the state machine in
 * <semel/sys/store.h> is a statement whose effect is checked: a row that was to change and did not
 * is an answer, never silence.
 *
 * A claim does not wait for locks: a row that another unit has locked is held, as one with a live
 * lease is. */
#include "store/mariadb/mariadb.h"

#include <mysqld_error.h>
#include <string.h>

static const maria_bound impatient = {IMPATIENT, 0}, patient = {PATIENT, 0};

/* A statement that must change one row, and otherwise means that the row is not as the caller
 * believes. */
static semel_status change_one(mariadb_unit *unit, maria_query *q, semel_status otherwise,
                               const char *doing, semel_error *err)
{
    maria_reply answer = {0};
    maria_end(q)->answer = &answer;
    semel_status status = maria_unit_flush(unit, NULL, doing, err);
    if (status)
        return status;
    unit->wrote |= answer.changed > 0;
    if (answer.changed == 1)
        return SEMEL_OK;
    return otherwise == SEMEL_ELOST
               ? semel_fail(err, SEMEL_ELOST,
                            "%s: the lease has ended, and the key is not ours any more", doing)
               : semel_fail(err, otherwise, "%s: the row has changed under our hands", doing);
}

/* --- claiming --------------------------------------------------------------------------------- */

static void write_lease(maria_query *q, uint32_t lease_ms)
{
    maria_uint_or_null(q, lease_ms); /* now + NULL is NULL */
}

static semel_status open_new(mariadb_unit *unit, const semel_mark *mark, uint32_t lease_ms,
                             maria_reply *answer, maria_failure *failed, semel_error *err)
{
    maria_query q = maria_unit_enqueue(unit, ST_CLAIM, impatient);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_mark_details(&q, mark);
    maria_uint(&q, mark->attempts);
    maria_uint_or_null(&q, mark->token);
    write_lease(&q, lease_ms);
    maria_end(&q)->answer = answer;
    return maria_unit_flush(unit, failed, "storing a claim", err);
}

static semel_status open_again(mariadb_unit *unit, const semel_mark *mark, uint32_t lease_ms,
                               semel_error *err)
{
    maria_query q = maria_unit_enqueue(unit, ST_REOPEN, patient);
    maria_mark_details(&q, mark);
    maria_uint(&q, mark->attempts);
    maria_uint_or_null(&q, mark->token);
    write_lease(&q, lease_ms);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    return change_one(unit, &q, SEMEL_ESTORE, "taking over a claim", err);
}

/* The row was there, and is locked by us now. */
static semel_status claim_known(mariadb_unit *unit, semel_mark *mark, semel_mark *taken,
                                uint32_t lease_ms, semel_error *err)
{
    sql_marker_row found;
    semel_status status = maria_look(&found, unit, ST_LOOK_LOCKED, mark, err);
    if (status)
        return status;
    if (!found.found)
        return semel_fail(err, SEMEL_ESTORE, "a marker is there and is not there");
    if (!sql_marker_is_free(&found)) {
        sql_marker_report(mark, &found);
        return SEMEL_OK;
    }
    if (found.attempts > mark->attempts)
        taken->attempts = found.attempts + 1;
    status = open_again(unit, taken, lease_ms, err);
    if (!status)
        *mark = *taken;
    return status;
}

semel_status mariadb_claim(void *unit_state, semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    maria_failure failed;
    maria_reply answer = {0};
    semel_mark taken = *mark;
    taken.attempts = mark->attempts + 1;
    taken.token = lease_ms ? sql_token_new(unit->store->seam) : 0;
    taken.state = SEMEL_MARK_TAKEN;
    semel_status status = open_new(unit, &taken, lease_ms, &answer, &failed, err);
    if (status)
        return maria_waited(&failed) ? maria_resolve_held(unit, &mark, 1, err) : status;
    if (answer.id != MARK_INSERTED)
        return maria_report_done(mark, answer.id) ? SEMEL_OK
                                                  : claim_known(unit, mark, &taken, lease_ms, err);
    unit->wrote = 1;
    *mark = taken;
    return SEMEL_OK;
}

/* --- with the token --------------------------------------------------------------------------- */

/* Put off, to go with the COMMIT, which does not take place if this changes no row. */
semel_status mariadb_finish(void *unit_state, const semel_mark *mark, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    (void)err;
    unit->kept = mark;
    unit->kept_count = 1;
    maria_query q = maria_unit_enqueue(unit, ST_FINISH, maria_patience(unit->store));
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_uint(&q, mark->token);
    (void)maria_end(&q);
    q = maria_unit_enqueue(unit, ST_EXPECT, patient);
    maria_int(&q, 1);
    maria_end(&q)->kind = STEP_EXPECT;
    unit->wrote = unit->finished = 1;
    return SEMEL_OK;
}

semel_status mariadb_renew(void *unit_state, const semel_mark *mark, uint32_t lease_ms,
                           semel_error *err)
{
    mariadb_unit *unit = unit_state;
    maria_query q = maria_unit_enqueue(unit, ST_RENEW, maria_patience(unit->store));
    maria_uint(&q, lease_ms);
    maria_uint(&q, lease_ms);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_uint(&q, mark->token);
    return change_one(unit, &q, SEMEL_ELOST, "renewing a claim", err);
}

static semel_status let_go(mariadb_unit *unit, const semel_mark *mark, int state, const char *why,
                           semel_error *err)
{
    maria_query q = maria_unit_enqueue(unit, ST_LET_GO, maria_patience(unit->store));
    maria_int(&q, state);
    maria_text(&q, why);
    maria_uint(&q, mark->attempts);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_uint(&q, mark->token);
    return change_one(unit, &q, SEMEL_ELOST, "ending a claim", err);
}

/* --- without one ------------------------------------------------------------------------------ */

static semel_status lost_to_another(semel_error *err)
{
    return semel_fail(err, SEMEL_ELOST,
                      "another copy has been handled or is being handled meanwhile");
}

static semel_status insert_failed(mariadb_unit *unit, const semel_mark *mark, int state,
                                  const char *why, maria_reply *answer, maria_failure *failed,
                                  semel_error *err)
{
    maria_query q = maria_unit_enqueue(unit, ST_FAILED, impatient);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_int(&q, state);
    maria_mark_details(&q, mark);
    maria_uint(&q, mark->attempts);
    maria_text(&q, why);
    maria_end(&q)->answer = answer;
    return maria_unit_flush(unit, failed, "storing a failed attempt", err);
}

/* The row is this unit's if this unit has marked it; any unit may use a row that is free. */
static semel_status change_known(mariadb_unit *unit, const semel_mark *mark, int state,
                                 const char *why, semel_error *err)
{
    sql_marker_row found;
    semel_status status = maria_look(&found, unit, ST_LOOK_LOCKED, mark, err);
    if (status)
        return status;
    if (!sql_marker_is_free(&found) && !(unit->marked && found.state == STATE_DONE))
        return lost_to_another(err);
    maria_query q = maria_unit_enqueue(unit, ST_SET_STATE, patient);
    maria_int(&q, state);
    maria_uint(&q, mark->attempts);
    maria_text(&q, why);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    (void)maria_end(&q);
    unit->wrote = 1;
    /* Locked, so it is there; nothing may have changed. */
    return maria_unit_flush(unit, NULL, "storing a failed attempt", err);
}

static semel_status set_state(mariadb_unit *unit, const semel_mark *mark, int state,
                              const char *why, semel_error *err)
{
    maria_failure failed;
    maria_reply answer = {0};
    if (mark->token)
        return let_go(unit, mark, state, why, err);
    semel_status status = insert_failed(unit, mark, state, why, &answer, &failed, err);
    if (status)
        return maria_waited(&failed) ? lost_to_another(err) : status;
    if (answer.id != MARK_INSERTED)
        return change_known(unit, mark, state, why, err);
    unit->wrote = 1;
    return SEMEL_OK;
}

static semel_status remove_row(maria_reply *answer, mariadb_unit *unit, const semel_mark *mark,
                               int dead_only, semel_error *err)
{
    maria_query q = maria_unit_enqueue(unit, ST_FORGET, maria_patience(unit->store));
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_int(&q, dead_only);
    maria_end(&q)->answer = answer;
    return maria_unit_flush(unit, NULL, "forgetting a key", err);
}

/* Without attempts there is nothing to remember: the row, which is this unit's now, goes. */
semel_status mariadb_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    maria_reply answer = {0};
    semel_status status = set_state(unit, mark, STATE_OPEN, why, err);
    if (status || mark->attempts)
        return status;
    status = remove_row(&answer, unit, mark, 0, err);
    return status || answer.changed ? status : lost_to_another(err);
}

semel_status mariadb_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    return set_state(unit, mark, STATE_DEAD, why, err);
}

/* --- forgetting ------------------------------------------------------------------------------- */

semel_status mariadb_forget(void *unit_state, const semel_mark *mark, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    sql_marker_row found;
    maria_reply answer = {0};
    semel_status status = remove_row(&answer, unit, mark, mark->state == SEMEL_MARK_DEAD, err);
    if (status || answer.changed) {
        unit->wrote = 1;
        return status;
    }
    status = maria_look(&found, unit, ST_LOOK_LOCKED, mark, err);
    if (status)
        return status;
    int held = found.found && (found.live || mark->state != SEMEL_MARK_DEAD);
    return held ? semel_fail(err, SEMEL_EBUSY, "the key is claimed right now")
                : semel_fail(err, SEMEL_ENOTFOUND, "the inbox does not know this key");
}

semel_status mariadb_letter_gone(void *unit_state, const semel_mark *mark, semel_error *err)
{
    mariadb_unit *unit = unit_state;
    maria_reply answer = {0};
    maria_query q = maria_unit_enqueue(unit, ST_LETTER_GONE, maria_patience(unit->store));
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_end(&q)->answer = &answer;
    semel_status status = maria_unit_flush(unit, NULL, "keeping a dead key", err);
    unit->wrote |= answer.changed > 0;
    return status || answer.changed ? status : sql_marker_not_dead(err);
}

/* --- results ---------------------------------------------------------------------------------- */

/* Put off. That the row is there is checked by a statement of its own, which fails if it is not. A
 * row that this unit has marked or made done has no result yet, so the number of changed rows
 * tells; in others it may be the same as before. */
semel_status mariadb_result_set(void *unit_state, const semel_mark *mark, semel_bytes result,
                                semel_error *err)
{
    enum { OTHER_TEXT = 2048 };
    mariadb_unit *unit = unit_state;
    semel_status status = maria_unit_make_room(unit, 2 * result.len + OTHER_TEXT, err);
    if (status)
        return status;
    maria_query q = maria_unit_enqueue(unit, ST_RESULT_SET, maria_patience(unit->store));
    maria_bytes(&q, result);
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    (void)maria_end(&q);
    int is_new = unit->marked || unit->finished;
    q = maria_unit_enqueue(unit, is_new ? ST_EXPECT : ST_RESULT_THERE, patient);
    maria_int(&q, is_new ? 1 : mark->inbox);
    if (!is_new)
        maria_bytes(&q, mark->key);
    maria_end(&q)->kind = STEP_EXPECT;
    unit->wrote = 1;
    return SEMEL_OK;
}

typedef struct found_result {
    void *copy;
    size_t len;
} found_result;

static semel_status copy_result(const maria_row *r, void *context, semel_error *err)
{
    found_result *out = context;
    return sql_result_copy(&out->copy, &out->len, maria_column_bytes(r, 0), err);
}

semel_status mariadb_result_get(void *unit_state, const semel_mark *mark, void **out, size_t *len,
                                semel_error *err)
{
    mariadb_unit *unit = unit_state;
    found_result found = {NULL, 0};
    maria_query q = maria_unit_enqueue(unit, ST_RESULT_GET, maria_patience(unit->store));
    maria_int(&q, mark->inbox);
    maria_bytes(&q, mark->key);
    maria_step *s = maria_end(&q);
    s->call = copy_result;
    s->context = &found;
    semel_status status = maria_unit_flush(unit, NULL, "reading a result", err);
    if (status) {
        mem_free(found.copy);
        return status;
    }
    *out = found.copy;
    *len = found.len;
    return SEMEL_OK;
}
