/* The producer is idempotent and gapless with acks=all: librdkafka sends again by itself, the
 * brokers drop what they have already, and if one message of a partition fails, none behind it is
 * accepted. The key of a message is its group, so that holds for groups; where a group has several
 * topics, a message waits for the answer of the one before it.
 *
 * The results are right at every moment: UNKNOWN until the report has come. What has no report when
 * the time is over may be there or not, and may still be in librdkafka's queue, from where it would
 * be sent at some later time, behind messages that follow it. So a producer with anything left, or
 * with a fatal error, is thrown away with its queue and its connections, and the next publish has a
 * new one. What the old one had on its way may still arrive: that is a copy, with the same id, of a
 * message that its sender sends again. The same holds if the process dies.
 *
 * A topic is looked for before the first message goes to it: a missing one is unroutable, and is
 * not made. Brokers refuse whole batches, so one message may be refused for another: after a
 * refusal the next publish goes message by message, and there each has its own answer. */
#include "transport/kafka/publisher.h"

#include "base/message.h"
#include "base/wait.h"
#include "transport/kafka/envelope.h"

#include <string.h>

enum { POLL_MS = 100 };

/* --- reports ---------------------------------------------------------------------------------- */

static int is_refusal(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR__BAD_MSG:
        return 1;
    default:
        return 0;
    }
}

