/* For the tests of MariaDB's own side: a server_case in each mode, and a session behind the library's back. */
#ifndef SEMEL_TESTS_MARIADB_KIT_H
#define SEMEL_TESTS_MARIADB_KIT_H

#include "support/servers/sql/server_case.h"

#include <mysql.h>
#include <semel/mariadb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int open_case(void **state, case_mode mode)
{
    server_place shared;
    server_shape shape = {.kind = SERVER_MARIADB, .mode = mode};
    server_case *c = calloc(1, sizeof *c);
    server_find(&shared, SERVER_MARIADB);
    case_make(c, &shared, &shape, "");
    case_open(c, CASE_BUSY_MS, NULL);
    *state = c;
    return 0;
}

static inline int by_transaction(void **state)
{
    return open_case(state, BY_TRANSACTION);
}

static inline int by_queue(void **state)
{
    return open_case(state, BY_QUEUE);
}

static inline int by_claim(void **state)
{
    return open_case(state, BY_CLAIM);
}

static inline int by_batch(void **state)
{
    return open_case(state, BY_BATCH);
}

static inline int close_case(void **state)
{
    case_remove(*state);
    free(*state);
    return 0;
}

#define CASE(function, mode) cmocka_unit_test_setup_teardown(function, mode, close_case)

/* A session in the case's database. */
static inline MYSQL *connect_to(const server_case *c, const char *database, unsigned long flags)
{
    char host[SERVER_HOST_ROOM];
    unsigned port;
    MYSQL *my = mysql_init(NULL);
    server_address(c->url, host, &port);
    if (!mysql_real_connect(my, host, "root", NULL, database, port, NULL, flags))
        fail_msg("%s", mysql_error(my));
    return my;
}

#define SQL(my, sql) run_sql((my), (sql), __LINE__)
static inline void run_sql(MYSQL *my, const char *sql, int line)
{
    if (mysql_query(my, sql))
        fail_msg("line %d, %s: %s", line, sql, mysql_error(my));
    do
        mysql_free_result(mysql_store_result(my));
    while (mysql_next_result(my) == 0);
}

static inline int64_t effects(const server_case *c)
{
    return case_number(c, "SELECT count(*) FROM effect");
}

/* Begins a unit and takes the message with it. */
static inline semel_unit *take(server_case *c, semel_message *message, const char *id)
{
    semel_unit *unit = NULL;
    semel_outcome out;
    *message = text_message(id, "10 EUR");
    OK(semel_unit_begin(&unit, c->store, &last_error));
    OK(semel_unit_claim(&out, unit, c->inbox, message, &last_error));
    assert_int_equal(out, SEMEL_CLAIMED);
    return unit;
}

#endif
