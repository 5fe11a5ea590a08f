#include "program/demo/demo_sql.h"

#include <stddef.h>

static int sql_start(sqlite3_stmt **out, sqlite3 *db, const char *sql, const char *const texts[3])
{
    int code = sqlite3_prepare_v2(db, sql, -1, out, NULL);
    for (int i = 0; code == SQLITE_OK && i < 3; i++)
        if (texts[i])
            code = sqlite3_bind_text(*out, i + 1, texts[i], -1, SQLITE_STATIC);
    return code;
}

int sql_run(sqlite3 *db, const char *sql, const char *first, const char *second, const char *third)
{
    sqlite3_stmt *statement = NULL;
    int code = sql_start(&statement, db, sql, (const char *const[3]){first, second, third});
    if (code == SQLITE_OK)
        (void)sqlite3_step(statement); /* finalizing tells how it went */
    int end = sqlite3_finalize(statement);
    return code != SQLITE_OK ? code : end;
}

int sql_number(int64_t *out, sqlite3 *db, const char *sql, const char *first)
{
    sqlite3_stmt *statement = NULL;
    int code = sql_start(&statement, db, sql, (const char *const[3]){first});
    *out = 0;
    if (code == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
        *out = sqlite3_column_int64(statement, 0);
    int end = sqlite3_finalize(statement);
    return code != SQLITE_OK ? code : end;
}
