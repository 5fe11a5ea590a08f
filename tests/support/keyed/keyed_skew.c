/* See keyed_skew.h. The memory is there before the first fork. */
#include "support/keyed/keyed_skew.h"

#include "store/keyed/keyed.h"

#include <stdlib.h>
#include <sys/mman.h>

__attribute__((constructor)) static void share(void)
{
    void *page = mmap(NULL, sizeof *keyed_skew_ms, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        abort();
    keyed_skew_ms = page;
}

void keyed_skew_pass(int64_t ms)
{
    atomic_fetch_add(keyed_skew_ms, ms);
}

void keyed_skew_reset(void)
{
    atomic_store(keyed_skew_ms, 0);
}
