/* What the tables hold, counted within a deadline: the server ends each statement by
 * max_statement_time, and if the server says nothing the client gives up the connection. The
 * connection is a new one. One of the pool may owe the answer to a rollback, which must be read
 * first, and for which the store waits longer than the deadline. */
#include "store/mariadb/mariadb.h"

#include "base/wait.h"

static semel_status keep_outgoing(const maria_row *r, void *context, semel_error *err)
{
    semel_stats *out = context;
    (void)err;
    out->unsent = maria_column_uint(r, 0);
    out->oldest_unsent_ms = maria_column_int(r, 1);
    out->due = maria_column_uint(r, 2);
    out->oldest_due_ms = maria_column_int(r, 3);
    return SEMEL_OK;
}

static semel_status keep_dead(const maria_row *r, void *context, semel_error *err)
{
    semel_stats *out = context;
    (void)err;
    out->dead = maria_column_uint(r, 0);
    out->at_ms = maria_column_int(r, 1);
    return SEMEL_OK;
}

static semel_status keep_markers(const maria_row *r, void *context, semel_error *err)
{
    semel_stats *out = context;
    (void)err;
    out->open_claims = maria_column_int(r, 0);
    out->keys = maria_column_int(r, 1);
    return SEMEL_OK;
}

/* The client waits a moment longer than the server, so that the server's own limit comes first and
 * the connection is kept. */
static maria_bound limit_until(maria_connection *on, int64_t deadline_ms)
{
    enum { GRACE_MS = 100 };
    int64_t left = deadline_ms - wait_clock_ms();
    uint32_t left_ms = left > 1 ? (uint32_t)left : 1;
    on->limits = (maria_limits){.busy_ms = 0, .answer_ms = left_ms + GRACE_MS};
    return (maria_bound){FOR_MS, left_ms};
}

static semel_status count(maria_query *q, maria_row_call *keep, semel_stats *out,
                          maria_connection *on, maria_failure *failed, semel_error *err)
{
    maria_step *s = maria_end(q);
    s->call = keep;
    s->context = out;
    return maria_flush(on, failed, "counting", err);
}

static semel_status count_outgoing(semel_stats *out, maria_connection *on, const semel_stats_of *of,
                                   int64_t deadline_ms, semel_error *err)
{
    maria_query q = maria_enqueue_bounded(on, ST_STATS_OUTBOX, limit_until(on, deadline_ms));
    maria_int(&q, of->scope);
    maria_int(&q, of->scope);
    return count(&q, keep_outgoing, out, on, NULL, err);
}

static semel_status count_dead(semel_stats *out, maria_connection *on, const semel_stats_of *of,
                               int64_t deadline_ms, semel_error *err)
{
    maria_query q = maria_enqueue_bounded(on, ST_STATS_DEAD, limit_until(on, deadline_ms));
    maria_int(&q, of->kind);
    maria_int(&q, of->kind);
    maria_text(&q, of->name);
    return count(&q, keep_dead, out, on, NULL, err);
}

/* All markers of the inbox are read: where that takes too long, the numbers are not known. */
static semel_status count_markers(semel_stats *out, maria_connection *on, const semel_stats_of *of,
                                  int64_t deadline_ms, semel_error *err)
{
    maria_failure failed = {0};
    maria_query q = maria_enqueue_bounded(on, ST_STATS_MARKERS, limit_until(on, deadline_ms));
    maria_int(&q, of->scope);
    semel_status status = count(&q, keep_markers, out, on, &failed, err);
    return status && maria_waited(&failed) ? SEMEL_OK : status;
}

static semel_status count_all(semel_stats *out, maria_connection *on, const semel_stats_of *of,
                              int64_t deadline_ms, semel_error *err)
{
    semel_status status = SEMEL_OK;
    if (of->kind != SEMEL_SCOPE_INBOX)
        status = count_outgoing(out, on, of, deadline_ms, err);
    if (!status)
        status = count_dead(out, on, of, deadline_ms, err);
    if (!status && of->kind == SEMEL_SCOPE_INBOX)
        status = count_markers(out, on, of, deadline_ms, err);
    return status;
}

semel_status mariadb_stats(void *state, const semel_stats_of *of, uint32_t deadline_ms,
                           semel_stats *out, semel_error *err)
{
    mariadb_store *store = state;
    int64_t deadline = wait_clock_ms() + deadline_ms;
    maria_limits bounds = {.busy_ms = 0, .answer_ms = deadline_ms ? deadline_ms : 1};
    semel_stats found = {.open_claims = -1, .keys = -1};
    maria_connection *on = NULL;
    semel_status status = pool_check_process(&store->connections, err);
    if (!status)
        status = maria_open(&on, &store->at, store->texts, bounds, bounds.answer_ms, err);
    if (status)
        return status;
    status = count_all(&found, on, of, deadline, err);
    maria_close(on);
    if (!status)
        *out = found;
    return status;
}
