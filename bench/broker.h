/* What the sections about brokers share.
 *
 *     brokers.c           the table of brokers
 *     raw_NAME*.c         the loops by hand, on the broker's client library
 *     section_broker*.c   what is measured, written once for all brokers
 *
 * A new broker is a file raw_NAME.c, which defines a broker_kind, and a line in the table of
 * brokers.c; the file is left out where the backend NAME is not built in. Its server must be one of
 * dev/servers, and becomes an option of semel-bench: --NAME URL. The members of broker_kind below
 * say what it must supply. None of them returns an error: what fails ends the program (die).
 *
 * Every contender has a place of its own on the broker: something to publish to and one durable
 * queue that it comes to, both with the contender's name (an exchange and a queue, a topic and a
 * group), empty at the start of every round. Its messages have the topic BROKER_TOPIC and a body of
 * BROKER_BODY bytes. */
#ifndef SEMEL_BENCH_BROKER_H
#define SEMEL_BENCH_BROKER_H

#include "bench.h"

enum { WARM_UP = 5 }; /* the round that is not counted has a fifth of the messages */

/* A connection by hand; each broker has its own struct of this name. */
typedef struct broker broker;

/* Durable. Returns when the broker confirmed all. */
typedef void broker_publish(broker *b, const char *place, const semel_message *const messages[],
                            size_t count, size_t outstanding);

typedef struct broker_kind {
    const char *name;   /* of the broker, in headings: "RabbitMQ" */
    const char *server; /* of dev/servers: "rabbitmq" */
    /* 1: the server stands apart (dev/servers), so it is measured only if --broker or its own
     * option asks for it. */
    int is_apart;
    /* 1: a consumer joins a group when it begins to receive, which takes long and is not what is
     * measured. So one message goes through each consumer before the queues are filled. */
    int has_groups;

    /* Kinds of queues, the most important one first, which alone is measured in brief runs; ends
     * with NULL. A broker with one kind has {"", NULL}. */
    const char *const *queues;

    broker *(*open)(const char *url);
    void (*close)(broker *b);
    void (*version)(broker *b, char out[32]);

    /* --- places --- */
    void (*make)(broker *b, const char *place,
                 const char *queue); /* whatever it was before, it is empty now */
    void (*empty)(broker *b, const char *place);
    void (*remove)(broker *b, const char *place);
    /* What is published to `from` comes to `place`, too. NULL: it is published to each of them. */
    void (*feed)(broker *b, const char *place, const char *from);
    /* The transport's URL for a place, to publish, and to receive if a prefetch is given. */
    void (*url)(char out[1024], const char *server_url, const char *place, const char *queue,
                size_t prefetch);

    /* --- publishing --- */
    broker_publish *publish_window;  /* as soon as one is confirmed the next is sent */
    broker_publish *publish_batches; /* sends so many, waits for all of them, sends the next */

    /* --- consuming --- */
    void (*consume)(broker *b, const char *place, size_t prefetch);
    /* Waits for `count` deliveries; the messages (id and body) are valid until they are
     * acknowledged. */
    const semel_message *const *(*take)(broker *b, size_t count);
    void (*ack_each)(broker *b); /* all that were taken, one by one ... */
    void (*ack_together)(broker *b);
} broker_kind;

/* --- brokers.c -------------------------------------------------------------------------------- */

extern const broker_kind *const brokers[]; /* those that are built in; ends with NULL */

/* A kind of queue of a broker: what is measured at a time. */
typedef struct broker_case {
    const broker_kind *on;
    const char *queue;
    const char *url; /* of the server */
} broker_case;

/* Of --broker. Without one all of them are wanted, but those that stand apart only if they were
 * given. */
void broker_choose(const char *server);

/* Calls the function for each broker that is wanted, and for each kind of its queues or (`first`)
 * the first only; starts the server the first time. */
void each_broker(int first, void (*measure)(const broker_case *b));

/* "RabbitMQ 3.10.8, quorum: publish": for the head of a table. */
const char *broker_title(char out[100], const broker_case *b, const char *what);
const char *place_url(char out[1024], const broker_case *b, const char *place, size_t prefetch);

/* --- servers.c -------------------------------------------------------------------------------- */

int broker_is_off(const broker_kind *kind);
int broker_is_given(const broker_kind *kind);    /* by a URL */
const char *broker_url(const broker_kind *kind); /* starts it the first time */

/* --- sections --------------------------------------------------------------------------------- */

void section_broker_publish(void);
void section_broker_relay(void);
void section_broker_consume(void);

#endif
