/* The same work by hand on libpq: what a careful programmer writes who knows pipeline mode. Statements prepared
 * once, binary parameters, the server's clock; the marker by INSERT ... ON CONFLICT DO NOTHING, the work skipped
 * if it was there. No fingerprint is computed, no limit checked, and nothing notices what a handler did. */
#include "hand_postgres.h"

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
} statements[H_COUNT] = {
    [H_BEGIN] = {"BEGIN", 0, {0}},
    [H_COMMIT] = {"COMMIT", 0, {0}},
    [H_MARK] = {MARK " ON CONFLICT DO NOTHING", 3, {OID_INT8, OID_BYTEA, OID_INT8}},
    [H_MARK_NEW] = {MARK, 3, {OID_INT8, OID_BYTEA, OID_INT8}},
    [H_LOOK] = {"SELECT 1 FROM %s.semel_marker WHERE inbox = $1 AND key = $2",
                2,
                {OID_INT8, OID_BYTEA}},
    [H_EFFECT] = {"INSERT INTO %s.effect (body) VALUES ($1)", 1, {OID_BYTEA}},
    [H_MARK_MANY] = {"INSERT INTO %s.semel_marker (inbox, key, state, at_ms, fingerprint) "
                     "SELECT 1, k, 0, (SELECT " NOW
                     "), f FROM unnest($1::bytea[], $2::bigint[]) AS t (k, f) "
                     "ON CONFLICT DO NOTHING RETURNING key",
                     2,
                     {OID_BYTEAS, OID_INT8S}},
    [H_ALL_ROWS] = {"WITH mine AS (INSERT INTO %s.semel_marker (inbox, key, state, at_ms, "
                    "fingerprint) SELECT 1, k, 0, (SELECT " NOW
                    "), f FROM unnest($1::bytea[], $2::bigint[]) AS t (k, f) "
                    "ON CONFLICT DO NOTHING RETURNING key) INSERT INTO %s.effect (body) "
                    "SELECT body FROM unnest($1::bytea[], $3::bytea[]) AS t (key, body) "
                    "JOIN mine USING (key)",
                    3,
                    {OID_BYTEAS, OID_INT8S, OID_BYTEAS}},
    [H_SEND] = {"INSERT INTO %s.semel_outbox (outbox, wake_ms, captured_ms, id, type, topic, body) "
                "SELECT 1, now, now, id, 'order.paid', 'orders', body FROM (SELECT " NOW
                " AS now) AS clock, unnest($1::bytea[], $2::bytea[]) AS t (id, body)",
                2,
                {OID_BYTEAS, OID_BYTEAS}},
    [H_TAKE] = {"WITH free AS (SELECT seq FROM %s.semel_outbox WHERE outbox = 1 AND grp IS NULL "
                "AND wake_ms <= " STARTED " ORDER BY wake_ms, seq LIMIT $1 FOR UPDATE SKIP LOCKED) "
                "UPDATE %s.semel_outbox o SET token = 1, wake_ms = " NOW
                " + 30000, attempts = attempts + 1 FROM free WHERE o.seq = free.seq RETURNING "
                "o.seq, grp, id, source, type, topic, correlation_id, content_type, time_ms, "
                "headers, body",
                1,
                {OID_INT8}},
    [H_REMOVE] = {"DELETE FROM %s.semel_outbox WHERE seq = ANY ($1) AND token = 1", 1, {OID_INT8S}},
};

/* --- speaking ---------------------------------------------------------------------------------------- */

static void check(hand *h, const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_PIPELINE_SYNC)
        die("postgres: %s", result ? PQresultErrorMessage(result) : PQerrorMessage(h->pg));
}

void hand_int(hand_values *v, int64_t value)
{
    for (int i = 0; i < 8; i++)
        v->numbers[v->count][i] = (unsigned char)((uint64_t)value >> (56 - 8 * i));
    v->values[v->count] = (const char *)v->numbers[v->count];
    v->lengths[v->count++] = 8;
}

void hand_bytes(hand_values *v, semel_bytes value)
{
    v->values[v->count] = value.data;
    v->lengths[v->count++] = (int)value.len;
}

static const char *name_of(char out[16], hand_statement which)
{
    snprintf(out, 16, "hand_%d", (int)which);
    return out;
}

void hand_send(hand *h, hand_statement which, const hand_values *v)
{
    static const int binary[4] = {1, 1, 1, 1};
    char name[16];
    if (!PQsendQueryPrepared(h->pg, name_of(name, which), v ? v->count : 0, v ? v->values : NULL,
                             v ? v->lengths : NULL, binary, 1))
        die("postgres: %s", PQerrorMessage(h->pg));
    h->sent++;
}

PGresult *hand_answers(hand *h, int from_last, int wanted)
{
    PGresult *kept = NULL;
    if (!PQpipelineSync(h->pg))
        die("postgres: %s", PQerrorMessage(h->pg));
    for (; h->sent; h->sent--) {
        PGresult *result = PQgetResult(h->pg);
        check(h, result);
        if (wanted && h->sent == (size_t)from_last + 1)
            kept = result;
        else
            PQclear(result);
        PQclear(PQgetResult(h->pg)); /* NULL: the end of one */
    }
    PGresult *sync = PQgetResult(h->pg);
    check(h, sync);
    PQclear(sync);
    return kept;
}

