/* The store suite on the keyed store of the example: a list that only its own handle sees. */
#include "store/keyed/keyed.h"
#include "support/conformance/conformance_store.h"

#include <stdio.h>

extern const semel_keyed_driver liststore_driver;

static void make(char name[URL_ROOM])
{
    (void)snprintf(name, URL_ROOM, "list");
}

static semel_status open_list(void *store, const void *name, const semel_store_settings *settings,
                              semel_error *err)
{
    return keyed_open(store, &liststore_driver, name, settings, err);
}

int main(void)
{
    static semel_store_driver table;
    keyed_table_make(&table, &liststore_driver);
    table.open = open_list;
    const store_quirks own = {.name = "liststore",
                              .driver = &table,
                              .make = make,
                              .durability = SEMEL_DURABLE_NOT,
                              .flags = STORE_MIGRATES | STORE_PROCESS_CLOCK | STORE_RECORDS,
                              .lacks = LACKS_QUEUE | LACKS_JOIN};
    return conformance_store(&own);
}
