/* Markers. The state machine is the one in <semel/sys/store.h>; each arrow is a statement whose effect is
 * checked. Everything here happens inside BEGIN IMMEDIATE, so what was read cannot change before it is
 * written; the conditions in the UPDATEs say again what is expected, and zero changed rows is an answer. */
#include "store/sqlite/sqlite.h"

#include <string.h>

enum { STATE_DONE = 0, STATE_OPEN = 1, STATE_DEAD = 2 };

typedef struct row {
    int found;
    int state;
    int live;
    uint32_t attempts;
    uint64_t fingerprint;
    int64_t lease_until_ms;
} row;

uint64_t token_new(const sqlite_store *store)
{
    uint64_t token;
    do
        token = seam_random(store->seam) >> 1; /* SQLite's integers are signed */
    while (!token);
    return token;
}

static semel_status row_read(row *out, sqlite_unit *unit, const semel_mark *mark, semel_error *err)
{
    query q = query_start(unit->on, ST_MARK_READ);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    int got = query_row(&q, "reading a marker", err);
    *out = (row){.found = got > 0};
    if (got < 0)
        return q.status;
    if (!got)
        return SEMEL_OK;
    out->state = (int)column_int(&q, 0);
    out->fingerprint = (uint64_t)column_int(&q, 1);
    out->attempts = (uint32_t)column_int(&q, 2);
    out->lease_until_ms = column_int(&q, 4);
    out->live = !column_is_null(&q, 3) && out->lease_until_ms > clock_now(unit->store);
    query_end(&q);
    return SEMEL_OK;
}

/* A row that is not free: what it is. */
static void report(semel_mark *mark, const row *found)
{
    mark->known_fingerprint = found->fingerprint;
    mark->attempts = found->attempts;
    mark->held_until_ms = found->live ? found->lease_until_ms : 0;
    mark->state = found->state == STATE_DONE   ? SEMEL_MARK_DONE
                  : found->state == STATE_DEAD ? SEMEL_MARK_DEAD
                                               : SEMEL_MARK_HELD;
}

static int is_free(const row *found)
{
    return found->state == STATE_OPEN && !found->live;
}

/* A statement that must change one row, and otherwise means that the row is not as the caller believes. */
static semel_status change_one(query *q, semel_status otherwise, const char *doing,
                               semel_error *err)
{
    int changed = 0;
    semel_status status = query_run(q, &changed, doing, err);
    if (status || changed == 1)
        return status;
    return otherwise == SEMEL_ELOST
               ? semel_fail(err, SEMEL_ELOST,
                            "%s: the lease has ended, and the key is not ours any more", doing)
               : semel_fail(err, otherwise, "%s: the row has changed under our hands", doing);
}

semel_status sqlite_look(void *unit_state, semel_mark *mark, semel_error *err)
{
    row found;
    semel_status status = row_read(&found, unit_state, mark, err);
    if (status)
        return status;
    report(mark, &found);
    if (!found.found || is_free(&found))
        mark->state = SEMEL_MARK_FREE;
    return SEMEL_OK;
}

/* --- transaction mode --------------------------------------------------------------------------------- */

static semel_status take_over(sqlite_unit *unit, semel_mark *mark, const row *found,
                              semel_error *err)
{
    query q = query_start(unit->on, ST_MARK_TAKE_OVER);
    query_int(&q, clock_now(unit->store));
    query_int_or_null(&q, (int64_t)mark->fingerprint);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    semel_status status = change_one(&q, SEMEL_ESTORE, "taking over a marker", err);
    if (status)
        return status;
    mark->state = SEMEL_MARK_TAKEN;
    mark->attempts = found->attempts;
    return SEMEL_OK;
}

static semel_status mark_known(sqlite_unit *unit, semel_mark *mark, semel_error *err)
{
    row found;
    semel_status status = row_read(&found, unit, mark, err);
    if (status)
        return status;
    if (!found.found)
        return semel_fail(err, SEMEL_ESTORE,
                          "a marker is there and is not there: run an integrity check");
    if (is_free(&found))
        return take_over(unit, mark, &found, err);
    report(mark, &found);
    return SEMEL_OK;
}

static semel_status mark_one(sqlite_unit *unit, semel_mark *mark, int64_t now, semel_error *err)
{
    int inserted = 0;
    query q = query_start(unit->on, ST_MARK_INSERT);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    query_int(&q, now);
    query_int_or_null(&q, (int64_t)mark->fingerprint);
    semel_status status = query_run(&q, &inserted, "inserting a marker", err);
    if (status)
        return status;
    if (!inserted)
        return mark_known(unit, mark, err);
    mark->state = SEMEL_MARK_TAKEN;
    mark->attempts = 0;
    return SEMEL_OK;
}

/* There is nothing to wait for: whoever had the key has committed, or we would not be in here. */
semel_status sqlite_mark(void *unit_state, semel_mark marks[], size_t count, uint32_t wait_ms,
                         semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int64_t now = clock_now(unit->store);
    semel_status status = SEMEL_OK;
    (void)wait_ms;
    unit->marked = 1;
    for (size_t i = 0; !status && i < count; i++)
        status = mark_one(unit, &marks[i], now, err);
    return status;
}

/* --- claim mode ------------------------------------------------------------------------------------------ */

static int64_t lease_end(int64_t now, uint32_t lease_ms)
{
    return lease_ms ? now + lease_ms : 0;
}

