/* What the tables hold, counted on a connection of its own within a deadline: the server ends the
 * statement by its statement_timeout, and if the server says nothing the client gives up the
 * connection. */
#include "store/postgres/postgres.h"

#include "base/wait.h"

#include <stdio.h>
#include <string.h>

/* The next statements, until the answers are read, end after the deadline. The client waits a
 * moment longer, so that the server's own limit comes first and the connection is kept. */
static void limit_statements(pg_connection *on, int64_t deadline_ms)
{
    enum { GRACE_MS = 100 };
    char text[16];
    int64_t left = deadline_ms - wait_clock_ms();
    uint32_t left_ms = left > 1 ? (uint32_t)left : 1;
    on->limits = (pg_limits){.busy_ms = 0, .answer_ms = left_ms + GRACE_MS};
    (void)snprintf(text, sizeof text, "%u", left_ms);
    pg_query q = pg_start(on, ST_PATIENCE_WHOLE);
    pg_text(&q, text);
    pg_enqueue(&q);
}

static semel_status count(PGresult **answer, pg_query *q, pg_failure *failed, semel_error *err)
{
    q->answer = answer;
    pg_enqueue(q);
    return pg_flush(q->on, 0, failed, "counting", err);
}

static semel_status count_outgoing(semel_stats *out, pg_connection *on, const semel_stats_of *of,
                                   int64_t deadline_ms, semel_error *err)
{
    pg_failure failed;
    PGresult *answer = NULL;
    limit_statements(on, deadline_ms);
    pg_query q = pg_start(on, ST_STATS_OUTBOX);
    pg_int(&q, of->scope);
    semel_status status = count(&answer, &q, &failed, err);
    if (!status) {
        out->unsent = (uint64_t)pg_answer_int(answer, 0, 0);
        out->oldest_unsent_ms = pg_answer_int(answer, 0, 1);
        out->due = (uint64_t)pg_answer_int(answer, 0, 2);
        out->oldest_due_ms = pg_answer_int(answer, 0, 3);
    }
    PQclear(answer);
    return status;
}

static semel_status count_dead(semel_stats *out, pg_connection *on, const semel_stats_of *of,
                               int64_t deadline_ms, semel_error *err)
{
    pg_failure failed;
    PGresult *answer = NULL;
    limit_statements(on, deadline_ms);
    pg_query q = pg_start(on, ST_STATS_DEAD);
    pg_int(&q, of->kind);
    pg_text(&q, of->name);
    semel_status status = count(&answer, &q, &failed, err);
    if (!status) {
        out->dead = (uint64_t)pg_answer_int(answer, 0, 0);
        out->at_ms = pg_answer_int(answer, 0, 1);
    }
    PQclear(answer);
    return status;
}

/* All markers of the inbox are read: where that takes too long, the numbers are not known. */
static semel_status count_markers(semel_stats *out, pg_connection *on, const semel_stats_of *of,
                                  int64_t deadline_ms, semel_error *err)
{
    pg_failure failed = {0};
    PGresult *answer = NULL;
    limit_statements(on, deadline_ms);
    pg_query q = pg_start(on, ST_STATS_MARKERS);
    pg_int(&q, of->scope);
    semel_status status = count(&answer, &q, &failed, err);
    if (!status) {
        out->open_claims = pg_answer_int(answer, 0, 0);
        out->keys = pg_answer_int(answer, 0, 1);
    }
    PQclear(answer);
    return status && strcmp(failed.sqlstate, "57014") == 0 ? SEMEL_OK : status;
}

semel_status postgres_stats(void *state, const semel_stats_of *of, uint32_t deadline_ms,
                            semel_stats *out, semel_error *err)
{
    postgres_store *store = state;
    semel_stats found = {.open_claims = -1, .keys = -1};
    int64_t deadline = wait_clock_ms() + deadline_ms;
    void *taken = NULL;
    semel_status status = pool_take(&taken, &store->connections, deadline_ms, err);
    if (status)
        return status;
    pg_connection *on = taken;
    pg_limits usual = on->limits;
    if (of->kind != SEMEL_SCOPE_INBOX)
        status = count_outgoing(&found, on, of, deadline, err);
    if (!status)
        status = count_dead(&found, on, of, deadline, err);
    if (!status && of->kind == SEMEL_SCOPE_INBOX)
        status = count_markers(&found, on, of, deadline, err);
    on->limits = usual;
    pg_store_give_back(store, on);
    if (!status)
        *out = found;
    return status;
}
