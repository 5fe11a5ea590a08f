/* Publishing: all messages of a batch are handed to librdkafka at once, then their reports are
 * waited for. */
#ifndef SEMEL_TRANSPORT_KAFKA_PUBLISHER_H
#define SEMEL_TRANSPORT_KAFKA_PUBLISHER_H

#include "transport/kafka/client.h"
#include "transport/kafka/topics.h"

#include <pthread.h>
#include <semel/sys/transport.h>

/* What the publish that is under way waits for. */
typedef struct kafka_batch {
    semel_publish_result *results;
    const semel_message *const *messages;
    size_t count;
    size_t open; /* handed over, without a report */
    size_t sent; /* handed over in this round */
    size_t failures;
    int incomplete; /* some were not even handed over */
    int no_memory;  /* ... for want of memory */
} kafka_batch;

typedef struct kafka_publisher {
    const kafka_address *address;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int busy; /* one thread at a time; the rest belongs to that thread */
    kafka_client client;
    kafka_topics topics;
    kafka_batch batch;
    mem_arena arena;             /* of one record */
    int careful;                 /* the next publish goes message by message */
    rd_kafka_resp_err_t failure; /* of this publish: why something has no answer */
} kafka_publisher;

semel_status kafka_publisher_init(kafka_publisher *publisher, const kafka_address *address,
                                  semel_error *err);
void kafka_publisher_close(kafka_publisher *publisher);

semel_status kafka_publisher_publish(kafka_publisher *publisher, semel_publish_result results[],
                                     const semel_message *const messages[], size_t count,
                                     uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                                     semel_error *err);

#endif
