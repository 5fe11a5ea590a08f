/* PostgreSQL as a server of tests: a store is a schema. See server_internal.h. */
#include "support/process/process.h"
#include "support/servers/server_internal.h"

#ifdef SEMEL_WITH_POSTGRES
#include <libpq-fe.h>

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

static void each_postgres(const server_target *at, const char *sql, server_row *row, void *context)
{
    char path[SERVER_SQL_ROOM];
    PGconn *conn = connect_postgres(at);
    server_print(path, sizeof path, "SET search_path TO \"%s\"", at->schema);
    PQclear(execute_postgres(conn, path));
    PGresult *result = execute_postgres(conn, sql);
    for (int i = 0; row && i < PQntuples(result); i++)
        row(PQgetisnull(result, i, 0) ? NULL : PQgetvalue(result, i, 0), context);
    PQclear(result);
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

static void drop_postgres(const char *url, const server_target *at)
{
    char sql[SERVER_SQL_ROOM];
    server_print(
        sql, sizeof sql,
        "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l JOIN pg_class c ON c.oid = "
        "l.relation"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = '%s' AND l.pid <> pg_backend_pid();"
        " SET lock_timeout = '60s'; DROP SCHEMA IF EXISTS \"%s\" CASCADE",
        at->schema, at->schema);
    server_run(url, sql);
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
    .print_aging = print_aging_postgres,
    .select_unlocked = "SELECT",
};
