/* A connection by hand to RabbitMQ: what raw_rabbitmq.c and raw_rabbitmq_consume.c share. */
#ifndef SEMEL_BENCH_RAW_RABBITMQ_H
#define SEMEL_BENCH_RAW_RABBITMQ_H

#include "broker.h"

#include <amqp.h>
#include <amqp_framing.h>

enum { CHANNEL = 1, PATIENCE_S = 60 };

struct broker {
    amqp_connection_state_t connection;
    uint64_t sent;      /* messages published: the number of the last one */
    uint64_t confirmed; /* all up to this number are */
    size_t outstanding;
    char *is_confirmed; /* from `confirmed` + 1 on, in a ring */
    size_t ring;
    size_t taken, room; /* deliveries not acknowledged */
    amqp_envelope_t *envelopes;
    semel_message *messages;
    const semel_message **pointers;
};

void must_rabbit(int code);
void must_reply(amqp_rpc_reply_t reply);

/* raw_rabbitmq_consume.c */
void rabbitmq_consume(broker *b, const char *place, size_t prefetch);
const semel_message *const *rabbitmq_take(broker *b, size_t count);
void rabbitmq_ack_each(broker *b);
void rabbitmq_ack_together(broker *b);

#endif
