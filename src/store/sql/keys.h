/* The keys that a sweep has found. */
#ifndef SEMEL_STORE_SQL_KEYS_H
#define SEMEL_STORE_SQL_KEYS_H

#include "base/mem.h"

#include <semel/sys/store.h>

typedef struct sql_keys {
    mem_arena *arena;
    semel_bytes *keys;
    size_t count;
    size_t looked;
    semel_sweep_position last; /* that was looked at */
} sql_keys;

/* Room for as many as are looked at. */
semel_status sql_keys_init(sql_keys *k, mem_arena *arena, uint32_t rows, semel_error *err);

semel_status sql_keys_keep(sql_keys *k, semel_bytes key, semel_error *err);

/* Of a row that was looked at: it is kept if the row is old. */
semel_status sql_keys_look(sql_keys *k, semel_bytes key, int is_old, semel_error *err);

#endif
