/* The same work by hand on libpq: what a careful programmer with knowledge of pipeline mode writes.
 * Statements prepared once, binary parameters, the server's clock; the marker by INSERT ... ON
 * CONFLICT DO NOTHING, the work skipped if it was there. No fingerprint is computed, no limit
 * checked, and nothing notices what a handler did. */
#include "raw_postgres.h"

#include <libpq-events.h>
#include <semel/postgres.h>
#include <stdlib.h>
#include <string.h>

enum { OID_BYTEA = 17, OID_INT8 = 20, OID_INT8S = 1016, OID_BYTEAS = 1001 };

#define NOW     "floor(date_part('epoch', clock_timestamp()) * 1000)::bigint"
#define STARTED "floor(date_part('epoch', statement_timestamp()) * 1000)::bigint"
#define MARK                                                                                      \
    "INSERT INTO %s.semel_marker (inbox, key, state, at_ms, fingerprint) VALUES ($1, $2, 0, " NOW \
    ", $3)"

static const struct {
    const char *text; /* %s: the room */
    int count;
    Oid types[4];
} statements[RAW_PG_COUNT] = {
    [RAW_PG_BEGIN] = {"BEGIN", 0, {0}},
    [RAW_PG_COMMIT] = {"COMMIT", 0, {0}},
    [RAW_PG_MARK] = {MARK " ON CONFLICT DO NOTHING", 3, {OID_INT8, OID_BYTEA, OID_INT8}},
    [RAW_PG_MARK_NEW] = {MARK, 3, {OID_INT8, OID_BYTEA, OID_INT8}},
    [RAW_PG_LOOK] = {"SELECT 1 FROM %s.semel_marker WHERE inbox = $1 AND key = $2",
                     2,
                     {OID_INT8, OID_BYTEA}},
    [RAW_PG_FUNCTION] = {"SELECT %s.semel_receive('bench', $1)", 1, {OID_BYTEA}},
    [RAW_PG_EFFECT] = {"INSERT INTO %s.effect (body) VALUES ($1)", 1, {OID_BYTEA}},
    [RAW_PG_MARK_MANY] = {"INSERT INTO %s.semel_marker (inbox, key, state, at_ms, fingerprint) "
                          "SELECT 1, k, 0, (SELECT " NOW
                          "), f FROM unnest($1::bytea[], $2::bigint[]) AS t (k, f) "
                          "ON CONFLICT DO NOTHING RETURNING key",
                          2,
                          {OID_BYTEAS, OID_INT8S}},
    [RAW_PG_ALL_ROWS] = {"WITH mine AS (INSERT INTO %s.semel_marker (inbox, key, state, at_ms, "
                         "fingerprint) SELECT 1, k, 0, (SELECT " NOW
                         "), f FROM unnest($1::bytea[], $2::bigint[]) AS t (k, f) "
                         "ON CONFLICT DO NOTHING RETURNING key) INSERT INTO %s.effect (body) "
                         "SELECT body FROM unnest($1::bytea[], $3::bytea[]) AS t (key, body) "
                         "JOIN mine USING (key)",
                         3,
                         {OID_BYTEAS, OID_INT8S, OID_BYTEAS}},
    [RAW_PG_SEND] =
        {"INSERT INTO %s.semel_outbox (outbox, wake_ms, captured_ms, id, type, topic, body) "
         "SELECT 1, now, now, id, 'order.paid', 'orders', body FROM (SELECT " NOW
         " AS now) AS clock, unnest($1::bytea[], $2::bytea[]) AS t (id, body)",
         2,
         {OID_BYTEAS, OID_BYTEAS}},
    [RAW_PG_LEASE] =
        {"WITH free AS (SELECT seq FROM %s.semel_outbox WHERE outbox = 1 AND grp IS NULL "
         "AND wake_ms <= " STARTED " ORDER BY wake_ms, seq LIMIT $1 FOR UPDATE SKIP LOCKED) "
         "UPDATE %s.semel_outbox o SET token = 1, wake_ms = " NOW
         " + 30000, attempts = attempts + 1 FROM free WHERE o.seq = free.seq RETURNING "
         "o.seq, grp, id, source, type, topic, correlation_id, content_type, time_ms, "
         "headers, body",
         1,
         {OID_INT8}},
    [RAW_PG_REMOVE] = {"DELETE FROM %s.semel_outbox WHERE seq = ANY ($1) AND token = 1",
                       1,
                       {OID_INT8S}},
};

/* --- speaking --------------------------------------------------------------------------------- */

static void check(raw_connection *c, const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_PIPELINE_SYNC)
        die("postgres: %s", result ? PQresultErrorMessage(result) : PQerrorMessage(c->pg));
}

void raw_pg_bind_int(raw_pg_values *v, int64_t value)
{
    for (int i = 0; i < 8; i++)
        v->numbers[v->count][i] = (unsigned char)((uint64_t)value >> (56 - 8 * i));
    v->values[v->count] = (const char *)v->numbers[v->count];
    v->lengths[v->count++] = 8;
}

