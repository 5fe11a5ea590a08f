/* The thread of a receiver. It serves the client, whatever the handlers do: it takes records as
 * they come, up to the bounds, answers rebalances, and sees to it that commits go out.
 *
 * Bounds instead of an endless buffer: a partition with `prefetch` unsettled messages, with `ahead`
 * positions from its first unsettled one on, or with too many bytes that were not handed out is
 * paused, and resumed when half of that is left. A pause costs librdkafka what it has fetched
 * already, so the thread waits a moment for room before it pauses.
 *
 * If memory runs out, or librdkafka gives up, the thread leaves the group and ends: nothing is
 * skipped, everything unsettled comes again, and the next receive joins anew. */
#include "transport/kafka/receiver.h"

#include "base/wait.h"
#include "transport/kafka/envelope.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { POLL_MS = 100, REJECTING_MS = 5, ROOM_MS = 20, PROBE_MS = 1000, PROBE_WAIT_MS = 500 };
enum { AT_ONCE = 128 }; /* records under one lock */
enum { CLOSE_MS = 5000, REJECTED_MS = 2000, SERVE_MS = 20 };
enum { READY_BYTES_MAX = 8 << 20 }; /* of one partition */

/* --- trouble ---------------------------------------------------------------------------------- */

void kafka_receiver_note(kafka_receiver *receiver, rd_kafka_resp_err_t code, const char *doing,
                         const char *text)
{
    (void)kafka_fail(receiver->address, &receiver->trouble, SEMEL_EUNAVAILABLE, code, doing, text);
    pthread_cond_broadcast(&receiver->changed);
}

static void fail_thread(kafka_receiver *self, rd_kafka_resp_err_t code, const char *doing,
                        const char *text)
{
    self->has_failed = 1;
    kafka_receiver_note(self, code, doing, text);
}

