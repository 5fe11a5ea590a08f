/* For the tests of the servers and of the proxy: a session of either server, in which statements
 * may fail, and a database or schema of its own with a table. */
#ifndef SEMEL_TESTS_SERVER_SESSION_H
#define SEMEL_TESTS_SERVER_SESSION_H

#include "support/base/check.h"
#include "support/servers/proxy.h"
#include "support/servers/server_each.h"

#include <libpq-fe.h>
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 60000 };

/* --- a session of either server --------------------------------------------------------------- */

typedef struct session {
    PGconn *pg;
    MYSQL *my;
} session;

/* 0 if it cannot. Multiple statements make a pipeline, as far as there is one. */
static inline int session_open(session *s, const char *url)
{
    char host[SERVER_HOST_ROOM], text[256];
    unsigned port;
    *s = (session){0};
    server_address(url, host, &port);
    if (server_kind_of(url) == SERVER_POSTGRES) {
        (void)snprintf(text, sizeof text, "host=%s port=%u user=postgres dbname=postgres", host,
                       port);
        s->pg = PQconnectdb(text);
        return PQstatus(s->pg) == CONNECTION_OK;
    }
    s->my = mysql_init(NULL);
    return mysql_real_connect(s->my, host, "root", NULL, strrchr(url, '/') + 1, port, NULL,
                              CLIENT_MULTI_STATEMENTS) != NULL;
}

static inline void session_close(session *s)
{
    if (s->pg)
        PQfinish(s->pg);
    if (s->my)
        mysql_close(s->my);
    *s = (session){0};
}

static inline int drain_mariadb(MYSQL *my)
{
    do
        mysql_free_result(mysql_store_result(my));
    while (mysql_next_result(my) == 0);
    return mysql_errno(my) == 0;
}

/* 1 if it was answered, and without an error. */
static inline int session_run(session *s, const char *sql)
{
    if (s->my)
        return mysql_query(s->my, sql) == 0 && drain_mariadb(s->my);
    PGresult *result = PQexec(s->pg, sql);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* --- one test's surroundings ------------------------------------------------------------------ */

/* With a table t in its own database or schema; t is that table's name with the schema, if there is
 * one. */
typedef struct place {
    char url[SERVER_URL_ROOM];
    char through[SERVER_URL_ROOM];
    char t[128];
    proxy *between;
    session session; /* through the proxy */
} place;

static inline void make_table(place *p)
{
    char sql[512];
    const char *schema = strstr(p->url, "schema=");
    if (schema) {
        (void)snprintf(sql, sizeof sql, "CREATE SCHEMA %s", schema + 7);
        server_run(p->url, sql);
    }
    (void)snprintf(p->t, sizeof p->t, "%s%st", schema ? schema + 7 : "", schema ? "." : "");
    server_run(p->url, "CREATE TABLE t (a int)");
}

static inline int setup(void **state)
{
    server_place shared;
    place *p = calloc(1, sizeof *p);
    server_find(&shared, kind_of_state(state));
    server_fresh(p->url, &shared);
    make_table(p);
    p->between = proxy_open(p->url);
    proxy_url(p->through, p->between, p->url);
    *state = p;
    return session_open(&p->session, p->through) ? 0 : -1;
}

static inline int teardown(void **state)
{
    place *p = *state;
    session_close(&p->session);
    proxy_close(p->between);
    server_drop(p->url);
    free(p);
    return 0;
}

static inline int run(place *p, const char *format)
{
    char sql[512];
    (void)snprintf(sql, sizeof sql, format, p->t, p->t, p->t); /* %s is the table */
    return session_run(&p->session, sql);
}

static inline int64_t rows(const place *p)
{
    return server_number(p->url, "SELECT count(*) FROM t");
}

/* --- a test for each server ------------------------------------------------------------------- */

#define IN_PLACE(function) ON_EACH(function, setup, teardown) /* *state is a place */

#endif
