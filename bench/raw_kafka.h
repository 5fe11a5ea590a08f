/* A connection by hand to Kafka: what raw_kafka*.c share. */
#ifndef SEMEL_BENCH_RAW_KAFKA_H
#define SEMEL_BENCH_RAW_KAFKA_H

#include "broker.h"

#include <librdkafka/rdkafka.h>

enum { PATIENCE_MS = 60000, PLACE_ROOM = 64 };

struct broker {
    char hosts[256];
    rd_kafka_t *producer; /* asks for topics, too */
    size_t outstanding;
    char place[PLACE_ROOM]; /* that is consumed */
    rd_kafka_t *consumer;   /* NULL: it does not consume */
    rd_kafka_queue_t *queue;
    int64_t done; /* behind the last message that was acknowledged */
    int64_t committed;
    double commit_at_s; /* the next commit, not before */
    size_t taken, room; /* deliveries not acknowledged */
    rd_kafka_message_t **came;
    semel_message *messages;
    const semel_message **pointers;
};

void must_kafka(rd_kafka_resp_err_t code, const char *what);

typedef struct raw_kafka_setting {
    const char *name, *value;
} raw_kafka_setting;

void raw_kafka_set(rd_kafka_conf_t *conf, const raw_kafka_setting settings[], size_t count);
rd_kafka_t *raw_kafka_client(rd_kafka_type_t type, rd_kafka_conf_t *conf, const char *hosts);

/* raw_kafka_places.c */
void raw_kafka_make(broker *b, const char *place, const char *queue);
void raw_kafka_empty(broker *b, const char *place);
void raw_kafka_remove(broker *b, const char *place);

/* raw_kafka_consume.c */
void raw_kafka_consume(broker *b, const char *place, size_t prefetch);
const semel_message *const *raw_kafka_take(broker *b, size_t count);
void raw_kafka_ack(broker *b);
void raw_kafka_leave(broker *b);

#endif
