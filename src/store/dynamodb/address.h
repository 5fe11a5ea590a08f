/* What a dynamodb: URL says: dynamodb://TABLE?region=...&endpoint=... */
#ifndef SEMEL_STORE_DYNAMODB_ADDRESS_H
#define SEMEL_STORE_DYNAMODB_ADDRESS_H

#include "base/mem.h"

#include <semel/error.h>
#include <stdint.h>

enum { DYNAMO_POOL_DEFAULT = 16, DYNAMO_POOL_MAX = 1000, DYNAMO_TABLE_MAX = 255 };

typedef struct dynamo_address {
    const char *table;
    const char *region, *endpoint, *profile; /* NULL: not given */
    uint32_t pool;
    int global; /* a global table is accepted */
} dynamo_address;

/* All in the arena. EINVAL names what is wrong, and shows no secret. */
semel_status dynamo_address_read(dynamo_address *out, mem_arena *arena, const char *text,
                                 semel_error *err);

#endif
