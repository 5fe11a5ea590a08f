/* PostgreSQL as a server of tests: a store is a schema. See server_internal.h. */
#include "support/process/process.h"
#include "support/servers/server_internal.h"

#ifdef SEMEL_WITH_POSTGRES
#include <libpq-fe.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static void say_nothing(void *context, const char *text)
{
    (void)context;
    (void)text;
}

static PGconn *connect_postgres(const server_target *at)
{
    char text[SERVER_SQL_ROOM];
    server_print(text, sizeof text, "host=%s port=%u user=%s dbname=%s connect_timeout=%d",
                 at->host, at->port, at->user, at->database, SERVER_CONNECT_S);
    int64_t deadline = process_now_ms() + SERVER_CONNECT_S * 1000;
    PGconn *conn = PQconnectdb(text);
    for (; PQstatus(conn) != CONNECTION_OK; PQreset(conn)) { /* others may have all of its slots */
        if (process_now_ms() > deadline)
            server_die("%s", PQerrorMessage(conn));
        process_nap();
    }
    PQsetNoticeProcessor(conn, say_nothing, NULL);
    return conn;
}

static PGresult *execute_postgres(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_EMPTY_QUERY)
        server_die("%s: %s", sql, PQerrorMessage(conn));
    return result;
}

/* --- a session that is kept ------------------------------------------------------------------- */

/* A new session costs the server more than most statements: a process, which reads the catalogues
 * again. So one is kept, and used as if it were new: DISCARD ALL comes first. It is not a child's,
 * not for a second thread at the same time, and never in a transaction. */
static struct kept_session {
    pthread_mutex_t in_use;
    PGconn *conn;
    PGconn *inherited; /* the parent says goodbye to it */
    pid_t owner;
    char host[SERVER_HOST_ROOM], user[SERVER_NAME_ROOM], database[SERVER_NAME_ROOM];
    unsigned port;
} kept = {.in_use = PTHREAD_MUTEX_INITIALIZER};

static int is_for(const server_target *at)
{
    return kept.conn && kept.port == at->port && strcmp(kept.host, at->host) == 0 &&
           strcmp(kept.user, at->user) == 0 && strcmp(kept.database, at->database) == 0;
}

static int is_as_new(PGconn *conn)
{
    PGresult *result = PQexec(conn, "DISCARD ALL");
    int good = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return good;
}

/* The server may have been started again meanwhile, or it is another one. */
static PGconn *take_session(const server_target *at)
{
    if (kept.conn && kept.owner != getpid()) {
        kept.inherited = kept.conn;
        kept.conn = NULL;
    }
    if (is_for(at) && is_as_new(kept.conn))
        return kept.conn;
    PQfinish(kept.conn);
    kept.conn = connect_postgres(at);
    kept.owner = getpid();
    kept.port = at->port;
    server_print(kept.host, sizeof kept.host, "%s", at->host);
    server_print(kept.user, sizeof kept.user, "%s", at->user);
    server_print(kept.database, sizeof kept.database, "%s", at->database);
    return kept.conn;
}

static void give_back_session(void)
{
    if (PQtransactionStatus(kept.conn) == PQTRANS_IDLE)
        return;
    PQfinish(kept.conn);
    kept.conn = NULL;
}

static void look(PGconn *conn, const char *schema, const char *sql, server_row *row, void *context)
{
    char path[SERVER_SQL_ROOM];
    server_print(path, sizeof path, "SET search_path TO \"%s\"", schema);
    PQclear(execute_postgres(conn, path));
    PGresult *result = execute_postgres(conn, sql);
    for (int i = 0; row && i < PQntuples(result); i++)
        row(PQgetisnull(result, i, 0) ? NULL : PQgetvalue(result, i, 0), context);
    PQclear(result);
}

