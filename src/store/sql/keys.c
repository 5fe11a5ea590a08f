#include "store/sql/keys.h"

#include <string.h>

semel_status sql_keys_init(sql_keys *k, mem_arena *arena, uint32_t rows, semel_error *err)
{
    *k = (sql_keys){.arena = arena, .keys = arena_alloc(arena, rows * sizeof *k->keys)};
    return k->keys ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "out of memory for a sweep");
}

semel_status sql_keys_keep(sql_keys *k, semel_bytes key, semel_error *err)
{
    void *copy = arena_copy(k->arena, key.data, key.len);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a sweep");
    k->keys[k->count++] = (semel_bytes){copy, key.len};
    return SEMEL_OK;
}

semel_status sql_keys_look(sql_keys *k, semel_bytes key, int is_old, semel_error *err)
{
    k->looked++;
    k->last.len = key.len <= sizeof k->last.key ? key.len : sizeof k->last.key;
    memcpy(k->last.key, key.data, k->last.len);
    return is_old ? sql_keys_keep(k, key, err) : SEMEL_OK;
}
