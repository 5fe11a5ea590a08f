/* Queues in a real RabbitMQ, for tests: fresh ones, and a look at them from outside. server.h says
 * where the broker is.
 *
 * Each call opens a connection of its own and closes it, as server_run() does; those that say so
 * ask the node itself, or are done by rabbitmqctl, which takes more than half a second. All of it
 * aborts with a message when it cannot. */
#ifndef SEMEL_TESTS_BROKER_H
#define SEMEL_TESTS_BROKER_H

#include "support/servers/server.h"

#include <amqp.h>
#include <amqp_framing.h>

/* --- URLs ------------------------------------------------------------------------------------- */

/* Of a transport whose connecting must not fail because a machine is busy: the broker may answer
 * late. */
#define BROKER_PATIENCE "connect_ms=20000"

/* The URL of a transport with a queue and an exchange of the same, new name, and these parameters:
 * "declare=yes& type=classic". It has BROKER_PATIENCE, unless they say something else. Nothing is
 * made. */
void broker_fresh(char url[SERVER_URL_ROOM], const server_place *where, const char *parameters);

/* The same by TLS, with the CA that signed the broker's certificate. */
void broker_fresh_tls(char url[SERVER_URL_ROOM], const server_place *where, const char *parameters);

/* A name that nothing else has: for a second queue, an exchange, a connection. */
enum { BROKER_NAME_ROOM = 64 };
void broker_name(char name[BROKER_NAME_ROOM]);

/* The name of queue and exchange in a URL of broker_fresh(). */
void broker_queue_of(char name[BROKER_NAME_ROOM], const char *url);

/* Deletes queue and exchange, if they are there. */
void broker_drop(const char *url);

/* --- exchanges and queues --------------------------------------------------------------------- */

void broker_make_exchange(const server_place *where, const char *exchange, const char *type);

/* Durable; `type` is classic or quorum. */
void broker_make_queue(const server_place *where, const char *queue, const char *type);
void broker_bind(const server_place *where, const char *queue, const char *exchange,
                 const char *key);

/* These do nothing if it is not there. */
void broker_delete_queue(const server_place *where, const char *queue);
void broker_delete_exchange(const server_place *where, const char *exchange);

void broker_purge(const server_place *where, const char *queue);

/* --- messages --------------------------------------------------------------------------------- */

/* Returns when the broker has it: confirmed and, except with a key that no queue has, in a queue.
 * `properties` may be NULL. */
void broker_publish(const server_place *where, const char *exchange, const char *key,
                    const amqp_basic_properties_t *properties, const void *body, size_t body_len);

typedef struct broker_message {
    amqp_message_t message; /* .properties and .body */
    char exchange[256];
    char key[256];
    int redelivered;
} broker_message;

/* Takes the first message out of a queue, for good; 0 if there is none. What it gave must be
 * freed. */
int broker_get(broker_message *out, const server_place *where, const char *queue);
void broker_message_free(broker_message *message);

/* The value of a header, or NULL. */
const amqp_field_value_t *broker_header(const broker_message *message, const char *name);

/* Messages that no consumer has taken; -1 if there is no such queue. */
int64_t broker_ready(const server_place *where, const char *queue);

/* All of them, also those that are out with a consumer; -1 if there is no such queue. Asks the
 * node. */
int64_t broker_count(const server_place *where, const char *queue);

/* --- trouble: asks the node ------------------------------------------------------------------- */

/* What was declared so far survives a crash. Without it a quorum queue of the last second may not:
 * RabbitMQ (its library Ra) writes down which ones there are only every half second; the queue then
 * seems to be there, but has no leader, and every client of it waits for ever. */
void broker_sync(const server_place *where);

/* Closes the connections of that name (name= in the URL; NULL: all, in a broker of the test's own);
 * how many. */
int64_t broker_close_connections(const server_place *where, const char *name);

/* The memory alarm: the broker takes one more message from each connection, and then nothing. All
 * connections that are there have been told when it returns. In a broker of the test's own. */
void broker_alarm(const server_place *where, int on);
void broker_disk_alarm(const server_place *where, int on); /* the same for want of disk space */

/* Adds a user, or gives it another password; it may do all in the vhost /. */
void broker_user(const server_place *where, const char *user, const char *password);

/* What it may do: regular expressions over names. */
void broker_permissions(const server_place *where, const char *user, const char *configure,
                        const char *write, const char *read);

/* Runs rabbitmqctl; arguments end with NULL. What it said is in `out`, if that is not NULL. */
void broker_ctl(char *out, size_t room, const server_place *where, const char *const *arguments);

/* The value of an Erlang expression, in the node. */
void broker_eval(char *out, size_t room, const server_place *where, const char *expression);

#endif
