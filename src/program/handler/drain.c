/* See drain.h. One moment, in the clock of child.h; 0: none is set. */
#include "program/handler/drain.h"

#include "program/handler/child.h"

#include <stdatomic.h>

static _Atomic int64_t end_ms;

void drain_begin(uint32_t allowed_ms)
{
    int64_t wanted = child_clock_ms() + (int64_t)allowed_ms;
    int64_t set = atomic_load(&end_ms);
    while (!set || wanted < set)
        if (atomic_compare_exchange_weak(&end_ms, &set, wanted))
            return;
}

void drain_reset(void)
{
    atomic_store(&end_ms, 0);
}

int drain_is_over(void)
{
    int64_t set = atomic_load(&end_ms);
    return set && child_clock_ms() >= set;
}
