/* Markers in claim mode, failed attempts, and results. See marker.c. */
#include "store/sqlite/sqlite.h"

static int64_t lease_end(int64_t now, uint32_t lease_ms)
{
    return lease_ms ? now + lease_ms : 0;
}

static semel_status open_new(sqlite_unit *unit, const semel_mark *mark, uint32_t lease_ms,
                             semel_error *err)
{
    int64_t now = sqlite_clock_now(unit->store);
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_OPEN);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    sqlite_query_int(&q, now);
    sqlite_marker_details(&q, mark);
    sqlite_query_int(&q, mark->attempts);
    sqlite_query_int_or_null(&q, (int64_t)mark->token);
    sqlite_query_int_or_null(&q, lease_end(now, lease_ms));
    return sqlite_query_run(&q, NULL, "storing a claim", err);
}

static semel_status open_again(sqlite_unit *unit, const semel_mark *mark, uint32_t lease_ms,
                               semel_error *err)
{
    int64_t now = sqlite_clock_now(unit->store);
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_REOPEN);
    sqlite_query_int(&q, now);
    sqlite_marker_details(&q, mark);
    sqlite_query_int(&q, mark->attempts);
    sqlite_query_int_or_null(&q, (int64_t)mark->token);
    sqlite_query_int_or_null(&q, lease_end(now, lease_ms));
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    return sqlite_marker_change(&q, SEMEL_ESTORE, "taking over a claim", err);
}

/* What is about to be reported is committed: see sqlite_mark(). */
static semel_status read_settled(sql_marker_row *out, sqlite_unit *unit, const semel_mark *mark,
                                 semel_error *err)
{
    int has_written = sqlite_used(unit);
    semel_status status = sqlite_marker_read(out, unit, mark, err);
    if (status || !out->found || sql_marker_is_free(out) || !sqlite_share_is_unsettled(unit, out))
        return status;
    status = sqlite_share_settle_others(unit, has_written, err);
    return status ? status : sqlite_marker_read(out, unit, mark, err);
}

semel_status sqlite_claim(void *unit_state, semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    sql_marker_row found;
    semel_status status = read_settled(&found, unit, mark, err);
    if (status)
        return status;
    if (found.found && !sql_marker_is_free(&found)) {
        sql_marker_report(mark, &found);
        return SEMEL_OK;
    }
    semel_mark taken = *mark;
    taken.attempts = (found.attempts > mark->attempts ? found.attempts : mark->attempts) + 1;
    taken.token = lease_ms ? sql_token_new(unit->store->seam) : 0;
    taken.state = SEMEL_MARK_TAKEN;
    status = found.found ? open_again(unit, &taken, lease_ms, err)
                         : open_new(unit, &taken, lease_ms, err);
    if (!status)
        *mark = taken;
    return status;
}

semel_status sqlite_finish(void *unit_state, const semel_mark *mark, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int64_t now = sqlite_clock_now(unit->store);
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_FINISH);
    sqlite_query_int(&q, now);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    sqlite_query_int(&q, (int64_t)mark->token);
    sqlite_query_int(&q, now);
    return sqlite_marker_change(&q, SEMEL_ELOST, "completing a claim", err);
}

semel_status sqlite_renew(void *unit_state, const semel_mark *mark, uint32_t lease_ms,
                          semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int64_t now = sqlite_clock_now(unit->store);
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_RENEW);
    sqlite_query_int(&q, now + lease_ms);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    sqlite_query_int(&q, (int64_t)mark->token);
    sqlite_query_int(&q, now);
    return sqlite_marker_change(&q, SEMEL_ELOST, "renewing a claim", err);
}

/* --- failing ---------------------------------------------------------------------------------- */

static semel_status let_go(sqlite_unit *unit, const semel_mark *mark, int state, const char *why,
                           semel_error *err)
{
    int64_t now = sqlite_clock_now(unit->store);
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_LET_GO);
    sqlite_query_int(&q, state);
    sqlite_query_int(&q, now);
    sqlite_query_text(&q, why);
    sqlite_query_int(&q, mark->attempts);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    sqlite_query_int(&q, (int64_t)mark->token);
    sqlite_query_int(&q, now);
    return sqlite_marker_change(&q, SEMEL_ELOST, "ending a claim", err);
}

