/* A connection by hand to MariaDB: what hand_mariadb.c and hand_mariadb_batch.c share. */
#ifndef SEMEL_BENCH_HAND_MARIADB_H
#define SEMEL_BENCH_HAND_MARIADB_H

#include "server.h"

#include <mysql.h>

struct hand {
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
void say(hand *h, const char *format, ...) SEMEL_PRINTF(2, 3);
void say_bytes(hand *h, semel_bytes value); /* as x'...', so nothing is to be escaped */

/* The server is told only if it is not so already. */
void commit_each(hand *h, int each);

/* Sends the text, one round trip, and begins a new one. Gives back the answer to the last of its statements: the
 * rows if it has some (to be freed), else NULL; and how many rows it changed. After a conflict: NULL and 0, until
 * the work begins anew. */
MYSQL_RES *told(hand *h, uint64_t *changed);
void tell(hand *h);

hand_work hand_mariadb_batch, hand_mariadb_rows, hand_mariadb_send;
size_t hand_mariadb_relay(hand *h, size_t batch);

#endif
