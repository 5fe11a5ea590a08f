/* Inspects any SQL store behind the library's back, by its URL: a file of SQLite, a schema of
 * PostgreSQL, a database of MariaDB. No store may be inspected by two threads of a process at
 * once. */
#ifndef SEMEL_TESTS_INSPECT_H
#define SEMEL_TESTS_INSPECT_H

#include <stddef.h>
#include <stdint.h>

int inspect_is_server(const char *url);
int inspect_is_postgres(const char *url);

void inspect_run(const char *url, const char *sql);
int64_t inspect_number(const char *url, const char *sql);
/* Several numbers in one look, each by a SELECT that has one row: in this order. */
void inspect_numbers(int64_t out[], const char *url, const char *const sqls[], size_t count);

void inspect_each(const char *url, const char *sql, void (*row)(const char *text, void *context),
                  void *context);

/* A test cannot set a server's clock: instead, what is stored gets older. SQLite: nothing, its
 * clock is the seam's. */
void inspect_pass_ms(const char *url, int64_t ms);

/* Until no session has anything open there: a server notices a little later that its client is
 * dead. */
void inspect_wait_quiet(const char *url);

#endif
