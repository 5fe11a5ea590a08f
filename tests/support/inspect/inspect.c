/* See inspect.h. On a server the session is kept, because a test that looks some thousand times
 * would spend its time connecting; each process has its own, and a new one when the last was
 * cut. */
#include "support/inspect/inspect.h"

#include "support/inspect/inspect_sqlite.h"
#include "support/process/process.h"
#include "support/servers/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SEMEL_WITH_POSTGRES
#include <libpq-fe.h>
#endif
#ifdef SEMEL_WITH_MARIADB
#include <mysql.h>
#endif

enum { QUIET_MS = 60000 };

#define SQLITE "sqlite:"

typedef void row_call(const char *text, void *context);

int inspect_is_server(const char *url)
{
    return strncmp(url, SQLITE, strlen(SQLITE)) != 0;
}

int inspect_is_postgres(const char *url)
{
    return url[0] == 'p';
}

static const char *path_of(const char *url)
{
    return url + strlen(SQLITE);
}

/* --- sessions --------------------------------------------------------------------------------- */

static struct session {
    char url[SERVER_URL_ROOM];
    pid_t pid; /* of the process that opened it: after a fork the child must not use it */
    void *on;
} kept;

static _Noreturn void die(const char *sql, const char *why)
{
    (void)fprintf(stderr, "look: %s: %s\n", sql, why);
    abort();
}

#ifdef SEMEL_WITH_POSTGRES
static void say_nothing(void *context, const char *text)
{
    (void)context;
    (void)text;
}

static void *open_postgres(const char *url)
{
    char text[2 * SERVER_URL_ROOM];
    const char *schema = strstr(url, "schema=");
    (void)snprintf(text, sizeof text, "%.*s?connect_timeout=60&options=-csearch_path%%3D%.*s",
                   (int)strcspn(url, "?"), url, schema ? (int)strcspn(schema + 7, "&") : 6,
                   schema ? schema + 7 : "public");
    int64_t deadline = process_now_ms() + QUIET_MS;
    PGconn *conn = PQconnectdb(text);
    for (; PQstatus(conn) != CONNECTION_OK; PQreset(conn)) { /* others may have all of its slots */
        if (process_now_ms() > deadline)
            die(url, PQerrorMessage(conn));
        process_nap();
    }
    PQsetNoticeProcessor(conn, say_nothing, NULL);
    return conn;
}

/* 0 if the session was cut. */
static int ask_postgres(PGconn *conn, const char *sql, row_call *row, void *context)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    int done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (!done && PQstatus(conn) == CONNECTION_OK)
        die(sql, PQerrorMessage(conn));
    for (int i = 0; row && i < PQntuples(result); i++)
        row(PQgetisnull(result, i, 0) ? NULL : PQgetvalue(result, i, 0), context);
    PQclear(result);
    return done;
}
#endif

#ifdef SEMEL_WITH_MARIADB
static void *open_mariadb(const char *url)
{
    char host[SERVER_HOST_ROOM];
    unsigned port;
    const char *database = strrchr(url, '/') + 1;
    MYSQL *conn = mysql_init(NULL);
    server_address(url, host, &port);
    if (!conn || !mysql_real_connect(conn, host, "root", NULL, database, port, NULL,
                                     CLIENT_MULTI_STATEMENTS))
        die(url, conn ? mysql_error(conn) : "no memory");
    return conn;
}

static int ask_mariadb(MYSQL *conn, const char *sql, row_call *row, void *context)
{
    MYSQL_ROW columns;
    int more = mysql_query(conn, sql);
    for (; more == 0; more = mysql_next_result(conn)) {
        MYSQL_RES *result = mysql_store_result(conn);
        while (result && (columns = mysql_fetch_row(result)) != NULL)
            if (row)
                row(columns[0], context);
        mysql_free_result(result);
    }
    unsigned code = mysql_errno(conn);
    int cut = code >= 2000 || code == 1927; /* the client's own numbers; "connection was killed" */
    if (code && !cut)
        die(sql, mysql_error(conn));
    return !code;
}
#endif

