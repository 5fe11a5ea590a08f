/* For the tests of MariaDB's own side: a server_case in each mode, and a session behind the
 * library's back. */
#ifndef SEMEL_TESTS_MARIADB_KIT_H
#define SEMEL_TESTS_MARIADB_KIT_H

#include "support/servers/sql/server_case.h"

#include <mysql.h>
#include <semel/mariadb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int by_transaction(void **state);
int by_queue(void **state);
int by_claim(void **state);
int by_batch(void **state);
int close_case(void **state);

#define CASE(function, mode) cmocka_unit_test_setup_teardown(function, mode, close_case)

/* A session in the case's database. */
MYSQL *connect_to(const server_case *c, const char *database, unsigned long flags);

#define SQL(my, sql) run_sql((my), (sql), __LINE__)
void run_sql(MYSQL *my, const char *sql, int line);
int64_t effects(const server_case *c);

/* Begins a unit and takes the message with it. */
semel_unit *take(server_case *c, semel_message *message, const char *id);

#endif
