/* Partitions come and go, by the eager protocol (all go, then some come) or the cooperative one
 * (only those that move). librdkafka asks in the thread of the receiver, while that serves it.
 *
 * What comes begins where the group has come to (offsets.c). It gets a new number, so that old
 * deliveries are never taken for new ones. What goes is committed as far as it is settled while the
 * partition is still ours, with a bound on the wait; what was not handed out is dropped, and what
 * is out is from then on revoked: its handler may finish, the next owner gets the message again,
 * and a verdict that comes late changes nothing. A partition that was lost has another owner
 * already, so nothing is committed. */
#include "transport/kafka/receiver.h"

#include <stdio.h>
#include <string.h>

enum { COMMIT_MS = 3000, NAME_ROOM = KAFKA_TOPIC_MAX + 16 };

/* --- partitions ------------------------------------------------------------------------------- */

static int reserve_index(kafka_receiver *self, size_t index)
{
    if (index < self->partition_count)
        return 1;
    kafka_partition **all = mem_resize(self->partitions, (index + 1) * sizeof(kafka_partition *));
    if (!all)
        return 0;
    for (size_t i = self->partition_count; i <= index; i++)
        all[i] = NULL;
    self->partitions = all;
    self->partition_count = index + 1;
    return 1;
}

static kafka_partition *new_partition(kafka_receiver *self, int32_t id)
{
    char name[NAME_ROOM];
    (void)snprintf(name, sizeof name, "%s/%d", self->address->topic, (int)id);
    kafka_partition *one = mem_alloc(sizeof *one);
    const char *copy = one ? arena_copy(&self->names, name, strlen(name)) : NULL;
    if (!copy) {
        mem_free(one);
        return NULL;
    }
    one->id = id;
    one->name = copy;
    one->origin = "";
    kafka_window_init(&one->window);
    return one;
}

/* NULL: out of memory. */
static kafka_partition *need_partition(kafka_receiver *self, int32_t id)
{
    size_t index = (size_t)id;
    if (id < 0 || !reserve_index(self, index))
        return NULL;
    if (!self->partitions[index])
        self->partitions[index] = new_partition(self, id);
    return self->partitions[index];
}

/* The text stays as long as deliveries may point to it. */
static const char *keep_origin(kafka_receiver *self, const char *now, const char *id)
{
    if (!id || strcmp(now, id) == 0)
        return now;
    const char *copy = arena_copy(&self->names, id, strlen(id));
    return copy ? copy : "";
}

/* --- coming ----------------------------------------------------------------------------------- */

static void begin(kafka_receiver *self, kafka_partition *one)
{
    kafka_window_free(&one->window);
    one->assignment = ++self->assignments;
    one->ready_bytes = 0;
    one->handed = one->committed = one->reserved = -1;
    one->commit = 0;
    one->has_settled = 0;
}

/* Before the assignment is answered, or the first records would come by the client's queue. */
static int open_queue(kafka_receiver *self, kafka_partition *one)
{
    kafka_receiver_forget(&one->queue);
    one->queue = rd_kafka_queue_get_partition(self->client.handle, self->address->topic, one->id);
    if (!one->queue)
        return 0;
    rd_kafka_queue_forward(one->queue, NULL);
    kafka_receiver_watch(self, one->queue);
    return 1;
}

static int assign_one(kafka_receiver *self, const rd_kafka_topic_partition_t *from,
                      const char *cluster)
{
    kafka_partition *one = need_partition(self, from->partition);
    if (!one || !open_queue(self, one))
        return 0;
    begin(self, one);
    one->origin = keep_origin(self, one->origin, cluster);
    kafka_progress_read(&one->before, from->offset, from->metadata, from->metadata_size);
    one->committed = from->offset >= 0 ? from->offset : -1;
    one->full = 0;
    return 1;
}

static void assign_all(kafka_receiver *self, const rd_kafka_topic_partition_list_t *list)
{
    char *cluster = rd_kafka_clusterid(self->client.handle, 0);
    int complete = 1;
    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < list->cnt; i++)
        complete &= assign_one(self, &list->elems[i], cluster);
    if (!complete) {
        self->has_failed = 1;
        kafka_receiver_note(self, RD_KAFKA_RESP_ERR__FAIL, "joining the group",
                            "out of memory for a partition");
    }
    pthread_mutex_unlock(&self->lock);
    if (cluster)
        rd_kafka_mem_free(self->client.handle, cluster);
}