static void each_postgres(const server_target *at, const char *sql, server_row *row, void *context)
{
    if (pthread_mutex_trylock(&kept.in_use) == 0) {
        look(take_session(at), at->schema, sql, row, context);
        give_back_session();
        pthread_mutex_unlock(&kept.in_use);
        return;
    }
    PGconn *conn = connect_postgres(at);
    look(conn, at->schema, sql, row, context);
    PQfinish(conn);
}
#else
#define each_postgres NULL
#endif

/* semel makes the schema. */
static void fresh_postgres(char url[SERVER_URL_ROOM], const server_place *where, const char *name)
{
    server_print(url, SERVER_URL_ROOM, "%s?schema=%s", where->url, name);
}

/* Those that hold something in the schema, and those that bear its name, as cases have them.
 * Views and joins would take four times as long. */
static void print_end_sessions(char *sql, size_t room, const char *schema)
{
    server_print(sql, room,
                 "pg_terminate_backend(pid, 5000) FROM (SELECT pid FROM pg_locks WHERE relation ="
                 " ANY(ARRAY(SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('%s')))"
                 " UNION SELECT pid FROM pg_stat_get_activity(NULL)"
                 " WHERE application_name = '%s') AS others WHERE pid <> pg_backend_pid()",
                 schema, schema);
}

static void drop_postgres(const char *url, const server_target *at)
{
    char sql[SERVER_SQL_ROOM], end_sessions[SERVER_SQL_ROOM / 2];
    print_end_sessions(end_sessions, sizeof end_sessions, at->schema);
    server_print(sql, sizeof sql,
                 "SELECT %s; SET lock_timeout = '60s'; DROP SCHEMA IF EXISTS \"%s\" CASCADE",
                 end_sessions, at->schema);
    server_run(url, sql);
}

/* An expression; without a table being opened, since one may be missing. Numbers of transactions
 * say that a row of a catalogue was written again. Those of pg_class are written by TRUNCATE, too,
 * so there it is what they say. */
#define OURS " c.relnamespace = to_regnamespace('%s') AND c.relname LIKE 'semel\\_%%'"
#define TABLES_AS_MADE                                                                           \
    "(SELECT string_agg(x, ' ' ORDER BY x) FROM (SELECT concat_ws(' ', 'relation', c.oid,"       \
    " relkind, relnatts, relchecks, relacl, reloptions, relrowsecurity, relowner, relreplident)" \
    " AS x FROM pg_class c WHERE" OURS                                                           \
    " UNION ALL SELECT concat_ws(' ', 'column', attrelid, attnum, a.xmin) FROM pg_attribute a"   \
    " JOIN pg_class c ON c.oid = attrelid WHERE" OURS                                            \
    " UNION ALL SELECT concat_ws(' ', 'default', d.oid, d.xmin) FROM pg_attrdef d"               \
    " JOIN pg_class c ON c.oid = adrelid WHERE" OURS                                             \
    " UNION ALL SELECT concat_ws(' ', 'trigger', t.oid, t.xmin) FROM pg_trigger t"               \
    " JOIN pg_class c ON c.oid = tgrelid WHERE" OURS                                             \
    " UNION ALL SELECT concat_ws(' ', 'constraint', k.oid, k.xmin) FROM pg_constraint k"         \
    " JOIN pg_class c ON c.oid = conrelid WHERE" OURS                                            \
    " UNION ALL SELECT concat_ws(' ', 'function', oid, xmin) FROM pg_proc"                       \
    " WHERE pronamespace = to_regnamespace('%s')"                                                \
    " UNION ALL SELECT concat_ws(' ', 'other', oid) FROM pg_class"                               \
    " WHERE relnamespace = to_regnamespace('%s') AND relkind IN ('v', 'm', 'f', 'p')"            \
    " UNION ALL SELECT concat_ws(' ', 'schema', oid, nspacl, nspowner) FROM pg_namespace"        \
    " WHERE nspname = '%s') AS tables)"
#define ROWS_AS_MADE                                                                    \
    "(SELECT string_agg(x, ' ' ORDER BY x) FROM (SELECT m::text AS x FROM semel_meta m" \
    " UNION ALL SELECT s::text FROM semel_schema s) AS made)"

