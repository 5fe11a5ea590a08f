/* A kafka:// URL, read: where the brokers are, which topic and group are used, and the settings of
 * librdkafka that it passes on. docs/KAFKA.md describes every parameter. */
#ifndef SEMEL_TRANSPORT_KAFKA_ADDRESS_H
#define SEMEL_TRANSPORT_KAFKA_ADDRESS_H

#include "base/mem.h"
#include "base/url.h"

#include <semel/error.h>
#include <stdint.h>

enum { KAFKA_TOPIC_MAX = 249 }; /* bytes of a topic's name, as brokers have it */

/* A setting of librdkafka: X.name=value. */
typedef struct kafka_setting {
    const char *name;
    const char *value; /* of X.name=file:PATH the content of the file */
} kafka_setting;

/* Texts lie in the arena; those that are not given are "". */
typedef struct kafka_address {
    mem_arena arena;
    const char *servers; /* host:port,host:port */
    const char *user;    /* for SASL, with ... */
    const char *password;
    const char *topic; /* "": each message goes to the topic that it names, nothing is received */
    const char *group; /* "": nothing is received */
    const char *instance; /* the static member of the group that this is */
    const char *dead;     /* the topic for what is rejected */
    const char *name;     /* the client's, in the brokers' logs and metrics; "semel" */
    int latest;           /* from=latest: a new group begins at the end of the topic */
    int cooperative;      /* assignment=cooperative; else eager */
    int cloudevents;      /* envelope=cloudevents: what is no event is refused */
    int allow_loss;       /* loss=warn; else refuse */
    uint32_t prefetch;    /* most unsettled messages of one partition, 1..100000 */
    uint32_t ahead;       /* how far behind the first unsettled message the last one may be */
    uint32_t connect_ms;  /* for connecting when the transport is opened */
    kafka_setting settings[URL_PARAMETERS_MAX];
    size_t setting_count;
} kafka_address;

/* SEMEL_EINVAL says which part is wrong and what is possible; never repeats a password. On failure
 * nothing is left to free. */
semel_status kafka_address_read(kafka_address *out, const char *text, semel_error *err);
void kafka_address_free(kafka_address *address); /* overwrites what is secret */

/* 1 if brokers would take it as a topic's name. */
int kafka_topic_is_valid(const char *topic);

/* Replaces all that is secret in a text of a broker's or of the client library's. */
void kafka_address_hide(const kafka_address *address, char *text);

#endif
