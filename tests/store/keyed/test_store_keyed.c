/* The store suite on the keyed layer, over the adapter in memory: all of it, and what is left of it
 * where the database writes one record at a time. */
#include "store/keyed/keyed.h"
#include "support/conformance/conformance_store.h"
#include "support/keyed/memory_adapter.h"

#include <stdio.h>
#include <string.h>

/* Records do not expire here: sweeps are looked at. */
static keyed_memory *make_with(char name[URL_ROOM], uint32_t lacks)
{
    static unsigned made;
    keyed_memory_options options = {.lacks = SEMEL_KEYED_EXPIRES | lacks};
    (void)snprintf(name, URL_ROOM, "keyed-%u", made++);
    keyed_memory *memory = keyed_memory_open(name, &options);
    assert_non_null(memory);
    return memory;
}

static void make(char name[URL_ROOM])
{
    make_with(name, 0);
}

static void make_single(char name[URL_ROOM])
{
    make_with(name, SEMEL_KEYED_MANY);
}

static void remove_database(const char *name)
{
    keyed_memory_close(keyed_memory_named(name));
}

static semel_status open_single(void *store, const void *name, const semel_store_settings *settings,
                                semel_error *err)
{
    return keyed_open(store, keyed_memory_driver(keyed_memory_named(name)), name, settings, err);
}

/* The table that an application's driver gets, with a name as the argument of `open`. */
static int run_single(void)
{
    static semel_store_driver table;
    char name[URL_ROOM];
    keyed_table_make(&table, keyed_memory_driver(make_with(name, SEMEL_KEYED_MANY)));
    table.open = open_single;
    const store_quirks single = {
        .name = "keyed, one record at a time",
        .driver = &table,
        .make = make_single,
        .remove = remove_database,
        .durability = SEMEL_DURABLE_NOT,
        .flags = STORE_KEEPS | STORE_SHARED | STORE_MIGRATES | STORE_PROCESS_CLOCK | STORE_RECORDS,
        .lacks = LACKS_TRANSACTIONS | LACKS_OUTBOX | LACKS_DEAD | LACKS_QUEUE | LACKS_JOIN |
                 LACKS_SENT | LACKS_OPERATION | LACKS_HISTORY};
    int failed = conformance_store(&single);
    remove_database(name);
    return failed;
}

static int run_all(void)
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

int main(void)
{
    return run_single() + run_all();
}
