/* For the tests of RabbitMQ's own side: a transport with a queue and an exchange that no other test
 * uses, and clients that do not use the library: Debian's python3-pika and amqp-tools. */
#ifndef SEMEL_TESTS_RABBITMQ_KIT_H
#define SEMEL_TESTS_RABBITMQ_KIT_H

#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/process.h"
#include "support/servers/rabbitmq/broker.h"

#include <semel/sys/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Far more than anything takes that comes, on a machine that is busy with other things, too. */
enum { KIT_WAIT_MS = 60000, KIT_BATCH = 64, KIT_COMMAND = 4096, KIT_SAID = 4096 };

typedef struct rabbit_kit {
    server_place broker;
    char url[SERVER_URL_ROOM];
    char queue[BROKER_NAME_ROOM]; /* and the exchange */
    semel_transport *transport;
} rabbit_kit;

/* --- conditions ------------------------------------------------------------------------------- */

#define EVENTUALLY(condition)                                         \
    do {                                                              \
        int64_t eventually_until = process_now_ms() + KIT_WAIT_MS;    \
        while (!(condition)) {                                        \
            if (process_now_ms() > eventually_until)                  \
                fail_msg("line %d: never: %s", __LINE__, #condition); \
            process_nap();                                            \
        }                                                             \
    } while (0)

/* --- the transport ---------------------------------------------------------------------------- */

/* The broker is there, but a machine under load may keep it from answering in time. */
semel_status kit_open_transport(semel_transport **out, const char *url, semel_error *err);

/* Names of its own in this broker; nothing is opened. */
void kit_prepare(rabbit_kit *kit, const server_place *where, const char *parameters);
void kit_open(rabbit_kit *kit, const char *parameters);
void kit_reopen(rabbit_kit *kit);

/* From now on it receives nothing: what is published stays in the queue, for others to see. */
void kit_publish_only(rabbit_kit *kit, const char *parameters);
void kit_close(rabbit_kit *kit);

/* --- messages --------------------------------------------------------------------------------- */

semel_status kit_publish(rabbit_kit *kit, semel_publish_result results[],
                         const semel_message messages[], size_t count, uint32_t wait_ms);

/* What came of one message; the status must be OK. */
semel_publish_result kit_publish_one(rabbit_kit *kit, const semel_message *message);
void kit_send(rabbit_kit *kit, const char *id);
void kit_take(rabbit_kit *kit, semel_delivery deliveries[], size_t count);
semel_delivery kit_take_id(rabbit_kit *kit, const char *id);
semel_status kit_settle(rabbit_kit *kit, semel_delivery delivery, semel_verdict verdict);
void kit_ack(rabbit_kit *kit, semel_delivery delivery);

/* --- other clients ---------------------------------------------------------------------------- */

/* Runs a command of sh, which must succeed, and keeps what it says on standard output. */
void kit_run(char said[KIT_SAID], const char *command);

/* A script with `channel` of pika open, and `queue`, which is the exchange's name, too. It has
 * no ' in it. */
void kit_pika(char said[KIT_SAID], const rabbit_kit *kit, const char *script);

#endif
