/* Real servers for tests: PostgreSQL, MariaDB, Redis, RabbitMQ, NATS and Kafka, and DynamoDB's
 * emulator, as dev/servers starts them.
 *
 * CTest starts one of each for all tests; SEMEL_TEST_SERVERS names the file that says where they
 * are. There every test has stores of its own, fresh and empty. A test that kills its server starts
 * one for itself.
 *
 * What is said of stores here is not for RabbitMQ, NATS and Kafka: broker.h, nats_kit.h and
 * kafka_cluster.h have the same for queues.
 *
 * All of it aborts with a message when it cannot: no test can go on without a server, and none is
 * skipped. */
#ifndef SEMEL_TESTS_SERVER_H
#define SEMEL_TESTS_SERVER_H

#include "support/base/scratch.h"

#include <stdint.h>

typedef enum server_kind {
    SERVER_POSTGRES = 1,
    SERVER_MARIADB,
    SERVER_REDIS,
    SERVER_DYNAMODB,
    SERVER_RABBITMQ,
    SERVER_NATS,
    SERVER_KAFKA,
    SERVER_KINDS
} server_kind;

const char *server_name(server_kind kind); /* "postgres" */
int server_has_sql(server_kind kind);
server_kind server_kind_of(const char *url);

/* Is it among those that this run is about? SEMEL_TEST_SERVER names the only one; unset: all. */
int server_is_wanted(server_kind kind);

enum { SERVER_URL_ROOM = 512, SERVER_HOST_ROOM = 64 };

/* Where a server is. */
typedef struct server_place {
    server_kind kind;
    char state[SCRATCH_PATH];  /* the file that says all that */
    char url[SERVER_URL_ROOM]; /* of what is always there: database postgres or semel, vhost / */
    char host[SERVER_HOST_ROOM];
    unsigned port;
    char directory[SCRATCH_PATH];
    char socket
        [SCRATCH_PATH]; /* MariaDB: its socket; PostgreSQL: the directory that has it; else "" */
    char pid_file[SCRATCH_PATH]; /* its first line is the number of the server's first process */
} server_place;

/* The one that all tests share. */
void server_find(server_place *out, server_kind kind);

/* Another line of the file: "TLS_PORT", without what stands before it. */
void server_entry(char *out, size_t room, const server_place *where, const char *name);

/* --- stores ----------------------------------------------------------------------------------- */

/* The URL of a store that is fresh and empty: in PostgreSQL a schema that no other test uses (semel
 * makes it), in MariaDB a database, made here; in Redis a namespace; in DynamoDB a table. */
void server_fresh(char url[SERVER_URL_ROOM], const server_place *where);
void server_fresh_postgres(char url[SERVER_URL_ROOM]); /* in the shared one, as store_quirks.make */
void server_fresh_mariadb(char url[SERVER_URL_ROOM]);
void server_fresh_redis(char url[SERVER_URL_ROOM]);
void server_fresh_dynamodb(char url[SERVER_URL_ROOM]);

/* Removes it, and ends the sessions that still hold something in it: a test that failed left
 * them. */
void server_drop(const char *url);

/* The same with its tables made, which may be those of an earlier test of this program: then they
 * are empty, and their numbers begin at 1. server_give_back() is server_drop() for these; it is for
 * others, too. */
void server_ready(char url[SERVER_URL_ROOM], const server_place *where);
void server_ready_postgres(char url[SERVER_URL_ROOM]); /* as store_quirks.make_ready */
void server_ready_mariadb(char url[SERVER_URL_ROOM]);
void server_give_back(const char *url);

/* Makes time pass for a store whose clock is the server's: all times that it has stored become that
 * much older. But not in rows that an open transaction has locked, and not those that it has not
 * committed. The first waits for some time until no row is locked, since it may be a transaction
 * that is about to end. */
void server_pass_ms(const char *url, int64_t ms);
int64_t server_clock_ms(server_kind kind); /* by how much two clients may differ about its time */
enum { SERVER_DYNAMODB_CLOCK_MS = 2500 };  /* its answers have seconds */
void server_pass_unlocked_ms(const char *url, int64_t ms);

/* --- behind the library's back ---------------------------------------------------------------- */

/* Each in a session that has no past, in the URL's schema or database. */

/* Runs statements, separated by semicolons; in Redis one command, in words between spaces;
 * in DynamoDB one statement of PartiQL, or an operation and its JSON: CreateTable {...} */
void server_run(const char *url, const char *sql);

/* The first column of the first row; 0 if there is none or it is NULL. */
int64_t server_number(const char *url, const char *sql);

/* Calls back with the first column of each row, as text; NULL for a NULL. */
void server_each(const char *url, const char *sql, void (*row)(const char *text, void *context),
                 void *context);

/* Its host and port. */
void server_address(const char *url, char host[SERVER_HOST_ROOM], unsigned *port);

/* --- a server of the test's own --------------------------------------------------------------- */

/* To be killed. It ends with the process that started it, if that does not stop it before. */
typedef struct server_own {
    server_place at;
    scratch directory;
    char state[SCRATCH_PATH];
} server_own;

void server_own_start(server_own *own, server_kind kind);
void server_own_crash(
    server_own *own); /* SIGKILL to all of its processes; returns when they are gone */
void server_own_halt(server_own *own);    /* an orderly shutdown */
void server_own_restart(server_own *own); /* same port, same data; returns when it answers */
void server_own_stop(server_own *own);

#endif
