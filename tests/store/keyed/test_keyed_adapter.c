/* The adapter suite on the adapter in memory, with and without limits. */
#include "support/keyed/adapter_suite.h"
#include "support/keyed/memory_adapter.h"

#include <stdio.h>

static const keyed_memory_options plain;
static const keyed_memory_options narrow = {
    .no_queue = 1,
    .no_count = 1,
    .no_watch = 1,
    .limits = {.changes_max = 25, .record_max = 40000, .apply_max = 400000}};
static const keyed_memory_options single = {.lacks = SEMEL_KEYED_MANY | SEMEL_KEYED_EXPIRES};

static const keyed_memory_options *options;
static keyed_memory *pattern; /* whose driver the suite calls */

static void make(char argument[ADAPTER_ROOM])
{
    static unsigned number;
    (void)snprintf(argument, ADAPTER_ROOM, "suite %u", ++number);
    (void)keyed_memory_open(argument, options);
}

static void clean(const char *argument)
{
    keyed_memory_close(keyed_memory_named(argument));
}

static int64_t effects(const char *argument)
{
    return keyed_memory_counter(keyed_memory_named(argument), "effects");
}

static int run(const char *name, const keyed_memory_options *with)
{
    adapter_quirks quirks = {.name = name,
                             .flags = ADAPTER_KEEPS | ADAPTER_SEAM_CLOCK,
                             .durability = SEMEL_DURABLE_NOT,
                             .make = make,
                             .remove = clean,
                             .good = {"add effects ?", {semel_int(1)}, 1},
                             .invalid = {"multiply effects ?", {semel_int(2)}, 1},
                             .failing = {"take nothing ?", {semel_int(1)}, 1},
                             .effects = effects};
    options = with;
    pattern = keyed_memory_open(name, with);
    quirks.driver = keyed_memory_driver(pattern);
    int failed = adapter_suite(&quirks);
    keyed_memory_close(pattern);
    return failed;
}

int main(void)
{
    return run("memory adapter", &plain) + run("memory adapter with limits", &narrow) +
           run("memory adapter, one change at a time", &single);
}
