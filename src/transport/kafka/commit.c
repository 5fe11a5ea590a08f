/* An offset is committed when everything before it in its partition is settled. Commits are
 * bundled: one for all partitions, one at a time, some times a second; at once after a redelivered
 * message, so that where one message kills process after process, the others do not come back with
 * it each time.
 *
 * Every commit also says how far messages may be handed out (progress.h). The broker must know that
 * before it happens, or a message that kills its process would not be counted: so positions are
 * reserved ahead, and what is behind the reservation waits. The first records of an assignment wait
 * for one round trip; later reservations are made well before they are needed, mostly by commits
 * that go out anyway. If the process dies, what was reserved and never handed out counts as
 * redelivered, too: that makes the next owner careful for a while, and is not wrong.
 *
 * What is said when a partition goes is exact. */
#include "base/wait.h"
#include "transport/kafka/receiver.h"

#include <string.h>

/* A commit without an answer for ANSWER_MS counts as lost, and the next one goes out. */
enum { ANSWER_MS = 30000 };
enum { COMMIT_EVERY_MS = 200, STRIDE = 1000, SERVE_MS = 50 };

static rd_kafka_topic_partition_list_t *new_list(void)
{
    return rd_kafka_topic_partition_list_new(0);
}

/* --- what it is told -------------------------------------------------------------------------- */

/* The first unsettled message has or will have this number of deliveries. */
static uint32_t first_deliveries(const kafka_partition *one)
{
    const kafka_delivery *first = kafka_window_first(&one->window);
    if (!first)
        return 0;
    return first->message->delivery ? first->message->delivery
                                    : kafka_progress_delivery(&one->before, first->offset);
}

