/* The group is joined by the first call that receives: a process that only publishes, or has not
 * begun yet, must not keep messages from others.
 *
 * Deliveries are in memory, in the windows of their partitions. An acknowledged one is gone at once
 * from here; the broker learns of it when everything before it is settled, too (commit.c). If the
 * process dies before, it comes again. What is to be tried again stays here, so no other consumer
 * gets it, and is handed out before what follows it. */
#include "transport/kafka/receiver.h"

#include "base/thread.h"
#include "base/wait.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LARGE = 65536 };

/* --- deliveries ------------------------------------------------------------------------------- */

kafka_delivery *kafka_delivery_new(kafka_receiver *receiver)
{
    delivery_node *one = receiver->spare;
    if (!one)
        return mem_alloc(sizeof(kafka_delivery));
    receiver->spare = one->same_bucket;
    one->same_bucket = NULL;
    return kafka_delivery_of(one);
}

/* Its memory serves the next one, unless it is worth giving back. */
void kafka_delivery_free(kafka_receiver *receiver, kafka_delivery *delivery)
{
    if (arena_size(&delivery->arena) > LARGE)
        arena_free(&delivery->arena);
    else
        arena_reset(&delivery->arena);
    *delivery = (kafka_delivery){.arena = delivery->arena, .node.same_bucket = receiver->spare};
    receiver->spare = &delivery->node;
}

int kafka_delivery_is_revoked(const kafka_delivery *delivery)
{
    return delivery->partition->assignment != delivery->assignment;
}

static void free_deliveries(kafka_receiver *self)
{
    for (delivery_node *one = delivery_table_take_all(&self->out), *next; one; one = next) {
        next = one->same_bucket;
        kafka_delivery_free(self, kafka_delivery_of(one));
    }
    for (kafka_delivery *one; (one = kafka_delivery_of(self->spare)) != NULL;) {
        self->spare = one->node.same_bucket;
        arena_free(&one->arena);
        mem_free(one);
    }
    delivery_table_free(&self->out);
}

/* --- the thread ------------------------------------------------------------------------------- */

static const uint64_t one_event = 1;

void kafka_receiver_wake(kafka_receiver *receiver)
{
    (void)!write(receiver->wake_fd, &one_event, sizeof one_event); /* it fails if it is awake */
}

void kafka_receiver_watch(kafka_receiver *receiver, rd_kafka_queue_t *queue)
{
    rd_kafka_queue_io_event_enable(queue, receiver->wake_fd, &one_event, sizeof one_event);
}

void kafka_receiver_forget(rd_kafka_queue_t **queue)
{
    if (!*queue)
        return;
    rd_kafka_queue_io_event_enable(*queue, -1, NULL, 0);
    rd_kafka_queue_destroy(*queue);
    *queue = NULL;
}

