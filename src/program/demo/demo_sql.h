/* SQL in one line: what the demo needs of SQLite besides semel. */
#ifndef SEMEL_CLI_DEMO_SQL_H
#define SEMEL_CLI_DEMO_SQL_H

#include <sqlite3.h>
#include <stdint.h>

/* The ledger of a shop. Nothing in the table itself keeps a shop from charging twice. */
#define SQL_LEDGER \
    "CREATE TABLE IF NOT EXISTS charge (payment TEXT NOT NULL, cents INTEGER NOT NULL)"

/* The work that both shops do: ?1 is the body of the message. */
#define SQL_CHARGE                                \
    "INSERT INTO charge (payment, cents) VALUES " \
    "(json_extract(?1, '$.payment'), json_extract(?1, '$.cents'))"

/* Runs one statement with up to three texts for ?1, ?2, ?3 (NULL: none). Returns SQLite's code. */
int sql_run(sqlite3 *db, const char *sql, const char *first, const char *second, const char *third);

/* The first column of the first row, 0 if there is none. Returns SQLite's code. */
int sql_number(int64_t *out, sqlite3 *db, const char *sql, const char *first);

#endif
