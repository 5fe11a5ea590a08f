/* Claims, failures and results: the other arrows of the state machine in <semel/sys/store.h>. Each
 * is one statement whose condition says again what is expected; no row changed is an answer.
 * Completing a claim and storing a result travel with the commit, which they stop if they find no
 * row. */
#include "store/postgres/postgres.h"

#include <string.h>

/* Adds the key; for statements whose $1 and $2 it is. */
static pg_query key_query(postgres_unit *unit, pg_statement which, const semel_mark *mark)
{
    pg_query q = pg_unit_query(unit, which);
    pg_int(&q, mark->inbox);
    pg_bytes(&q, mark->key);
    return q;
}

static semel_status fail_lost(const char *doing, semel_error *err)
{
    return semel_fail(err, SEMEL_ELOST, "%s: the lease has ended, and the key is not ours any more",
                      doing);
}

/* --- claiming --------------------------------------------------------------------------------- */

/* A unit that has not ended keeps the row locked; it is waited for a moment only: the core asks
 * again. The moment is not shorter because the server counts other waits, too: sessions that make
 * the table larger at once wait for each other, on a busy disk for longer than 20 ms, and the key
 * of none of them is held. */
enum { MOMENT_MS = 200 };

static semel_status report_known(postgres_unit *unit, semel_mark *mark, semel_error *err)
{
    sql_marker_row row;
    semel_status status = pg_marker_look(&row, unit, mark, err);
    if (status)
        return status;
    if (row.found && !sql_marker_is_free(&row)) {
        sql_marker_report(mark, &row);
        return SEMEL_OK;
    }
    return semel_fail(err, SEMEL_ECONFLICT, "a claim changes faster than it can be read");
}

static semel_status execute_claim(PGresult **answer, pg_failure *failed, postgres_unit *unit,
                                  const semel_mark *mark, uint64_t token, uint32_t lease_ms,
                                  semel_error *err)
{
    pg_unit_begin(unit);
    pg_unit_patience(unit, MOMENT_MS);
    pg_query q = pg_start(unit->on, ST_MARK_CLAIM);
    pg_int(&q, mark->inbox);
    pg_bytes(&q, mark->key);
    q.answer = answer;
    pg_int_or_null(&q, (int64_t)mark->fingerprint);
    pg_int(&q, mark->attempts);
    pg_int_or_null(&q, (int64_t)token);
    pg_int_or_null(&q, lease_ms);
    pg_mark_details(&q, mark);
    pg_enqueue(&q);
    return pg_flush(unit->on, 0, failed, "storing a claim", err);
}

semel_status postgres_claim(void *unit_state, semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    postgres_unit *unit = unit_state;
    pg_failure failed;
    PGresult *answer = NULL;
    uint64_t token = lease_ms ? sql_token_new(unit->store->seam) : 0;
    semel_status status = execute_claim(&answer, &failed, unit, mark, token, lease_ms, err);
    if (status && strcmp(failed.sqlstate, "55P03") == 0) {
        mark->state = SEMEL_MARK_HELD;
        mark->held_until_ms = 0;
        pg_unit_begin_anew(unit); /* a claim is alone in its unit */
        return pg_marker_check_table(unit, err);
    }
    if (status)
        return status;
    int taken = PQntuples(answer) == 1;
    if (taken) {
        mark->attempts = (uint32_t)pg_answer_int(answer, 0, 0);
        mark->token = token;
        mark->state = SEMEL_MARK_TAKEN;
    }
    PQclear(answer);
    return taken ? SEMEL_OK : report_known(unit, mark, err);
}

semel_status postgres_finish(void *unit_state, const semel_mark *mark, semel_error *err)
{
    (void)err;
    pg_query q = key_query(unit_state, ST_MARK_FINISH, mark);
    q.kind = STEP_HOLD;
    pg_int(&q, (int64_t)mark->token);
    pg_enqueue(&q);
    return SEMEL_OK;
}

semel_status postgres_renew(void *unit_state, const semel_mark *mark, uint32_t lease_ms,
                            semel_error *err)
{
    size_t changed = 0;
    pg_query q = key_query(unit_state, ST_MARK_RENEW, mark);
    pg_int(&q, (int64_t)mark->token);
    pg_int(&q, lease_ms);
    semel_status status = pg_execute_change(&q, &changed, "renewing a claim", err);
    return status || changed == 1 ? status : fail_lost("renewing a claim", err);
}

/* --- failing ---------------------------------------------------------------------------------- */

