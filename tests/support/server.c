/* What dev/servers started, seen from a test. It knows where they are from the file that dev/servers wrote,
 * and does nothing by itself that the script can do. A session of its own for each look, as in peek.c: so
 * none stays open over a fork, and none is in the way of a crash. See server.h. */
#include "support/server.h"

#include "support/process.h"

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

enum { SCRIPT_DEADLINE_MS = 120000, CONNECT_S = 10, SQL_ROOM = 2048, NAME_ROOM = 64 };

typedef void row_call(const char *text, void *context);

static _Noreturn void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("server: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    abort();
}

static void print(char *out, size_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(out, room, format, arguments);
    va_end(arguments);
    if (len < 0 || (size_t)len >= room)
        die("no room for \"%s\"", format);
}

/* --- URLs ----------------------------------------------------------------------------------------- */

/* Of the form that dev/servers writes: scheme://user@host:port/database?parameters */
typedef struct target {
    server_kind kind;
    unsigned port;
    char user[NAME_ROOM];
    char host[SERVER_HOST_ROOM];
    char database[NAME_ROOM];
    char schema[NAME_ROOM]; /* PostgreSQL */
    char prefix[NAME_ROOM]; /* of tables; PostgreSQL has no choice */
} target;

static void read_parameter(char out[NAME_ROOM], const char *url, const char *name,
                           const char *fallback)
{
    const char *found = strchr(url, '?');
    size_t len = strlen(name);
    while (found && (strncmp(found + 1, name, len) != 0 || found[1 + len] != '='))
        found = strchr(found + 1, '&');
    const char *value = found ? found + 1 + len + 1 : fallback;
    print(out, NAME_ROOM, "%.*s", (int)strcspn(value, "&"), value);
}

static void parse(target *out, const char *url)
{
    char scheme[NAME_ROOM];
    *out = (target){0};
    if (sscanf(url, "%63[a-z]://%63[^@]@%63[^:/]:%u/%63[^?]", scheme, out->user, out->host,
               &out->port, out->database) != 5)
        die("%s is not like scheme://user@host:port/database", url);
    out->kind = scheme[0] == 'p' ? SERVER_POSTGRES : SERVER_MARIADB;
    read_parameter(out->schema, url, "schema", "public");
    read_parameter(out->prefix, url, "prefix", "semel_");
}

void server_address(const char *url, char host[SERVER_HOST_ROOM], unsigned *port)
{
    target at;
    parse(&at, url);
    print(host, SERVER_HOST_ROOM, "%s", at.host);
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
    print(text, sizeof text, "host=%s port=%u user=%s dbname=%s connect_timeout=%d", at->host,
          at->port, at->user, at->database, CONNECT_S);
    PGconn *conn = PQconnectdb(text);
    if (PQstatus(conn) != CONNECTION_OK)
        die("%s", PQerrorMessage(conn));
    PQsetNoticeProcessor(conn, say_nothing, NULL);
    return conn;
}

static PGresult *execute_postgres(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_EMPTY_QUERY)
        die("%s: %s", sql, PQerrorMessage(conn));
    return result;
}

static void each_postgres(const target *at, const char *sql, row_call *row, void *context)
{
    char path[SQL_ROOM];
    PGconn *conn = connect_postgres(at);
    print(path, sizeof path, "SET search_path TO \"%s\"", at->schema);
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
    die("built without PostgreSQL: %s", sql);
}
#endif

#ifdef SEMEL_WITH_MARIADB
static MYSQL *connect_mariadb(const target *at)
{
    unsigned wait_s = CONNECT_S;
    MYSQL *conn = mysql_init(NULL);
    if (!conn)
        die("no memory for a session");
    mysql_optionsv(conn, MYSQL_OPT_CONNECT_TIMEOUT, &wait_s);
    mysql_optionsv(conn, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!mysql_real_connect(conn, at->host, at->user, NULL, at->database, at->port, NULL,
                            CLIENT_MULTI_STATEMENTS))
        die("%s", mysql_error(conn));
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
        die("%s: %s", sql, mysql_error(conn));
    mysql_close(conn);
}
#else
static void each_mariadb(const target *at, const char *sql, row_call *row, void *context)
{
    (void)at, (void)row, (void)context;
    die("built without MariaDB: %s", sql);
}
#endif