void raw_pg_bind_bytes(raw_pg_values *v, semel_bytes value)
{
    v->values[v->count] = value.data;
    v->lengths[v->count++] = (int)value.len;
}

static const char *name_of(char out[16], raw_pg_statement which)
{
    snprintf(out, 16, "hand_%d", (int)which);
    return out;
}

void raw_pg_send(raw_connection *c, raw_pg_statement which, const raw_pg_values *v)
{
    static const int binary[4] = {1, 1, 1, 1};
    char name[16];
    if (!PQsendQueryPrepared(c->pg, name_of(name, which), v ? v->count : 0, v ? v->values : NULL,
                             v ? v->lengths : NULL, binary, 1))
        die("postgres: %s", PQerrorMessage(c->pg));
    c->sent++;
}

PGresult *raw_pg_answers(raw_connection *c, int from_last, int wanted)
{
    PGresult *kept = NULL;
    if (!PQpipelineSync(c->pg))
        die("postgres: %s", PQerrorMessage(c->pg));
    for (; c->sent; c->sent--) {
        PGresult *result = PQgetResult(c->pg);
        check(c, result);
        if (wanted && c->sent == (size_t)from_last + 1)
            kept = result;
        else
            PQclear(result);
        PQclear(PQgetResult(c->pg)); /* NULL: the end of one */
    }
    PGresult *sync = PQgetResult(c->pg);
    check(c, sync);
    PQclear(sync);
    return kept;
}

static void prepare_all(raw_connection *c)
{
    for (int i = 0; i < RAW_PG_COUNT; i++) {
        char text[SQL_TEXT], name[16];
        snprintf(text, sizeof text, statements[i].text, c->room, c->room);
        PGresult *result = PQprepare(c->pg, name_of(name, (raw_pg_statement)i), text,
                                     statements[i].count, statements[i].types);
        check(c, result);
        PQclear(result);
    }
}

static int64_t raw_pg_number(raw_connection *c, const char *sql)
{
    PGresult *result = PQexec(c->pg, sql);
    check(c, result);
    int64_t value = PQntuples(result) ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return value;
}

static void raw_pg_run(raw_connection *c, const char *sql)
{
    (void)raw_pg_number(c, sql);
}

static raw_connection *open_with(const char *url, const char *room, int relaxed)
{
    raw_connection *c = must_alloc(sizeof *c);
    c->pg = PQconnectdb(url);
    if (PQstatus(c->pg) != CONNECTION_OK)
        die("postgres: %s", PQerrorMessage(c->pg));
    if (relaxed)
        raw_pg_run(c, "SET synchronous_commit = off");
    c->room = room ? strdup(room) : NULL;
    if (!room)
        return c;
    prepare_all(c);
    if (!PQenterPipelineMode(c->pg))
        die("postgres: no pipeline mode");
    return c;
}

static raw_connection *raw_pg_open(const char *url, const char *room)
{
    return open_with(url, room, 0);
}

static raw_connection *raw_pg_open_relaxed(const char *url, const char *room)
{
    return open_with(url, room, 1);
}

static void raw_pg_close(raw_connection *c)
{
    PQfinish(c->pg);
    for (int i = 0; i < 3; i++)
        free(c->array[i]);
    free(c->room);
    free(c);
}

static void raw_pg_version(raw_connection *c, char out[32])
{
    snprintf(out, 32, "%.20s", PQparameterStatus(c->pg, "server_version"));
    out[strcspn(out, " ")] = 0;
}

static void raw_pg_remove_room(raw_connection *c, const char *room)
{
    char sql[SQL_TEXT];
    snprintf(sql, sizeof sql, "SET client_min_messages = error; DROP SCHEMA IF EXISTS %s CASCADE",
             room);
    raw_pg_run(c, sql);
}

/* --- one message in a transaction ------------------------------------------------------------- */

static void send_mark(raw_connection *c, raw_pg_statement which, const semel_message *message)
{
    raw_pg_values v = {0};
    raw_pg_bind_int(&v, 1);
    raw_pg_bind_bytes(&v, message->id);
    if (which != RAW_PG_LOOK)
        raw_pg_bind_int(&v, FINGERPRINT_LOW);
    raw_pg_send(c, which, &v);
}

static void send_effect(raw_connection *c, const semel_message *message)
{
    raw_pg_values v = {0};
    raw_pg_bind_bytes(&v, message->body);
    raw_pg_send(c, RAW_PG_EFFECT, &v);
}

static void finish(raw_connection *c)
{
    (void)raw_pg_answers(c, 0, 0);
}

static void raw_pg_receive(raw_connection *c, const semel_message *const messages[], size_t count)
{
    (void)count;
    raw_pg_send(c, RAW_PG_BEGIN, NULL);
    send_mark(c, RAW_PG_MARK, messages[0]);
    PGresult *marked = raw_pg_answers(c, 0, 1);
    int is_new = strcmp(PQcmdTuples(marked), "1") == 0;
    PQclear(marked);
    if (is_new) {
        send_effect(c, messages[0]);
        finish(c);
    }
    raw_pg_send(c, RAW_PG_COMMIT, NULL);
    finish(c);
}

