/* A confirmation has the number of a message, or means all up to it. A return has no number: it
 * brings the message back, and comes before the confirmation of that message. So it is taken for
 * all that are not answered and have the same address, id and body: one of them was not routed, and
 * none must pass for it that was not. (They differ in their headers at most; ids are the outbox's,
 * so this takes two copies in one batch, and costs another copy.) A message that was returned stays
 * unroutable although it is confirmed afterwards: all that the broker confirms then is that it
 * dealt with it. */
#include "transport/rabbitmq/confirms.h"

#include <string.h>

/* --- confirmations ---------------------------------------------------------------------------- */

static void answer_slot(rabbit_batch *batch, size_t slot, semel_publish_result result)
{
    size_t index = batch->slots[slot];
    if (index == RABBIT_ANSWERED)
        return;
    if (batch->results[index] == SEMEL_PUBLISH_UNKNOWN)
        batch->results[index] = result;
    batch->slots[slot] = RABBIT_ANSWERED;
    batch->open--;
}

/* Numbers before the batch are of an earlier one, whose publisher did not wait that long. */
static void answer_number(rabbit_batch *batch, uint64_t number, int and_before,
                          semel_publish_result result)
{
    if (number < batch->first || number - batch->first >= batch->sent)
        return;
    size_t slot = (size_t)(number - batch->first);
    for (size_t i = and_before ? batch->lowest : slot; i <= slot; i++)
        answer_slot(batch, i, result);
    while (batch->lowest < batch->sent && batch->slots[batch->lowest] == RABBIT_ANSWERED)
        batch->lowest++;
}

/* --- returns ---------------------------------------------------------------------------------- */

static int is_same(amqp_bytes_t a, const void *data, size_t len)
{
    return a.len == len && (len == 0 || memcmp(a.bytes, data, len) == 0);
}

/* By its address, id and body; an id too long for a property is in a header, and the others must
 * do. */
static int is_alike(const rabbit_content *content, const semel_message *message)
{
    const amqp_basic_return_t *method = content->method;
    const char *topic = message->topic ? message->topic : "";
    amqp_bytes_t body = {(size_t)content->body_size, content->body};
    if (!is_same(method->routing_key, topic, strlen(topic)) ||
        !is_same(body, message->body.data, message->body.len))
        return 0;
    return !(content->properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) ||
           is_same(content->properties->message_id, message->id.data, message->id.len);
}

static void mark_returned(rabbit_batch *batch, const rabbit_content *content)
{
    for (size_t slot = batch->lowest; slot < batch->sent; slot++) {
        size_t index = batch->slots[slot];
        if (index != RABBIT_ANSWERED && batch->results[index] == SEMEL_PUBLISH_UNKNOWN &&
            is_alike(content, batch->messages[index]))
            batch->results[index] = SEMEL_PUBLISH_UNROUTABLE;
    }
}

static void accept_returned(rabbit_publisher *self, rabbit_link *link, const amqp_frame_t *frame)
{
    rabbit_piece piece = rabbit_content_add(&self->content, frame);
    if (piece == RABBIT_PIECE_BAD || self->content.too_large) { /* nothing so large was sent */
        rabbit_link_lose(link, "the broker's frames make no sense, or there is no memory for them");
    } else if (piece == RABBIT_PIECE_COMPLETE) {
        mark_returned(&self->batch, &self->content);
        rabbit_content_end(&self->content);
    }
}

/* --- frames ----------------------------------------------------------------------------------- */

void rabbit_confirms_accept(void *publisher, rabbit_link *link, const amqp_frame_t *frame)
{
    rabbit_publisher *self = publisher;
    if (frame->frame_type != AMQP_FRAME_METHOD) {
        accept_returned(self, link, frame);
        return;
    }
    const amqp_method_t *method = &frame->payload.method;
    if (method->id == AMQP_BASIC_RETURN_METHOD) {
        rabbit_content_start(&self->content, method->decoded);
    } else if (method->id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *ack = method->decoded;
        answer_number(&self->batch, ack->delivery_tag, ack->multiple, SEMEL_PUBLISH_CONFIRMED);
    } else if (method->id == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *nack = method->decoded;
        answer_number(&self->batch, nack->delivery_tag, nack->multiple, SEMEL_PUBLISH_NACKED);
    }
}