/* Without offsets nothing is ours: the thread leaves the group, and what comes by then is
 * dropped. */
static void assign(kafka_receiver *self, rd_kafka_topic_partition_list_t *partitions)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_copy(partitions);
    rd_kafka_resp_err_t code = kafka_receiver_find_offsets(self, list);
    if (code) {
        pthread_mutex_lock(&self->lock);
        self->has_failed = 1;
        kafka_receiver_note(self, code, "reading committed offsets", NULL);
        pthread_mutex_unlock(&self->lock);
    } else {
        assign_all(self, list);
        for (int i = 0; i < list->cnt; i++)
            partitions->elems[i].offset = list->elems[i].offset;
    }
    rd_kafka_topic_partition_list_destroy(list);
}

/* --- going ------------------------------------------------------------------------------------ */

static void drop_one(kafka_receiver *self, kafka_partition *one)
{
    for (kafka_delivery *ready; (ready = kafka_window_drain(&one->window)) != NULL;)
        kafka_delivery_free(self, ready);
    one->assignment = 0;
    one->ready_bytes = 0;
}

/* What the broker knows of it was said of other records. */
void kafka_receiver_begin_anew(kafka_receiver *receiver, kafka_partition *partition)
{
    drop_one(receiver, partition);
    begin(receiver, partition);
    partition->before = (kafka_progress){.offset = -1, .handed = -1};
}

static void give_up(kafka_receiver *self, kafka_partition *one)
{
    drop_one(self, one);
    kafka_receiver_forget(&one->queue);
}

static void revoke(kafka_receiver *self, const rd_kafka_topic_partition_list_t *partitions)
{
    if (!rd_kafka_assignment_lost(self->client.handle))
        kafka_receiver_commit_last(self, partitions, COMMIT_MS);
    pthread_mutex_lock(&self->lock);
    for (int i = 0; i < partitions->cnt; i++) {
        size_t index = (size_t)partitions->elems[i].partition;
        if (index < self->partition_count && self->partitions[index])
            give_up(self, self->partitions[index]);
    }
    pthread_mutex_unlock(&self->lock);
}

void kafka_receiver_drop_all(kafka_receiver *receiver)
{
    pthread_mutex_lock(&receiver->lock);
    for (size_t i = 0; i < receiver->partition_count; i++)
        if (receiver->partitions[i])
            give_up(receiver, receiver->partitions[i]);
    receiver->commit_open = 0;
    pthread_mutex_unlock(&receiver->lock);
}

/* --- librdkafka's question -------------------------------------------------------------------- */

/* The answer that librdkafka waits for: by the protocol of the group. */
static void answer(kafka_receiver *self, rd_kafka_resp_err_t what,
                   const rd_kafka_topic_partition_list_t *partitions)
{
    rd_kafka_t *handle = self->client.handle;
    const char *protocol = rd_kafka_rebalance_protocol(handle);
    int comes = what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    if (protocol && strcmp(protocol, "COOPERATIVE") == 0) {
        rd_kafka_error_t *error = comes ? rd_kafka_incremental_assign(handle, partitions)
                                        : rd_kafka_incremental_unassign(handle, partitions);
        code = error ? rd_kafka_error_code(error) : RD_KAFKA_RESP_ERR_NO_ERROR;
        if (error)
            rd_kafka_error_destroy(error);
    } else {
        code = rd_kafka_assign(handle, comes ? partitions : NULL);
    }
    if (!code)
        return;
    pthread_mutex_lock(&self->lock);
    self->has_failed = 1;
    kafka_receiver_note(self, code, "taking part in a rebalance", NULL);
    pthread_mutex_unlock(&self->lock);
}

void kafka_receiver_rebalanced(void *receiver, rd_kafka_resp_err_t what,
                               rd_kafka_topic_partition_list_t *partitions)
{
    kafka_receiver *self = receiver;
    if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS)
        assign(self, partitions);
    else
        revoke(self, partitions);
    answer(self, what, partitions);
}
