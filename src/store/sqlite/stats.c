/* What the tables hold, counted on the reading connection, which waits for no writer. SQLite asks
 * every so often whether to go on, and ends the statement after the deadline. Counting the keys
 * and claims of an inbox reads all its markers: where that takes too long, they are not known. */
#include "base/wait.h"
#include "store/sqlite/sqlite.h"

static int is_too_late(void *deadline_ms)
{
    return wait_clock_ms() > *(const int64_t *)deadline_ms;
}

static semel_status count_outgoing(semel_stats *out, sqlite_store *store, const semel_stats_of *of,
                                   semel_error *err)
{
    sqlite_query q = sqlite_query_start(&store->reader, ST_STATS_OUTBOX);
    sqlite_query_int(&q, of->scope);
    sqlite_query_int(&q, sqlite_clock_now(store));
    int got = sqlite_query_row(&q, "counting outgoing messages", err);
    if (got > 0) {
        out->unsent = (uint64_t)sqlite_row_int(&q, 0);
        out->oldest_unsent_ms = sqlite_row_int(&q, 1);
        out->due = (uint64_t)sqlite_row_int(&q, 2);
        out->oldest_due_ms = sqlite_row_int(&q, 3);
    }
    sqlite_query_end(&q);
    return got < 0 ? q.status : SEMEL_OK;
}

static semel_status count_dead(semel_stats *out, sqlite_store *store, const semel_stats_of *of,
                               semel_error *err)
{
    sqlite_query q = sqlite_query_start(&store->reader, ST_STATS_DEAD);
    sqlite_query_int(&q, of->kind);
    sqlite_query_text(&q, of->name);
    int got = sqlite_query_row(&q, "counting dead letters", err);
    if (got > 0)
        out->dead = (uint64_t)sqlite_row_int(&q, 0);
    sqlite_query_end(&q);
    return got < 0 ? q.status : SEMEL_OK;
}

static semel_status count_markers(semel_stats *out, sqlite_store *store, const semel_stats_of *of,
                                  semel_error *err)
{
    sqlite_query q = sqlite_query_start(&store->reader, ST_STATS_CLAIMS);
    sqlite_query_int(&q, sqlite_clock_now(store));
    sqlite_query_int(&q, of->scope);
    int got = sqlite_query_row(&q, "counting markers", err);
    int interrupted = got < 0 && sqlite3_errcode(store->reader.db) == SQLITE_INTERRUPT;
    if (got > 0) {
        out->keys = sqlite_row_int(&q, 0);
        out->open_claims = sqlite_row_int(&q, 1);
    }
    sqlite_query_end(&q);
    return got < 0 && !interrupted ? q.status : SEMEL_OK;
}

static semel_status count_all(semel_stats *out, sqlite_store *store, const semel_stats_of *of,
                              semel_error *err)
{
    semel_status status = sqlite_schema_check(&store->reader, err);
    if (!status && of->kind != SEMEL_SCOPE_INBOX)
        status = count_outgoing(out, store, of, err);
    if (!status)
        status = count_dead(out, store, of, err);
    if (!status && of->kind == SEMEL_SCOPE_INBOX)
        status = count_markers(out, store, of, err);
    return status;
}

static semel_status count_until(semel_stats *out, sqlite_store *store, const semel_stats_of *of,
                                int64_t deadline_ms, semel_error *err)
{
    enum { STEPS = 10000 };
    sqlite3 *db = store->reader.db;
    sqlite3_progress_handler(db, STEPS, is_too_late, &deadline_ms);
    semel_status status = count_all(out, store, of, err);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    if (status && sqlite3_errcode(db) == SQLITE_INTERRUPT)
        return semel_fail(err, SEMEL_EBUSY, "sqlite, counting: the deadline has passed");
    return status;
}

semel_status sqlite_stats(void *state, const semel_stats_of *of, uint32_t deadline_ms,
                          semel_stats *out, semel_error *err)
{
    sqlite_store *store = state;
    semel_stats found = {.open_claims = -1, .keys = -1};
    int64_t deadline = wait_clock_ms() + deadline_ms;
    semel_status status = sqlite_now(store, &found.at_ms, err); /* the first call loads the clock */
    if (!status)
        status = sqlite_reader_enter(store, err);
    if (status)
        return status;
    if (store->reader.deadline_ms > deadline)
        store->reader.deadline_ms = deadline;
    status = count_until(&found, store, of, deadline, err);
    sqlite_reader_leave(store);
    if (!status)
        *out = found;
    return status;
}
