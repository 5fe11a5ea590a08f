/* What the keyed layer costs: a store that it makes of a database in memory, the one of its tests,
 * against the memory store, which is written for what it does. Each message is encoded as records,
 * found in a tree and copied. A database behind a network costs a hundred times as much. */
#include "bench.h"
#include "support/keyed/memory_adapter.h"

enum { SLICES_OF = 1000 };

static const char place[] = "bench";

static void compare(const char *name, semel_mode mode, size_t batch)
{
    semel_error err;
    comparison d;
    key_source keys;
    semel_sqlite own, layered;
    semel_store *store;
    const semel_inbox_options inbox = {.size = sizeof inbox, .mode = mode};
    keyed_memory *memory = keyed_memory_open(place, &(keyed_memory_options){0});
    must(semel_store_open_driver(&store, &keyed_memory_store, place, NULL, &err), &err);
    semel_sqlite_open_on(&layered, store, &inbox, batch);
    semel_sqlite_open(&own, "memory:", &inbox, batch);
    keys_begin(&keys, KEYS_RANDOM);
    const contender sides[] = {{&own, semel_sqlite_receive_idly},
                               {&layered, semel_sqlite_receive_idly}};
    comparison_run(&d, sides, 2, &keys, SLICES_OF, choose(50, 10), choose_rounds(21, 5), name);
    report_row(name, 1e9 / comparison_rate(&d, 0).median, 1e9 / comparison_rate(&d, 1).median,
               comparison_ratio(&d, 0, 1), NO_AIM);
    semel_sqlite_close(&own);
    semel_sqlite_close(&layered);
    keyed_memory_close(memory);
}

void section_keyed(void)
{
    report_section("keyed", "the keyed layer in memory", "memory store, ns", "through it, ns");
    compare("transaction, one by one", SEMEL_TRANSACTION, 1);
    compare("transaction, batches of 100", SEMEL_TRANSACTION, 100);
    compare("claim and finish", SEMEL_CLAIM, 1);
    report_note("the ratio is of times");
}
