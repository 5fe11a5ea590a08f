/* Consuming by hand on librdkafka: a group of one member, which commits by itself and after the
 * work. Kafka acknowledges no single message: an offset says that everything before it is done. So
 * one by one and many together are the same here, and a commit for each would be much slower than
 * the messages. Commits go out without waiting for them, as often as semel's do; the last one, when
 * the consumer leaves, is waited for.
 *
 * What librdkafka fetches ahead has the settings of semel's transport. The prefetch bounds what is
 * out unsettled beyond that, and a loop by hand has no more of it than it takes. */
#include "raw_kafka.h"

#include <stdlib.h>
#include <string.h>

#define COMMIT_EVERY_S 0.2

void raw_kafka_consume(broker *b, const char *place, size_t prefetch)
{
    const raw_kafka_setting settings[] = {{"group.id", place},
                                          {"auto.offset.reset", "earliest"},
                                          {"enable.auto.commit", "false"},
                                          {"enable.auto.offset.store", "false"},
                                          {"isolation.level", "read_committed"},
                                          {"fetch.error.backoff.ms", "100"},
                                          {"allow.auto.create.topics", "false"}};
    (void)prefetch;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    raw_kafka_set(conf, settings, sizeof settings / sizeof *settings);
    b->consumer = raw_kafka_client(RD_KAFKA_CONSUMER, conf, b->hosts);
    must_kafka(rd_kafka_poll_set_consumer(b->consumer), "consuming");
    b->queue = rd_kafka_queue_get_consumer(b->consumer);
    snprintf(b->place, sizeof b->place, "%s", place);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, place, RD_KAFKA_PARTITION_UA);
    must_kafka(rd_kafka_subscribe(b->consumer, topics), "joining a group");
    rd_kafka_topic_partition_list_destroy(topics);
}

/* --- deliveries ------------------------------------------------------------------------------- */

static void reserve(broker *b, size_t count)
{
    free((void *)b->came);
    free(b->messages);
    free((void *)b->pointers);
    b->came = must_alloc(count * sizeof *b->came);
    b->messages = must_alloc(count * sizeof *b->messages);
    b->pointers = must_alloc(count * sizeof(semel_message *));
    b->room = count;
}

static void keep(broker *b, const rd_kafka_message_t *from)
{
    semel_message *message = &b->messages[b->taken];
    rd_kafka_headers_t *headers = NULL;
    *message = (semel_message){.size = sizeof *message, .body = {from->payload, from->len}};
    must_kafka(from->err, "consuming");
    must_kafka(rd_kafka_message_headers(from, &headers), "a message's headers");
    must_kafka(rd_kafka_header_get_last(headers, "ce_id", &message->id.data, &message->id.len),
               "a message's id");
    b->pointers[b->taken++] = message;
}

const semel_message *const *raw_kafka_take(broker *b, size_t count)
{
    if (b->taken)
        die("kafka: the last deliveries are not acknowledged yet");
    if (count > b->room)
        reserve(b, count);
    ssize_t got = rd_kafka_consume_batch_queue(b->queue, PATIENCE_MS, b->came, count);
    if (got < 0 || (size_t)got != count)
        die("kafka: %zd messages in place of %zu", got, count);
    while (b->taken < count)
        keep(b, b->came[b->taken]);
    return b->pointers;
}

/* --- offsets ---------------------------------------------------------------------------------- */

static void commit(broker *b, int is_asynchronous)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, b->place, 0)->offset = b->done;
    must_kafka(rd_kafka_commit(b->consumer, list, is_asynchronous), "committing an offset");
    rd_kafka_topic_partition_list_destroy(list);
    b->committed = b->done;
    b->commit_at_s = now_s() + COMMIT_EVERY_S;
}

void raw_kafka_ack(broker *b)
{
    b->done = b->came[b->taken - 1]->offset + 1;
    for (size_t i = 0; i < b->taken; i++)
        rd_kafka_message_destroy(b->came[i]);
    b->taken = 0;
    if (now_s() >= b->commit_at_s)
        commit(b, 1);
}

void raw_kafka_leave(broker *b)
{
    if (b->done != b->committed)
        commit(b, 0);
    rd_kafka_queue_destroy(b->queue);
    must_kafka(rd_kafka_consumer_close(b->consumer), "leaving a group");
    rd_kafka_destroy(b->consumer);
}