static void print_tables(char *sql, size_t room, const char *schema)
{
    server_print(sql, room, TABLES_AS_MADE, schema, schema, schema, schema, schema, schema, schema,
                 schema);
}

static void print_digest_postgres(char *sql, size_t room, const server_target *at)
{
    char tables[2 * SERVER_SQL_ROOM];
    print_tables(tables, sizeof tables, at->schema);
    server_print(sql, room, "SELECT md5(md5(%s) || md5(%s))", tables, ROWS_AS_MADE);
}

/* TRUNCATE and not DELETE, which would leave what was there to be stepped over. A table that was
 * not written to has no pages; a number may have been taken for a row that did not come. Of the
 * sequences only ours are opened: those of other tests may be gone the next moment. */
static void print_empty_postgres(char *sql, size_t room, const server_target *at,
                                 const char *digest)
{
    char tables[2 * SERVER_SQL_ROOM], end_sessions[SERVER_SQL_ROOM / 2];
    print_end_sessions(end_sessions, sizeof end_sessions, at->schema);
    print_tables(tables, sizeof tables, at->schema);
    server_print(sql, room,
                 "SET lock_timeout = '60s'; SET client_min_messages = error; DO $$"
                 " DECLARE tables text; list text; BEGIN PERFORM %s; tables := md5(%s);"
                 " IF to_regclass('semel_meta') IS NULL OR to_regclass('semel_schema') IS NULL"
                 " THEN RETURN; END IF;"
                 " IF md5(tables || md5(%s)) <> '%s' THEN RETURN; END IF;"
                 " SELECT string_agg(quote_ident(relname), ',') INTO list FROM pg_class"
                 " WHERE relnamespace = to_regnamespace('%s') AND relkind = 'r'"
                 " AND relname NOT LIKE 'semel\\_%%';"
                 " IF list IS NOT NULL THEN EXECUTE 'DROP TABLE ' || list || ' CASCADE'; END IF;"
                 " SELECT string_agg(relname, ',') INTO list FROM pg_class c WHERE relkind = 'r'"
                 " AND relname NOT IN ('semel_meta', 'semel_schema')"
                 " AND pg_relation_size(c.oid) > 0 AND" OURS ";"
                 " IF list IS NOT NULL THEN EXECUTE 'TRUNCATE ' || list || ' RESTART IDENTITY';"
                 " END IF; PERFORM setval(c.oid, 1, false) FROM pg_sequence"
                 " JOIN pg_class c ON c.oid = seqrelid"
                 " WHERE CASE WHEN" OURS " THEN pg_sequence_last_value(seqrelid) END IS NOT NULL;"
                 " PERFORM set_config('semel.emptied', '1', false); END $$;"
                 " SELECT current_setting('semel.emptied', true)",
                 end_sessions, tables, ROWS_AS_MADE, digest, at->schema, at->schema, at->schema);
}

/* The array is made first, and once. */
static void print_aging_postgres(char *sql, size_t room, const server_target *at,
                                 const server_aging *one, int64_t ms)
{
    char changes[SERVER_SQL_ROOM / 4];
    server_print_changes(changes, sizeof changes, one, ms);
    server_print(sql, room,
                 "UPDATE %s%s SET %s WHERE ctid ="
                 " ANY(ARRAY(SELECT ctid FROM %s%s FOR UPDATE SKIP LOCKED))",
                 at->prefix, one->table, changes, at->prefix, one->table);
}

const server_type server_postgres = {
    .name = "postgres",
    .scheme = "postgres",
    .prefix = "POSTGRES",
    .socket = "SOCKET_DIR",
    .each = each_postgres,
    .fresh = fresh_postgres,
    .drop = drop_postgres,
    .print_digest = print_digest_postgres,
    .print_empty = print_empty_postgres,
    .print_aging = print_aging_postgres,
    .select_unlocked = "SELECT",
};
