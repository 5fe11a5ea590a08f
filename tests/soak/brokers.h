/* The kinds of brokers that the soak runs on.
 *
 * A new broker is a file broker_NAME.c, which defines a soak_broker, and a line in the table of
 * brokers.c; cmake/Soak.cmake leaves the file out where the backend NAME is not built in. If its
 * server is new as well: dev/servers.d/NAME.sh and a server_kind (tests/support/servers/server.h).
 * It must supply
 *
 *   name, server  what --broker calls it; the server that is started, crashed and started again
 *   url           of the transport of a role: where its process takes messages from, or where a
 *                 relay brings them. All names on the broker have the store's in front. With
 *                 `declare` the transport makes its queue, as soon as it is asked for a delivery
 *   queued        how many messages the broker still has for consumers of this run
 *   a foreign client, which is not semel's, to publish and to consume: either `client`, in C on a
 *                 client library, or `python_module`, with client_NAME.py and consume_NAME.py
 *
 * and make this of it:
 *
 *     foreign client -> "in"  -> "ordered": messages of the groups ordered.0, ordered.1, ...; two
 *                                processes consume it, and each group arrives in order
 *                             -> "free": messages of the groups free.0, free.1, ...; two processes
 *                                consume it, in any order
 *     relay          -> "out" -> "second": all that the relays send; two processes, in order
 *                             -> "foreign": all of it once more, for the foreign client
 *
 * "poison" (ordered.poison or free.poison) is a group, too. A message is: id, type, group, and the
 * body "GROUP NUMBER" as text/plain, all of them where the transport's message format has them. */
#ifndef SEMEL_TESTS_SOAK_BROKERS_H
#define SEMEL_TESTS_SOAK_BROKERS_H

#include "soak.h"

/* A message of the foreign client. Received ones need id and body only. */
typedef struct soak_item {
    const char *queue; /* "ordered" or "free" */
    const char *group; /* "ordered.3"; also the topic */
    const char *id, *type, *body;
} soak_item;

/* Every call ends within half a minute, also while the broker is down. */
typedef struct soak_client {
    /* To publish to "in", or (`receives`) to take from "foreign", which it makes if it is not
     * there. The URL is the server's. NULL: it cannot be reached now, and is tried again. */
    void *(*open)(const char *url, const char *store, int receives);
    void (*close)(void *client);

    /* Sends all and waits for the answers; confirmed[] is 0 before. In order, within a group. 0:
     * the connection is lost, and what is not confirmed is sent again by another one. */
    int (*publish)(void *client, const soak_item items[], size_t count, int confirmed[]);

    /* Up to `max` messages, after `wait_ms` none; -1: the connection is lost. They are valid until
     * the next call. */
    int (*receive)(void *client, soak_item items[], size_t max, unsigned wait_ms);
    int (*acknowledge)(void *client); /* all that were received; 0: the connection is lost */
} soak_client;

typedef struct soak_broker {
    const char *name;
    server_kind server;
    void (*url)(char url[SOAK_URL], const soak_run *run, soak_role role, int declare);

    /* In a process of its own: messages of all queues, also those that are out with a consumer. -1
     * if it cannot be said. */
    int64_t (*queued)(const soak_run *run);

    /* Optional. Before the transports declare their queues, and after it. */
    void (*prepare)(const soak_run *run);
    void (*declared)(const soak_run *run);

    /* One of them. */
    const soak_client *client;
    const char *python_module; /* that the scripts import: "pika" */

    /* What the broker does not do, and is not asked for. */
    int uncounted;  /* it does not count deliveries: there is no poison, and nobody knows what came
                      again */
    int one_by_one; /* "ordered" has one message out at a time: a kill may well meet none */

    /* Its client may abort a process that is told to stop, by a defect that the transport warns of.
     * To the messages it is one kill more, so it counts as one. */
    int aborts;
} soak_broker;

const soak_broker *soak_broker_find(const char *name); /* NULL: there is none */
void soak_broker_list(char *out, size_t room);         /* "rabbitmq, kafka" */

/* --- client.c: the foreign client in C -------------------------------------------------------- */

/* `semel-soak --client NAME URL STORE`, which publish.py starts: publishes what it reads. */
int soak_client_publish(const soak_broker *broker, const char *url, const char *store);

/* The foreign consumer, in a process of its own (the context is the run). */
process_body soak_client_consume;

#endif
