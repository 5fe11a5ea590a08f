/* What a postgres: URL says. */
#ifndef SEMEL_POSTGRES_ADDRESS_H
#define SEMEL_POSTGRES_ADDRESS_H

#include "base/mem.h"

#include <semel/error.h>

enum { ADDRESS_PAIRS_MAX = 64, POOL_DEFAULT = 8, POOL_MAX = 1000 };

typedef struct pg_address {
    const char *keywords[ADDRESS_PAIRS_MAX + 1]; /* for libpq, ended by NULL */
    const char *values[ADDRESS_PAIRS_MAX + 1];
    const char *bounded[ADDRESS_PAIRS_MAX + 1]; /* the same, of sessions with a lock_timeout */
    size_t count;
    const char *schema;    /* checked */
    const char *isolation; /* in SQL; NULL: not asked for */
    uint32_t pool;
    int notify;
    int notify_asked; /* the URL says `notify` */
} pg_address;

/* All in the arena. EINVAL names what is wrong, and never a password. */
semel_status pg_address_read(pg_address *out, mem_arena *arena, const char *url, semel_error *err);

/* Fills `bounded`: sessions that give up waiting for a lock after so long. */
semel_status pg_address_bound(pg_address *out, mem_arena *arena, uint32_t lock_ms,
                              semel_error *err);

#endif
