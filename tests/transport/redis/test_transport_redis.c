/* The transport suite on Redis Streams: on a server that syncs each write, by TLS, and on one that
 * syncs every second. */
#include "stream_kit.h"
#include "support/conformance/conformance_transport.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)TRANSPORT_URL_ROOM == (int)SERVER_URL_ROOM, "URLs fit into each other's room");

enum { CLAIM_MS = 600000, GRAIN_MS = 60000, SETTLE_MS = 100 };
#define PARAMETERS KIT_GROUP "&claim_ms=600000"

static stream_kit kit;
static server_own relaxed; /* with everysec */

static void make_always(char url[TRANSPORT_URL_ROOM])
{
    kit_open(&kit, NULL, NULL);
    kit_url(url, &kit, PARAMETERS);
}

static void make_everysec(char url[TRANSPORT_URL_ROOM])
{
    kit_open(&kit, &relaxed.at, NULL);
    kit_url(url, &kit, PARAMETERS);
}

static void make_tls(char url[TRANSPORT_URL_ROOM])
{
    char port[16], ca[SCRATCH_PATH];
    kit_open(&kit, NULL, NULL);
    server_entry(port, sizeof port, &kit.server, "TLS_PORT");
    server_entry(ca, sizeof ca, &kit.server, "CA");
    (void)snprintf(url, TRANSPORT_URL_ROOM,
                   "rediss://default:semel@localhost:%s/0?stream=%s&" PARAMETERS "&ca=%s", port,
                   kit.stream, ca);
}

static void make_socket(char url[TRANSPORT_URL_ROOM])
{
    kit_open(&kit, NULL, NULL);
    (void)snprintf(url, TRANSPORT_URL_ROOM,
                   "valkey://default:semel@/0?stream=%s&" PARAMETERS "&socket=%s", kit.stream,
                   kit.server.socket);
}

static void drop(const char *url)
{
    (void)url;
    kit_close(&kit);
}

static void pass_ms(transport_fixture *f, int64_t ms)
{
    kit_pass_ms(&kit, ms);
    semel_test_advance_ms(f->seam, ms);
}

static transport_quirks quirks_of(const char *name, void (*make)(char url[TRANSPORT_URL_ROOM]))
{
    return (transport_quirks){.name = name,
                              .flags = TRANSPORT_KEEPS,
                              .durability = SEMEL_DURABLE_POWER,
                              .lapse_ms = CLAIM_MS,
                              .grain_ms = GRAIN_MS,
                              .settle_ms = SETTLE_MS,
                              .make = make,
                              .remove = drop,
                              .pass_ms = pass_ms};
}

int main(void)
{
    transport_quirks always = quirks_of("redis streams, appendfsync always", make_always);
    transport_quirks tls = quirks_of("redis streams by TLS", make_tls);
    transport_quirks socket = quirks_of("redis streams by a socket", make_socket);
    transport_quirks everysec = quirks_of("redis streams, appendfsync everysec", make_everysec);
    everysec.durability = SEMEL_DURABLE_PROCESS;
    server_own_start(&relaxed, SERVER_REDIS);
    server_run(relaxed.at.url, "CONFIG SET appendfsync everysec");
    int failed = conformance_transport(&always) + conformance_transport(&tls) +
                 conformance_transport(&socket) + conformance_transport(&everysec);
    server_own_stop(&relaxed);
    return failed;
}
