/* What dev/servers started, seen from a test. It knows where they are from the file that dev/servers wrote,
 * and does nothing by itself that the script can do. A session of its own for each look, as in inspect_sqlite.c: so
 * none stays open over a fork, and none is in the way of a crash. See server.h. */
#include "support/servers/server.h"

#include "support/process/process.h"
#include "support/servers/server_internal.h"

#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef SEMEL_WITH_POSTGRES
#include <libpq-fe.h>
#endif
#ifdef SEMEL_WITH_MARIADB
#include <mysql.h>
#endif

enum { SCRIPT_DEADLINE_MS = 120000, CONNECT_S = 60, LET_GO_MS = 15000, SQL_ROOM = 2048 };

typedef void row_call(const char *text, void *context);

_Noreturn void server_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("server: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void server_print(char *out, size_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(out, room, format, arguments);
    va_end(arguments);
    if (len < 0 || (size_t)len >= room)
        server_die("no room for \"%s\"", format);
}

/* --- URLs ----------------------------------------------------------------------------------------- */

/* Of the form that dev/servers writes: scheme://user@host:port/database?parameters */
typedef struct target {
    server_kind kind;
    unsigned port;
    char user[SERVER_NAME_ROOM];
    char host[SERVER_HOST_ROOM];
    char database[SERVER_NAME_ROOM];
    char schema[SERVER_NAME_ROOM]; /* PostgreSQL */
    char prefix[SERVER_NAME_ROOM]; /* of tables; PostgreSQL has no choice */
} target;

void server_parameter(char out[SERVER_NAME_ROOM], const char *url, const char *name,
                      const char *fallback)
{
    const char *found = strchr(url, '?');
    size_t len = strlen(name);
    while (found && (strncmp(found + 1, name, len) != 0 || found[1 + len] != '='))
        found = strchr(found + 1, '&');
    const char *value = found ? found + 1 + len + 1 : fallback;
    server_print(out, SERVER_NAME_ROOM, "%.*s", (int)strcspn(value, "&"), value);
}

static server_kind kind_of_scheme(const char *scheme)
{
    if (strncmp(scheme, "amqp", 4) == 0)
        return SERVER_RABBITMQ;
    return scheme[0] == 'p' ? SERVER_POSTGRES : SERVER_MARIADB;
}

static void parse(target *out, const char *url)
{
    char scheme[SERVER_NAME_ROOM];
    *out = (target){0};
    if (sscanf(url, "%63[a-z]://%63[^@]@%63[^:/]:%u/%63[^?]", scheme, out->user, out->host,
               &out->port, out->database) != 5)
        server_die("%s is not like scheme://user@host:port/database", url);
    out->kind = kind_of_scheme(scheme);
    server_parameter(out->schema, url, "schema", "public");
    server_parameter(out->prefix, url, "prefix", "semel_");
}

void server_address(const char *url, char host[SERVER_HOST_ROOM], unsigned *port)
{
    target at;
    parse(&at, url);
    server_print(host, SERVER_HOST_ROOM, "%s", at.host);
    *port = at.port;
}

/* --- SQL ------------------------------------------------------------------------------------------ */

#ifdef SEMEL_WITH_POSTGRES
static void say_nothing(void *context, const char *text)
{
    (void)context;
    (void)text;
}

