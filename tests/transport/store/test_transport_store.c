/* The transport suite on queues in the memory store and in SQLite. */
#include "support/base/scratch.h"
#include "support/conformance/conformance_transport.h"

#include <stdio.h>

static scratch directory;

static void make_memory(char url[TRANSPORT_URL_ROOM])
{
    (void)snprintf(url, TRANSPORT_URL_ROOM, "store:memory:#orders");
}

static void make_sqlite(char url[TRANSPORT_URL_ROOM])
{
    char store[SCRATCH_PATH];
    scratch_open(&directory);
    (void)snprintf(url, TRANSPORT_URL_ROOM, "store:%s#orders",
                   scratch_sqlite(store, &directory, "store.db"));
}

static void remove_sqlite(const char *url)
{
    (void)url;
    scratch_close(&directory);
}

int main(void)
{
    static const transport_quirks memory = {.name = "queue in memory",
                                            .make = make_memory,
                                            .durability = SEMEL_DURABLE_NOT,
                                            .lapse_ms = 30000};
    static const transport_quirks sqlite = {.name = "queue in SQLite",
                                            .flags = TRANSPORT_KEEPS,
                                            .make = make_sqlite,
                                            .remove = remove_sqlite,
                                            .durability = SEMEL_DURABLE_POWER,
                                            .lapse_ms = 30000};
    return conformance_transport(&memory) + conformance_transport(&sqlite);
}
