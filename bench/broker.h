/* What the sections about the broker share.
 *
 *     raw_rabbitmq.c          the loops by hand, on rabbitmq-c: publishing
 *     raw_rabbitmq_consume.c  ... and consuming
 *     section_broker*.c       what is measured
 *
 * Every contender has a place of its own on the broker: a topic exchange and one durable queue,
 * both with the contender's name, empty at the start of every round. Its messages have the topic
 * BROKER_TOPIC and a body of BROKER_BODY bytes. */
#ifndef SEMEL_BENCH_BROKER_H
#define SEMEL_BENCH_BROKER_H

#include "bench.h"

enum { WARM_UP = 5 }; /* the round that is not counted has a fifth of the messages */

typedef enum queue_kind { QUEUE_QUORUM, QUEUE_CLASSIC, QUEUE_KINDS } queue_kind;

const char *queue_kind_name(queue_kind kind);

/* Where the broker is; starts it the first time (servers.c). */
const char *broker_url(void);
int broker_is_off(void);

/* --- a connection by hand, with one channel --------------------------------------------------- */

typedef struct broker broker;

broker *broker_open(const char *url); /* with confirms */
void broker_close(broker *b);

void place_make(broker *b, const char *place,
                queue_kind kind); /* whatever it was before, it is empty now */
void place_empty(broker *b, const char *place);
void place_remove(broker *b, const char *place);
void place_feed(broker *b, const char *place,
                const char *from); /* what is published there comes here, too */

/* Persistent and mandatory. Returns when the broker confirmed all; ends the program if it did
 * not. */
typedef void broker_publish(broker *b, const char *place, const semel_message *const messages[],
                            size_t count, size_t outstanding);
broker_publish broker_publish_window;  /* as soon as one is confirmed the next is sent */
broker_publish broker_publish_batches; /* sends so many, waits for all of them, sends the next */

void broker_consume_begin(broker *b, const char *place, size_t prefetch);

/* Waits for `count` deliveries; the messages are valid until they are acknowledged. */
const semel_message *const *broker_take(broker *b, size_t count);
void broker_ack_each(broker *b);
void broker_ack_together(broker *b);

/* --- through semel ---------------------------------------------------------------------------- */

/* The transport's URL for a place, to publish, and to receive if a prefetch is given. */
const char *place_url(char out[1024], const char *place, queue_kind kind, size_t prefetch);

/* --- sections --------------------------------------------------------------------------------- */

/* "RabbitMQ 3.10.8, quorum queue: publish": for the head of a table. */
const char *broker_title(char out[100], queue_kind kind, const char *what);

void section_broker_publish(void);
void section_broker_relay(void);
void section_broker_consume(void);

#endif
