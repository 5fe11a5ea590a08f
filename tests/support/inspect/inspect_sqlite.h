/* Looking at an SQLite file behind the library's back. */
#ifndef SEMEL_TESTS_INSPECT_SQLITE_H
#define SEMEL_TESTS_INSPECT_SQLITE_H

#include <stdint.h>

/* Runs statements. Aborts on an error. */
void inspect_sqlite_run(const char *path, const char *sql);

/* The first column of the first row; 0 if there is none or it is NULL. Aborts on an error. */
int64_t inspect_sqlite_number(const char *path, const char *sql);

/* Calls back with the first column of each row, as text. */
void inspect_sqlite_each(const char *path, const char *sql,
                         void (*row)(const char *text, void *context), void *context);

#endif
