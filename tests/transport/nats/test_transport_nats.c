/* The transport suite on NATS JetStream, with and without TLS. The suite sends copies with one id,
 * which the server would take for the same message: so it sends none (msg_id=no), and
 * test_nats_publish.c looks at that. The ack wait is long, and time passes by shortening it. */
#include "support/conformance/conformance_transport.h"
#include "support/servers/nats/nats_kit.h"

_Static_assert((int)TRANSPORT_URL_ROOM == (int)SERVER_URL_ROOM, "URLs fit into each other's room");

enum { SETTLE_MS = 300, GRAIN_MS = 30000, BODY_MAX = 1000000 };

#define PARAMETERS "declare=yes&msg_id=no&ack_ms=1000000000"

static void make_plain(char url[TRANSPORT_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_NATS);
    nats_fresh(url, &shared, PARAMETERS);
}

static void make_tls(char url[TRANSPORT_URL_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_NATS);
    nats_fresh_tls(url, &shared, PARAMETERS);
}

static void pass_ms(transport_fixture *f, int64_t ms)
{
    nats_pass_ms(f->url, ms);
}

int main(void)
{
    static const transport_quirks plain = {.name = "nats",
                                           .flags = TRANSPORT_KEEPS | TRANSPORT_DEPTH_OF_NEW,
                                           .durability = SEMEL_DURABLE_PROCESS,
                                           .body_max = BODY_MAX,
                                           .settle_ms = SETTLE_MS,
                                           .grain_ms = GRAIN_MS,
                                           .make = make_plain,
                                           .remove = nats_drop,
                                           .pass_ms = pass_ms};
    static const transport_quirks tls = {.name = "nats by TLS",
                                         .flags = TRANSPORT_KEEPS | TRANSPORT_DEPTH_OF_NEW,
                                         .durability = SEMEL_DURABLE_PROCESS,
                                         .body_max = BODY_MAX,
                                         .settle_ms = SETTLE_MS,
                                         .grain_ms = GRAIN_MS,
                                         .make = make_tls,
                                         .remove = nats_drop,
                                         .pass_ms = pass_ms};
    return conformance_transport(&plain) + conformance_transport(&tls);
}
