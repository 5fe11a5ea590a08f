/* The store suite on the keyed layer, over the adapter in memory. */
#include "support/conformance/conformance_store.h"
#include "support/keyed/memory_adapter.h"

#include <stdio.h>

static unsigned made;

static void make(char name[URL_ROOM])
{
    (void)snprintf(name, URL_ROOM, "keyed-%u", made++);
    keyed_memory_options options = {.lacks = SEMEL_KEYED_EXPIRES}; /* sweeps are looked at */
    assert_non_null(keyed_memory_open(name, &options));
}

static void remove_database(const char *name)
{
    keyed_memory_close(keyed_memory_named(name));
}

int main(void)
{
    static const store_quirks keyed = {.name = "keyed",
                                       .driver = &keyed_memory_store,
                                       .make = make,
                                       .remove = remove_database,
                                       .durability = SEMEL_DURABLE_NOT,
                                       .flags = STORE_KEEPS | STORE_SHARED | STORE_MIGRATES |
                                                STORE_PROCESS_CLOCK | STORE_RECORDS,
                                       .lacks = LACKS_JOIN};
    return conformance_store(&keyed);
}
