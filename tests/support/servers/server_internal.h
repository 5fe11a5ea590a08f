/* What the files about servers share among themselves. */
#ifndef SEMEL_TESTS_SERVER_INTERNAL_H
#define SEMEL_TESTS_SERVER_INTERNAL_H

#include "support/servers/server.h"

#include <stddef.h>

enum {
    SERVER_NAME_ROOM = 64,
    SERVER_SQL_ROOM = 2048,
    SERVER_DIGEST_ROOM = 33,
    SERVER_CONNECT_S = 60
};

/* A URL of the form that dev/servers writes: scheme://user@host:port/database?parameters */
typedef struct server_target {
    server_kind kind;
    unsigned port;
    char user[SERVER_NAME_ROOM];
    char host[SERVER_HOST_ROOM];
    char database[SERVER_NAME_ROOM];
    char schema[SERVER_NAME_ROOM]; /* PostgreSQL */
    char prefix[SERVER_NAME_ROOM]; /* of tables; PostgreSQL has no choice */
} server_target;

enum { SERVER_AGING_TIMES = 3 };

/* A table of semel's with columns that hold times. */
typedef struct server_aging {
    const char *table;
    const char *times[SERVER_AGING_TIMES]; /* NULL: no more */
    const char *key, *same_key;
    const char *only; /* the rows whose column is a time; NULL: all */
} server_aging;

typedef void server_row(const char *text, void *context);

/* What tests must know of a kind of server. A new kind is one of these in a file of its own, a line
 * in the table of server.c, and a server_kind. */
typedef struct server_type {
    const char *name;   /* as dev/servers calls it */
    const char *scheme; /* what its URLs begin with */
    const char *prefix; /* of its lines in the file that dev/servers writes */
    const char *socket; /* its line that names the socket; NULL: none */

    /* NULL, the following: no SQL store, or not built in. */

    /* server_each(), in a session of its own. */
    void (*each)(const server_target *at, const char *sql, server_row *row, void *context);

    /* server_fresh() with this name, and server_drop(). */
    void (*fresh)(char url[SERVER_URL_ROOM], const server_place *where, const char *name);
    void (*drop)(const char *url, const server_target *at);

    /* For server_ready(); NULL: stores are not used again. `print_digest` is a SELECT of one text,
     * which is another one if the tables or what else the library made is another. `print_empty`
     * ends the sessions in the store, and empties it if the digest is this; its last statement is
     * a SELECT of 1 if it did. */
    void (*print_digest)(char *sql, size_t room, const server_target *at);
    void (*print_empty)(char *sql, size_t room, const server_target *at, const char *digest);

    /* Statements that make one table's times older by `ms`, but not in rows that are locked. */
    void (*print_aging)(char *sql, size_t room, const server_target *at, const server_aging *one,
                        int64_t ms);

    /* In place of these, where the store has no SQL: server_pass_ms(). */
    void (*pass)(const char *url, int64_t ms);

    /* By how much two clients may differ about its time; 0: they do not. */
    int64_t clock_ms;

    /* How a SELECT ... FOR UPDATE SKIP LOCKED begins that locks nothing but rows. */
    const char *select_unlocked;
} server_type;

extern const server_type server_postgres, server_mariadb, server_redis, server_dynamodb;

/* For `print_aging`: the changes of an UPDATE. */
void server_print_changes(char *out, size_t room, const server_aging *one, int64_t ms);

/* Says why, and aborts. */
_Noreturn void server_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* snprintf that dies when there is no room. */
void server_print(char *out, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A parameter of a URL, or `fallback`. */
void server_parameter(char out[SERVER_NAME_ROOM], const char *url, const char *name,
                      const char *fallback);

/* For server_ready(). The name is that of the schema or database. */
void server_store_name(char name[SERVER_NAME_ROOM], const char *url);
void server_digest(char out[SERVER_DIGEST_ROOM], const char *url);
int server_empty(const char *url, const char *digest); /* 0: it is not as it was, or cannot be */

/* A name that is unique over threads, processes, and processes that got a number for the second
 * time. */
void server_invent_name(char name[SERVER_NAME_ROOM]);

#endif
