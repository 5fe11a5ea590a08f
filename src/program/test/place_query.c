/* See place_query.h. On a server the statement runs on the connection of a unit, which is rolled
 * back: it changes nothing. */
#include "program/test/place_query.h"

#include "program/capture/rows.h"

#include <semel/store.h>
#include <sqlite3.h>
#include <string.h>

/* --- SQLite ----------------------------------------------------------------------------------- */

static semel_status query_sqlite(buffer *out, const char *url, const char *sql, semel_error *err)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    buffer path = {0};
    semel_status status = SEMEL_OK;
    url += strlen("sqlite:");
    buffer_add(&path, url, strcspn(url, "?"));
    int code = sqlite3_open_v2(path.data, &db, SQLITE_OPEN_READONLY, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (code == SQLITE_OK)
        code = stmt ? sqlite3_step(stmt) : SQLITE_DONE;
    if (code == SQLITE_ROW && sqlite3_column_text(stmt, 0))
        buffer_text(out, (const char *)sqlite3_column_text(stmt, 0));
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        status = semel_fail(err, SEMEL_ESTORE, "%s", db ? sqlite3_errmsg(db) : "out of memory");
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    buffer_free(&path);
    return status;
}

/* --- servers ---------------------------------------------------------------------------------- */

typedef struct first_value {
    buffer *out;
    int is_there;
} first_value;

static void keep_first(const char *const values[ROWS_COLUMNS_MAX], void *context)
{
    first_value *first = context;
    if (!first->is_there && values[0])
        buffer_text(first->out, values[0]);
    first->is_there = 1;
}

static semel_status query_server(buffer *out, sql_kind kind, const char *url, const char *sql,
                                 semel_error *err)
{
    semel_store *store = NULL;
    semel_unit *unit = NULL;
    semel_store_options options = {.size = sizeof options};
    semel_status status = semel_store_open(&store, url, &options, err);
    if (!status)
        status = semel_unit_begin(&unit, store, err);
    if (!status)
        status = rows_ask(unit, kind, sql, keep_first, &(first_value){out, 0}, err);
    semel_unit_rollback(unit);
    semel_store_close(store);
    return status;
}

semel_status query_first(buffer *out, sql_kind kind, const char *store_url, const char *sql,
                         semel_error *err)
{
    return kind == SQL_KIND_SQLITE ? query_sqlite(out, store_url, sql, err)
                                   : query_server(out, kind, store_url, sql, err);
}
