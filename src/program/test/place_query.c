/* See place_query.h. On a server the statement runs on the connection of a unit, which is rolled
 * back: it changes nothing. */
#include "program/test/place_query.h"

#include <semel/mariadb.h>
#include <semel/postgres.h>
#include <semel/store.h>
#include <sqlite3.h>
#include <string.h>
#ifdef SEMEL_WITH_POSTGRES
#include <libpq-fe.h>
#endif
#ifdef SEMEL_WITH_MARIADB
#include <mysql.h>
#endif

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

#ifdef SEMEL_WITH_POSTGRES
static semel_status query_postgres(buffer *out, semel_unit *unit, const char *sql, semel_error *err)
{
    PGresult *answer = PQexec(semel_unit_postgres(unit), sql);
    ExecStatusType code = PQresultStatus(answer);
    semel_status status = SEMEL_OK;
    if (code != PGRES_TUPLES_OK && code != PGRES_COMMAND_OK)
        status = semel_fail(err, SEMEL_ESTORE, "%s", PQresultErrorMessage(answer));
    else if (PQntuples(answer) > 0 && PQnfields(answer) > 0)
        buffer_text(out, PQgetvalue(answer, 0, 0));
    PQclear(answer);
    return status;
}
#endif

#ifdef SEMEL_WITH_MARIADB
static semel_status query_mariadb(buffer *out, semel_unit *unit, const char *sql, semel_error *err)
{
    MYSQL *on = semel_unit_mariadb(unit);
    if (mysql_query(on, sql) != 0)
        return semel_fail(err, SEMEL_ESTORE, "%s", mysql_error(on));
    MYSQL_RES *answer = mysql_store_result(on);
    MYSQL_ROW row = answer ? mysql_fetch_row(answer) : NULL;
    if (row && row[0])
        buffer_text(out, row[0]);
    mysql_free_result(answer);
    return SEMEL_OK;
}
#endif

static semel_status query_in_unit(buffer *out, sql_kind kind, semel_unit *unit, const char *sql,
                                  semel_error *err)
{
    (void)out, (void)unit, (void)sql;
#ifdef SEMEL_WITH_POSTGRES
    if (kind == SQL_KIND_POSTGRES)
        return query_postgres(out, unit, sql, err);
#endif
#ifdef SEMEL_WITH_MARIADB
    if (kind == SQL_KIND_MARIADB)
        return query_mariadb(out, unit, sql, err);
#endif
    return semel_fail(err, SEMEL_EUNSUPPORTED, "the store cannot be asked (%d)", (int)kind);
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
        status = query_in_unit(out, kind, unit, sql, err);
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