/* The same with semel's function in place of the INSERT (docs/SQL.md). */
static void raw_pg_receive_function(raw_connection *c, const semel_message *const messages[],
                                    size_t count)
{
    raw_pg_values v = {0};
    (void)count;
    raw_pg_bind_bytes(&v, messages[0]->id);
    raw_pg_send(c, RAW_PG_BEGIN, NULL);
    raw_pg_send(c, RAW_PG_FUNCTION, &v);
    PGresult *answer = raw_pg_answers(c, 0, 1);
    int is_new = *PQgetvalue(answer, 0, 0);
    PQclear(answer);
    if (is_new) {
        send_effect(c, messages[0]);
        finish(c);
    }
    raw_pg_send(c, RAW_PG_COMMIT, NULL);
    finish(c);
}

static void raw_pg_receive_trip(raw_connection *c, const semel_message *const messages[],
                                size_t count)
{
    (void)count;
    raw_pg_send(c, RAW_PG_BEGIN, NULL);
    send_mark(c, RAW_PG_MARK_NEW, messages[0]);
    send_effect(c, messages[0]);
    raw_pg_send(c, RAW_PG_COMMIT, NULL);
    finish(c);
}

/* As most libraries do it: five round trips, and two copies at once would both do the work. */
static void raw_pg_check_first(raw_connection *c, const semel_message *const messages[],
                               size_t count)
{
    (void)count;
    raw_pg_send(c, RAW_PG_BEGIN, NULL);
    finish(c);
    send_mark(c, RAW_PG_LOOK, messages[0]);
    PGresult *found = raw_pg_answers(c, 0, 1);
    int is_new = PQntuples(found) == 0;
    PQclear(found);
    if (is_new) {
        send_effect(c, messages[0]);
        finish(c);
        send_mark(c, RAW_PG_MARK_NEW, messages[0]);
        finish(c);
    }
    raw_pg_send(c, RAW_PG_COMMIT, NULL);
    finish(c);
}

static void raw_pg_effect(raw_connection *c, const semel_message *const messages[], size_t count)
{
    (void)count;
    send_effect(c, messages[0]);
    finish(c);
}

/* --- the handler's part ----------------------------------------------------------------------- */

/* Nothing to do: it is there so that libpq keeps a mark with the connection. */
static int on_event(PGEventId id, void *info, void *context)
{
    (void)id;
    (void)info;
    (void)context;
    return 1;
}

static void prepare_once(PGconn *pg, const semel_server *p)
{
    static const char prepared;
    char text[SQL_TEXT];
    if (PQinstanceData(pg, on_event))
        return;
    snprintf(text, sizeof text, "%.*s$1)", (int)strcspn(p->effect_sql, "?"), p->effect_sql);
    PGresult *result = PQprepare(pg, "bench_effect", text, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        die("postgres: %s", PQerrorMessage(pg));
    PQclear(result);
    (void)PQregisterEventProc(pg, on_event, "bench", NULL);
    (void)PQsetInstanceData(pg, on_event, (void *)&prepared);
}

static semel_status raw_pg_handle(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    static const int binary = 1;
    PGconn *pg = semel_unit_postgres(unit);
    const char *value = message->body.data;
    int length = (int)message->body.len;
    (void)err;
    prepare_once(pg, context);
    PGresult *result = PQexecPrepared(pg, "bench_effect", 1, &value, &length, &binary, 1);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        die("postgres: %s", PQerrorMessage(pg));
    PQclear(result);
    return SEMEL_OK;
}

const server postgres_server = {
    .name = "PostgreSQL",
    .scheme = "postgres",
    .room_parameter = "schema",
    .room_format = "%s",
    .table_format = "%s.%s",
    .semel_format = "%s.semel_%s",
    .body_type = "bytea",
    .id_type = "bigint GENERATED ALWAYS AS IDENTITY",
    .series = "SELECT n FROM generate_series(1, %zu) AS n",
    .key_of_n = "convert_to(gen_random_uuid()::text, 'UTF8')",
    .now_ms = NOW,
    .key_column = "key",
    .settle_down = "VACUUM ANALYZE",
    .open = raw_pg_open,
    .open_relaxed = raw_pg_open_relaxed,
    .close = raw_pg_close,
    .run = raw_pg_run,
    .number = raw_pg_number,
    .version = raw_pg_version,
    .remove_room = raw_pg_remove_room,
    .receive = raw_pg_receive,
    .receive_function = raw_pg_receive_function,
    .receive_trip = raw_pg_receive_trip,
    .check_first = raw_pg_check_first,
    .effect = raw_pg_effect,
    .effects = raw_postgres_effects,
    .batch = raw_postgres_batch,
    .batch_rows = raw_postgres_rows,
    .send = raw_postgres_send,
    .relay = raw_postgres_relay,
    .relay_to = raw_postgres_relay_to,
    .handler = raw_pg_handle,
};
