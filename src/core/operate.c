#include "core/operate.h"

#include "base/utf8.h"

#include <string.h>

const semel_store_operation *store_operation(const semel_store *store)
{
    static const semel_store_operation none;
    return store->driver->operation ? store->driver->operation : &none;
}

semel_status operate_refuse(const semel_store *store, const char *what, semel_error *err)
{
    return semel_fail(err, SEMEL_EUNSUPPORTED, "%s: this store cannot %s", store->driver->scheme,
                      what);
}

semel_status operate_change(semel_store *store, semel_begin durability, unit_work *work,
                            void *context, semel_error *err)
{
    semel_status status;
    semel_error why; /* a success says nothing of the conflicts before it */
    uint32_t tries = 0;
    do
        status = store_transact(store, durability, work, context, &why);
    while (store_retry_after_pause(store, status, NULL, &tries));
    if (status && err)
        *err = why;
    return status;
}

const char *operate_text(mem_arena *arena, const char *text, size_t most)
{
    size_t len = text ? strlen(text) : 0;
    if (len > most)
        for (len = most; len && ((unsigned char)text[len] & 0xC0) == 0x80; len--)
            continue;
    char *copy = arena_copy(arena, text ? text : "", len);
    if (copy)
        utf8_mend(copy);
    return copy;
}