/* Without a token the row is this unit's if this unit has marked it; any unit may use a row that is
 * free or missing. */
static semel_status check_ours(sqlite_unit *unit, const semel_mark *mark, semel_error *err)
{
    sql_marker_row found;
    semel_status status = sqlite_marker_read(&found, unit, mark, err);
    if (status || !found.found || sql_marker_is_free(&found) ||
        (unit->marked && found.state == STATE_DONE))
        return status;
    return semel_fail(err, SEMEL_ELOST,
                      "another copy has been handled or is being handled meanwhile");
}

static semel_status set_state(sqlite_unit *unit, const semel_mark *mark, int state, const char *why,
                              semel_error *err)
{
    if (mark->token)
        return let_go(unit, mark, state, why, err);
    semel_status status = check_ours(unit, mark, err);
    if (status)
        return status;
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_STATE);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    sqlite_query_int(&q, state);
    sqlite_query_int(&q, sqlite_clock_now(unit->store));
    sqlite_marker_details(&q, mark);
    sqlite_query_int(&q, mark->attempts);
    sqlite_query_text(&q, why);
    return sqlite_marker_change(&q, SEMEL_ESTORE, "storing a failed attempt", err);
}

static semel_status remove_row(sqlite_unit *unit, const semel_mark *mark, semel_error *err)
{
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_DELETE);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    return sqlite_marker_change(&q, SEMEL_ESTORE, "forgetting a key", err);
}

/* Without attempts there is nothing to remember: the row, which is this unit's now, goes. */
semel_status sqlite_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    semel_status status = set_state(unit, mark, STATE_OPEN, why, err);
    return status || mark->attempts ? status : remove_row(unit, mark, err);
}

semel_status sqlite_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    return set_state(unit, mark, STATE_DEAD, why, err);
}

semel_status sqlite_forget(void *unit_state, const semel_mark *mark, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    sql_marker_row found;
    semel_status status = sqlite_marker_read(&found, unit, mark, err);
    if (status)
        return status;
    if (!found.found || (mark->state == SEMEL_MARK_DEAD && found.state != STATE_DEAD))
        return semel_fail(err, SEMEL_ENOTFOUND, "the inbox does not know this key");
    if (found.live)
        return semel_fail(err, SEMEL_EBUSY, "the key is claimed right now");
    return remove_row(unit, mark, err);
}

semel_status sqlite_letter_gone(void *unit_state, const semel_mark *mark, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int changed = 0;
    sqlite_query q = sqlite_query_start(unit->on, ST_MARK_LETTER_GONE);
    sqlite_query_int(&q, sqlite_clock_now(unit->store));
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    semel_status status = sqlite_query_run(&q, &changed, "keeping a dead key", err);
    return status || changed ? status : sql_marker_not_dead(err);
}

/* --- results ---------------------------------------------------------------------------------- */

semel_status sqlite_result_set(void *unit_state, const semel_mark *mark, semel_bytes result,
                               semel_error *err)
{
    sqlite_unit *unit = unit_state;
    sqlite_query q = sqlite_query_start(unit->on, ST_RESULT_SET);
    sqlite_query_bytes(&q, result);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    return sqlite_marker_change(&q, SEMEL_ELOST, "storing a result", err);
}

semel_status sqlite_result_get(void *unit_state, const semel_mark *mark, void **out, size_t *len,
                               semel_error *err)
{
    sqlite_unit *unit = unit_state;
    sqlite_query q = sqlite_query_start(unit->on, ST_RESULT_GET);
    sqlite_query_int(&q, mark->inbox);
    sqlite_query_bytes(&q, mark->key);
    int got = sqlite_query_row(&q, "reading a result", err);
    if (got < 0)
        return q.status;
    semel_bytes found = got ? sqlite_row_bytes(&q, 0) : (semel_bytes){NULL, 0};
    semel_status status = sql_result_copy(out, len, found, err);
    sqlite_query_end(&q);
    return status;
}
