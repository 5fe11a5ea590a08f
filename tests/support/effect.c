/* See effect.h. */
#include "support/effect.h"

#include "support/look.h"

#include <semel/sqlite.h>
#include <stdio.h>
#include <string.h>

#ifdef SEMEL_WITH_POSTGRES
#include <libpq-fe.h>
#include <semel/postgres.h>
#endif
#ifdef SEMEL_WITH_MARIADB
#include <mysql.h>
#include <semel/mariadb.h>
#endif

enum { SQL_ROOM = 256 };

void effect_build(const char *url, const char *table)
{
    char sql[SQL_ROOM];
    (void)snprintf(sql, sizeof sql, "CREATE TABLE IF NOT EXISTS %s (item varchar(64))", table);
    look_run(url, sql);
}

/* With the schema, which is not in the search path of semel's connections: "schema." or "". */
static void qualify(char *out, size_t room, const char *url)
{
    const char *schema = strstr(url, "schema=");
    int len = schema ? (int)strcspn(schema + 7, "&") : 0;
    (void)snprintf(out, room, "%.*s%s", len, schema ? schema + 7 : "", schema ? "." : "");
}

static semel_status answer(int done, const char *why, semel_error *err)
{
    return done ? SEMEL_OK : semel_fail(err, SEMEL_EHANDLER, "no effect: %s", why);
}

#ifdef SEMEL_WITH_POSTGRES
static semel_status write_postgres(PGconn *pg, const char *sql, semel_error *err)
{
    PGresult *result = PQexec(pg, sql);
    int done = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return answer(done, PQerrorMessage(pg), err);
}
#endif

static semel_status write_native(semel_unit *unit, const char *sql, semel_error *err)
{
    sqlite3 *db = semel_unit_sqlite(unit);
    if (db)
        return answer(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, sqlite3_errmsg(db),
                      err);
#ifdef SEMEL_WITH_POSTGRES
    PGconn *pg = semel_unit_postgres(unit);
    if (pg)
        return write_postgres(pg, sql, err);
#endif
#ifdef SEMEL_WITH_MARIADB
    MYSQL *my = semel_unit_mariadb(unit);
    if (my)
        return answer(mysql_query(my, sql) == 0, mysql_error(my), err);
#endif
    return SEMEL_OK;
}

semel_status effect_write(semel_unit *unit, const char *url, const char *table, const char *item,
                          int queued, semel_error *err)
{
    char schema[SQL_ROOM / 2], sql[SQL_ROOM];
    semel_value value = semel_text(item);
    qualify(schema, sizeof schema, url);
    (void)snprintf(sql, sizeof sql, "INSERT INTO %.64s%.32s (item) VALUES (%s%.64s%s)", schema,
                   table, queued ? "" : "'", queued ? "?" : item, queued ? "" : "'");
    return queued ? semel_unit_queue(unit, sql, &value, 1, err) : write_native(unit, sql, err);
}