/* What librdkafka reported while it was served. */
static void look_at_trouble(kafka_receiver *self)
{
    kafka_client *client = &self->client;
    char text[KAFKA_TROUBLE_ROOM];
    rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(client->handle, text, sizeof text);
    if (!fatal && !client->all_down && !kafka_status_of(client->trouble))
        return;
    pthread_mutex_lock(&self->lock);
    if (fatal)
        fail_thread(self, fatal, "the group cannot be used any more", text);
    else if (client->all_down)
        kafka_receiver_note(self, client->trouble, "no broker can be reached",
                            client->trouble_text);
    else if (kafka_status_of(client->trouble) == SEMEL_ETRANSPORT)
        kafka_receiver_note(self, client->trouble, "receiving", client->trouble_text);
    self->is_down |= client->all_down;
    pthread_mutex_unlock(&self->lock);
    client->all_down = 0;
    client->trouble = RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* librdkafka does not say when brokers are back. */
static void look_for_brokers(kafka_receiver *self)
{
    if (!self->is_down || wait_clock_ms() < self->probe_at_ms)
        return;
    rd_kafka_resp_err_t code =
        kafka_topic_ask(self->client.handle, self->address->topic, PROBE_WAIT_MS, NULL, NULL);
    self->probe_at_ms = wait_clock_ms() + PROBE_MS;
    pthread_mutex_lock(&self->lock);
    if (code != RD_KAFKA_RESP_ERR__TIMED_OUT && code != RD_KAFKA_RESP_ERR__TRANSPORT) {
        self->is_down = 0;
        self->trouble.status = SEMEL_OK;
    }
    pthread_mutex_unlock(&self->lock);
}

/* --- records ---------------------------------------------------------------------------------- */

/* `assignments` is how many there were when it was polled: of a later one it is none. */
typedef struct kafka_polled {
    rd_kafka_message_t *record;
    uint64_t assignments;
} kafka_polled;

static size_t read_headers(semel_header out[], size_t max, rd_kafka_headers_t *headers)
{
    size_t count = 0;
    const char *name;
    const void *value;
    size_t len;
    while (count < max && rd_kafka_header_get_all(headers, count, &name, &value, &len) ==
                              RD_KAFKA_RESP_ERR_NO_ERROR)
        out[count++] = (semel_header){name, {value, value ? len : 0}};
    return count;
}

/* Headers over the limit of a message would be left out in any case; those of ours come first. */
static semel_message *read_record(kafka_delivery *one, rd_kafka_message_t *record,
                                  const char *topic)
{
    enum { HEADERS_MAX = 2 * SEMEL_HEADERS_MAX + 16 };
    semel_header headers[HEADERS_MAX];
    rd_kafka_headers_t *given = NULL;
    rd_kafka_timestamp_type_t type;
    kafka_incoming incoming = {
        .record = {.key = {record->key, record->key_len},
                   .body = {record->payload, record->len},
                   .headers = headers,
                   .timestamp_ms = rd_kafka_message_timestamp(record, &type)},
        .topic = topic,
        .partition = record->partition,
        .offset = record->offset};
    if (rd_kafka_message_headers(record, &given) == RD_KAFKA_RESP_ERR_NO_ERROR)
        incoming.record.header_count = read_headers(headers, HEADERS_MAX, given);
    return kafka_envelope_read(&one->arena, &incoming);
}

/* 0: out of memory. */
static int add_record(kafka_receiver *self, kafka_partition *partition, rd_kafka_message_t *record)
{
    if (partition->is_known && partition->window.next < 0)
        kafka_progress_fit(&partition->before, record->offset);
    if (partition->is_known && kafka_progress_is_settled(&partition->before, record->offset))
        return kafka_window_add(&partition->window, record->offset, NULL);
    kafka_delivery *one = kafka_delivery_new(self);
    if (!one)
        return 0;
    one->partition = partition;
    one->assignment = partition->assignment;
    one->offset = record->offset;
    one->message = read_record(one, record, self->address->topic);
    if (!one->message || !kafka_window_add(&partition->window, record->offset, one)) {
        kafka_delivery_free(self, one);
        return 0;
    }
    partition->ready_bytes += one->message->body.len;
    return 1;
}

/* The offset is lower than one that has come: librdkafka begins at the first or last record again
 * if the log has become shorter than that. Other records may have these offsets now. */
static void go_back(kafka_receiver *self, kafka_partition *partition)
{
    char text[KAFKA_TROUBLE_ROOM];
    (void)snprintf(text, sizeof text,
                   "%s had records before offset %" PRId64 " and begins anew: the topic was "
                   "deleted and made again, or brokers have lost records",
                   partition->name, partition->window.next);
    kafka_receiver_begin_anew(self, partition);
    kafka_receiver_note(self, RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, "receiving", text);
}

/* Of a partition that was not ours when librdkafka gave it to us: the next owner gets it. */
static void accept_record(kafka_receiver *self, const kafka_polled *polled)
{
    rd_kafka_message_t *record = polled->record;
    size_t index = (size_t)record->partition;
    kafka_partition *partition = index < self->partition_count ? self->partitions[index] : NULL;
    if (record->err) {
        kafka_receiver_note(self, record->err, "receiving", rd_kafka_message_errstr(record));
        return;
    }
    if (!partition || !partition->assignment || partition->came_by > polled->assignments)
        return;
    if (record->offset < partition->window.next)
        go_back(self, partition);
    if (!add_record(self, partition, record))
        fail_thread(self, RD_KAFKA_RESP_ERR__FAIL, "receiving", "out of memory for a message");
}

/* So many may come without going beyond a bound, whatever partition they are of; one in any case,
 * or nobody would serve the client. */
static size_t room_for(kafka_receiver *self)
{
    size_t least = AT_ONCE;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < self->partition_count; i++) {
        const kafka_partition *one = self->partitions[i];
        if (!one || !one->assignment || one->is_paused)
            continue;
        size_t room = one->window.unsettled < self->address->prefetch
                          ? self->address->prefetch - one->window.unsettled
                          : 1;
        least = room < least ? room : least;
    }
    pthread_mutex_unlock(&self->lock);
    return least;
}

/* Partitions may go and come back between two of them. */
static size_t poll_records(kafka_receiver *self, kafka_polled polled[], int wait_ms)
{
    size_t count = 0, max = room_for(self);
    while (count < max) {
        rd_kafka_message_t *record =
            rd_kafka_consumer_poll(self->client.handle, count ? 0 : wait_ms);
        if (!record)
            break;
        polled[count++] = (kafka_polled){record, self->assignments};
    }
    return count;
}

static void fetch(kafka_receiver *self, int wait_ms)
{
    kafka_polled polled[AT_ONCE];
    size_t count = poll_records(self, polled, wait_ms);
    if (!count)
        return;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < count && !self->has_failed; i++)
        accept_record(self, &polled[i]);
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    for (size_t i = 0; i < count; i++)
        rd_kafka_message_destroy(polled[i].record);
}

/* --- bounds ----------------------------------------------------------------------------------- */

static int is_full(const kafka_receiver *self, const kafka_partition *partition)
{
    return partition->window.unsettled >= self->address->prefetch ||
           partition->window.count >= self->address->ahead ||
           partition->ready_bytes >= READY_BYTES_MAX;
}

