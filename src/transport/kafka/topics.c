#include "transport/kafka/topics.h"

#include <string.h>

struct kafka_topic_note {
    struct kafka_topic_note *next;
    const char *name;
    uint64_t missing_in; /* the round; 0: it is there */
};

void kafka_topics_next_round(kafka_topics *topics)
{
    topics->round++;
}

void kafka_topics_forget(kafka_topics *topics)
{
    arena_free(&topics->arena);
    topics->first = NULL;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int fewest_replicas(const rd_kafka_metadata_topic_t *topic)
{
    int fewest = topic->partition_cnt ? topic->partitions[0].replica_cnt : 0;
    for (int i = 1; i < topic->partition_cnt; i++)
        if (topic->partitions[i].replica_cnt < fewest)
            fewest = topic->partitions[i].replica_cnt;
    return fewest;
}

static rd_kafka_resp_err_t read_answer(const struct rd_kafka_metadata *answer, int *partitions,
                                       int *replicas)
{
    const rd_kafka_metadata_topic_t *topic = answer->topic_cnt == 1 ? &answer->topics[0] : NULL;
    if (!topic || (!topic->err && !topic->partition_cnt))
        return RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (partitions)
        *partitions = topic->partition_cnt;
    if (replicas)
        *replicas = fewest_replicas(topic);
    return topic->err;
}

rd_kafka_resp_err_t kafka_topic_ask(rd_kafka_t *handle, const char *name, int wait_ms,
                                    int *partitions, int *replicas)
{
    const struct rd_kafka_metadata *answer = NULL;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(handle, name, NULL);
    if (!topic)
        return rd_kafka_last_error();
    rd_kafka_resp_err_t code = rd_kafka_metadata(handle, 0, topic, &answer, wait_ms);
    if (!code)
        code = read_answer(answer, partitions, replicas);
    if (answer)
        rd_kafka_metadata_destroy(answer);
    rd_kafka_topic_destroy(topic);
    return code;
}

/* --- remembering ------------------------------------------------------------------------------ */

static struct kafka_topic_note *find(const kafka_topics *topics, const char *name)
{
    struct kafka_topic_note *note = topics->first;
    while (note && strcmp(note->name, name) != 0)
        note = note->next;
    return note;
}

/* Without memory it is asked for again. */
static void remember(kafka_topics *topics, const char *name, int missing)
{
    struct kafka_topic_note *note = find(topics, name);
    uint64_t missing_in = missing ? topics->round : 0;
    if (note) {
        note->missing_in = missing_in;
        return;
    }
    note = arena_alloc(&topics->arena, sizeof *note);
    const char *copy = arena_copy(&topics->arena, name, strlen(name));
    if (!note || !copy)
        return;
    *note = (struct kafka_topic_note){topics->first, copy, missing_in};
    topics->first = note;
}

rd_kafka_resp_err_t kafka_topics_look(kafka_topics *topics, const kafka_client *client,
                                      const char *name, int wait_ms)
{
    const struct kafka_topic_note *note = find(topics, name);
    if (note && !note->missing_in)
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    if (note && note->missing_in == topics->round)
        return RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    rd_kafka_resp_err_t code = kafka_topic_ask(client->handle, name, wait_ms, NULL, NULL);
    int missing = code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (!code || missing)
        remember(topics, name, missing);
    return code;
}
