/* A confirmation has the number of a message, or means all up to it. A return has no number: it brings the message
 * back, and comes before the confirmation of that message. So it belongs to the first one not answered that is the
 * same in everything, for an exchange may route by the headers; if there are two of them, it does not matter which.
 * Should a broker have changed the properties, the first with its address, id and body must do: it is never passed
 * over, or a message that nobody got would count as confirmed. A message that was returned stays unroutable although
 * it is confirmed afterwards: all that the broker confirms then is that it dealt with it. */
#include "transport/rabbitmq/answers.h"

#include "transport/rabbitmq/envelope_fields.h"

#include <string.h>

/* --- confirmations ----------------------------------------------------------------------------------------- */

static void answer(rabbit_batch *batch, size_t slot, semel_publish_result result)
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
        answer(batch, i, result);
    while (batch->lowest < batch->sent && batch->slots[batch->lowest] == RABBIT_ANSWERED)
        batch->lowest++;
}

/* --- returns ----------------------------------------------------------------------------------------------- */

static int is_same(amqp_bytes_t a, const void *data, size_t len)
{
    return a.len == len && (len == 0 || memcmp(a.bytes, data, len) == 0);
}

/* By its address, id and body; an id too long for a property is in a header, and the others must do. */
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

static int are_same_tables(const amqp_table_t *a, const amqp_table_t *b)
{
    if (a->num_entries != b->num_entries)
        return 0;
    for (int i = 0; i < a->num_entries; i++) {
        const amqp_table_entry_t *one = &a->entries[i], *other = &b->entries[i];
        if (!is_same(one->key, other->key.bytes, other->key.len) ||
            one->value.kind != other->value.kind)
            return 0;
        if (one->value.kind == AMQP_FIELD_KIND_UTF8
                ? !is_same(one->value.value.bytes, other->value.value.bytes.bytes,
                           other->value.value.bytes.len)
                : one->value.value.i64 != other->value.value.i64) /* the envelope has no others */
            return 0;
    }
    return 1;
}

/* The properties, as they were sent. */
static int is_equal(rabbit_publisher *self, const semel_message *message)
{
    const amqp_basic_properties_t *back = self->content.properties;
    rabbit_envelope sent;
    if (rabbit_envelope_write(&sent, &self->writer, message, 0, NULL) ||
        sent.properties._flags != back->_flags)
        return 0;
    for (size_t i = 0; i < RABBIT_FIELDS; i++) {
        amqp_bytes_t one, other;
        if (!(back->_flags & rabbit_fields[i].flag))
            continue;
        memcpy(&one, (const char *)back + rabbit_fields[i].property, sizeof one);
        memcpy(&other, (const char *)&sent.properties + rabbit_fields[i].property, sizeof other);
        if (!is_same(one, other.bytes, other.len))
            return 0;
    }
    return !(back->_flags & AMQP_BASIC_HEADERS_FLAG) ||
           are_same_tables(&back->headers, &sent.properties.headers);
}

static void take_back(rabbit_publisher *self)
{
    rabbit_batch *batch = &self->batch;
    semel_publish_result *alike = NULL;
    for (size_t slot = batch->lowest; slot < batch->sent; slot++) {
        size_t index = batch->slots[slot];
        if (index == RABBIT_ANSWERED || batch->results[index] != SEMEL_PUBLISH_UNKNOWN ||
            !is_alike(&self->content, batch->messages[index]))
            continue;
        int equal = is_equal(self, batch->messages[index]);
        if (equal || !alike)
            alike = &batch->results[index];
        if (equal)
            break;
    }
    if (alike)
        *alike = SEMEL_PUBLISH_UNROUTABLE;
}

static void take_content(rabbit_publisher *self, rabbit_link *link, const amqp_frame_t *frame)
{
    rabbit_piece piece = rabbit_content_add(&self->content, frame);
    if (piece == RABBIT_PIECE_BAD) {
        rabbit_link_lose(link, "the broker's frames make no sense, or there is no memory for them");
    } else if (piece == RABBIT_PIECE_COMPLETE) {
        take_back(self);
        rabbit_content_end(&self->content);
    }
}

/* --- frames ------------------------------------------------------------------------------------------------ */

void rabbit_answers_take(void *publisher, rabbit_link *link, const amqp_frame_t *frame)
{
    rabbit_publisher *self = publisher;
    if (frame->frame_type != AMQP_FRAME_METHOD) {
        take_content(self, link, frame);
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
