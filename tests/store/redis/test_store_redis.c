/* The store suite on Redis: a namespace of its own in the server that all tests share. */
#include "support/conformance/conformance_store.h"
#include "support/keyed/keyed_skew.h"
#include "support/servers/server.h"

_Static_assert(URL_ROOM >= (int)SERVER_URL_ROOM, "server_fresh_redis() writes that much");

static void make(char url[URL_ROOM])
{
    keyed_skew_reset();
    server_fresh_redis(url);
}

int main(void)
{
    static const store_quirks redis = {.name = "redis",
                                       .make = make,
                                       .remove = server_drop,
                                       .pass_ms = server_pass_ms,
                                       .clock_ms = 20, /* its error, twice: outbox_emit.c */
                                       .durability = SEMEL_DURABLE_POWER,
                                       .lacks = LACKS_JOIN,
                                       .flags = STORE_KEEPS | STORE_SHARED | STORE_MIGRATES |
                                                STORE_SERVER_CLOCK | STORE_RECORDS |
                                                STORE_CLOCK_PASSES};
    return conformance_store(&redis);
}