static void prepare_all(hand *h)
{
    for (int i = 0; i < H_COUNT; i++) {
        char text[SQL_TEXT], name[16];
        snprintf(text, sizeof text, statements[i].text, h->room, h->room);
        PGresult *result = PQprepare(h->pg, name_of(name, (hand_statement)i), text,
                                     statements[i].count, statements[i].types);
        check(h, result);
        PQclear(result);
    }
}

static int64_t number(hand *h, const char *sql)
{
    PGresult *result = PQexec(h->pg, sql);
    check(h, result);
    int64_t value = PQntuples(result) ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return value;
}

static void run(hand *h, const char *sql)
{
    (void)number(h, sql);
}

static hand *open_with(const char *url, const char *room, int relaxed)
{
    hand *h = must_alloc(sizeof *h);
    h->pg = PQconnectdb(url);
    if (PQstatus(h->pg) != CONNECTION_OK)
        die("postgres: %s", PQerrorMessage(h->pg));
    if (relaxed)
        run(h, "SET synchronous_commit = off");
    h->room = room ? strdup(room) : NULL;
    if (!room)
        return h;
    prepare_all(h);
    if (!PQenterPipelineMode(h->pg))
        die("postgres: no pipeline mode");
    return h;
}

static hand *open_hand(const char *url, const char *room)
{
    return open_with(url, room, 0);
}

static hand *open_relaxed(const char *url, const char *room)
{
    return open_with(url, room, 1);
}

static void close_hand(hand *h)
{
    PQfinish(h->pg);
    for (int i = 0; i < 3; i++)
        free(h->array[i]);
    free(h->room);
    free(h);
}

static void version(hand *h, char out[32])
{
    snprintf(out, 32, "%.20s", PQparameterStatus(h->pg, "server_version"));
    out[strcspn(out, " ")] = 0;
}

static void remove_room(hand *h, const char *room)
{
    char sql[SQL_TEXT];
    snprintf(sql, sizeof sql, "SET client_min_messages = error; DROP SCHEMA IF EXISTS %s CASCADE",
             room);
    run(h, sql);
}

/* --- one message in a transaction ---------------------------------------------------------------------- */

static void send_mark(hand *h, hand_statement which, const semel_message *message)
{
    hand_values v = {0};
    hand_int(&v, 1);
    hand_bytes(&v, message->id);
    if (which != H_LOOK)
        hand_int(&v, FINGERPRINT_LOW);
    hand_send(h, which, &v);
}

static void send_effect(hand *h, const semel_message *message)
{
    hand_values v = {0};
    hand_bytes(&v, message->body);
    hand_send(h, H_EFFECT, &v);
}

static void finish(hand *h)
{
    (void)hand_answers(h, 0, 0);
}

static void receive(hand *h, const semel_message *const messages[], size_t count)
{
    (void)count;
    hand_send(h, H_BEGIN, NULL);
    send_mark(h, H_MARK, messages[0]);
    PGresult *marked = hand_answers(h, 0, 1);
    int is_new = strcmp(PQcmdTuples(marked), "1") == 0;
    PQclear(marked);
    if (is_new) {
        send_effect(h, messages[0]);
        finish(h);
    }
    hand_send(h, H_COMMIT, NULL);
    finish(h);
}

static void receive_trip(hand *h, const semel_message *const messages[], size_t count)
{
    (void)count;
    hand_send(h, H_BEGIN, NULL);
    send_mark(h, H_MARK_NEW, messages[0]);
    send_effect(h, messages[0]);
    hand_send(h, H_COMMIT, NULL);
    finish(h);
}

/* As most libraries do it: five round trips, and two copies at once would both do the work. */
static void check_first(hand *h, const semel_message *const messages[], size_t count)
{
    (void)count;
    hand_send(h, H_BEGIN, NULL);
    finish(h);
    send_mark(h, H_LOOK, messages[0]);
    PGresult *found = hand_answers(h, 0, 1);
    int is_new = PQntuples(found) == 0;
    PQclear(found);
    if (is_new) {
        send_effect(h, messages[0]);
        finish(h);
        send_mark(h, H_MARK_NEW, messages[0]);
        finish(h);
    }
    hand_send(h, H_COMMIT, NULL);
    finish(h);
}

static void effect(hand *h, const semel_message *const messages[], size_t count)
{
    (void)count;
    send_effect(h, messages[0]);
    finish(h);
}

/* --- the handler's part --------------------------------------------------------------------------------- */

/* Nothing to do: it is there so that libpq keeps a mark with the connection. */
static int on_event(PGEventId id, void *info, void *context)
{
    (void)id;
    (void)info;
    (void)context;
    return 1;
}

static void prepare_once(PGconn *pg, const patron *p)
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

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
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
    .open = open_hand,
    .open_relaxed = open_relaxed,
    .close = close_hand,
    .run = run,
    .number = number,
    .version = version,
    .remove_room = remove_room,
    .receive = receive,
    .receive_trip = receive_trip,
    .check_first = check_first,
    .effect = effect,
    .batch = hand_postgres_batch,
    .batch_rows = hand_postgres_rows,
    .send = hand_postgres_send,
    .relay = hand_postgres_relay,
    .relay_to = hand_postgres_relay_to,
    .handler = handle,
};
