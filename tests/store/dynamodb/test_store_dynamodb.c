/* The store suite on DynamoDB's emulator: a table of its own in the one that all tests share. */
#include "support/conformance/conformance_store.h"
#include "support/keyed/keyed_skew.h"
#include "support/servers/server.h"

_Static_assert(URL_ROOM >= (int)SERVER_URL_ROOM, "server_fresh_dynamodb() writes that much");

static void make(char url[URL_ROOM])
{
    keyed_skew_reset();
    server_fresh_dynamodb(url);
}

int main(void)
{
    static const store_quirks dynamodb = {.name = "dynamodb",
                                          .make = make,
                                          .remove = server_drop,
                                          .pass_ms = server_pass_ms,
                                          .durability = SEMEL_DURABLE_POWER,
                                          .lacks = LACKS_JOIN,
                                          .clock_ms = SERVER_DYNAMODB_CLOCK_MS,
                                          .record_max = 400000,
                                          .flags = STORE_KEEPS | STORE_SHARED | STORE_MIGRATES |
                                                   STORE_SERVER_CLOCK | STORE_CLOCK_PASSES |
                                                   STORE_RECORDS};
    return conformance_store(&dynamodb);
}
