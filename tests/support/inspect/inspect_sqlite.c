/* A connection of its own for each look, so that none stays open over a fork. Closing the last
 * connection also moves the -wal file into the database. */
#include "support/inspect/inspect_sqlite.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUSY_MS = 10000 };

static void die(sqlite3 *db, const char *sql)
{
    (void)fprintf(stderr, "inspect_sqlite: %s: %s\n", sql, sqlite3_errmsg(db));
    abort();
}

static sqlite3 *look_into(const char *path)
{
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        die(db, path);
    sqlite3_busy_timeout(db, BUSY_MS);
    return db;
}

void inspect_sqlite_run(const char *path, const char *sql)
{
    sqlite3 *db = look_into(path);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        die(db, sql);
    sqlite3_close(db);
}

void inspect_sqlite_each(const char *path, const char *sql,
                         void (*row)(const char *text, void *context), void *context)
{
    sqlite3 *db = look_into(path);
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(stmt);
        if (code == SQLITE_ROW)
            row((const char *)sqlite3_column_text(stmt, 0), context);
    }
    if (code != SQLITE_DONE)
        die(db, sql);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

static void keep_number(const char *text, void *context)
{
    int64_t **next = context;
    if (*next)
        **next = text ? strtoll(text, NULL, 10) : 0;
    *next = NULL;
}

int64_t inspect_sqlite_number(const char *path, const char *sql)
{
    int64_t number = 0, *next = &number;
    inspect_sqlite_each(path, sql, keep_number, &next);
    return number;
}
