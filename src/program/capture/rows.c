/* See rows.h. */
#include "program/capture/rows.h"

#include <semel/mariadb.h>
#include <semel/postgres.h>
#include <semel/sqlite.h>
#ifdef SEMEL_WITH_POSTGRES
#include <libpq-fe.h>
#endif
#ifdef SEMEL_WITH_MARIADB
#include <mysql.h>
#endif

typedef struct asking {
    const char *sql;
    rows_visitor *visit;
    void *context;
} asking;

/* --- SQLite ----------------------------------------------------------------------------------- */

static void visit_sqlite(const asking *a, sqlite3_stmt *row)
{
    const char *values[ROWS_COLUMNS_MAX] = {0};
    int count = sqlite3_column_count(row);
    for (int i = 0; i < count && i < ROWS_COLUMNS_MAX; i++)
        values[i] = (const char *)sqlite3_column_text(row, i);
    if (a->visit)
        a->visit(values, a->context);
}

static semel_status ask_sqlite(semel_unit *unit, const asking *a, semel_error *err)
{
    sqlite3 *db = semel_unit_sqlite(unit);
    sqlite3_stmt *stmt = NULL;
    semel_status status = SEMEL_OK;
    int code = sqlite3_prepare_v2(db, a->sql, -1, &stmt, NULL);
    if (code == SQLITE_OK)
        while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
            visit_sqlite(a, stmt);
    if (code != SQLITE_DONE)
        status = semel_fail(err, code == SQLITE_BUSY ? SEMEL_EBUSY : SEMEL_ESTORE, "%s",
                            sqlite3_errmsg(db));
    (void)sqlite3_finalize(stmt);
    return status;
}

/* --- PostgreSQL ------------------------------------------------------------------------------- */

#ifdef SEMEL_WITH_POSTGRES
static void visit_postgres(const asking *a, const PGresult *answer)
{
    int count = PQnfields(answer);
    for (int row = 0; a->visit && row < PQntuples(answer); row++) {
        const char *values[ROWS_COLUMNS_MAX] = {0};
        for (int i = 0; i < count && i < ROWS_COLUMNS_MAX; i++)
            values[i] = PQgetisnull(answer, row, i) ? NULL : PQgetvalue(answer, row, i);
        a->visit(values, a->context);
    }
}

static semel_status ask_postgres(semel_unit *unit, const asking *a, semel_error *err)
{
    PGconn *on = semel_unit_postgres(unit);
    PGresult *answer = PQexec(on, a->sql);
    ExecStatusType code = PQresultStatus(answer);
    semel_status status = SEMEL_OK;
    if (code == PGRES_TUPLES_OK || code == PGRES_COMMAND_OK)
        visit_postgres(a, answer);
    else
        status = semel_fail(err, PQstatus(on) == CONNECTION_OK ? SEMEL_ESTORE : SEMEL_EUNAVAILABLE,
                            "%s", answer ? PQresultErrorMessage(answer) : PQerrorMessage(on));
    PQclear(answer);
    return status;
}
#endif

/* --- MariaDB ---------------------------------------------------------------------------------- */

#ifdef SEMEL_WITH_MARIADB
static semel_status mariadb_failure(MYSQL *on, semel_error *err)
{
    enum { LOCK_WAIT = 1205, DEADLOCK = 1213, CLIENT_FIRST = 2000, CLIENT_LAST = 2999 };
    unsigned code = mysql_errno(on);
    semel_status status = code == LOCK_WAIT || code == DEADLOCK         ? SEMEL_EBUSY
                          : code >= CLIENT_FIRST && code <= CLIENT_LAST ? SEMEL_EUNAVAILABLE
                                                                        : SEMEL_ESTORE;
    return semel_fail(err, status, "%s", mysql_error(on));
}

static semel_status ask_mariadb(semel_unit *unit, const asking *a, semel_error *err)
{
    MYSQL *on = semel_unit_mariadb(unit);
    if (mysql_query(on, a->sql) != 0)
        return mariadb_failure(on, err);
    MYSQL_RES *answer = mysql_store_result(on);
    if (!answer)
        return mysql_errno(on) ? mariadb_failure(on, err) : SEMEL_OK;
    unsigned count = mysql_num_fields(answer);
    for (MYSQL_ROW row = mysql_fetch_row(answer); a->visit && row; row = mysql_fetch_row(answer)) {
        const char *values[ROWS_COLUMNS_MAX] = {0};
        for (unsigned i = 0; i < count && i < ROWS_COLUMNS_MAX; i++)
            values[i] = row[i];
        a->visit(values, a->context);
    }
    mysql_free_result(answer);
    return SEMEL_OK;
}
#endif

semel_status rows_ask(semel_unit *unit, sql_kind kind, const char *sql, rows_visitor *visit,
                      void *context, semel_error *err)
{
    const asking a = {sql, visit, context};
    if (kind == SQL_KIND_SQLITE)
        return ask_sqlite(unit, &a, err);
#ifdef SEMEL_WITH_POSTGRES
    if (kind == SQL_KIND_POSTGRES)
        return ask_postgres(unit, &a, err);
#endif
#ifdef SEMEL_WITH_MARIADB
    if (kind == SQL_KIND_MARIADB)
        return ask_mariadb(unit, &a, err);
#endif
    return semel_fail(err, SEMEL_EUNSUPPORTED, "the store cannot be asked (%d)", (int)kind);
}
