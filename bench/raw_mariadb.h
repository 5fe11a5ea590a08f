/* A connection by hand to MariaDB: what raw_mariadb.c and raw_mariadb_batch.c share. */
#ifndef SEMEL_BENCH_RAW_MARIADB_H
#define SEMEL_BENCH_RAW_MARIADB_H

#include "server.h"

#include <mysql.h>

struct raw_connection {
    MYSQL *my;
    char *room;
    int commits_each; /* statement by itself: autocommit */
    char *text;       /* in the making: one or several statements */
    size_t len, capacity;
    int again; /* the server has undone the work by a conflict: nothing more is said of it */
};

/* The server's clock. */
#define MARIADB_NOW "(TIMESTAMPDIFF(MICROSECOND, DATE'1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)"

/* Adds to the text; a ; between statements is the caller's. */
void raw_my_append(raw_connection *c, const char *format, ...) SEMEL_PRINTF(2, 3);
void raw_my_append_bytes(raw_connection *c,
                         semel_bytes value); /* as x'...', so nothing is to be escaped */

/* The server is told only if it is not so already. */
void raw_my_autocommit(raw_connection *c, int each);

/* Sends the text, one round trip, and begins a new one. Gives back the answer to the last of its
 * statements: the rows if it has some (to be freed), else NULL; and how many rows it changed. After
 * a conflict: NULL and 0, until the work begins anew. */
MYSQL_RES *raw_my_query(raw_connection *c, uint64_t *changed);
void raw_my_execute(raw_connection *c);

raw_work raw_mariadb_batch, raw_mariadb_rows, raw_mariadb_send;
size_t raw_mariadb_relay(raw_connection *c, size_t batch);

#endif
