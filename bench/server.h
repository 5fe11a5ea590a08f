/* What the sections about database servers share.
 *
 *     servers.c         starts both through dev/servers, or takes the URLs that were given
 *     threads.c         threads, each with its own connection
 *     raw_*.c           the loops by hand, on libpq and libmariadb, behind one list of functions
 *     semel_server.c    the same work through semel
 *     section_server*.c what is measured, written once for both
 *     section_redis.c   Redis, against scripts by hand
 *
 * Every contender has a room of its own on the server: a schema (PostgreSQL) or a prefix (MariaDB),
 * with semel's tables in it and one table for the business rows. So no contender's tables grow by
 * another's work. */
#ifndef SEMEL_BENCH_SERVER_H
#define SEMEL_BENCH_SERVER_H

#include "bench.h"

#include <stdatomic.h>

enum { THREADS_MAX = 64, ROOM_NAME = 40, SQL_TEXT = 1024, FINGERPRINT_LOW = 0x5eed5eed };

/* A connection of the loops by hand; each server has its own. */
typedef struct raw_connection raw_connection;

/* One transaction with all of these messages; or one for each, says the member of `server`. */
typedef void raw_work(raw_connection *c, const semel_message *const messages[], size_t count);

typedef struct server {
    const char *name;
    const char *scheme;
    const char *room_parameter; /* of semel's URL */
    const char *room_format;    /* its value for a room */
    const char *table_format;   /* a table of the contender's, from room and name */
    const char *semel_format;   /* a table of semel's */
    const char *body_type;
    const char *id_type;
    const char *series;      /* SELECT that numbers rows 1 .. %zu as n */
    const char *key_of_n;    /* a random key, as SQL */
    const char *now_ms;      /* SQL */
    const char *key_column;  /* of the markers, quoted if it must be */
    const char *settle_down; /* SQL, after much was loaded */
    raw_connection *(*open)(const char *url,
                            const char *room); /* room NULL: for run() and number() */
    raw_connection *(*open_relaxed)(const char *url,
                                    const char *room); /* commits do not wait for the disk */
    void (*close)(raw_connection *c);
    void (*run)(raw_connection *c, const char *sql);
    int64_t (*number)(raw_connection *c, const char *sql);
    void (*version)(raw_connection *c, char out[32]);
    void (*remove_room)(raw_connection *c, const char *room);
    /* 1 if a conflict has undone the work: it is to be done again. NULL: it meets none. */
    int (*again)(raw_connection *c);

    raw_work *receive;          /* [BEGIN, marker] [business row] [COMMIT]; one message each */
    raw_work *receive_function; /* the same, the marker by semel's SQL function */
    raw_work *receive_trip;     /* all four in one round trip, the marker assumed to be new */
    raw_work *check_first;      /* BEGIN, SELECT, business row, INSERT marker, COMMIT */
    raw_work *effect;           /* the business row alone */
    raw_work *effects; /* one transaction: a statement for each row and nothing else; may be NULL */
    raw_work *batch;   /* one transaction: markers in one statement, a statement for each row */
    raw_work *batch_rows; /* one transaction: markers and rows in one statement each, or in one */
    raw_work *send;       /* one transaction: all into the outbox */
    size_t (*relay)(raw_connection *c,
                    size_t batch); /* leases so many rows, reads and removes them */
    /* The same, with the messages passed to `publish` in between; NULL where no section measures
     * it. */
    size_t (*relay_to)(raw_connection *c, size_t batch, recipient *publish, void *context);

    semel_handler
        *handler; /* inserts the business row on the native handle; context: a semel_server */
} server;

/* Each is there only if its store is built in. */
extern const server postgres_server, mariadb_server;

/* --- servers.c -------------------------------------------------------------------------------- */

/* Calls the function for each database server that is wanted, with its URL; the first time, starts
 * it. Ends the program if one cannot be had. */
void each_server(void (*measure)(const server *on, const char *url));
void one_server(const char *name, void (*measure)(const server *on, const char *url));

/* Redis, which has no SQL: section_redis.c. */
int redis_is_off(void);
const char *redis_url(void);

/* "PostgreSQL 15.4: receive": for the head of a table. */
const char *server_title(char out[100], const server *on, const char *what);

/* A room with semel's tables and the business table, new; and what is left of it, gone. */
void room_make(const server *on, const char *url, const char *room);
void room_remove(const server *on, const char *url, const char *room);
const char *room_url(char out[1024], const server *on, const char *url, const char *room);
const char *room_table(char out[100], const server *on, const char *room, const char *name);
const char *room_semel_table(char out[100], const server *on, const char *room, const char *name);

/* --- threads.c -------------------------------------------------------------------------------- */

typedef void thread_job(void *context, size_t worker, const semel_message *const messages[],
                        size_t count);

/* `workers` threads share the messages; a free thread takes the next `batch`. Returns when all are
 * done. */
void threads_run(size_t workers, size_t batch, const message_set *set, thread_job *job,
                 void *context);

/* --- the contenders --------------------------------------------------------------------------- */

/* Loops by hand: one connection for each worker. */
typedef struct raw_workers {
    const server *on;
    size_t workers, batch;
    raw_work *work;
    raw_connection *connections[THREADS_MAX];
} raw_workers;

void raw_workers_open(raw_workers *g, const char *url, const char *room);
void raw_workers_run(void *raw_workers, const message_set *set);
void raw_workers_close(raw_workers *g);

/* Through semel: one store, shared by the workers. */
typedef struct semel_server {
    const server *on;
    size_t workers, batch;
    semel_mode mode;
    int queues; /* the handler queues its statement */
    semel_outcome expected;
    int mixed; /* a duplicate is expected, too */
    int keep_details;
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    char effect_sql[SQL_TEXT]; /* with ? for the body */
    double *latencies_s;       /* if set: room for `latency_room` of them */
    size_t latency_room;
    atomic_size_t latency_count;
} semel_server;

/* For a caller of its own; its context is the semel_server. */
semel_handler *semel_server_handler(const semel_server *p);
void semel_server_open(semel_server *p, const char *url, const char *room);
void semel_server_receive(void *semel_server, const message_set *set);
void semel_server_send(void *semel_server, const message_set *set);
void semel_server_close(semel_server *p);

/* --- sections --------------------------------------------------------------------------------- */

void section_server_receive(void);
void section_server_batch(void);
void section_server_duplicate(void);
void section_server_mix(void);
void section_sql_receive(void);
void section_server_outbox(void);
void section_server_relay(void);
void section_server_sweep(void);
void section_lists(void);
void section_retry(void); /* and on SQLite */
void section_details(void);
void section_positions(void); /* and on SQLite */
void section_handoff(void);   /* the same */
void section_groups(void);    /* and on the other stores */
void section_retention(void); /* the same */
void section_defaults(void);  /* the same */
void section_redis(void);

#endif