static semel_status subscribe(kafka_receiver *self, semel_error *err)
{
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, self->address->topic, RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t code = rd_kafka_poll_set_consumer(self->client.handle);
    if (!code)
        code = rd_kafka_subscribe(self->client.handle, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    return code ? kafka_fail(self->address, err, kafka_status_of(code), code, "joining the group",
                             NULL)
                : SEMEL_OK;
}

static semel_status start_client(kafka_receiver *self, semel_error *err)
{
    static const kafka_calls calls = {.rebalanced = kafka_receiver_rebalanced};
    semel_status status =
        kafka_client_open(&self->client, KAFKA_CONSUMES, self->address, &calls, self, err);
    if (status)
        return status;
    self->queue = rd_kafka_queue_get_consumer(self->client.handle);
    kafka_receiver_watch(self, self->queue);
    return subscribe(self, err);
}

static void end_client(kafka_receiver *self)
{
    kafka_receiver_forget(&self->queue);
    kafka_client_close(&self->client);
}

static semel_status start(kafka_receiver *self, semel_error *err)
{
    semel_status status = start_client(self, err);
    int error = status ? 0 : thread_start(&self->thread, kafka_receiver_run, self);
    if (error)
        status = semel_fail(err, SEMEL_ETRANSPORT, "no thread for the group: %s", strerror(error));
    if (status) {
        end_client(self);
        return status;
    }
    self->is_running = 1;
    self->is_ending = self->has_failed = self->is_down = 0;
    self->trouble.status = SEMEL_OK;
    return SEMEL_OK;
}

/* With the lock held, which it gives up while it waits. */
static void stop(kafka_receiver *self)
{
    while (self->is_running && self->is_ending) /* another thread does it */
        pthread_cond_wait(&self->changed, &self->lock);
    if (!self->is_running)
        return;
    self->is_ending = 1;
    kafka_receiver_wake(self);
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    pthread_mutex_lock(&self->lock);
    end_client(self);
    self->is_running = self->is_ending = 0;
    pthread_cond_broadcast(&self->changed);
}

/* A thread that has ended by itself makes way for a new one, which another caller may have started
 * by the time that the old one is gone. */
static semel_status need_thread(kafka_receiver *self, semel_error *err)
{
    while (self->is_running && self->is_ending)
        pthread_cond_wait(&self->changed, &self->lock);
    if (self->has_failed)
        stop(self);
    return self->is_running ? SEMEL_OK : start(self, err);
}

/* --- opening and closing ---------------------------------------------------------------------- */

semel_status kafka_receiver_init(kafka_receiver *receiver, const kafka_address *address,
                                 semel_error *err)
{
    receiver->address = address;
    receiver->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (receiver->wake_fd < 0)
        return semel_fail(err, SEMEL_ETRANSPORT, "no eventfd for a receiver: %s", strerror(errno));
    int error = pthread_mutex_init(&receiver->lock, NULL);
    if (!error && (error = wait_condition_init(&receiver->changed)) != 0)
        pthread_mutex_destroy(&receiver->lock);
    if (error)
        (void)close(receiver->wake_fd);
    return error ? semel_fail(err, SEMEL_ENOMEM, "no lock for a receiver: %s", strerror(error))
                 : SEMEL_OK;
}

void kafka_receiver_give_back(kafka_receiver *receiver)
{
    pthread_mutex_lock(&receiver->lock);
    stop(receiver);
    pthread_mutex_unlock(&receiver->lock);
}

void kafka_receiver_close(kafka_receiver *receiver)
{
    kafka_receiver_give_back(receiver);
    kafka_receiver_end_rejected(receiver, 0); /* what was rejected while it left the group */
    free_deliveries(receiver);
    for (size_t i = 0; i < receiver->partition_count; i++)
        mem_free(receiver->partitions[i]);
    mem_free(receiver->partitions);
    arena_free(&receiver->names);
    pthread_cond_destroy(&receiver->changed);
    pthread_mutex_destroy(&receiver->lock);
    (void)close(receiver->wake_fd);
}

/* --- handing out ------------------------------------------------------------------------------ */

static void make_room(kafka_receiver *self, kafka_partition *partition)
{
    if (!partition->full || !kafka_partition_has_room(self, partition))
        return;
    partition->full = 0;
    kafka_receiver_wake(self);
}

/* A message's number of deliveries is counted when it is handed out for the first time; a retry has
 * raised it already. */
static void hand_out(kafka_receiver *self, semel_delivery *to, kafka_delivery *one)
{
    kafka_partition *partition = one->partition;
    if (!one->message->delivery)
        one->message->delivery = kafka_progress_delivery(&partition->before, one->offset);
    if (one->offset >= partition->handed)
        partition->handed = one->offset + 1;
    partition->ready_bytes -= one->message->body.len;
    make_room(self, partition);
    (void)delivery_table_add(&self->out, &one->node); /* there is room */
    *to = (semel_delivery){.tag = one->node.tag,
                           .message = one->message,
                           .partition = partition->name,
                           .position = one->offset,
                           .origin = partition->origin};
}

static size_t take_from(kafka_receiver *self, kafka_partition *partition, semel_delivery out[],
                        size_t max)
{
    size_t count = 0;
    while (count < max && delivery_table_reserve(&self->out, self->out.count + 1)) {
        kafka_delivery *one = kafka_window_take(&partition->window, partition->reserved);
        if (!one)
            break;
        hand_out(self, &out[count++], one);
    }
    return count;
}

/* From each partition in turn. The first one is another one each time. */
static size_t take_ready(kafka_receiver *self, semel_delivery deliveries[], size_t max)
{
    size_t count = 0, all = self->partition_count;
    for (size_t i = 0; i < all && count < max; i++) {
        kafka_partition *partition = self->partitions[(self->turn + i) % all];
        if (partition && partition->assignment)
            count += take_from(self, partition, deliveries + count, max - count);
    }
    self->turn = all ? (self->turn + 1) % all : 0;
    return count;
}

/* Trouble is reported once, and only if there is nothing else to report; that no broker can be
 * reached, each time. */
static semel_status report_trouble(kafka_receiver *self, semel_error *err)
{
    semel_status status = self->trouble.status;
    if (status && err)
        *err = self->trouble;
    if (!self->is_down || self->has_failed)
        self->trouble.status = SEMEL_OK; /* a thread that has ended makes way for a new one */
    return status;
}

static semel_status receive_ready(kafka_receiver *self, semel_delivery deliveries[], size_t max,
                                  size_t *count, int64_t until_ms, semel_error *err)
{
    semel_status status = self->has_failed ? report_trouble(self, err) : SEMEL_OK;
    if (!status)
        status = need_thread(self, err);
    while (!status && (*count = take_ready(self, deliveries, max)) == 0) {
        struct timespec until = wait_until(until_ms);
        status = report_trouble(self, err);
        if (status || !self->is_running || wait_clock_ms() >= until_ms)
            break;
        (void)pthread_cond_timedwait(&self->changed, &self->lock, &until);
    }
    return status;
}

semel_status kafka_receiver_receive(kafka_receiver *receiver, semel_delivery deliveries[],
                                    size_t max, size_t *count, uint32_t wait_ms, semel_error *err)
{
    size_t found = 0;
    pthread_mutex_lock(&receiver->lock);
    semel_status status =
        receive_ready(receiver, deliveries, max, &found, wait_clock_ms() + wait_ms, err);
    pthread_mutex_unlock(&receiver->lock);
    if (!status)
        *count = found;
    return status;
}

/* --- verdicts --------------------------------------------------------------------------------- */

static void acknowledge(kafka_receiver *self, kafka_delivery *one)
{
    kafka_window_settle(&one->partition->window, one->offset);
    one->partition->has_settled = 1;
    make_room(self, one->partition);
    self->commit_hurries |= one->message->delivery > 1;
    kafka_delivery_free(self, one);
}

static void retry(kafka_receiver *self, kafka_delivery *one)
{
    kafka_window_return(&one->partition->window, one->offset);
    one->partition->ready_bytes += one->message->body.len;
    if (one->message->delivery < KAFKA_DELIVERY_MAX)
        one->message->delivery++;
    pthread_cond_broadcast(&self->changed);
}

/* What is no longer ours is the next owner's, whatever became of it here. */
static void settle_one(kafka_receiver *self, kafka_delivery *one, semel_verdict verdict)
{
    delivery_table_remove(&self->out, &one->node);
    if (kafka_delivery_is_revoked(one))
        kafka_delivery_free(self, one);
    else if (verdict == SEMEL_VERDICT_RETRY)
        retry(self, one);
    else if (verdict == SEMEL_VERDICT_REJECT && *self->address->dead)
        delivery_list_append(&self->rejected, &one->node);
    else
        acknowledge(self, one);
}

semel_status kafka_receiver_settle(kafka_receiver *receiver,
                                   const semel_delivery_settlement settles[], size_t count,
                                   semel_error *err)
{
    size_t unknown = 0;
    uint64_t first_unknown = 0;
    pthread_mutex_lock(&receiver->lock);
    for (size_t i = 0; i < count; i++) {
        delivery_node *one = delivery_table_find(&receiver->out, settles[i].tag);
        if (one)
            settle_one(receiver, kafka_delivery_of(one), settles[i].verdict);
        else if (!unknown++)
            first_unknown = settles[i].tag;
    }
    if (receiver->commit_hurries || receiver->rejected.first)
        kafka_receiver_wake(receiver);
    pthread_mutex_unlock(&receiver->lock);
    return unknown ? semel_fail(err, SEMEL_EINVAL,
                                "%zu of %zu deliveries are not out (any more), the first has tag "
                                "%llu; the others are settled",
                                unknown, count, (unsigned long long)first_unknown)
                   : SEMEL_OK;
}

int kafka_receiver_revoked(kafka_receiver *receiver, uint64_t tag)
{
    pthread_mutex_lock(&receiver->lock);
    kafka_delivery *one = kafka_delivery_of(delivery_table_find(&receiver->out, tag));
    int revoked = one && kafka_delivery_is_revoked(one);
    pthread_mutex_unlock(&receiver->lock);
    return revoked;
}

/* --- how many are there ----------------------------------------------------------------------- */

int kafka_receiver_ready(kafka_receiver *receiver, int32_t partition, int64_t end, uint64_t *ready)
{
    size_t index = (size_t)partition;
    int is_ours = 0;
    pthread_mutex_lock(&receiver->lock);
    const kafka_partition *one =
        index < receiver->partition_count ? receiver->partitions[index] : NULL;
    if (one && one->assignment && one->window.next >= 0) {
        int64_t behind = end > one->window.next ? end - one->window.next : 0;
        *ready = (uint64_t)behind + one->window.ready;
        is_ours = 1;
    }
    pthread_mutex_unlock(&receiver->lock);
    return is_ours;
}
