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

#define SESSIONS "information_schema.processlist WHERE db = '%s' AND id <> connection_id()"

/* It waits until they are gone, for a while: a session that was killed may be in a statement.
 * 1094: it has ended by itself, meanwhile. */
static void print_end_sessions(char *sql, size_t room, const char *database)
{
    server_print(sql, room,
                 "BEGIN NOT ATOMIC DECLARE naps INT DEFAULT 0;"
                 " DECLARE CONTINUE HANDLER FOR 1094 BEGIN END;"
                 " FOR r IN (SELECT id FROM " SESSIONS ") DO KILL r.id; END FOR;"
                 " WHILE naps < 5000 AND EXISTS (SELECT 1 FROM " SESSIONS ") DO"
                 " DO SLEEP(0.001); SET naps = naps + 1; END WHILE; END",
                 database, database);
}

static void drop_mariadb(const char *url, const server_target *at)
{
    char sql[SERVER_SQL_ROOM], end_sessions[SERVER_SQL_ROOM / 2], other[SERVER_URL_ROOM];
    (void)url;
    server_print(other, sizeof other, "mariadb://%s@%s:%u/mysql", at->user, at->host, at->port);
    print_end_sessions(end_sessions, sizeof end_sessions, at->database);
    server_print(sql, sizeof sql, "%s; SET lock_wait_timeout = 60; DROP DATABASE IF EXISTS `%s`",
                 end_sessions, at->database);
    server_run(other, sql);
}

/* What the catalogues say of a database: tables, columns, indexes, checks, triggers, routines,
 * events and rights. Neither numbers of tables nor times of their making, which TRUNCATE changes,
 * too. Tables of tests are not in it. The
 * database is named, since DATABASE() would have the server look into all of them. */
#define OURS " LIKE 'semel\\_%%'"
#define ALL_OF(texts) \
    "(SELECT MD5(GROUP_CONCAT(x ORDER BY x SEPARATOR '\n')) FROM (" texts ") AS a)"
#define TABLES_AS_MADE                                                                             \
    "SELECT CONCAT_WS(' ', 'table', table_name, table_type, engine, row_format, table_collation,"  \
    " create_options) AS x FROM information_schema.tables"                                         \
    " WHERE table_schema = '%s' AND (table_name" OURS " OR table_type <> 'BASE TABLE')"            \
    " UNION ALL SELECT CONCAT_WS(' ', 'column', table_name, ordinal_position, column_name,"        \
    " column_type, is_nullable, IFNULL(column_default, '-'), extra,"                               \
    " IFNULL(generation_expression, '-'), IFNULL(collation_name, '-'))"                            \
    " FROM information_schema.columns WHERE table_schema = '%s' AND table_name" OURS               \
    " UNION ALL SELECT CONCAT_WS(' ', 'index', table_name, index_name, seq_in_index, column_name," \
    " non_unique, IFNULL(sub_part, '-')) FROM information_schema.statistics"                       \
    " WHERE table_schema = '%s' AND table_name" OURS                                               \
    " UNION ALL SELECT CONCAT_WS(' ', 'check', table_name, constraint_name, check_clause)"         \
    " FROM information_schema.check_constraints"                                                   \
    " WHERE constraint_schema = '%s' AND table_name" OURS                                          \
    " UNION ALL SELECT CONCAT_WS(' ', 'trigger', trigger_name, event_object_table)"                \
    " FROM information_schema.triggers"                                                            \
    " WHERE trigger_schema = '%s' AND event_object_table" OURS