static void add_to_list(const kafka_receiver *self, rd_kafka_topic_partition_list_t *list,
                        const kafka_partition *one, int64_t handed, uint32_t deliveries)
{
    char text[KAFKA_PROGRESS_ROOM];
    rd_kafka_topic_partition_t *to =
        rd_kafka_topic_partition_list_add(list, self->address->topic, one->id);
    kafka_progress_write(text, &one->window, &one->before, handed, deliveries);
    to->offset = kafka_window_prefix(&one->window);
    to->metadata = rd_kafka_mem_malloc(self->client.handle, strlen(text) + 1);
    if (!to->metadata) /* the offset alone is right, too */
        return;
    memcpy(to->metadata, text, strlen(text) + 1);
    to->metadata_size = strlen(text);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* An owner before us may have handed out more than we have received by now. */
static void add_reserving(kafka_receiver *self, rd_kafka_topic_partition_list_t *list,
                          kafka_partition *one)
{
    one->commit = self->commits;
    one->commit_prefix = kafka_window_prefix(&one->window);
    one->commit_reserved = one->window.next + STRIDE;
    one->has_settled = 0;
    add_to_list(self, list, one, larger(one->commit_reserved, one->before.handed),
                first_deliveries(one));
}

/* --- when ------------------------------------------------------------------------------------- */

/* What is settled behind a message that is not is told, too. */
static int is_behind(const kafka_partition *one)
{
    return one->has_settled || kafka_window_prefix(&one->window) != one->committed;
}

static int needs_reservation(const kafka_partition *one)
{
    return one->window.unsettled && one->reserved < one->window.next + STRIDE / 2;
}

/* How urgent it is: 0, 1 with the next bundle, 2 now. */
static int urgency(const kafka_receiver *self, const kafka_partition *one)
{
    if (!one || !one->assignment || one->window.next < 0)
        return 0;
    if (needs_reservation(one))
        return 2;
    return is_behind(one) ? 1 + (self->commit_hurries != 0) : 0;
}

static int is_due(const kafka_receiver *self)
{
    int most = 0;
    for (size_t i = 0; i < self->partition_count; i++) {
        int one = urgency(self, self->partitions[i]);
        most = one > most ? one : most;
    }
    return most == 2 || (most == 1 && wait_clock_ms() >= self->commit_at_ms);
}

/* NULL: there is nothing to say, or not yet. */
static rd_kafka_topic_partition_list_t *list_due(kafka_receiver *self)
{
    int64_t now_ms = wait_clock_ms();
    if ((self->commit_open && now_ms < self->commit_until_ms) ||
        now_ms < self->commit_not_before_ms || !is_due(self))
        return NULL;
    rd_kafka_topic_partition_list_t *list = new_list();
    self->commit_open = ++self->commits;
    self->commit_until_ms = now_ms + ANSWER_MS;
    self->commit_hurries = 0;
    for (size_t i = 0; i < self->partition_count; i++)
        if (urgency(self, self->partitions[i]))
            add_reserving(self, list, self->partitions[i]);
    return list;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void apply_answer(kafka_receiver *self, const rd_kafka_topic_partition_t *answer,
                         uint64_t number)
{
    size_t index = (size_t)answer->partition;
    kafka_partition *one = index < self->partition_count ? self->partitions[index] : NULL;
    if (!one || !one->assignment || one->commit != number)
        return;
    one->commit = 0;
    if (answer->err) {
        if (kafka_status_of(answer->err) == SEMEL_ETRANSPORT)
            kafka_receiver_note(self, answer->err, "committing an offset", NULL);
        return;
    }
    one->committed = one->commit_prefix;
    if (one->commit_reserved > one->reserved)
        one->reserved = one->commit_reserved;
}

/* A rebalance refuses commits until it is over; then the next one succeeds, or the partition is no
 * longer ours. */
static void take_answer(rd_kafka_t *handle, rd_kafka_resp_err_t code,
                        rd_kafka_topic_partition_list_t *partitions, void *opaque)
{
    const kafka_client *client = rd_kafka_opaque(handle);
    kafka_receiver *self = client->owner;
    uint64_t number = (uint64_t)(uintptr_t)opaque;
    int64_t now_ms = wait_clock_ms();
    pthread_mutex_lock(&self->lock);
    if (self->commit_open == number)
        self->commit_open = 0;
    self->commit_at_ms = now_ms + COMMIT_EVERY_MS;
    self->commit_not_before_ms = code ? now_ms + COMMIT_EVERY_MS : 0;
    if (code && kafka_status_of(code) == SEMEL_ETRANSPORT)
        kafka_receiver_note(self, code, "committing offsets", NULL);
    for (int i = 0; !code && partitions && i < partitions->cnt; i++)
        apply_answer(self, &partitions->elems[i], number);
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

void kafka_receiver_commit(kafka_receiver *receiver)
{
    pthread_mutex_lock(&receiver->lock);
    rd_kafka_topic_partition_list_t *list = list_due(receiver);
    uint64_t number = receiver->commits;
    pthread_mutex_unlock(&receiver->lock);
    if (!list)
        return;
    rd_kafka_resp_err_t code = rd_kafka_commit_queue(receiver->client.handle, list, receiver->queue,
                                                     take_answer, (void *)(uintptr_t)number);
    if (code)
        take_answer(receiver->client.handle, code, NULL, (void *)(uintptr_t)number);
    rd_kafka_topic_partition_list_destroy(list);
}

/* --- the last one ----------------------------------------------------------------------------- */

/* How far messages were handed out, by us or before us; and how often the first one was. From now
 * on none is. */
static void add_exact(kafka_receiver *self, rd_kafka_topic_partition_list_t *list,
                      kafka_partition *one)
{
    int64_t prefix = kafka_window_prefix(&one->window);
    int64_t handed = larger(one->handed, one->before.handed);
    uint32_t deliveries = first_deliveries(one);
    if (prefix >= one->handed && deliveries) /* it was not handed out this time */
        deliveries--;
    one->reserved = -1;
    one->commit = 0;
    add_to_list(self, list, one, handed, deliveries);
}

static rd_kafka_topic_partition_list_t *list_last(kafka_receiver *self,
                                                  const rd_kafka_topic_partition_list_t *partitions)
{
    rd_kafka_topic_partition_list_t *list = new_list();
    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < partitions->cnt; i++) {
        size_t index = (size_t)partitions->elems[i].partition;
        kafka_partition *one = index < self->partition_count ? self->partitions[index] : NULL;
        if (one && one->assignment && one->window.next >= 0)
            add_exact(self, list, one);
    }
    pthread_mutex_unlock(&self->lock);
    return list;
}

static rd_kafka_resp_err_t wait_for_answer(rd_kafka_queue_t *queue, int wait_ms)
{
    int64_t until_ms = wait_clock_ms() + wait_ms;
    rd_kafka_event_t *event = NULL;
    while (!event && wait_clock_ms() < until_ms)
        event = rd_kafka_queue_poll(queue, SERVE_MS);
    if (!event)
        return RD_KAFKA_RESP_ERR__TIMED_OUT;
    rd_kafka_resp_err_t code =
        kafka_first_error(rd_kafka_event_error(event), rd_kafka_event_topic_partition_list(event));
    rd_kafka_event_destroy(event);
    return code;
}

rd_kafka_resp_err_t kafka_commit_and_wait(rd_kafka_t *handle,
                                          const rd_kafka_topic_partition_list_t *list, int wait_ms)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(handle);
    rd_kafka_resp_err_t code = rd_kafka_commit_queue(handle, list, queue, NULL, NULL);
    if (!code)
        code = wait_for_answer(queue, wait_ms);
    rd_kafka_queue_destroy(queue);
    return code;
}

/* Without an answer the messages come again. */
void kafka_receiver_commit_last(kafka_receiver *receiver,
                                const rd_kafka_topic_partition_list_t *partitions, int wait_ms)
{
    rd_kafka_topic_partition_list_t *list = list_last(receiver, partitions);
    if (list->cnt)
        (void)kafka_commit_and_wait(receiver->client.handle, list, wait_ms);
    rd_kafka_topic_partition_list_destroy(list);
}