static int is_missing(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

static int is_declined(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
           code == RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
}

/* Of a message that no broker has. */
static semel_publish_result result_of(kafka_publisher *self, rd_kafka_resp_err_t code)
{
    if (is_missing(code)) {
        kafka_topics_forget(&self->topics);
        return SEMEL_PUBLISH_UNROUTABLE;
    }
    if (is_declined(code))
        return SEMEL_PUBLISH_NACKED;
    if (!is_refusal(code))
        return SEMEL_PUBLISH_UNKNOWN;
    self->careful |= self->batch.sent > 1;
    return self->batch.sent > 1 ? SEMEL_PUBLISH_UNKNOWN : SEMEL_PUBLISH_REFUSED;
}

static void take_report(void *owner, const rd_kafka_message_t *message)
{
    kafka_publisher *self = owner;
    size_t index = (size_t)(uintptr_t)message->_private - 1;
    semel_publish_result *result = &self->batch.results[index];
    self->batch.open--;
    if (!message->err)
        *result = SEMEL_PUBLISH_CONFIRMED;
    else if (rd_kafka_message_status(message) == RD_KAFKA_MSG_STATUS_NOT_PERSISTED)
        *result = result_of(self, message->err);
    self->batch.failures += message->err != RD_KAFKA_RESP_ERR_NO_ERROR;
    if (*result == SEMEL_PUBLISH_UNKNOWN && !self->failure)
        self->failure = message->err;
}

/* --- opening ---------------------------------------------------------------------------------- */

semel_status kafka_publisher_init(kafka_publisher *publisher, const kafka_address *address,
                                  semel_error *err)
{
    publisher->address = address;
    int error = pthread_mutex_init(&publisher->lock, NULL);
    if (!error && (error = wait_condition_init(&publisher->changed)) != 0)
        pthread_mutex_destroy(&publisher->lock);
    return error ? semel_fail(err, SEMEL_ENOMEM, "no lock for a publisher: %s", strerror(error))
                 : SEMEL_OK;
}

static void discard_client(kafka_publisher *self)
{
    kafka_client_close(&self->client);
    kafka_topics_forget(&self->topics);
}

void kafka_publisher_close(kafka_publisher *publisher)
{
    discard_client(publisher);
    arena_free(&publisher->arena);
    pthread_cond_destroy(&publisher->changed);
    pthread_mutex_destroy(&publisher->lock);
}

static semel_status need_client(kafka_publisher *self, semel_error *err)
{
    static const kafka_calls calls = {.delivered = take_report};
    return self->client.handle
               ? SEMEL_OK
               : kafka_client_open(&self->client, KAFKA_PRODUCES, self->address, &calls, self, err);
}

/* --- sending ---------------------------------------------------------------------------------- */

static int time_left(int64_t until_ms)
{
    int64_t left = until_ms - wait_clock_ms();
    return left <= 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

/* 1 if a message of the same group, before this one, has failed. */
static int is_behind_failure(const kafka_batch *batch, size_t index)
{
    const char *group = batch->messages[index]->group;
    for (size_t i = 0; batch->failures && group && *group && i < index; i++)
        if (batch->results[i] != SEMEL_PUBLISH_CONFIRMED &&
            batch->results[i] != SEMEL_PUBLISH_UNKNOWN && batch->messages[i]->group &&
            strcmp(batch->messages[i]->group, group) == 0)
            return 1;
    return 0;
}

static void fail(kafka_batch *batch, size_t index, semel_publish_result result)
{
    batch->results[index] = result;
    batch->failures++;
}

/* A full queue is worked off by serving the client. */
static rd_kafka_resp_err_t hand_over(kafka_publisher *self, const char *topic,
                                     const kafka_record *record, size_t index, int64_t until_ms)
{
    for (;;) {
        rd_kafka_resp_err_t code =
            kafka_client_produce(&self->client, topic, record, (void *)(uintptr_t)(index + 1));
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL || !time_left(until_ms))
            return code;
        (void)rd_kafka_poll(self->client.handle,
                            time_left(until_ms) < POLL_MS ? time_left(until_ms) : POLL_MS);
    }
}

/* What librdkafka itself does not take is refused or unroutable at once. */
static void produce(kafka_publisher *self, const char *topic, const kafka_record *record,
                    size_t index, int64_t until_ms)
{
    rd_kafka_resp_err_t code = hand_over(self, topic, record, index, until_ms);
    if (!code) {
        self->batch.open++;
        self->batch.sent++;
    } else if (is_missing(code)) {
        kafka_topics_forget(&self->topics); /* it may be there again */
        fail(&self->batch, index, SEMEL_PUBLISH_UNROUTABLE);
    } else if (is_refusal(code)) {
        fail(&self->batch, index, SEMEL_PUBLISH_REFUSED);
    } else {
        self->failure = code;
        self->batch.incomplete = 1;
    }
}

static void send_one(kafka_publisher *self, size_t index, int64_t until_ms)
{
    kafka_batch *batch = &self->batch;
    const semel_message *message = batch->messages[index];
    const char *topic = *self->address->topic ? self->address->topic : message->topic;
    kafka_record record;
    arena_reset(&self->arena);
    semel_status status = message_check(message, NULL);
    if (!status)
        status =
            kafka_envelope_write(&record, &self->arena, message, self->address->cloudevents, NULL);
    if (status == SEMEL_ENOMEM) {
        batch->incomplete = batch->no_memory = 1;
        return;
    }
    if (status || !topic || !kafka_topic_is_valid(topic)) {
        fail(batch, index, SEMEL_PUBLISH_REFUSED);
        return;
    }
    rd_kafka_resp_err_t code =
        kafka_topics_look(&self->topics, &self->client, topic, time_left(until_ms));
    if (!code)
        produce(self, topic, &record, index, until_ms);
    else if (is_missing(code))
        fail(batch, index, SEMEL_PUBLISH_UNROUTABLE);
    else if (is_declined(code))
        fail(batch, index, SEMEL_PUBLISH_NACKED);
    else {
        self->failure = code;
        batch->incomplete = 1;
    }
}

/* Reports that are there are taken, however late it is. A flush serves the client, too, and sends
 * at once what librdkafka would hold back for a moment in case that more comes. */
static void wait_for_reports(kafka_publisher *self, int64_t until_ms)
{
    (void)rd_kafka_poll(self->client.handle, 0);
    while (self->batch.open && time_left(until_ms)) {
        int left = time_left(until_ms);
        (void)rd_kafka_flush(self->client.handle, left < POLL_MS ? left : POLL_MS);
    }
}

static int has_many_topics(const kafka_batch *batch)
{
    size_t i = 1;
    while (i < batch->count && batch->messages[i - 1]->topic && batch->messages[i]->topic &&
           strcmp(batch->messages[i - 1]->topic, batch->messages[i]->topic) == 0)
        i++;
    return i < batch->count;
}

/* 1 if the message of its group that was sent last went to another topic, and has no answer yet.
 * Within a topic they have one partition, and brokers keep the order; between topics none does. */
static int is_behind_other_topic(const kafka_batch *batch, size_t index)
{
    const semel_message *message = batch->messages[index];
    for (size_t i = index; message->group && *message->group && i > 0; i--) {
        const semel_message *before = batch->messages[i - 1];
        if (before->group && strcmp(before->group, message->group) == 0)
            return batch->results[i - 1] == SEMEL_PUBLISH_UNKNOWN && before->topic &&
                   message->topic && strcmp(before->topic, message->topic) != 0;
    }
    return 0;
}

/* It may be sent when what is before it in its group has its answer. Without one the rest is not
 * even tried. */
static void wait_for_turn(kafka_publisher *self, size_t index, int64_t until_ms)
{
    kafka_batch *batch = &self->batch;
    if (!is_behind_other_topic(batch, index))
        return;
    wait_for_reports(self, until_ms);
    batch->incomplete |= is_behind_other_topic(batch, index);
}

static void send_range(kafka_publisher *self, size_t from, size_t to, int64_t until_ms)
{
    kafka_batch *batch = &self->batch;
    int many_topics = !*self->address->topic && has_many_topics(batch);
    batch->sent = 0;
    for (size_t i = from; i < to && !batch->incomplete; i++) {
        if (many_topics)
            wait_for_turn(self, i, until_ms);
        if (batch->incomplete)
            break;
        if (is_behind_failure(batch, i))
            fail(batch, i, SEMEL_PUBLISH_NACKED);
        else
            send_one(self, i, until_ms);
    }
}

/* --- waiting ---------------------------------------------------------------------------------- */

static int has_fatal_error(const kafka_publisher *self)
{
    char text[KAFKA_TROUBLE_ROOM];
    return rd_kafka_fatal_error(self->client.handle, text, sizeof text) !=
           RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* Whatever the reason is: the transport was opened, so the caller is to wait. */
static semel_status report(kafka_publisher *self, semel_error *err)
{
    rd_kafka_resp_err_t code = self->failure ? self->failure : RD_KAFKA_RESP_ERR__TIMED_OUT;
    size_t unknown = 0;
    for (size_t i = 0; i < self->batch.count; i++)
        unknown += self->batch.results[i] == SEMEL_PUBLISH_UNKNOWN;
    if (!unknown)
        return SEMEL_OK;
    if (self->batch.no_memory)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for messages to publish");
    semel_error why = {.status = SEMEL_OK};
    (void)kafka_client_fail(&self->client, &why, code, "not all messages were confirmed");
    (void)semel_fail(err, SEMEL_EUNAVAILABLE, "%s", why.text);
    if (err)
        err->native = why.native;
    return SEMEL_EUNAVAILABLE;
}

typedef struct pause {
    semel_meanwhile *meanwhile;
    void *context;
} pause;

static void do_meanwhile(pause *work)
{
    semel_meanwhile *meanwhile = work->meanwhile;
    work->meanwhile = NULL;
    if (meanwhile)
        meanwhile(work->context);
}

/* A producer that has something left, or that has failed, is not used again. */
static void discard_if_failed(kafka_publisher *self)
{
    if (self->client.handle && (self->batch.open || has_fatal_error(self)))
        discard_client(self);
}

static semel_status publish_range(kafka_publisher *self, size_t from, size_t to, int64_t until_ms,
                                  pause *work, semel_error *err)
{
    semel_status status = need_client(self, err);
    if (status)
        return status;
    self->client.trouble = RD_KAFKA_RESP_ERR_NO_ERROR;
    send_range(self, from, to, until_ms);
    if (to - from == self->batch.count) /* else the others would wait for it */
        do_meanwhile(work);
    wait_for_reports(self, until_ms);
    return SEMEL_OK;
}

static semel_status publish_batch(kafka_publisher *self, int64_t until_ms, pause *work,
                                  semel_error *err)
{
    kafka_batch *batch = &self->batch;
    size_t step = self->careful ? 1 : batch->count;
    semel_status status = SEMEL_OK;
    self->careful = 0;
    self->failure = RD_KAFKA_RESP_ERR_NO_ERROR;
    kafka_topics_next_round(&self->topics);
    for (size_t from = 0; !status && from < batch->count; from += step) {
        status = publish_range(self, from, from + step, until_ms, work, err);
        if (batch->open || batch->incomplete || self->failure)
            break; /* what comes behind one without an answer may be of its group */
        if (from + step < batch->count)
            discard_if_failed(self);
    }
    if (!status)
        status = report(self, err);
    discard_if_failed(self);
    return status;
}

/* --- one at a time ---------------------------------------------------------------------------- */

static semel_status begin(kafka_publisher *self, int64_t until_ms, semel_error *err)
{
    semel_status status = SEMEL_OK;
    pthread_mutex_lock(&self->lock);
    while (!status && self->busy) {
        struct timespec until = wait_until(until_ms);
        if (wait_clock_ms() >= until_ms)
            status = semel_fail(err, SEMEL_EBUSY, "another thread publishes by this transport");
        else
            (void)pthread_cond_timedwait(&self->changed, &self->lock, &until);
    }
    if (!status)
        self->busy = 1;
    pthread_mutex_unlock(&self->lock);
    return status;
}

static void end(kafka_publisher *self)
{
    pthread_mutex_lock(&self->lock);
    self->busy = 0;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

semel_status kafka_publisher_publish(kafka_publisher *publisher, semel_publish_result results[],
                                     const semel_message *const messages[], size_t count,
                                     uint32_t wait_ms, semel_meanwhile *meanwhile, void *context,
                                     semel_error *err)
{
    int64_t until_ms = wait_clock_ms() + wait_ms;
    pause work = {meanwhile, context};
    for (size_t i = 0; i < count; i++)
        results[i] = SEMEL_PUBLISH_UNKNOWN;
    semel_status status = begin(publisher, until_ms, err);
    if (!status) {
        publisher->batch = (kafka_batch){.results = results, .messages = messages, .count = count};
        status = count ? publish_batch(publisher, until_ms, &work, err) : SEMEL_OK;
        end(publisher);
    }
    do_meanwhile(&work); /* nothing was sent, or one by one */
    return status;
}