#define OTHERS_AS_MADE                                                                            \
    "SELECT CONCAT_WS(' ', 'routine', name, type, modified, MD5(body), MD5(param_list), comment)" \
    " AS x FROM mysql.proc WHERE db = '%s'"                                                       \
    " UNION ALL SELECT CONCAT_WS(' ', 'event', name) FROM mysql.event WHERE db = '%s'"            \
    " UNION ALL SELECT CONCAT_WS(' ', 'rights', user) FROM mysql.db WHERE db = '%s'"              \
    " UNION ALL SELECT CONCAT_WS(' ', 'rights', user) FROM mysql.tables_priv"                     \
    " WHERE db = '%s'"                                                                            \
    " UNION ALL SELECT CONCAT_WS(' ', 'rights', user) FROM mysql.procs_priv WHERE db = '%s'"
#define ROWS_AS_MADE                                                             \
    "SELECT CONCAT_WS(' ', 'store', one, identity) AS x FROM semel_meta"         \
    " UNION ALL SELECT CONCAT_WS(' ', 'step', version, name, applied_ms, needs)" \
    " FROM semel_schema"
#define AS_MADE \
    "MD5(CONCAT(" ALL_OF(TABLES_AS_MADE) "," ALL_OF(OTHERS_AS_MADE) "," ALL_OF(ROWS_AS_MADE) "))"
#define LONG_TEXTS "SET SESSION group_concat_max_len = 1048576; "

static void print_as_made(char *sql, size_t room, const server_target *at)
{
    const char *name = at->database;
    server_print(sql, room, AS_MADE, name, name, name, name, name, name, name, name, name, name);
}

static void print_digest_mariadb(char *sql, size_t room, const server_target *at)
{
    char as_made[2 * SERVER_SQL_ROOM];
    print_as_made(as_made, sizeof as_made, at);
    server_print(sql, room, LONG_TEXTS "SELECT %s", as_made);
}

/* Only tables that were written to, for each TRUNCATE makes a file anew: those with rows, and those
 * whose numbers do not begin at 1. Nothing of it if a session is left. 1146, 1054: a table or
 * column of ours is gone. */
static void print_empty_mariadb(char *sql, size_t room, const server_target *at, const char *digest)
{
    char as_made[2 * SERVER_SQL_ROOM], end_sessions[SERVER_SQL_ROOM / 2];
    print_as_made(as_made, sizeof as_made, at);
    print_end_sessions(end_sessions, sizeof end_sessions, at->database);
    server_print(sql, room,
                 LONG_TEXTS
                 "SET lock_wait_timeout = 60, foreign_key_checks = 0, @emptied = 0; %s;"
                 "BEGIN NOT ATOMIC"
                 " DECLARE CONTINUE HANDLER FOR 1146, 1054 SET @emptied = 0;"
                 " SET @emptied = %s = '%s' AND NOT EXISTS (SELECT 1 FROM " SESSIONS ");"
                 " IF @emptied THEN"
                 " FOR t IN (SELECT table_name AS name FROM information_schema.tables"
                 " WHERE table_schema = '%s' AND table_type = 'BASE TABLE'"
                 " AND table_name NOT" OURS ") DO"
                 " EXECUTE IMMEDIATE CONCAT('DROP TABLE `', t.name, '`'); END FOR;"
                 " FOR t IN (SELECT table_name AS name, IFNULL(auto_increment, 1) AS number"
                 " FROM information_schema.tables WHERE table_schema = '%s'"
                 " AND table_name NOT IN ('semel_meta', 'semel_schema')) DO"
                 " EXECUTE IMMEDIATE CONCAT("
                 "'SET @rows = EXISTS (SELECT 1 FROM `', t.name, '` LOCK IN SHARE MODE)');"
                 " IF @rows OR t.number > 1 THEN"
                 " EXECUTE IMMEDIATE CONCAT('TRUNCATE `', t.name, '`'); END IF; END FOR;"
                 " END IF; END; SELECT @emptied",
                 end_sessions, as_made, digest, at->database, at->database, at->database);
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
    .print_digest = print_digest_mariadb,
    .print_empty = print_empty_mariadb,
    .print_aging = print_aging_mariadb,
    .select_unlocked =
        "SET tx_isolation = 'READ-COMMITTED'; SELECT", /* else gaps are locked, too */
};
