/* Where an assignment begins.
 *
 * The offsets are read here, before the assignment is answered, and librdkafka is told where each
 * partition begins. If it reads them by itself it may forget a partition whose answer was an error
 * (a coordinator that is not ready, after brokers have been started again): nothing would come from
 * there until the next rebalance. And what a group has committed says more than where to begin
 * (progress.h), so they are needed in any case.
 *
 * With from=latest, a partition without an offset begins at its end, and that is committed before
 * anything is received. Otherwise what comes before the first commit would be behind the end at
 * which the next owner begins.
 *
 * What fails is tried again for a while. Then the group is left, and joined anew by the next
 * receive; so is it if the process dies here. */
#include "base/wait.h"
#include "transport/kafka/receiver.h"

enum { FIND_MS = 10000, ASK_MS = 2000, REST_MS = 100 };

/* --- the end of a partition ------------------------------------------------------------------- */

static rd_kafka_resp_err_t take_end(rd_kafka_t *handle, rd_kafka_topic_partition_t *one)
{
    int64_t low, high;
    rd_kafka_resp_err_t code =
        rd_kafka_query_watermark_offsets(handle, one->topic, one->partition, &low, &high, ASK_MS);
    if (!code)
        one->offset = high;
    return code;
}

static rd_kafka_resp_err_t begin_at_ends(rd_kafka_t *handle, rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_topic_partition_list_t *ends = rd_kafka_topic_partition_list_new(0);
    for (int i = 0; !code && i < list->cnt; i++) {
        rd_kafka_topic_partition_t *one = &list->elems[i];
        if (one->offset >= 0)
            continue;
        code = take_end(handle, one);
        rd_kafka_topic_partition_list_add(ends, one->topic, one->partition)->offset = one->offset;
    }
    if (!code && ends->cnt)
        code = kafka_commit_and_wait(handle, ends, ASK_MS);
    rd_kafka_topic_partition_list_destroy(ends);
    return code;
}

/* --- all of it -------------------------------------------------------------------------------- */

static rd_kafka_resp_err_t find_once(kafka_receiver *self, rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_t *handle = self->client.handle;
    rd_kafka_resp_err_t code = kafka_first_error(rd_kafka_committed(handle, list, ASK_MS), list);
    if (!code && self->address->latest)
        code = begin_at_ends(handle, list);
    for (int i = 0; !code && i < list->cnt; i++)
        if (list->elems[i].offset < 0)
            list->elems[i].offset = RD_KAFKA_OFFSET_BEGINNING;
    return code;
}

/* After a rest, which ends when the receiver is to end. */
static int may_go_on(kafka_receiver *self, int64_t until_ms)
{
    struct timespec rested = wait_until(wait_clock_ms() + REST_MS);
    pthread_mutex_lock(&self->lock);
    if (!self->is_ending)
        (void)pthread_cond_timedwait(&self->changed, &self->lock, &rested);
    int going = !self->is_ending && wait_clock_ms() < until_ms;
    pthread_mutex_unlock(&self->lock);
    return going;
}

rd_kafka_resp_err_t kafka_receiver_find_offsets(kafka_receiver *receiver,
                                                rd_kafka_topic_partition_list_t *list)
{
    int64_t until_ms = wait_clock_ms() + FIND_MS;
    rd_kafka_resp_err_t code;
    do
        code = find_once(receiver, list);
    while (code && kafka_status_of(code) != SEMEL_ETRANSPORT && may_go_on(receiver, until_ms));
    return code;
}