static semel_status let_go(postgres_unit *unit, const semel_mark *mark, int state, const char *why,
                           size_t *changed, semel_error *err)
{
    pg_query q = key_query(unit, ST_MARK_LET_GO, mark);
    pg_int(&q, (int64_t)mark->token);
    pg_int(&q, state);
    pg_foreign_text(&q, &unit->on->scratch, why);
    pg_int(&q, mark->attempts);
    return pg_execute_change(&q, changed, "ending a claim", err);
}

/* Without a token the row is this unit's if this unit has marked it; any unit may use a row that is
 * free or missing. */
static semel_status note_failure(postgres_unit *unit, const semel_mark *mark, int state,
                                 const char *why, size_t *changed, semel_error *err)
{
    pg_query q = key_query(unit, ST_MARK_STATE, mark);
    pg_int(&q, state);
    pg_int_or_null(&q, (int64_t)mark->fingerprint);
    pg_int(&q, mark->attempts);
    pg_foreign_text(&q, &unit->on->scratch, why);
    pg_int(&q, unit->marked);
    pg_mark_details(&q, mark);
    return pg_execute_change(&q, changed, "storing a failed attempt", err);
}

static semel_status set_state(postgres_unit *unit, const semel_mark *mark, int state,
                              const char *why, semel_error *err)
{
    size_t changed = 0;
    semel_status status = mark->token ? let_go(unit, mark, state, why, &changed, err)
                                      : note_failure(unit, mark, state, why, &changed, err);
    if (status || changed == 1)
        return status;
    return mark->token ? fail_lost("ending a claim", err)
                       : semel_fail(err, SEMEL_ELOST,
                                    "another copy has been handled or is being handled meanwhile");
}

static semel_status remove_row(size_t *changed, postgres_unit *unit, const semel_mark *mark,
                               int dead_only, semel_error *err)
{
    pg_query q = key_query(unit, ST_MARK_DELETE, mark);
    pg_int(&q, dead_only);
    return pg_execute_change(&q, changed, "forgetting a key", err);
}

/* Without attempts there is nothing to remember: the row, which is this unit's now, goes. */
semel_status postgres_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    size_t changed = 0;
    semel_status status = set_state(unit, mark, STATE_OPEN, why, err);
    if (status || mark->attempts)
        return status;
    status = remove_row(&changed, unit, mark, 0, err);
    return status || changed == 1 ? status : fail_lost("ending a claim", err);
}

semel_status postgres_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    return set_state(unit, mark, STATE_DEAD, why, err);
}

semel_status postgres_forget(void *unit_state, const semel_mark *mark, semel_error *err)
{
    postgres_unit *unit = unit_state;
    size_t changed = 0;
    sql_marker_row row;
    semel_status status = remove_row(&changed, unit, mark, mark->state == SEMEL_MARK_DEAD, err);
    if (status || changed == 1)
        return status;
    status = pg_marker_look(&row, unit, mark, err);
    if (status)
        return status;
    int claimed = row.found && (row.live || mark->state != SEMEL_MARK_DEAD);
    return claimed ? semel_fail(err, SEMEL_EBUSY, "the key is claimed right now")
                   : semel_fail(err, SEMEL_ENOTFOUND, "the inbox does not know this key");
}

semel_status postgres_letter_gone(void *unit, const semel_mark *mark, semel_error *err)
{
    size_t changed = 0;
    pg_query q = key_query(unit, ST_MARK_LETTER_GONE, mark);
    semel_status status = pg_execute_change(&q, &changed, "keeping a dead key", err);
    return status || changed ? status : sql_marker_not_dead(err);
}

/* --- results ---------------------------------------------------------------------------------- */

semel_status postgres_result_set(void *unit_state, const semel_mark *mark, semel_bytes result,
                                 semel_error *err)
{
    (void)err;
    pg_query q = key_query(unit_state, ST_RESULT_SET, mark);
    q.kind = STEP_HOLD;
    pg_bytes(&q, result);
    pg_enqueue(&q);
    return SEMEL_OK;
}

semel_status postgres_result_get(void *unit_state, const semel_mark *mark, void **out, size_t *len,
                                 semel_error *err)
{
    PGresult *answer = NULL;
    pg_query q = key_query(unit_state, ST_RESULT_GET, mark);
    semel_status status = pg_execute(&answer, &q, "reading a result", err);
    if (status)
        return status;
    semel_bytes found = PQntuples(answer) ? pg_answer_bytes(answer, 0, 0) : (semel_bytes){NULL, 0};
    status = sql_result_copy(out, len, found, err);
    PQclear(answer);
    return status;
}