static int has_room(const kafka_receiver *self, const kafka_partition *partition)
{
    return partition->window.unsettled <= self->address->prefetch / 2 &&
           partition->window.count <= self->address->ahead / 2 &&
           partition->ready_bytes <= READY_BYTES_MAX / 2;
}

/* 1 if a partition has just become full. */
static int mark_full(kafka_receiver *self)
{
    int any = 0;
    for (size_t i = 0; i < self->partition_count; i++) {
        kafka_partition *one = self->partitions[i];
        if (!one || !one->assignment || one->is_paused)
            continue;
        one->was_full = is_full(self, one);
        any |= one->was_full;
    }
    return any;
}

/* A moment, so that handlers that are fast enough do not cause a pause. */
static void wait_for_room(kafka_receiver *self)
{
    int64_t until_ms = wait_clock_ms() + ROOM_MS;
    struct timespec until = wait_until(until_ms);
    pthread_mutex_lock(&self->lock);
    while (!self->is_ending && mark_full(self) && wait_clock_ms() < until_ms)
        (void)pthread_cond_timedwait(&self->changed, &self->lock, &until);
    pthread_mutex_unlock(&self->lock);
}

typedef struct flow {
    rd_kafka_topic_partition_list_t *pause, *resume;
} flow;

static void decide_flow(kafka_receiver *self, flow *to)
{
    for (size_t i = 0; i < self->partition_count; i++) {
        kafka_partition *one = self->partitions[i];
        if (!one || !one->assignment)
            continue;
        int change = one->is_paused ? has_room(self, one) : is_full(self, one);
        if (change)
            rd_kafka_topic_partition_list_add(one->is_paused ? to->resume : to->pause,
                                              self->address->topic, one->id);
        one->is_paused ^= change;
        one->was_full = one->is_paused;
    }
}

static void pause_and_resume(kafka_receiver *self)
{
    flow to = {rd_kafka_topic_partition_list_new(0), rd_kafka_topic_partition_list_new(0)};
    pthread_mutex_lock(&self->lock);
    decide_flow(self, &to);
    pthread_mutex_unlock(&self->lock);
    if (to.pause->cnt)
        (void)rd_kafka_pause_partitions(self->client.handle, to.pause);
    if (to.resume->cnt)
        (void)rd_kafka_resume_partitions(self->client.handle, to.resume);
    rd_kafka_topic_partition_list_destroy(to.pause);
    rd_kafka_topic_partition_list_destroy(to.resume);
}

/* --- the loop --------------------------------------------------------------------------------- */

static int goes_on(kafka_receiver *self)
{
    pthread_mutex_lock(&self->lock);
    int going = !self->is_ending && !self->has_failed;
    pthread_mutex_unlock(&self->lock);
    return going;
}

static int wait_of(kafka_receiver *self)
{
    pthread_mutex_lock(&self->lock);
    int wait_ms = self->rejected.first ? REJECTING_MS : POLL_MS;
    pthread_mutex_unlock(&self->lock);
    return wait_ms;
}

/* Records that come meanwhile are not wanted any more: nothing says that they were read. */
static void serve_closing(rd_kafka_queue_t *queue)
{
    rd_kafka_message_t *record = rd_kafka_consume_queue(queue, SERVE_MS);
    if (record)
        rd_kafka_message_destroy(record);
}

/* Revocations commit what is settled (rebalance.c). A group that does not answer is left behind. */
static void leave_group(kafka_receiver *self)
{
    int64_t until_ms = wait_clock_ms() + CLOSE_MS;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(self->client.handle);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(self->client.handle, queue);
    if (!error)
        while (!rd_kafka_consumer_closed(self->client.handle) && wait_clock_ms() < until_ms)
            serve_closing(queue);
    else
        rd_kafka_error_destroy(error);
    rd_kafka_queue_destroy(queue);
    kafka_receiver_drop_all(self);
}

void *kafka_receiver_run(void *receiver)
{
    kafka_receiver *self = receiver;
    while (goes_on(self)) {
        fetch(self, wait_of(self));
        look_at_trouble(self);
        kafka_receiver_ask_progress(self);
        kafka_receiver_commit(self);
        kafka_receiver_send_rejected(self);
        wait_for_room(self);
        pause_and_resume(self);
        look_for_brokers(self);
    }
    kafka_receiver_end_rejected(self, REJECTED_MS);
    leave_group(self);
    return NULL;
}
