/* A stream of a test's own, a transport on it, and a client behind semel's back. */
#ifndef SEMEL_TESTS_STREAM_KIT_H
#define SEMEL_TESTS_STREAM_KIT_H

#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"
#include "support/process/process.h"
#include "support/servers/server.h"

#include <hiredis/hiredis.h>
#include <semel/sys/transport.h>

enum { KIT_WAIT_MS = 60000, KIT_NAME_ROOM = 64, KIT_GONE_MS = 150 };

/* Of most tests; the group is "g". */
#define KIT_GROUP "group=g&declare=yes&poll_ms=20"

#define EVENTUALLY(condition)                                                          \
    for (int64_t until_ = process_now_ms() + KIT_WAIT_MS; !(condition); process_nap()) \
    assert_true(process_now_ms() < until_)

typedef struct stream_kit {
    server_place server;
    char stream[KIT_NAME_ROOM];
    char url[SERVER_URL_ROOM];
    semel_transport *transport;
    redisContext *other; /* as redis-cli would */
} stream_kit;

/* On the shared server, or on this one. With parameters: the transport is opened, too. */
void kit_open(stream_kit *kit, const server_place *at, const char *parameters);
void kit_close(stream_kit *kit);

/* The URL of this stream with other parameters; returns out. */
char *kit_url(char out[SERVER_URL_ROOM], const stream_kit *kit, const char *parameters);
semel_transport *kit_connect(const stream_kit *kit, const char *parameters);

/* A command, with %s and %b as hiredis has them, for the stream's server. */
redisReply *kit_ask(stream_kit *kit, const char *format, ...);
long long kit_number(stream_kit *kit, const char *format, ...); /* its answer */
void kit_do(stream_kit *kit, const char *format, ...);          /* must not be refused */
void kit_reconnect(stream_kit *kit);

long long kit_length(stream_kit *kit);  /* entries in the stream */
long long kit_pending(stream_kit *kit); /* entries that consumers of g have */
long long kit_dead(stream_kit *kit);    /* entries in the dead stream */

/* All that is pending in any group becomes older. */
void kit_pass_ms(stream_kit *kit, int64_t ms);

void kit_send(stream_kit *kit, const char *id); /* must be confirmed */
semel_delivery kit_take(semel_transport *transport, const char *id);
void kit_expect_nothing(semel_transport *transport);
semel_status kit_settle(semel_transport *transport, semel_delivery one, semel_verdict verdict,
                        uint32_t delay_ms);

/* The driver's own members. */
const semel_transport_driver *kit_driver(semel_transport *transport, void **state);

#endif
