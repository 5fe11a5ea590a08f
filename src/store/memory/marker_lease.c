/* What only some markers have: the claim of an open one, the result of a done one, the reason of
 * one that failed. In claim mode every message needs one for as long as it is worked on, so those
 * without bytes behind them are kept for the next. */
#include "base/mem.h"
#include "store/memory/memory_internal.h"

#include <string.h>

enum { SPARES_MAX = 256 };

static memory_extra *from_spares(memory_store *store)
{
    memory_extra *extra = store->spare_extras;
    store->spare_extras = extra->next;
    store->spare_extra_count--;
    memset(extra, 0, sizeof *extra);
    return extra;
}

memory_extra *memory_extra_new(memory_store *store, semel_bytes result, semel_bytes why)
{
    size_t len = result.len + why.len;
    if (!len && store->spare_extras)
        return from_spares(store);
    memory_extra *extra = mem_alloc(sizeof *extra + len);
    if (!extra)
        return NULL;
    extra->result_len = (uint32_t)result.len;
    extra->why_len = (uint32_t)why.len;
    if (result.len)
        memcpy(extra->bytes, result.data, result.len);
    if (why.len)
        memcpy(extra->bytes + result.len, why.data, why.len);
    return extra;
}

void memory_extra_free(memory_store *store, memory_extra *extra)
{
    if (!extra)
        return;
    if (extra->result_len || extra->why_len || store->spare_extra_count == SPARES_MAX) {
        mem_free(extra);
        return;
    }
    extra->next = store->spare_extras;
    store->spare_extras = extra;
    store->spare_extra_count++;
}

void memory_extra_drop_spares(memory_store *store)
{
    while (store->spare_extras)
        mem_free(from_spares(store));
}
