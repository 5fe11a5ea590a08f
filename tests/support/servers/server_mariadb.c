/* MariaDB as a server of tests: a store is a database. See server_internal.h. */
#include "support/process/process.h"
#include "support/servers/server_internal.h"

#ifdef SEMEL_WITH_MARIADB
#include <mysql.h>

static MYSQL *init_mariadb(void)
{
    unsigned wait_s = SERVER_CONNECT_S;
    MYSQL *conn = mysql_init(NULL);
    if (!conn)
        server_die("no memory for a session");
    mysql_optionsv(conn, MYSQL_OPT_CONNECT_TIMEOUT, &wait_s);
    mysql_optionsv(conn, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_optionsv(conn, MYSQL_INIT_COMMAND, /* whatever dialect the server is set to */
                   "SET SESSION sql_mode = REPLACE(@@sql_mode, 'ORACLE', '')");
    return conn;
}

static MYSQL *connect_mariadb(const server_target *at)
{
    int64_t deadline = process_now_ms() + SERVER_CONNECT_S * 1000;
    MYSQL *conn = init_mariadb();
    while (!mysql_real_connect(conn, at->host, at->user, NULL, at->database, at->port, NULL,
                               CLIENT_MULTI_STATEMENTS)) { /* others may have all of its slots */
        if (process_now_ms() > deadline)
            server_die("%s", mysql_error(conn));
        mysql_close(conn);
        process_nap();
        conn = init_mariadb();
    }
    return conn;
}

static void take_rows(MYSQL *conn, server_row *row, void *context)
{
    MYSQL_RES *result = mysql_store_result(conn);
    MYSQL_ROW columns;
    while (result && (columns = mysql_fetch_row(result)) != NULL)
        if (row)
            row(columns[0], context);
    mysql_free_result(result);
}

static void each_mariadb(const server_target *at, const char *sql, server_row *row, void *context)
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
#define each_mariadb NULL
#endif

static void fresh_mariadb(char url[SERVER_URL_ROOM], const server_place *where, const char *name)
{
    char sql[SERVER_SQL_ROOM];
    server_print(sql, sizeof sql, "CREATE DATABASE %s", name);
    server_run(where->url, sql);
    server_print(url, SERVER_URL_ROOM, "mariadb://root@%s:%u/%s", where->host, where->port, name);
}

/* 1094: it has ended by itself, meanwhile. */
static void end_sessions_mariadb(const char *other_url, const server_target *at)
{
    char sql[SERVER_SQL_ROOM];
    server_print(sql, sizeof sql,
                 "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END;"
                 " FOR r IN (SELECT id FROM information_schema.processlist"
                 " WHERE db = '%s' AND id <> connection_id()) DO KILL r.id; END FOR; END",
                 at->database);
    server_run(other_url, sql);
}

static void drop_mariadb(const char *url, const server_target *at)
{
    char sql[SERVER_SQL_ROOM], other[SERVER_URL_ROOM];
    (void)url;
    server_print(other, sizeof other, "mariadb://%s@%s:%u/mysql", at->user, at->host, at->port);
    end_sessions_mariadb(other, at);
    server_print(sql, sizeof sql, "SET lock_wait_timeout = 60; DROP DATABASE IF EXISTS `%s`",
                 at->database);
    server_run(other, sql);
}

/* MariaDB has no SKIP LOCKED in an UPDATE, and a join with a SELECT that has it may be turned round
 * and wait; so row by row, where to wait is an error to pass over. */
static void print_aging_mariadb(char *sql, size_t room, const server_target *at,
                                const server_aging *one, int64_t ms)
{
    char changes[SERVER_SQL_ROOM / 4];
    server_print_changes(changes, sizeof changes, one, ms);
    server_print(sql, room,
                 "SET innodb_lock_wait_timeout = 0; BEGIN NOT ATOMIC"
                 " DECLARE CONTINUE HANDLER FOR 1205, 1213 BEGIN END;"
                 " FOR r IN (SELECT %s FROM `%s%s`) DO UPDATE `%s%s` SET %s WHERE %s; END FOR; END",
                 one->key, at->prefix, one->table, at->prefix, one->table, changes, one->same_key);
}

const server_type server_mariadb = {
    .name = "mariadb",
    .scheme = "mariadb",
    .prefix = "MARIADB",
    .socket = "SOCKET",
    .each = each_mariadb,
    .fresh = fresh_mariadb,
    .drop = drop_mariadb,
    .print_aging = print_aging_mariadb,
    .select_unlocked =
        "SET tx_isolation = 'READ-COMMITTED'; SELECT", /* else gaps are locked, too */
};
