/* The URL of a store in Redis, read. docs/REDIS.md describes every parameter. */
#ifndef SEMEL_STORE_REDIS_ADDRESS_H
#define SEMEL_STORE_REDIS_ADDRESS_H

#include "redis/address.h"

enum { REDIS_NAMESPACE_MAX = 64 };

typedef struct redis_store_address {
    redis_address server;
    const char *name; /* the namespace: "semel" */
    uint32_t pool;    /* connections at most */
} redis_store_address;

/* All texts go to the arena. What is wrong is said without repeating the URL. */
semel_status redis_store_address_read(redis_store_address *out, mem_arena *arena, const char *url,
                                      semel_error *err);

#endif
