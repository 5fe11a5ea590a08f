/* A connection by hand to PostgreSQL: what hand_postgres.c and hand_postgres_batch.c share. */
#ifndef SEMEL_BENCH_HAND_POSTGRES_H
#define SEMEL_BENCH_HAND_POSTGRES_H

#include "server.h"

#include <libpq-fe.h>

typedef enum hand_statement {
    H_BEGIN,
    H_COMMIT,
    H_MARK,
    H_MARK_NEW,
    H_LOOK,
    H_EFFECT,
    H_MARK_MANY,
    H_ALL_ROWS,
    H_SEND,
    H_TAKE,
    H_REMOVE,
    H_COUNT
} hand_statement;

struct hand {
    PGconn *pg;
    size_t sent; /* and not answered */
    char *room;
    unsigned char *array[3]; /* parameters in the making */
    size_t array_room[3];
};

typedef struct hand_values {
    int count;
    const char *values[4];
    int lengths[4];
    unsigned char numbers[4][8];
} hand_values;

void hand_int(hand_values *v, int64_t value);
void hand_bytes(hand_values *v, semel_bytes value);

/* Sends; the answers of all that was sent come with hand_answers(). */
void hand_send(hand *h, hand_statement which, const hand_values *v);
/* Reads them. The result of the last but `from_last` is given back, if asked for: to be cleared. */
PGresult *hand_answers(hand *h, int from_last, int wanted);

hand_work hand_postgres_batch, hand_postgres_rows, hand_postgres_send;
size_t hand_postgres_relay(hand *h, size_t batch);
size_t hand_postgres_relay_to(hand *h, size_t batch, recipient *publish, void *context);

#endif