static void close_kept(void)
{
    int ours = kept.on && kept.pid == getpid();
#ifdef SEMEL_WITH_POSTGRES
    if (ours && inspect_is_postgres(kept.url))
        PQfinish(kept.on);
#endif
#ifdef SEMEL_WITH_MARIADB
    if (ours && !inspect_is_postgres(kept.url))
        mysql_close(kept.on);
#endif
    (void)ours;
    kept.on = NULL;
}

static void *session_of(const char *url)
{
    if (kept.on && kept.pid == getpid() && strcmp(kept.url, url) == 0)
        return kept.on;
    close_kept();
    (void)snprintf(kept.url, sizeof kept.url, "%s", url);
    kept.pid = getpid();
#ifdef SEMEL_WITH_POSTGRES
    if (inspect_is_postgres(url))
        kept.on = open_postgres(url);
#endif
#ifdef SEMEL_WITH_MARIADB
    if (!inspect_is_postgres(url))
        kept.on = open_mariadb(url);
#endif
    if (!kept.on)
        die(url, "this server is not built in");
    return kept.on;
}

static int ask(const char *url, const char *sql, row_call *row, void *context)
{
    void *on = session_of(url);
#ifdef SEMEL_WITH_POSTGRES
    if (inspect_is_postgres(url))
        return ask_postgres(on, sql, row, context);
#endif
#ifdef SEMEL_WITH_MARIADB
    if (!inspect_is_postgres(url))
        return ask_mariadb(on, sql, row, context);
#endif
    (void)on, (void)sql, (void)row, (void)context;
    return 0;
}

static void ask_server(const char *url, const char *sql, row_call *row, void *context)
{
    if (ask(url, sql, row, context))
        return;
    close_kept();
    if (!ask(url, sql, row, context))
        die(sql, "the session is cut again and again");
}

/* --- looks ------------------------------------------------------------------------------------ */

void inspect_each(const char *url, const char *sql, row_call *row, void *context)
{
    if (inspect_is_server(url))
        ask_server(url, sql, row, context);
    else
        inspect_sqlite_each(path_of(url), sql, row, context);
}

void inspect_run(const char *url, const char *sql)
{
    if (inspect_is_server(url))
        ask_server(url, sql, NULL, NULL);
    else
        inspect_sqlite_run(path_of(url), sql);
}

static void keep_first(const char *text, void *context)
{
    int64_t **next = context;
    if (*next)
        **next = text ? strtoll(text, NULL, 10) : 0;
    *next = NULL;
}

int64_t inspect_number(const char *url, const char *sql)
{
    int64_t number = 0, *next = &number;
    inspect_each(url, sql, keep_first, &next);
    return number;
}

static void keep_next(const char *text, void *context)
{
    int64_t **next = context;
    *(*next)++ = text ? strtoll(text, NULL, 10) : 0;
}

/* UNION ALL promises no order, so each row says where it belongs. */
void inspect_numbers(int64_t out[], const char *url, const char *const sqls[], size_t count)
{
    char all[2048] = "SELECT number FROM (";
    int64_t *next = out;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(all);
        (void)snprintf(all + len, sizeof all - len, "%sSELECT %zu AS place, (%s) AS number",
                       i ? " UNION ALL " : "", i, sqls[i]);
    }
    strcat(all, ") AS every_one ORDER BY place");
    inspect_each(url, all, keep_next, &next);
}

void inspect_pass_ms(const char *url, int64_t ms)
{
    if (inspect_is_server(url))
        server_pass_ms(url, ms);
}

void inspect_wait_quiet(const char *url)
{
    static const char postgres[] =
        "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
        " WHERE c.relnamespace = to_regnamespace(current_schema()::text)"
        " AND l.pid <> pg_backend_pid()";
    static const char mariadb[] = "SELECT count(*) FROM information_schema.processlist"
                                  " WHERE db = database() AND id <> connection_id()";
    int64_t deadline = process_now_ms() + QUIET_MS;
    if (!inspect_is_server(url))
        return;
    while (inspect_number(url, inspect_is_postgres(url) ? postgres : mariadb)) {
        if (process_now_ms() > deadline)
            die(url, "another session still works there");
        process_nap();
    }
}
