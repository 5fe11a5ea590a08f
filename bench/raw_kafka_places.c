/* Places on Kafka: a topic of the place's name with one partition, and a group of the same name.
 * One partition is what a queue of the other brokers is; a prefetch then means the same. It is
 * emptied by deleting its records: a topic that was made anew under the same name would be another
 * one for producers that know it. */
#include "raw_kafka.h"

#include <unistd.h>

enum { PARTITIONS = 1, REPLICAS = -1, PAUSE_US = 10000, TRY_MS = 5000 };

/* The answer to the request that was sent with this queue, which ends with it. */
static rd_kafka_event_t *answer_of(rd_kafka_queue_t *queue)
{
    rd_kafka_event_t *answer = rd_kafka_queue_poll(queue, 2 * PATIENCE_MS);
    if (!answer)
        die("kafka: no answer");
    rd_kafka_queue_destroy(queue);
    return answer;
}

static rd_kafka_event_t *good_answer_of(rd_kafka_queue_t *queue, const char *what)
{
    rd_kafka_event_t *answer = answer_of(queue);
    must_kafka(rd_kafka_event_error(answer), what);
    return answer;
}

/* --- topics ----------------------------------------------------------------------------------- */

/* A topic that was just made is not known everywhere at once. */
static rd_kafka_resp_err_t ask_for_topic(broker *b, const char *place)
{
    const struct rd_kafka_metadata *answer = NULL;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(b->producer, place, NULL);
    must_kafka(rd_kafka_metadata(b->producer, 0, topic, &answer, PATIENCE_MS),
               "asking for a topic");
    rd_kafka_resp_err_t code = answer->topics[0].err;
    if (!code && answer->topics[0].partition_cnt != PARTITIONS)
        code = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (!code)
        code = answer->topics[0].partitions[0].err;
    rd_kafka_metadata_destroy(answer);
    rd_kafka_topic_destroy(topic);
    return code;
}

static void wait_for_topic(broker *b, const char *place, rd_kafka_resp_err_t wanted)
{
    double until_s = now_s() + PATIENCE_MS / 1000;
    rd_kafka_resp_err_t code;
    while ((code = ask_for_topic(b, place)) != wanted && now_s() < until_s)
        usleep(PAUSE_US);
    if (code != wanted)
        die("kafka: a topic is neither made nor deleted in time: %s", rd_kafka_err2str(code));
}

static void delete_topic(broker *b, const char *place)
{
    size_t count;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(b->producer);
    rd_kafka_DeleteTopic_t *request = rd_kafka_DeleteTopic_new(place);
    rd_kafka_DeleteTopics(b->producer, &request, 1, NULL, queue);
    rd_kafka_event_t *answer = good_answer_of(queue, "deleting a topic");
    rd_kafka_resp_err_t code = rd_kafka_topic_result_error(
        rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(answer), &count)[0]);
    if (code != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        must_kafka(code, "deleting a topic");
    rd_kafka_event_destroy(answer);
    rd_kafka_DeleteTopic_destroy(request);
    wait_for_topic(b, place, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
}

static void create_topic(broker *b, const char *place)
{
    char why[256] = "";
    size_t count;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(b->producer);
    rd_kafka_NewTopic_t *request =
        rd_kafka_NewTopic_new(place, PARTITIONS, REPLICAS, why, sizeof why);
    if (!request)
        die("kafka: %s", why);
    rd_kafka_CreateTopics(b->producer, &request, 1, NULL, queue);
    rd_kafka_event_t *answer = good_answer_of(queue, "making a topic");
    must_kafka(rd_kafka_topic_result_error(rd_kafka_CreateTopics_result_topics(
                   rd_kafka_event_CreateTopics_result(answer), &count)[0]),
               "making a topic");
    rd_kafka_event_destroy(answer);
    rd_kafka_NewTopic_destroy(request);
    wait_for_topic(b, place, RD_KAFKA_RESP_ERR_NO_ERROR);
}

/* --- groups ----------------------------------------------------------------------------------- */

static rd_kafka_resp_err_t group_code(rd_kafka_event_t *answer)
{
    size_t count;
    rd_kafka_resp_err_t code = rd_kafka_event_error(answer);
    if (code)
        return code;
    const rd_kafka_error_t *error = rd_kafka_group_result_error(
        rd_kafka_DeleteGroups_result_groups(rd_kafka_event_DeleteGroups_result(answer), &count)[0]);
    return error ? rd_kafka_error_code(error) : RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t ask_to_delete_group(broker *b, const char *place)
{
    char why[256];
    rd_kafka_queue_t *queue = rd_kafka_queue_new(b->producer);
    rd_kafka_DeleteGroup_t *request = rd_kafka_DeleteGroup_new(place);
    rd_kafka_AdminOptions_t *how =
        rd_kafka_AdminOptions_new(b->producer, RD_KAFKA_ADMIN_OP_DELETEGROUPS);
    must_kafka(rd_kafka_AdminOptions_set_request_timeout(how, TRY_MS, why, sizeof why), "options");
    rd_kafka_DeleteGroups(b->producer, &request, 1, how, queue);
    rd_kafka_event_t *answer = answer_of(queue);
    rd_kafka_resp_err_t code = group_code(answer);
    rd_kafka_event_destroy(answer);
    rd_kafka_AdminOptions_destroy(how);
    rd_kafka_DeleteGroup_destroy(request);
    return code;
}

/* A broker that has just begun reads what it had stored about groups first. */
static int is_not_ready(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR_NOT_COORDINATOR ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE ||
           code == RD_KAFKA_RESP_ERR__TIMED_OUT;
}

static void delete_group(broker *b, const char *place)
{
    double until_s = now_s() + PATIENCE_MS / 1000;
    rd_kafka_resp_err_t code;
    while (is_not_ready(code = ask_to_delete_group(b, place)) && now_s() < until_s)
        usleep(PAUSE_US);
    if (code != RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND)
        must_kafka(code, "deleting a group");
}

/* --- places ----------------------------------------------------------------------------------- */

void raw_kafka_remove(broker *b, const char *place)
{
    delete_group(b, place);
    delete_topic(b, place);
}

void raw_kafka_make(broker *b, const char *place, const char *queue)
{
    (void)queue;
    raw_kafka_remove(b, place);
    create_topic(b, place);
}

void raw_kafka_empty(broker *b, const char *place)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(PARTITIONS);
    for (int32_t i = 0; i < PARTITIONS; i++)
        rd_kafka_topic_partition_list_add(list, place, i)->offset = RD_KAFKA_OFFSET_END;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(b->producer);
    rd_kafka_DeleteRecords_t *request = rd_kafka_DeleteRecords_new(list);
    rd_kafka_DeleteRecords(b->producer, &request, 1, NULL, queue);
    rd_kafka_event_t *answer = good_answer_of(queue, "deleting records");
    const rd_kafka_topic_partition_list_t *done =
        rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(answer));
    for (int i = 0; i < done->cnt; i++)
        must_kafka(done->elems[i].err, "deleting records");
    rd_kafka_event_destroy(answer);
    rd_kafka_DeleteRecords_destroy(request);
    rd_kafka_topic_partition_list_destroy(list);
}
