/* What the sections about database servers share.
 *
 *     servers.c         starts both through dev/servers, or takes the URLs that were given
 *     crew.c            threads, each with its own connection
 *     hand_*.c          the loops by hand, on libpq and libmariadb, behind one list of functions
 *     patron.c          the same work through semel
 *     section_server*.c what is measured, written once for both
 *
 * Every contender has a room of its own on the server: a schema (PostgreSQL) or a prefix (MariaDB), with semel's
 * tables in it and one table for the business rows. So nobody's tables grow by another's work. */
#ifndef SEMEL_BENCH_SERVER_H
#define SEMEL_BENCH_SERVER_H

#include "bench.h"

#include <stdatomic.h>

enum { CREW_MAX = 8, ROOM_NAME = 40, SQL_TEXT = 1024, FINGERPRINT_LOW = 0x5eed5eed };

/* A connection of the loops by hand; each server has its own. */
typedef struct hand hand;

/* One transaction with all of these messages; or one for each, says the member of `server`. */
typedef void hand_work(hand *h, const semel_message *const messages[], size_t count);

typedef struct server {
    const char *name;
    const char *scheme;
    const char *room_parameter; /* of semel's URL */
    const char *room_format;    /* its value for a room */
    const char *table_format;   /* a table of one's own, from room and name */
    const char *semel_format;   /* a table of semel's */
    const char *body_type;
    const char *id_type;
    const char *series;                               /* SELECT that numbers rows 1 .. %zu as n */
    const char *key_of_n;                             /* a random key, as SQL */
    const char *now_ms;                               /* SQL */
    const char *key_column;                           /* of the markers, quoted if it must be */
    const char *settle_down;                          /* SQL, after much was loaded */
    hand *(*open)(const char *url, const char *room); /* room NULL: for run() and number() */
    hand *(*open_relaxed)(const char *url, const char *room); /* commits do not wait for the disk */
    void (*close)(hand *h);
    void (*run)(hand *h, const char *sql);
    int64_t (*number)(hand *h, const char *sql);
    void (*version)(hand *h, char out[32]);
    void (*remove_room)(hand *h, const char *room);
    /* 1 if a conflict has undone the work: it is to be done again. NULL: it meets none. */
    int (*again)(hand *h);

    hand_work *receive;      /* [BEGIN, marker] [business row] [COMMIT]; one message each */
    hand_work *receive_trip; /* all four in one round trip, the marker assumed to be new */
    hand_work *check_first;  /* BEGIN, SELECT, business row, INSERT marker, COMMIT */
    hand_work *effect;       /* the business row alone */
    hand_work *batch;      /* one transaction: markers in one statement, a statement for each row */
    hand_work *batch_rows; /* one transaction: markers and rows in one statement each, or in one */
    hand_work *send;       /* one transaction: all into the outbox */
    size_t (*relay)(hand *h, size_t batch); /* leases so many rows, reads and removes them */
    /* The same, with the messages given away in between; NULL where nobody measures it. */
    size_t (*relay_to)(hand *h, size_t batch, recipient *publish, void *context);

    semel_handler *handler; /* inserts the business row on the native handle; context: a patron */
} server;

/* Each is there only if its store is built in. */
extern const server postgres_server, mariadb_server;

/* --- servers.c ---------------------------------------------------------------------------------------- */

/* Calls the function for each database server that is wanted, with its URL; the first time, starts it. Ends the
 * program if one cannot be had. */
void each_server(void (*measure)(const server *on, const char *url));
void one_server(const char *name, void (*measure)(const server *on, const char *url));

/* "PostgreSQL 15.4: receive": for the head of a table. */
const char *server_title(char out[100], const server *on, const char *what);

/* A room with semel's tables and the business table, new; and what is left of it, gone. */
void room_make(const server *on, const char *url, const char *room);
void room_remove(const server *on, const char *url, const char *room);
const char *room_url(char out[1024], const server *on, const char *url, const char *room);
const char *room_table(char out[100], const server *on, const char *room, const char *name);
const char *room_semel_table(char out[100], const server *on, const char *room, const char *name);

/* --- crew.c ------------------------------------------------------------------------------------------- */

typedef void crew_job(void *context, size_t worker, const semel_message *const messages[],
                      size_t count);

/* `workers` threads share the messages, `batch` at a time, whoever is free. Returns when all are done. */
void crew_run(size_t workers, size_t batch, const message_set *set, crew_job *job, void *context);

/* --- the contenders ------------------------------------------------------------------------------------ */

/* Loops by hand: one connection for each worker. */
typedef struct gang {
    const server *on;
    size_t workers, batch;
    hand_work *work;
    hand *hands[CREW_MAX];
} gang;

void gang_open(gang *g, const char *url, const char *room);
void gang_run(void *gang, const message_set *set);
void gang_close(gang *g);

/* Through semel: one store, shared by the workers. */
typedef struct patron {
    const server *on;
    size_t workers, batch;
    semel_mode mode;
    int queues; /* the handler queues its statement */
    semel_outcome expected;
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    char effect_sql[SQL_TEXT]; /* with ? for the body */
    double *latencies_s;       /* if set: room for `latency_room` of them */
    size_t latency_room;
    atomic_size_t latency_count;
} patron;

/* For whoever calls it by himself; its context is the patron. */
semel_handler *patron_handler(const patron *p);
void patron_open(patron *p, const char *url, const char *room);
void patron_receive(void *patron, const message_set *set);
void patron_send(void *patron, const message_set *set);
void patron_close(patron *p);

/* --- sections ------------------------------------------------------------------------------------------ */

void section_server_receive(void);
void section_server_batch(void);
void section_server_duplicate(void);
void section_server_outbox(void);
void section_server_relay(void);
void section_server_sweep(void);
void section_groups(void); /* and on the other stores */

#endif
