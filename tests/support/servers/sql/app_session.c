/* See app_session.h. */
#include "support/servers/sql/app_session.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef SEMEL_WITH_POSTGRES
#include <libpq-fe.h>
#include <semel/postgres.h>
#endif
#ifdef SEMEL_WITH_MARIADB
#include <mysql.h>
#include <semel/mariadb.h>
#endif

struct app_session {
    server_kind kind;
    void *session;
};

static _Noreturn void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "session: %s: %s\n", what, why);
    abort();
}

static void *connect_postgres(const server_case *c, const char *host, unsigned port)
{
#ifdef SEMEL_WITH_POSTGRES
    char text[512];
    (void)snprintf(text, sizeof text,
                   "host=%s port=%u user=postgres dbname=postgres options='-csearch_path=%s'", host,
                   port, c->name);
    PGconn *conn = PQconnectdb(text);
    if (PQstatus(conn) != CONNECTION_OK)
        die("connecting", PQerrorMessage(conn));
    return conn;
#else
    (void)c, (void)host, (void)port;
    die("connecting", "built without PostgreSQL");
#endif
}

static void *connect_mariadb(const server_case *c, const char *host, unsigned port)
{
#ifdef SEMEL_WITH_MARIADB
    MYSQL *conn = mysql_init(NULL);
    if (!conn || !mysql_real_connect(conn, host, "root", NULL, c->name, port, NULL, 0))
        die("connecting", conn ? mysql_error(conn) : "no memory");
    if (mysql_query(conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"))
        die("connecting", mysql_error(conn)); /* else its UPDATEs lock what is not there yet */
    return conn;
#else
    (void)c, (void)host, (void)port;
    die("connecting", "built without MariaDB");
#endif
}

app_session *app_session_open(const server_case *c)
{
    char host[SERVER_HOST_ROOM];
    unsigned port;
    app_session *g = calloc(1, sizeof *g);
    if (!g)
        die("opening", "no memory");
    server_address(c->base.place.url, host, &port);
    g->kind = c->kind;
    g->session = c->kind == SERVER_POSTGRES ? connect_postgres(c, host, port)
                                            : connect_mariadb(c, host, port);
    return g;
}

void app_session_close(app_session *g)
{
#ifdef SEMEL_WITH_POSTGRES
    if (g->kind == SERVER_POSTGRES)
        PQfinish(g->session);
#endif
#ifdef SEMEL_WITH_MARIADB
    if (g->kind == SERVER_MARIADB)
        mysql_close(g->session);
#endif
    free(g);
}

void app_session_run(app_session *g, const char *sql)
{
    (void)g, (void)sql; /* where nothing is built in */
#ifdef SEMEL_WITH_POSTGRES
    if (g->kind == SERVER_POSTGRES) {
        PGresult *result = PQexec(g->session, sql);
        ExecStatusType status = PQresultStatus(result);
        PQclear(result);
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            die(sql, PQerrorMessage(g->session));
    }
#endif
#ifdef SEMEL_WITH_MARIADB
    if (g->kind == SERVER_MARIADB) {
        if (mysql_query(g->session, sql) != 0)
            die(sql, mysql_error(g->session));
        mysql_free_result(mysql_store_result(g->session));
    }
#endif
}

semel_status app_session_join(semel_unit **out, server_case *c, app_session *g, semel_error *err)
{
#ifdef SEMEL_WITH_POSTGRES
    if (g->kind == SERVER_POSTGRES)
        return semel_unit_join_postgres(out, c->base.store, g->session, err);
#endif
#ifdef SEMEL_WITH_MARIADB
    if (g->kind == SERVER_MARIADB)
        return semel_unit_join_mariadb(out, c->base.store, g->session, err);
#endif
    (void)out, (void)c, (void)g;
    return semel_fail(err, SEMEL_EUNSUPPORTED, "built without it");
}