static semel_status open_new(sqlite_unit *unit, const semel_mark *mark, uint32_t lease_ms,
                             semel_error *err)
{
    int64_t now = clock_now(unit->store);
    query q = query_start(unit->on, ST_MARK_OPEN);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    query_int(&q, now);
    query_int_or_null(&q, (int64_t)mark->fingerprint);
    query_int(&q, mark->attempts);
    query_int_or_null(&q, (int64_t)mark->token);
    query_int_or_null(&q, lease_end(now, lease_ms));
    return query_run(&q, NULL, "storing a claim", err);
}

static semel_status open_again(sqlite_unit *unit, const semel_mark *mark, uint32_t lease_ms,
                               semel_error *err)
{
    int64_t now = clock_now(unit->store);
    query q = query_start(unit->on, ST_MARK_REOPEN);
    query_int(&q, now);
    query_int_or_null(&q, (int64_t)mark->fingerprint);
    query_int(&q, mark->attempts);
    query_int_or_null(&q, (int64_t)mark->token);
    query_int_or_null(&q, lease_end(now, lease_ms));
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    return change_one(&q, SEMEL_ESTORE, "taking over a claim", err);
}

semel_status sqlite_claim(void *unit_state, semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    row found;
    semel_status status = row_read(&found, unit, mark, err);
    if (status)
        return status;
    if (found.found && !is_free(&found)) {
        report(mark, &found);
        return SEMEL_OK;
    }
    semel_mark taken = *mark;
    taken.attempts = (found.attempts > mark->attempts ? found.attempts : mark->attempts) + 1;
    taken.token = lease_ms ? token_new(unit->store) : 0;
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
    int64_t now = clock_now(unit->store);
    query q = query_start(unit->on, ST_MARK_FINISH);
    query_int(&q, now);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    query_int(&q, (int64_t)mark->token);
    query_int(&q, now);
    return change_one(&q, SEMEL_ELOST, "completing a claim", err);
}

semel_status sqlite_renew(void *unit_state, const semel_mark *mark, uint32_t lease_ms,
                          semel_error *err)
{
    sqlite_unit *unit = unit_state;
    int64_t now = clock_now(unit->store);
    query q = query_start(unit->on, ST_MARK_RENEW);
    query_int(&q, now + lease_ms);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    query_int(&q, (int64_t)mark->token);
    query_int(&q, now);
    return change_one(&q, SEMEL_ELOST, "renewing a claim", err);
}

/* --- failing ---------------------------------------------------------------------------------------------- */

static semel_status let_go(sqlite_unit *unit, const semel_mark *mark, int state, const char *why,
                           semel_error *err)
{
    int64_t now = clock_now(unit->store);
    query q = query_start(unit->on, ST_MARK_LET_GO);
    query_int(&q, state);
    query_int(&q, now);
    query_text(&q, why);
    query_int(&q, mark->attempts);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    query_int(&q, (int64_t)mark->token);
    query_int(&q, now);
    return change_one(&q, SEMEL_ELOST, "ending a claim", err);
}

/* Without a token the row is ours if this unit has marked it, and anybody's if it is free or not there. */
static semel_status check_ours(sqlite_unit *unit, const semel_mark *mark, semel_error *err)
{
    row found;
    semel_status status = row_read(&found, unit, mark, err);
    if (status || !found.found || is_free(&found) || (unit->marked && found.state == STATE_DONE))
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
    query q = query_start(unit->on, ST_MARK_STATE);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    query_int(&q, state);
    query_int(&q, clock_now(unit->store));
    query_int_or_null(&q, (int64_t)mark->fingerprint);
    query_int(&q, mark->attempts);
    query_text(&q, why);
    return change_one(&q, SEMEL_ESTORE, "storing a failed attempt", err);
}

semel_status sqlite_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    return set_state(unit, mark, STATE_OPEN, why, err);
}

semel_status sqlite_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    return set_state(unit, mark, STATE_DEAD, why, err);
}

semel_status sqlite_forget(void *unit_state, const semel_mark *mark, semel_error *err)
{
    sqlite_unit *unit = unit_state;
    row found;
    semel_status status = row_read(&found, unit, mark, err);
    if (status)
        return status;
    if (!found.found || (mark->state == SEMEL_MARK_DEAD && found.state != STATE_DEAD))
        return semel_fail(err, SEMEL_ENOTFOUND, "the inbox does not know this key");
    if (found.live)
        return semel_fail(err, SEMEL_EBUSY, "the key is claimed right now");
    query q = query_start(unit->on, ST_MARK_DELETE);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    return change_one(&q, SEMEL_ESTORE, "forgetting a key", err);
}

/* --- results ------------------------------------------------------------------------------------------------ */

semel_status sqlite_result_set(void *unit_state, const semel_mark *mark, semel_bytes result,
                               semel_error *err)
{
    sqlite_unit *unit = unit_state;
    query q = query_start(unit->on, ST_RESULT_SET);
    query_bytes(&q, result);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    return change_one(&q, SEMEL_ELOST, "storing a result", err);
}

semel_status sqlite_result_get(void *unit_state, const semel_mark *mark, void **out, size_t *len,
                               semel_error *err)
{
    sqlite_unit *unit = unit_state;
    query q = query_start(unit->on, ST_RESULT_GET);
    query_int(&q, mark->inbox);
    query_bytes(&q, mark->key);
    int got = query_row(&q, "reading a result", err);
    if (got < 0)
        return q.status;
    semel_bytes found = got ? column_bytes(&q, 0) : (semel_bytes){NULL, 0};
    void *copy = found.data ? mem_alloc(found.len + 1) : NULL;
    if (copy)
        memcpy(copy, found.data, found.len);
    query_end(&q);
    if (found.data && !copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a stored result");
    *out = copy;
    *len = found.len;
    return SEMEL_OK;
}
