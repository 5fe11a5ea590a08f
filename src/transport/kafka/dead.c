/* A message that is rejected is copied to the topic for dead letters, and counts as settled when
 * the brokers have confirmed the copy. Until then it holds up the offset of its partition as any
 * unsettled message does; if the process dies, or the partition goes to another consumer, it comes
 * again, and there may be a second copy. A copy that is not accepted is tried again, once a second,
 * behind the others.
 *
 * The copy has the message's members and headers, and one header more that says where it came
 * from. The producer is one of its own, which the thread of the receiver serves: a publisher that
 * waits for its reports does not hold up verdicts, nor they it. */
#include "base/wait.h"
#include "transport/kafka/envelope.h"
#include "transport/kafka/receiver.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { AGAIN_MS = 1000, PLACE_ROOM = KAFKA_TOPIC_MAX + 64, SERVE_MS = 20 };

static const char place_header[] = "semel-dead-from";

/* --- reports ---------------------------------------------------------------------------------- */

static void forget(kafka_receiver *self, kafka_delivery *one)
{
    delivery_list_remove(&self->rejected, &one->node);
    kafka_delivery_free(self, one);
}

/* What is no longer ours is the next owner's. What is still ours stays in its window until the
 * partition goes, and so it stays here. */
static void forget_revoked(kafka_receiver *self)
{
    for (kafka_delivery *one = kafka_delivery_of(self->rejected.first), *next; one; one = next) {
        next = kafka_delivery_of(one->node.behind);
        if (!one->is_sent && kafka_delivery_is_revoked(one))
            forget(self, one);
    }
}

/* Those behind it are tried before it the next time, and alone: what has failed with it may be at
 * no fault. */
static void put_off(kafka_receiver *self, kafka_delivery *one)
{
    delivery_list_remove(&self->rejected, &one->node);
    delivery_list_append(&self->rejected, &one->node);
    self->rejected_alone = 1;
    self->reject_at_ms = wait_clock_ms() + AGAIN_MS;
}

static void settle_rejected(kafka_receiver *self, kafka_delivery *one)
{
    if (!kafka_delivery_is_revoked(one))
        kafka_window_settle(&one->partition->window, one->offset);
    one->partition->has_settled = 1;
    self->rejected_alone = 0;
    self->commit_hurries = 1;
    forget(self, one);
}

static void take_report(void *owner, const rd_kafka_message_t *message)
{
    kafka_receiver *self = owner;
    kafka_delivery *one = message->_private;
    pthread_mutex_lock(&self->lock);
    one->is_sent = 0;
    self->rejected_sent--;
    if (!message->err) {
        settle_rejected(self, one);
    } else {
        put_off(self, one);
        kafka_receiver_note(self, message->err, "writing a dead letter",
                            rd_kafka_err2str(message->err));
    }
    pthread_mutex_unlock(&self->lock);
}

/* --- sending ---------------------------------------------------------------------------------- */

static semel_status write_copy(kafka_record *out, mem_arena *arena, const kafka_delivery *one)
{
    semel_message copy = *one->message;
    size_t count = copy.header_count;
    semel_header *headers = arena_alloc(arena, (count + 1) * sizeof *headers);
    char *place = arena_alloc(arena, PLACE_ROOM);
    if (!headers || !place)
        return SEMEL_ENOMEM;
    if (count)
        memcpy(headers, copy.headers, count * sizeof *headers);
    (void)snprintf(place, PLACE_ROOM, "%s/%" PRId64, one->partition->name, one->offset);
    headers[count] = (semel_header){place_header, semel_str(place)};
    copy.headers = headers;
    copy.header_count = count + 1;
    return kafka_envelope_write(out, arena, &copy, 0, NULL);
}

static void send_one(kafka_receiver *self, mem_arena *arena, kafka_delivery *one)
{
    kafka_record record;
    arena_reset(arena);
    rd_kafka_resp_err_t code =
        write_copy(&record, arena, one)
            ? RD_KAFKA_RESP_ERR__FAIL
            : kafka_client_produce(&self->dead_client, self->address->dead, &record, one);
    one->is_sent = !code;
    self->rejected_sent += !code;
    if (!code)
        return;
    put_off(self, one);
    if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL)
        kafka_receiver_note(self, code, "writing a dead letter", NULL);
}

/* The first that may be sent now. */
static kafka_delivery *next_unsent(kafka_receiver *self)
{
    if (wait_clock_ms() < self->reject_at_ms || (self->rejected_alone && self->rejected_sent))
        return NULL;
    kafka_delivery *one = kafka_delivery_of(self->rejected.first);
    while (one && one->is_sent)
        one = kafka_delivery_of(one->node.behind);
    return one;
}

/* With the lock held: librdkafka only queues them. */
static void send_all(kafka_receiver *self)
{
    mem_arena arena = {0};
    for (kafka_delivery *one; (one = next_unsent(self)) != NULL;)
        send_one(self, &arena, one);
    arena_free(&arena);
}

static void unsend_all(kafka_receiver *self)
{
    for (delivery_node *one = self->rejected.first; one; one = one->behind)
        kafka_delivery_of(one)->is_sent = 0;
    self->rejected_sent = 0;
}

/* A producer that has failed is replaced, and what it had is sent again. */
static void replace_failed_client(kafka_receiver *self)
{
    char text[KAFKA_TROUBLE_ROOM];
    if (!self->dead_client.handle ||
        !rd_kafka_fatal_error(self->dead_client.handle, text, sizeof text))
        return;
    (void)rd_kafka_poll(self->dead_client.handle, SERVE_MS); /* it says which one was not taken */
    kafka_client_close(&self->dead_client);
    pthread_mutex_lock(&self->lock);
    unsend_all(self);
    self->reject_at_ms = wait_clock_ms() + AGAIN_MS;
    pthread_mutex_unlock(&self->lock);
}

static int need_client(kafka_receiver *self)
{
    static const kafka_calls calls = {.delivered = take_report};
    semel_error why = {.status = SEMEL_OK};
    if (self->dead_client.handle ||
        !kafka_client_open(&self->dead_client, KAFKA_PRODUCES, self->address, &calls, self, &why))
        return 1;
    pthread_mutex_lock(&self->lock);
    self->trouble = why;
    pthread_mutex_unlock(&self->lock);
    return 0;
}

static int has_rejected(kafka_receiver *self)
{
    pthread_mutex_lock(&self->lock);
    forget_revoked(self);
    int has = self->rejected.first != NULL;
    pthread_mutex_unlock(&self->lock);
    return has;
}

void kafka_receiver_send_rejected(kafka_receiver *receiver)
{
    if (!has_rejected(receiver) || !need_client(receiver))
        return;
    pthread_mutex_lock(&receiver->lock);
    send_all(receiver);
    pthread_mutex_unlock(&receiver->lock);
    (void)rd_kafka_poll(receiver->dead_client.handle, 0);
    replace_failed_client(receiver);
}

/* --- the end ---------------------------------------------------------------------------------- */

void kafka_receiver_end_rejected(kafka_receiver *receiver, int wait_ms)
{
    int64_t until_ms = wait_clock_ms() + wait_ms;
    kafka_receiver_send_rejected(receiver);
    while (receiver->dead_client.handle && receiver->rejected_sent && wait_clock_ms() < until_ms)
        (void)rd_kafka_poll(receiver->dead_client.handle, SERVE_MS);
    kafka_client_close(&receiver->dead_client);
    pthread_mutex_lock(&receiver->lock);
    unsend_all(receiver);
    forget_revoked(receiver);
    pthread_mutex_unlock(&receiver->lock);
}