static PGconn *connect_postgres(const target *at)
{
    char text[SQL_ROOM];
    server_print(text, sizeof text, "host=%s port=%u user=%s dbname=%s connect_timeout=%d",
                 at->host, at->port, at->user, at->database, CONNECT_S);
    int64_t deadline = process_now_ms() + CONNECT_S * 1000;
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

static void each_postgres(const target *at, const char *sql, row_call *row, void *context)
{
    char path[SQL_ROOM];
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
static void each_postgres(const target *at, const char *sql, row_call *row, void *context)
{
    (void)at, (void)row, (void)context;
    server_die("built without PostgreSQL: %s", sql);
}
#endif

#ifdef SEMEL_WITH_MARIADB
static MYSQL *init_mariadb(void)
{
    unsigned wait_s = CONNECT_S;
    MYSQL *conn = mysql_init(NULL);
    if (!conn)
        server_die("no memory for a session");
    mysql_optionsv(conn, MYSQL_OPT_CONNECT_TIMEOUT, &wait_s);
    mysql_optionsv(conn, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_optionsv(conn, MYSQL_INIT_COMMAND, /* whatever dialect the server is set to */
                   "SET SESSION sql_mode = REPLACE(@@sql_mode, 'ORACLE', '')");
    return conn;
}

static MYSQL *connect_mariadb(const target *at)
{
    int64_t deadline = process_now_ms() + CONNECT_S * 1000;
    MYSQL *conn = init_mariadb();
    while (!mysql_real_connect(conn, at->host, at->user, NULL, at->database, at->port, NULL,
                               CLIENT_MULTI_STATEMENTS)) { /* as above */
        if (process_now_ms() > deadline)
            server_die("%s", mysql_error(conn));
        mysql_close(conn);
        process_nap();
        conn = init_mariadb();
    }
    return conn;
}

static void take_rows(MYSQL *conn, row_call *row, void *context)
{
    MYSQL_RES *result = mysql_store_result(conn);
    MYSQL_ROW columns;
    while (result && (columns = mysql_fetch_row(result)) != NULL)
        if (row)
            row(columns[0], context);
    mysql_free_result(result);
}

static void each_mariadb(const target *at, const char *sql, row_call *row, void *context)
{
    MYSQL *conn = connect_mariadb(at);
    int more = mysql_query(conn, sql); /* 0: there is a result, as mysql_next_result() has it */
    for (; more == 0; more = mysql_next_result(conn))
        take_rows(conn, row, context);
    if (mysql_errno(conn))
        server_die("%s: %s", sql, mysql_error(conn));
    mysql_close(conn);
}
#else
static void each_mariadb(const target *at, const char *sql, row_call *row, void *context)
{
    (void)at, (void)row, (void)context;
    server_die("built without MariaDB: %s", sql);
}
#endif

void server_each(const char *url, const char *sql, row_call *row, void *context)
{
    target at;
    parse(&at, url);
    if (at.kind == SERVER_RABBITMQ)
        server_die("a broker has no SQL: %s", sql);
    (at.kind == SERVER_POSTGRES ? each_postgres : each_mariadb)(&at, sql, row, context);
}

void server_run(const char *url, const char *sql)
{
    server_each(url, sql, NULL, NULL);
}

static void keep_number(const char *text, void *context)
{
    int64_t **next = context;
    if (*next)
        **next = text ? strtoll(text, NULL, 10) : 0;
    *next = NULL;
}

int64_t server_number(const char *url, const char *sql)
{
    int64_t number = 0, *next = &number;
    server_each(url, sql, keep_number, &next);
    return number;
}

/* --- where they are ------------------------------------------------------------------------------- */

static const struct {
    const char *name, *prefix;
    const char *socket; /* what the file calls it */
} kinds[] = {[SERVER_POSTGRES] = {"postgres", "POSTGRES", "SOCKET_DIR"},
             [SERVER_MARIADB] = {"mariadb", "MARIADB", "SOCKET"},
             [SERVER_RABBITMQ] = {"rabbitmq", "RABBITMQ", NULL}};

void server_entry(char *out, size_t room, const server_place *where, const char *name)
{
    char line[SERVER_URL_ROOM + SERVER_NAME_ROOM], wanted[SERVER_NAME_ROOM];
    FILE *file = fopen(where->state, "re");
    if (!file)
        server_die(
            "no %s: ctest starts the servers, or: dev/servers start %s postgres mariadb rabbitmq",
            where->state, where->state);
    server_print(wanted, sizeof wanted, "%s_%s=", kinds[where->kind].prefix, name);
    while (fgets(line, sizeof line, file) && strncmp(line, wanted, strlen(wanted)) != 0)
        line[0] = 0;
    (void)fclose(file);
    if (strncmp(line, wanted, strlen(wanted)) != 0)
        server_die("%s does not say %s", where->state, wanted);
    line[strcspn(line, "\n")] = 0;
    server_print(out, room, "%s", line + strlen(wanted));
}

static void read_place(server_place *out, server_kind kind, const char *path)
{
    *out = (server_place){.kind = kind};
    server_print(out->state, sizeof out->state, "%s", path);
    server_entry(out->url, sizeof out->url, out, "URL");
    server_entry(out->directory, sizeof out->directory, out, "DIR");
    server_entry(out->pid_file, sizeof out->pid_file, out, "PID_FILE");
    if (kinds[kind].socket)
        server_entry(out->socket, sizeof out->socket, out, kinds[kind].socket);
    server_address(out->url, out->host, &out->port);
}

void server_find(server_place *out, server_kind kind)
{
    const char *path = getenv("SEMEL_TEST_SERVERS");
    read_place(out, kind, path && *path ? path : SEMEL_BINARY_DIR "/servers.env");
}

/* --- stores --------------------------------------------------------------------------------------- */

void server_invent_name(char name[SERVER_NAME_ROOM])
{
    static atomic_uint count;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    server_print(name, SERVER_NAME_ROOM, "t%x_%llx%08lx_%u", (unsigned)getpid(),
                 (unsigned long long)now.tv_sec, (unsigned long)now.tv_nsec,
                 atomic_fetch_add(&count, 1));
}

void server_fresh(char url[SERVER_URL_ROOM], const server_place *where)
{
    char name[SERVER_NAME_ROOM], sql[SQL_ROOM];
    server_invent_name(name);
    if (where->kind == SERVER_POSTGRES) {
        server_print(url, SERVER_URL_ROOM, "%s?schema=%s", where->url, name);
        return;
    }
    server_print(sql, sizeof sql, "CREATE DATABASE %s", name);
    server_run(where->url, sql);
    server_print(url, SERVER_URL_ROOM, "mariadb://root@%s:%u/%s", where->host, where->port, name);
}

void server_fresh_postgres(char url[SERVER_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_POSTGRES);
    server_fresh(url, &shared);
}

void server_fresh_mariadb(char url[SERVER_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_MARIADB);
    server_fresh(url, &shared);
}

static void drop_postgres(const char *url, const target *at)
{
    char sql[SQL_ROOM];
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

/* 1094: it has ended by itself, meanwhile. */
static void end_sessions_mariadb(const char *other_url, const target *at)
{
    char sql[SQL_ROOM];
    server_print(sql, sizeof sql,
                 "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END;"
                 " FOR r IN (SELECT id FROM information_schema.processlist"
                 " WHERE db = '%s' AND id <> connection_id()) DO KILL r.id; END FOR; END",
                 at->database);
    server_run(other_url, sql);
}

void server_drop(const char *url)
{
    target at;
    char sql[SQL_ROOM], other[SERVER_URL_ROOM];
    parse(&at, url);
    if (at.kind == SERVER_POSTGRES) {
        drop_postgres(url, &at);
        return;
    }
    server_print(other, sizeof other, "mariadb://%s@%s:%u/mysql", at.user, at.host, at.port);
    end_sessions_mariadb(other, &at);
    server_print(sql, sizeof sql, "SET lock_wait_timeout = 60; DROP DATABASE IF EXISTS `%s`",
                 at.database);
    server_run(other, sql);
}

/* --- time ----------------------------------------------------------------------------------------- */

typedef struct aging {
    const char *table;
    const char *times[2];
    const char *key, *same_key;
} aging;

static const aging agings[] = {
    {"marker", {"at_ms", "lease_until_ms"}, "inbox, `key`", "inbox = r.inbox AND `key` = r.`key`"},
    {"outbox", {"wake_ms", "captured_ms"}, "seq", "seq = r.seq"},
    {"dead", {"at_ms", NULL}, "dead_id", "dead_id = r.dead_id"},
    {"group", {"due_ms", NULL}, "outbox, grp", "outbox = r.outbox AND grp = r.grp"}};

static void print_changes(char *out, size_t room, const aging *one, long long ms)
{
    const char *first = one->times[0], *second = one->times[1];
    if (second)
        server_print(out, room, "%s = %s - %lld, %s = %s - %lld", first, first, ms, second, second,
                     ms);
    else
        server_print(out, room, "%s = %s - %lld", first, first, ms);
}

/* PostgreSQL: the array is made first, and once. MariaDB has no SKIP LOCKED in an UPDATE, and a join with a
 * SELECT that has it may be turned round and wait; so row by row, where to wait is an error to pass over. */
static void print_aging(char *sql, const target *at, const aging *one, int64_t ms)
{
    char changes[SQL_ROOM / 4];
    print_changes(changes, sizeof changes, one, (long long)ms);
    if (at->kind == SERVER_POSTGRES)
        server_print(sql, SQL_ROOM,
                     "UPDATE semel_%s SET %s WHERE ctid ="
                     " ANY(ARRAY(SELECT ctid FROM semel_%s FOR UPDATE SKIP LOCKED))",
                     one->table, changes, one->table);
    else
        server_print(
            sql, SQL_ROOM,
            "SET innodb_lock_wait_timeout = 0; BEGIN NOT ATOMIC"
            " DECLARE CONTINUE HANDLER FOR 1205, 1213 BEGIN END;"
            " FOR r IN (SELECT %s FROM `%s%s`) DO UPDATE `%s%s` SET %s WHERE %s; END FOR; END",
            one->key, at->prefix, one->table, at->prefix, one->table, changes, one->same_key);
}

static int64_t count_locked(const char *url, const target *at)
{
    char sql[SQL_ROOM];
    size_t used = 0;
    int maria = at->kind == SERVER_MARIADB; /* which would lock gaps as well */
    for (size_t i = 0; i < sizeof agings / sizeof *agings; i++) {
        const char *prefix = maria ? at->prefix : "semel_", *table = agings[i].table;
        const char *first = maria ? "SET tx_isolation = 'READ-COMMITTED'; SELECT" : "SELECT";
        server_print(sql + used, sizeof sql - used,
                     "%s (SELECT count(*) FROM %s%s) - (SELECT count(*) FROM"
                     " (SELECT 1 AS one FROM %s%s FOR UPDATE SKIP LOCKED) AS free_%s)",
                     i ? " +" : first, prefix, table, prefix, table, table);
        used = strlen(sql);
    }
    return server_number(url, sql);
}

/* A server may be late to carry out a ROLLBACK that nobody waits for, and until then the row does not age. */
void server_pass_ms(const char *url, int64_t ms)
{
    target at;
    int64_t deadline = process_now_ms() + LET_GO_MS;
    parse(&at, url);
    while (count_locked(url, &at) && process_now_ms() < deadline)
        process_nap();
    server_pass_unlocked_ms(url, ms);
}

/* All in one session, and in PostgreSQL one transaction: it waits for nobody, so it is in nobody's way. */
void server_pass_unlocked_ms(const char *url, int64_t ms)
{
    target at;
    char one[SQL_ROOM], all[sizeof agings / sizeof *agings * SQL_ROOM] = "";
    parse(&at, url);
    for (size_t i = 0; i < sizeof agings / sizeof *agings; i++) {
        size_t used = strlen(all);
        print_aging(one, &at, &agings[i], ms);
        server_print(all + used, sizeof all - used, "%s%s", i ? "; " : "", one);
    }
    server_run(url, all);
}

/* --- a server of one's own ------------------------------------------------------------------------ */

/* arguments: ends with NULL; the path of the script goes before it. */
static void run_script(const char *const *arguments)
{
    static const char script[] = SEMEL_SOURCE_DIR "/dev/servers";
    const char *all[8] = {script};
    pid_t pid;
    for (size_t i = 0; arguments[i]; i++)
        all[i + 1] = arguments[i];
    int code = posix_spawn(&pid, script, NULL, NULL, (char *const *)(uintptr_t)all, environ);
    if (code)
        server_die("cannot run %s: %s", script, strerror(code));
    if (process_wait(pid, SCRIPT_DEADLINE_MS) != 0)
        server_die("%s %s failed", script, arguments[0]);
}

static void command(const server_own *own, const char *verb)
{
    run_script((const char *const[]){verb, own->state, kinds[own->at.kind].name, NULL});
}

void server_own_start(server_own *own, server_kind kind)
{
    scratch_open(&own->directory);
    scratch_file(own->state, &own->directory, "servers.env");
    run_script((const char *const[]){"start", "--watch", own->state, kinds[kind].name, NULL});
    read_place(&own->at, kind, own->state);
}

void server_own_crash(server_own *own)
{
    command(own, "crash");
}

void server_own_halt(server_own *own)
{
    command(own, "halt");
}

void server_own_restart(server_own *own)
{
    command(own, "restart");
}

void server_own_stop(server_own *own)
{
    run_script((const char *const[]){"stop", own->state, NULL});
    scratch_close(&own->directory);
}