void server_each(const char *url, const char *sql, row_call *row, void *context)
{
    target at;
    parse(&at, url);
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

typedef struct entry {
    const char *name;
    char *value;
    size_t room;
} entry;

static void read_entry(const char *path, const char *prefix, const entry *wanted)
{
    char line[SERVER_URL_ROOM + NAME_ROOM], name[NAME_ROOM];
    FILE *file = fopen(path, "re");
    if (!file)
        die("no %s: ctest starts the servers, or: dev/servers start %s postgres mariadb", path,
            path);
    print(name, sizeof name, "%s_%s=", prefix, wanted->name);
    while (fgets(line, sizeof line, file) && strncmp(line, name, strlen(name)) != 0)
        line[0] = 0;
    (void)fclose(file);
    if (strncmp(line, name, strlen(name)) != 0)
        die("%s does not say %s", path, name);
    line[strcspn(line, "\n")] = 0;
    print(wanted->value, wanted->room, "%s", line + strlen(name));
}

static void read_place(server_place *out, server_kind kind, const char *path)
{
    int is_postgres = kind == SERVER_POSTGRES;
    const entry wanted[] = {
        {"URL", out->url, sizeof out->url},
        {"DIR", out->directory, sizeof out->directory},
        {is_postgres ? "SOCKET_DIR" : "SOCKET", out->socket, sizeof out->socket},
        {"PID_FILE", out->pid_file, sizeof out->pid_file}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        read_entry(path, is_postgres ? "POSTGRES" : "MARIADB", &wanted[i]);
    out->kind = kind;
    server_address(out->url, out->host, &out->port);
}

void server_find(server_place *out, server_kind kind)
{
    const char *path = getenv("SEMEL_TEST_SERVERS");
    read_place(out, kind, path && *path ? path : SEMEL_BINARY_DIR "/servers.env");
}

/* --- stores --------------------------------------------------------------------------------------- */

/* Unique over threads, processes, and processes that got a number for the second time. */
static void invent_name(char name[NAME_ROOM])
{
    static atomic_uint count;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    print(name, NAME_ROOM, "t%x_%llx%08lx_%u", (unsigned)getpid(), (unsigned long long)now.tv_sec,
          (unsigned long)now.tv_nsec, atomic_fetch_add(&count, 1));
}

void server_fresh(char url[SERVER_URL_ROOM], const server_place *where)
{
    char name[NAME_ROOM], sql[SQL_ROOM];
    invent_name(name);
    if (where->kind == SERVER_POSTGRES) {
        print(url, SERVER_URL_ROOM, "%s?schema=%s", where->url, name);
        return;
    }
    print(sql, sizeof sql, "CREATE DATABASE %s", name);
    server_run(where->url, sql);
    print(url, SERVER_URL_ROOM, "mariadb://root@%s:%u/%s", where->host, where->port, name);
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
    print(sql, sizeof sql,
          "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l JOIN pg_class c ON c.oid = "
          "l.relation"
          " JOIN pg_namespace n ON n.oid = c.relnamespace"
          " WHERE n.nspname = '%s' AND l.pid <> pg_backend_pid();"
          " SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS \"%s\" CASCADE",
          at->schema, at->schema);
    server_run(url, sql);
}

/* 1094: it has ended by itself, meanwhile. */
static void end_sessions_mariadb(const char *other_url, const target *at)
{
    char sql[SQL_ROOM];
    print(sql, sizeof sql,
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
    print(other, sizeof other, "mariadb://%s@%s:%u/mysql", at.user, at.host, at.port);
    end_sessions_mariadb(other, &at);
    print(sql, sizeof sql, "SET lock_wait_timeout = 10; DROP DATABASE IF EXISTS `%s`", at.database);
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
    {"dead", {"at_ms", NULL}, "dead_id", "dead_id = r.dead_id"}};

static void print_changes(char *out, size_t room, const aging *one, long long ms)
{
    const char *first = one->times[0], *second = one->times[1];
    if (second)
        print(out, room, "%s = %s - %lld, %s = %s - %lld", first, first, ms, second, second, ms);
    else
        print(out, room, "%s = %s - %lld", first, first, ms);
}

/* PostgreSQL: the array is made first, and once. MariaDB has no SKIP LOCKED in an UPDATE, and a join with a
 * SELECT that has it may be turned round and wait; so row by row, where to wait is an error to pass over. */
static void print_aging(char *sql, const target *at, const aging *one, int64_t ms)
{
    char changes[SQL_ROOM / 4];
    print_changes(changes, sizeof changes, one, (long long)ms);
    if (at->kind == SERVER_POSTGRES)
        print(sql, SQL_ROOM,
              "UPDATE semel_%s SET %s WHERE ctid ="
              " ANY(ARRAY(SELECT ctid FROM semel_%s FOR UPDATE SKIP LOCKED))",
              one->table, changes, one->table);
    else
        print(sql, SQL_ROOM,
              "SET innodb_lock_wait_timeout = 0; BEGIN NOT ATOMIC"
              " DECLARE CONTINUE HANDLER FOR 1205, 1213 BEGIN END;"
              " FOR r IN (SELECT %s FROM `%s%s`) DO UPDATE `%s%s` SET %s WHERE %s; END FOR; END",
              one->key, at->prefix, one->table, at->prefix, one->table, changes, one->same_key);
}

/* All in one session, and in PostgreSQL one transaction: it waits for nobody, so it is in nobody's way. */
void server_pass_ms(const char *url, int64_t ms)
{
    target at;
    char one[SQL_ROOM], all[sizeof agings / sizeof *agings * SQL_ROOM] = "";
    parse(&at, url);
    for (size_t i = 0; i < sizeof agings / sizeof *agings; i++) {
        size_t used = strlen(all);
        print_aging(one, &at, &agings[i], ms);
        print(all + used, sizeof all - used, "%s%s", i ? "; " : "", one);
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
        die("cannot run %s: %s", script, strerror(code));
    if (process_wait(pid, SCRIPT_DEADLINE_MS) != 0)
        die("%s %s failed", script, arguments[0]);
}

static const char *name_of(server_kind kind)
{
    return kind == SERVER_POSTGRES ? "postgres" : "mariadb";
}

static void command(const server_own *own, const char *verb)
{
    run_script((const char *const[]){verb, own->state, name_of(own->at.kind), NULL});
}

void server_own_start(server_own *own, server_kind kind)
{
    scratch_open(&own->directory);
    scratch_file(own->state, &own->directory, "servers.env");
    run_script((const char *const[]){"start", "--watch", own->state, name_of(kind), NULL});
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
