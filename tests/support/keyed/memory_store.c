/* The whole store over the memory adapter, as a backend of semel's own has its table. */
#include "store/keyed/keyed.h"
#include "support/keyed/memory_adapter.h"
#include "support/keyed/memory_internal.h"

static semel_status open_store(void *store, const void *argument,
                               const semel_store_settings *settings, semel_error *err)
{
    return keyed_open(store, keyed_memory_driver(keyed_memory_named(argument)), argument, settings,
                      err);
}

const semel_store_driver keyed_memory_store =
    KEYED_STORE_DRIVER("keyed-memory", open_store, NULL, NULL, 0, 0);
