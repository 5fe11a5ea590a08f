/* What an observer costs: the memory store, where nothing else takes time, with an observer that
 * counts against the same store without one. */
#include "bench.h"
#include "core/store.h"

#include <stdio.h>

static void count_event(void *context, const semel_event *event)
{
    uint64_t *outcomes = context;
    (void)event;
    ++*outcomes;
}

static void compare(size_t batch)
{
    char name[64];
    uint64_t outcomes = 0;
    comparison d;
    key_source keys;
    semel_sqlite plain, observed;
    keys_begin(&keys, KEYS_IN_TIME_ORDER);
    semel_sqlite_open(&plain, "memory:", NULL, batch);
    semel_sqlite_open(&observed, "memory:", NULL, batch);
    observed.store->observer = count_event;
    observed.store->observer_context = &outcomes;
    const contender sides[] = {{&plain, semel_sqlite_receive_idly},
                               {&observed, semel_sqlite_receive_idly}};
    comparison_run(&d, sides, 2, &keys, 1000, choose(50, 10), choose_rounds(21, 5), "observer");
    if (batch > 1)
        (void)snprintf(name, sizeof name, "batches of %zu", batch);
    else
        (void)snprintf(name, sizeof name, "one by one");
    report_row(name, 1e9 / comparison_rate(&d, 0).median, 1e9 / comparison_rate(&d, 1).median,
               comparison_ratio(&d, 0, 1), NO_AIM);
    if (!outcomes)
        die("the observer was not called");
    semel_sqlite_close(&plain);
    semel_sqlite_close(&observed);
}

void section_observer(void)
{
    report_section("observer", "memory store, an observer that counts", "without, ns", "with, ns");
    compare(1);
    compare(100);
    report_note("the ratio is of times. Without an observer an outcome costs two additions.");
}
