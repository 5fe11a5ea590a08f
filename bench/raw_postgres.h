/* A connection by hand to PostgreSQL: what raw_postgres.c and raw_postgres_batch.c share. */
#ifndef SEMEL_BENCH_RAW_POSTGRES_H
#define SEMEL_BENCH_RAW_POSTGRES_H

#include "server.h"

#include <libpq-fe.h>

typedef enum raw_pg_statement {
    RAW_PG_BEGIN,
    RAW_PG_COMMIT,
    RAW_PG_MARK,
    RAW_PG_MARK_NEW,
    RAW_PG_LOOK,
    RAW_PG_FUNCTION,
    RAW_PG_EFFECT,
    RAW_PG_MARK_MANY,
    RAW_PG_ALL_ROWS,
    RAW_PG_SEND,
    RAW_PG_LEASE,
    RAW_PG_REMOVE,
    RAW_PG_COUNT
} raw_pg_statement;

struct raw_connection {
    PGconn *pg;
    size_t sent; /* and not answered */
    char *room;
    unsigned char *array[3]; /* parameters in the making */
    size_t array_room[3];
};

typedef struct raw_pg_values {
    int count;
    const char *values[4];
    int lengths[4];
    unsigned char numbers[4][8];
} raw_pg_values;

void raw_pg_bind_int(raw_pg_values *v, int64_t value);
void raw_pg_bind_bytes(raw_pg_values *v, semel_bytes value);

/* Sends; the answers of all that was sent come with raw_pg_answers(). */
void raw_pg_send(raw_connection *c, raw_pg_statement which, const raw_pg_values *v);
/* Reads them. The result of the last but `from_last` is given back, if asked for: to be cleared. */
PGresult *raw_pg_answers(raw_connection *c, int from_last, int wanted);

raw_work raw_postgres_batch, raw_postgres_rows, raw_postgres_effects, raw_postgres_send;
size_t raw_postgres_relay(raw_connection *c, size_t batch);
size_t raw_postgres_relay_to(raw_connection *c, size_t batch, recipient *publish, void *context);

#endif
