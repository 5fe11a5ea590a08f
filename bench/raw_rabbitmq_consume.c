/* Consuming by hand on rabbitmq-c, with a prefetch, each delivery acknowledged by itself or many
 * together. */
#include "raw_rabbitmq.h"

#include <stdlib.h>

void rabbitmq_consume(broker *b, const char *place, size_t prefetch)
{
    (void)amqp_basic_qos(b->connection, CHANNEL, 0, (uint16_t)prefetch, 0);
    must_reply(amqp_get_rpc_reply(b->connection));
    (void)amqp_basic_consume(b->connection, CHANNEL, amqp_cstring_bytes(place), amqp_empty_bytes, 0,
                             0, 0, amqp_empty_table);
    must_reply(amqp_get_rpc_reply(b->connection));
}

static void deliveries_reserve(broker *b, size_t count)
{
    free(b->envelopes);
    free(b->messages);
    free((void *)b->pointers);
    b->envelopes = must_alloc(count * sizeof *b->envelopes);
    b->messages = must_alloc(count * sizeof *b->messages);
    b->pointers = must_alloc(count * sizeof(semel_message *));
    b->room = count;
}

static void take_one(broker *b)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S, .tv_usec = 0};
    amqp_envelope_t *envelope = &b->envelopes[b->taken];
    amqp_maybe_release_buffers(b->connection);
    must_reply(amqp_consume_message(b->connection, envelope, &patience, 0));
    const amqp_message_t *came = &envelope->message;
    b->messages[b->taken] =
        (semel_message){.size = sizeof *b->messages,
                        .id = {came->properties.message_id.bytes, came->properties.message_id.len},
                        .body = {came->body.bytes, came->body.len}};
    b->pointers[b->taken] = &b->messages[b->taken];
    b->taken++;
}

const semel_message *const *rabbitmq_take(broker *b, size_t count)
{
    if (b->taken)
        die("rabbitmq: the last deliveries are not acknowledged yet");
    if (count > b->room)
        deliveries_reserve(b, count);
    while (b->taken < count)
        take_one(b);
    return b->pointers;
}

static void forget_taken(broker *b)
{
    for (size_t i = 0; i < b->taken; i++)
        amqp_destroy_envelope(&b->envelopes[i]);
    b->taken = 0;
}

void rabbitmq_ack_each(broker *b)
{
    for (size_t i = 0; i < b->taken; i++)
        must_rabbit(amqp_basic_ack(b->connection, CHANNEL, b->envelopes[i].delivery_tag, 0));
    forget_taken(b);
}

void rabbitmq_ack_together(broker *b)
{
    must_rabbit(amqp_basic_ack(b->connection, CHANNEL, b->envelopes[b->taken - 1].delivery_tag, 1));
    forget_taken(b);
}
