/* Streams in a real NATS server, for tests: fresh ones, a look at them from outside by nats.c
 * alone, and a transport with one that no other test uses. All of it aborts with a message when it
 * cannot. */
#ifndef SEMEL_TESTS_NATS_KIT_H
#define SEMEL_TESTS_NATS_KIT_H

#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/process.h"
#include "support/servers/server.h"

#include <nats/nats.h>
#include <semel/sys/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far more than anything takes that comes, on a machine that is busy with other things, too. */
enum { NATS_KIT_WAIT_MS = 60000, NATS_KIT_NAME = 64 };

#define NATS_EVENTUALLY(condition)                                      \
    do {                                                                \
        int64_t eventually_until = process_now_ms() + NATS_KIT_WAIT_MS; \
        while (!(condition)) {                                          \
            if (process_now_ms() > eventually_until)                    \
                fail_msg("line %d: never: %s", __LINE__, #condition);   \
            process_nap();                                              \
        }                                                               \
    } while (0)

/* The URL of a stream, a consumer and a subject of one new name, and these parameters. Nothing is
 * made. */
void nats_fresh(char url[SERVER_URL_ROOM], const server_place *where, const char *parameters);
void nats_fresh_tls(char url[SERVER_URL_ROOM], const server_place *where, const char *parameters);
void nats_stream_of(char name[NATS_KIT_NAME], const char *url);
void nats_drop(const char *url); /* the stream, if it is there */

/* Time passes for the deliveries that are out, and for those that wait for their delay: the
 * consumer's ack wait becomes shorter. It must be longer than all that passes. */
void nats_pass_ms(const char *url, int64_t ms);

/* --- a client that is not semel's ------------------------------------------------------------- */

typedef struct nats_client {
    natsConnection *connection;
    jsCtx *js;
} nats_client;

void nats_client_open(nats_client *client, const server_place *where);
void nats_client_close(nats_client *client);

/* Publishes it, as the stream's only confirmation. */
void nats_client_publish(nats_client *client, const char *subject, const char *body);
void nats_client_make(nats_client *client, jsStreamConfig *stream);
void nats_client_consume(nats_client *client, const char *stream, jsConsumerConfig *consumer);
uint64_t nats_client_count(nats_client *client, const char *stream); /* messages in it */
/* The nth message of a stream; destroy it. */
natsMsg *nats_client_message(nats_client *client, const char *stream, uint64_t sequence);

/* --- a transport ------------------------------------------------------------------------------ */

typedef struct nats_kit {
    server_place server;
    char url[SERVER_URL_ROOM];
    char stream[NATS_KIT_NAME]; /* and the consumer, and the subject */
    semel_transport *transport;
    nats_client client;
} nats_kit;

void nats_kit_prepare(nats_kit *kit, const server_place *where, const char *parameters);
void nats_kit_open(nats_kit *kit, const char *parameters); /* with declare=yes */
void nats_kit_reopen(nats_kit *kit);
void nats_kit_close(nats_kit *kit);

/* What came of one message; the status must be OK. */
semel_publish_result nats_kit_publish(nats_kit *kit, const semel_message *message);
void nats_kit_send(nats_kit *kit, const char *id);
void nats_kit_take(nats_kit *kit, semel_delivery deliveries[], size_t count);
semel_delivery nats_kit_take_id(nats_kit *kit, const char *id);
void nats_kit_settle(nats_kit *kit, semel_delivery delivery, semel_verdict verdict, uint32_t ms);
void nats_kit_nothing(nats_kit *kit); /* there is nothing to be had */

#endif
