/* The store suite on the memory store. */
#include "support/conformance/conformance_store.h"

#include <stdio.h>

static void make(char url[URL_ROOM])
{
    (void)snprintf(url, URL_ROOM, "memory:");
}

int main(void)
{
    static const store_quirks memory = {.name = "memory",
                                        .make = make,
                                        .durability = SEMEL_DURABLE_NOT,
                                        .lacks = LACKS_QUEUE | LACKS_JOIN | LACKS_SENT};
    return conformance_store(&memory);
}
