/* A store that is made for one run of `semel test` or `semel bench` and removed after it: SQLite
 * files in a temporary directory, or beside a file of the user's, on the same disk; or a schema
 * (PostgreSQL) or a database (MariaDB) on a server. The application's own tables are there, too: on
 * PostgreSQL the search_path has this schema and no other, on MariaDB it is the connection's
 * database. A statement that names a schema or a database itself goes there instead.
 *
 * A process that is killed with SIGKILL leaves what it made: place_removal() says what removes
 * it. */
#ifndef SEMEL_PROGRAM_TEST_PLACE_H
#define SEMEL_PROGRAM_TEST_PLACE_H

#include "program/support/memory.h"

#include <semel/store.h>

typedef struct test_place test_place;

/* `purpose` is part of its name: semel_test_... . `url` is that of a store of the user's, which is
 * not touched; NULL: a temporary directory. Nothing else is made before place_fresh(). */
semel_status place_open(test_place **out, const char *purpose, const char *url, semel_error *err);

/* An empty store at place_url(): another one, or the same after all that was in it is gone. */
semel_status place_fresh(test_place *place, semel_error *err);
const char *place_url(const test_place *place);

/* Makes time pass where the clock is a server's: what waits, and what is leased, is due so much
 * earlier. Elsewhere it does nothing: the clock is the test's own. */
semel_status place_pass(const test_place *place, int64_t ms, semel_error *err);

/* The first column of the first row, as text; "" for NULL or no row. */
semel_status place_query(const test_place *place, buffer *out, const char *sql, semel_error *err);

/* "temporary SQLite store", "temporary schema in postgres://host/shop". */
void place_describe(buffer *to, const test_place *place);

/* Removes all of it and frees the place, which may be NULL. */
semel_status place_close(test_place *place, semel_error *err);

/* The statement that removes what place_close() could not: DROP SCHEMA semel_test_... CASCADE. */
void place_removal(buffer *to, const test_place *place);

#endif
