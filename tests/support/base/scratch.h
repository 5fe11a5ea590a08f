/* A directory for the files of one test that kills, races or starts many processes. */
#ifndef SEMEL_TESTS_SCRATCH_H
#define SEMEL_TESTS_SCRATCH_H

#include <stddef.h>

enum { SCRATCH_PATH = 256 };

typedef struct scratch {
    char path[SCRATCH_PATH];
} scratch;

/* Aborts when it cannot: no test can go on without. */
void scratch_open(scratch *dir);
void scratch_close(scratch *dir); /* removes it and its files */

/* The path of a file in it, into out[SCRATCH_PATH]; returns out. */
char *scratch_file(char *out, const scratch *dir, const char *name);

/* The same as a URL of an SQLite store. */
char *scratch_sqlite(char *out, const scratch *dir, const char *name);

/* A closed SQLite database (no -wal beside it) from one name to another. */
void scratch_copy(const scratch *dir, const char *from, const char *to);

/* Removes an SQLite database and what stands beside it, or any other file. */
void scratch_remove(const scratch *dir, const char *name);

#endif
