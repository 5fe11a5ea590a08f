/* The few calls that send a statement with its parameters, and those that read an answer.
 *
 * Statements are prepared when first used on a connection and kept there, under the names semel_0,
 * semel_1 ...; on a connection of the caller's, and behind a pooler, they are sent without a
 * name. */
#include "store/postgres/connection.h"

#include <stdio.h>
#include <string.h>

enum { OID_BYTEA = 17, OID_INT8 = 20, OID_TEXT = 25, OID_TIMESTAMPTZ = 1184 };

static const char *statement_name(char name[16], pg_statement which)
{
    if (which == ST_COMMIT)
        return "semel_commit"; /* those that people look for, in the server's log and on the wire */
    if (which == ST_MARK_ASSUME)
        return "semel_assume";
    (void)snprintf(name, 16, "semel_%d", (int)which);
    return name;
}

/* --- sending ---------------------------------------------------------------------------------- */

pg_query pg_start(pg_connection *on, pg_statement which)
{
    return (pg_query){.on = on, .which = which};
}

void pg_raw(pg_query *q, Oid type, const void *data, size_t len)
{
    q->types[q->count] = type;
    q->values[q->count] = data;
    q->lengths[q->count] = (int)len;
    q->count++;
}

void pg_int(pg_query *q, int64_t value)
{
    unsigned char *bytes = q->numbers[q->count];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)value >> (56 - 8 * i));
    pg_raw(q, OID_INT8, bytes, 8);
}

void pg_time(pg_query *q, int64_t value)
{
    pg_int(q, value);
    q->types[q->count - 1] = OID_TIMESTAMPTZ;
}

void pg_int_or_null(pg_query *q, int64_t value)
{
    if (value)
        pg_int(q, value);
    else
        pg_raw(q, OID_INT8, NULL, 0);
}

void pg_bytes(pg_query *q, semel_bytes value)
{
    pg_raw(q, OID_BYTEA, value.data, value.len);
}

void pg_text(pg_query *q, const char *value)
{
    pg_raw(q, OID_TEXT, value, value ? strlen(value) : 0);
}

/* The pointers into numbers[] are those of where the query is now: it may have been copied. */
static void point_at_numbers(pg_query *q)
{
    for (int i = 0; i < q->count; i++)
        if ((q->types[i] == OID_INT8 || q->types[i] == OID_TIMESTAMPTZ) && q->values[i])
            q->values[i] = (const char *)q->numbers[i];
}

static void prepare(pg_query *q)
{
    char name[16];
    pg_connection *on = q->on;
    pg_connection_add_step(on, &(pg_step){.kind = STEP_PREPARE, .which = q->which},
                           PQsendPrepare(on->pg, statement_name(name, q->which),
                                         on->texts[q->which], q->count, q->types));
    on->prepared[q->which] = 1;
}

void pg_begin_relaxed(pg_connection *on)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%u", on->limits.busy_ms);
    pg_enqueue_plain(on, ST_BEGIN_RELAXED);
    pg_query q = pg_start(on, ST_RELAX);
    pg_text(&q, text);
    pg_enqueue(&q);
}

void pg_patience(pg_connection *on, const char *lock_timeout)
{
    pg_query q = pg_start(on, ST_PATIENCE);
    pg_text(&q, lock_timeout);
    pg_enqueue(&q);
}

void pg_patience_ms(pg_connection *on, uint32_t ms)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%u", ms ? ms : 1); /* 0 would be for ever */
    pg_patience(on, text);
}

void pg_enqueue(pg_query *q)
{
    static const int binary[PARAMETERS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    char name[16];
    pg_connection *on = q->on;
    int sent;
    if (!pg_connection_enter_pipeline(on))
        return;
    point_at_numbers(q);
    int reused = on->named && on->prepared[q->which];
    if (on->named && !reused)
        prepare(q);
    if (on->named)
        sent = PQsendQueryPrepared(on->pg, statement_name(name, q->which), q->count, q->values,
                                   q->lengths, binary, 1);
    else
        sent = PQsendQueryParams(on->pg, on->texts[q->which], q->count, q->types, q->values,
                                 q->lengths, binary, 1);
    pg_connection_add_step(
        on, &(pg_step){.kind = q->kind, .which = q->which, .answer = q->answer, .reused = reused},
        sent);
}

void pg_enqueue_plain(pg_connection *on, pg_statement which)
{
    pg_query q = pg_start(on, which);
    pg_enqueue(&q);
}

semel_status pg_execute(PGresult **out, pg_query *q, const char *doing, semel_error *err)
{
    PGresult *answer = NULL;
    pg_query asked = *q;
    asked.answer = &answer;
    pg_enqueue(&asked);
    semel_status status = pg_flush(q->on, 0, NULL, doing, err);
    if (status)
        PQclear(answer);
    else
        *out = answer;
    return status;
}

void pg_bound_alone(pg_connection *on)
{
    if (on->session_ms != on->limits.busy_ms)
        pg_patience_ms(on, on->limits.busy_ms);
}

semel_status pg_execute_alone(PGresult **out, pg_query *q, const char *doing, semel_error *err)
{
    pg_bound_alone(q->on);
    return pg_execute(out, q, doing, err);
}

semel_status pg_execute_change(pg_query *q, size_t *changed, const char *doing, semel_error *err)
{
    PGresult *answer = NULL;
    semel_status status = pg_execute(&answer, q, doing, err);
    if (status)
        return status;
    const char *count = PQcmdTuples(answer);
    *changed = 0;
    for (; *count >= '0' && *count <= '9'; count++)
        *changed = *changed * 10 + (size_t)(*count - '0');
    PQclear(answer);
    return SEMEL_OK;
}

/* --- answers ---------------------------------------------------------------------------------- */

int64_t pg_answer_int(const PGresult *answer, int row, int column)
{
    const unsigned char *bytes = (const unsigned char *)PQgetvalue(answer, row, column);
    int len = PQgetlength(answer, row, column);
    uint64_t value = len && len > 1 && bytes[0] & 0x80 ? UINT64_MAX : 0;
    for (int i = 0; i < len && i < 8; i++)
        value = value << 8 | bytes[i];
    return (int64_t)value;
}

semel_bytes pg_answer_bytes(const PGresult *answer, int row, int column)
{
    if (PQgetisnull(answer, row, column))
        return (semel_bytes){NULL, 0};
    return (semel_bytes){PQgetvalue(answer, row, column), (size_t)PQgetlength(answer, row, column)};
}

const char *pg_answer_text(const PGresult *answer, int row, int column)
{
    return PQgetisnull(answer, row, column) ? NULL : PQgetvalue(answer, row, column);
}
