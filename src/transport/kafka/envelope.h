/* A semel_message as a Kafka record with CloudEvents headers, and back. docs/KAFKA.md describes it.
 *
 * Everything is pure: no connection is touched, and nothing of librdkafka's is needed. */
#ifndef SEMEL_TRANSPORT_KAFKA_ENVELOPE_H
#define SEMEL_TRANSPORT_KAFKA_ENVELOPE_H

#include "base/mem.h"

#include <semel/message.h>

/* A record; points into the message and into the arena. */
typedef struct kafka_record {
    semel_bytes key;  /* data NULL: none */
    semel_bytes body; /* data is never NULL: that would mean "deleted" in a compacted topic */
    const semel_header *headers;
    size_t header_count;
    int64_t timestamp_ms; /* 0: now */
} kafka_record;

/* SEMEL_EINVAL if it must be a CloudEvent and is none; SEMEL_ENOMEM. */
semel_status kafka_envelope_write(kafka_record *out, mem_arena *arena, const semel_message *message,
                                  int cloudevents, semel_error *err);

/* What came with a record. Names and values of headers may be anything. */
typedef struct kafka_incoming {
    kafka_record record;
    const char *topic; /* of Kafka's */
    int32_t partition;
    int64_t offset;
} kafka_incoming;

/* All of it is copied into the arena. NULL when out of memory. Headers and texts over a limit of
 * message.h are left out; a body that is too large stays, and the consumer checks it. `delivery` is
 * left to the caller. */
semel_message *kafka_envelope_read(mem_arena *arena, const kafka_incoming *incoming);

#endif
