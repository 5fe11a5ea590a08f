/* The thread of a receiver. It serves the client, whatever the handlers do: it takes records as
 * they come, up to the bounds, answers rebalances, and sees to it that commits go out.
 *
 * Bounds instead of an endless buffer: of a partition with `prefetch` unsettled messages, with
 * `ahead` positions from its first unsettled one on, or with too many bytes that were not handed
 * out, nothing more is taken until half of what was too much is left. What librdkafka has fetched
 * meanwhile stays in its queue of this partition, which has bounds of its own (client.c). To pause
 * the partition instead would throw that away, and librdkafka takes some tenths of a second to
 * fetch it again.
 *
 * The thread waits for an eventfd, to which librdkafka writes when something comes to one of the
 * queues.
 *
 * If memory runs out, or librdkafka gives up, the thread leaves the group and ends: nothing is
 * skipped, everything unsettled comes again, and the next receive joins anew. */
#include "transport/kafka/receiver.h"

#include "base/wait.h"
#include "transport/kafka/envelope.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { POLL_MS = 100, REJECTING_MS = 5, PROBE_MS = 1000, PROBE_WAIT_MS = 500 };
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
    if (partition->window.next < 0)
        kafka_progress_fit(&partition->before, record->offset);
    if (kafka_progress_is_settled(&partition->before, record->offset))
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
static void accept_record(kafka_receiver *self, rd_kafka_message_t *record)
{
    size_t index = (size_t)record->partition;
    kafka_partition *partition = index < self->partition_count ? self->partitions[index] : NULL;
    if (record->err) {
        kafka_receiver_note(self, record->err, "receiving", rd_kafka_message_errstr(record));
        return;
    }
    if (!partition || !partition->assignment)
        return;
    if (record->offset < partition->window.next)
        go_back(self, partition);
    if (!add_record(self, partition, record))
        fail_thread(self, RD_KAFKA_RESP_ERR__FAIL, "receiving", "out of memory for a message");
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* Each bound by itself: a partition that had too many unsettled messages goes on when half of them
 * are settled, even if one of these keeps it far behind the other bound. */
static unsigned reached(const kafka_receiver *self, const kafka_partition *partition)
{
    return (partition->window.unsettled >= self->address->prefetch ? KAFKA_FULL_UNSETTLED : 0) |
           (partition->window.count >= self->address->ahead ? KAFKA_FULL_AHEAD : 0) |
           (partition->ready_bytes >= READY_BYTES_MAX ? KAFKA_FULL_BYTES : 0);
}

static unsigned above_half(const kafka_receiver *self, const kafka_partition *partition)
{
    return (partition->window.unsettled > self->address->prefetch / 2 ? KAFKA_FULL_UNSETTLED : 0) |
           (partition->window.count > self->address->ahead / 2 ? KAFKA_FULL_AHEAD : 0) |
           (partition->ready_bytes > READY_BYTES_MAX / 2 ? KAFKA_FULL_BYTES : 0);
}

int kafka_partition_has_room(const kafka_receiver *receiver, const kafka_partition *partition)
{
    return !(partition->full & above_half(receiver, partition));
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* So many records may come. One that has become full has no room until half of it is free. */
static size_t room_of(const kafka_receiver *self, kafka_partition *partition)
{
    partition->full = reached(self, partition) | (partition->full & above_half(self, partition));
    return partition->full
               ? 0
               : least(AT_ONCE, least(self->address->prefetch - partition->window.unsettled,
                                      self->address->ahead - partition->window.count));
}

/* --- taking ----------------------------------------------------------------------------------- */

/* Partitions go and come while the client is served. What comes by its queue are errors. */
static void serve_client(kafka_receiver *self)
{
    rd_kafka_message_t *record;
    while ((record = rd_kafka_consumer_poll(self->client.handle, 0)) != NULL) {
        pthread_mutex_lock(&self->lock);
        accept_record(self, record);
        pthread_mutex_unlock(&self->lock);
        rd_kafka_message_destroy(record);
    }
}

/* 1 if there may be more to take at once. */
static int take_records(kafka_receiver *self, kafka_partition *partition)
{
    rd_kafka_message_t *records[AT_ONCE];
    pthread_mutex_lock(&self->lock);
    size_t room = partition->assignment ? room_of(self, partition) : 0;
    pthread_mutex_unlock(&self->lock);
    ssize_t got = room && partition->queue
                      ? rd_kafka_consume_batch_queue(partition->queue, 0, records, room)
                      : 0;
    if (got <= 0)
        return 0;
    pthread_mutex_lock(&self->lock);
    for (ssize_t i = 0; i < got && !self->has_failed; i++)
        accept_record(self, records[i]);
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    for (ssize_t i = 0; i < got; i++)
        rd_kafka_message_destroy(records[i]);
    return (size_t)got == room;
}

static int fetch(kafka_receiver *self)
{
    int more = 0;
    serve_client(self);
    for (size_t i = 0; i < self->partition_count; i++)
        if (self->partitions[i])
            more |= take_records(self, self->partitions[i]);
    return more;
}

/* --- the loop --------------------------------------------------------------------------------- */

static int goes_on(kafka_receiver *self)
{
    pthread_mutex_lock(&self->lock);
    int going = !self->is_ending && !self->has_failed;
    pthread_mutex_unlock(&self->lock);
    return going;
}

static void wait_for_events(kafka_receiver *self)
{
    struct pollfd one = {.fd = self->wake_fd, .events = POLLIN};
    uint64_t events;
    pthread_mutex_lock(&self->lock);
    int wait_ms = self->rejected.first ? REJECTING_MS : POLL_MS;
    pthread_mutex_unlock(&self->lock);
    if (poll(&one, 1, wait_ms) > 0)
        (void)!read(self->wake_fd, &events, sizeof events);
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
        int more = fetch(self);
        look_at_trouble(self);
        kafka_receiver_commit(self);
        kafka_receiver_send_rejected(self);
        look_for_brokers(self);
        if (!more)
            wait_for_events(self);
    }
    kafka_receiver_end_rejected(self, REJECTED_MS);
    leave_group(self);
    return NULL;
}
