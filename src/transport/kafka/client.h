/* A client of librdkafka's: made with the settings of the URL, silent, and with what it last said
 * about trouble. */
#ifndef SEMEL_TRANSPORT_KAFKA_CLIENT_H
#define SEMEL_TRANSPORT_KAFKA_CLIENT_H

#include "transport/kafka/address.h"

#include <librdkafka/rdkafka.h>

enum { KAFKA_TROUBLE_ROOM = 256 };

struct kafka_record;

typedef enum kafka_role {
    KAFKA_INSPECTS, /* asks for topics, settings and offsets; joins no group */
    KAFKA_PRODUCES,
    KAFKA_CONSUMES
} kafka_role;

typedef struct kafka_client kafka_client;

/* What happens in a call that serves the client. `owner` is the client's. */
typedef struct kafka_calls {
    void (*delivered)(void *owner, const rd_kafka_message_t *message);
    void (*rebalanced)(void *owner, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t *of);
} kafka_calls;

struct kafka_client {
    rd_kafka_t *handle; /* NULL: there is none */
    const kafka_address *address;
    kafka_calls calls;
    void *owner;
    /* The last that librdkafka reported; RD_KAFKA_RESP_ERR_NO_ERROR: nothing. Only the thread that
     * serves the client reads or writes it. */
    rd_kafka_resp_err_t trouble;
    char trouble_text[KAFKA_TROUBLE_ROOM];
    int all_down; /* no broker can be reached */
};

/* SEMEL_EINVAL for a setting that librdkafka does not know or accept. */
semel_status kafka_client_check(const kafka_address *address, semel_error *err);

/* The same, and then a client. No broker is contacted. */
semel_status kafka_client_open(kafka_client *client, kafka_role role, const kafka_address *address,
                               const kafka_calls *calls, void *owner, semel_error *err);

/* Ends its threads and connections; what is queued is forgotten, and nothing is called any more. */
void kafka_client_close(kafka_client *client);

/* Hands a record to a producer; `opaque` comes back with its report. The record is copied. */
rd_kafka_resp_err_t kafka_client_produce(const kafka_client *client, const char *topic,
                                         const struct kafka_record *record, void *opaque);

/* What a caller can do about an error: wait, or report it to a person. */
semel_status kafka_status_of(rd_kafka_resp_err_t code);

/* Of an answer: its own error, or the first one of its partitions. */
rd_kafka_resp_err_t kafka_first_error(rd_kafka_resp_err_t code,
                                      const rd_kafka_topic_partition_list_t *list);

/* Fills `err`: "doing: text (brokers: ...)", without secrets. `text` may be NULL. Returns the
 * status. */
semel_status kafka_fail(const kafka_address *address, semel_error *err, semel_status status,
                        rd_kafka_resp_err_t code, const char *doing, const char *text);

/* The same with what the client reported itself, if it did: a timeout then has a reason. For a
 * client that this thread serves; not for one in a group. */
semel_status kafka_client_fail(kafka_client *client, semel_error *err, rd_kafka_resp_err_t code,
                               const char *doing);

#endif
