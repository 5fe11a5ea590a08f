/* Arrays as the protocol has them in binary: the number of dimensions, whether there are NULLs, the
 * type of the elements, how many and from which index; then each element with its length. All
 * numbers are big-endian. */
#include "store/postgres/postgres.h"

#include <string.h>

enum { OID_BYTEA = 17, OID_INT8 = 20, OID_TEXT = 25, HEADER = 20, LENGTH = 4 };

static void put_32(pg_array *a, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        a->bytes[a->len++] = (unsigned char)(value >> (24 - 8 * i));
}

static uint32_t element_of(uint32_t array_type)
{
    return array_type == ARRAY_BYTEA ? OID_BYTEA : array_type == ARRAY_INT8 ? OID_INT8 : OID_TEXT;
}

pg_array pg_array_start(mem_arena *arena, uint32_t array_type, size_t count, size_t size)
{
    pg_array a = {.type = array_type, .room = HEADER + count * LENGTH + size};
    a.bytes = arena_alloc(arena, a.room);
    a.failed = !a.bytes;
    if (a.failed)
        return a;
    put_32(&a, 1);
    put_32(&a, 1);
    put_32(&a, element_of(array_type));
    put_32(&a, (uint32_t)count);
    put_32(&a, 1);
    return a;
}

void pg_array_add(pg_array *a, const void *data, size_t len)
{
    if (a->failed)
        return;
    put_32(a, data ? (uint32_t)len : UINT32_MAX);
    if (data && len)
        memcpy(a->bytes + a->len, data, len);
    a->len += data ? len : 0;
}

void pg_array_add_int(pg_array *a, int64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)value >> (56 - 8 * i));
    pg_array_add(a, bytes, sizeof bytes);
}

void pg_array_bind(pg_query *q, const pg_array *a)
{
    pg_raw(q, a->type, a->bytes, a->len);
}
