/* The adapter suite on Redis, where a namespace of the server that all tests share is a
 * database. */
#include "store/redis/redis.h"
#include "support/keyed/adapter_suite.h"
#include "support/servers/server.h"

#include <stdio.h>
#include <string.h>

static void make(char argument[ADAPTER_ROOM])
{
    server_place shared;
    server_find(&shared, SERVER_REDIS);
    server_fresh(argument, &shared);
}

/* The commands of the suite are the same for each of its databases. */
static int64_t effects(const char *argument)
{
    int64_t now = server_number(argument, "GET semel-adapter-effects");
    return now;
}

static void clean(const char *argument)
{
    server_run(argument, "DEL semel-adapter-effects");
    server_drop(argument);
}

int main(void)
{
    static const adapter_quirks redis = {
        .name = "redis",
        .driver = &redis_keyed_driver,
        .flags = ADAPTER_KEEPS | ADAPTER_PROCESSES,
        .durability = SEMEL_DURABLE_POWER,
        .make = make,
        .remove = clean,
        .good = {"INCRBY semel-adapter-effects ?", {{SEMEL_VALUE_INT, 1, 0, {NULL, 0}}}, 1},
        .invalid = {"BLPOP semel-adapter-effects ?", {{SEMEL_VALUE_INT, 1, 0, {NULL, 0}}}, 1},
        .failing = {"INCRBY semel-adapter-effects ?", {{SEMEL_VALUE_TEXT, 0, 0, {"x", 1}}}, 1},
        .effects = effects};
    return adapter_suite(&redis);
}
