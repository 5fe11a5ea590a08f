/* See rate.h. The hash begins with a random number, so that nobody can choose addresses that share
 * a place. */
#include "program/gateway/rate.h"

#include "program/support/memory.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { SETS = 1024, WAYS = 8, LOCKS = 16, PREFIX_BYTES = 8 };
#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

/* One that was never used has the number 0. */
typedef struct bucket {
    uint64_t owner;
    int64_t full_ns; /* when it is full again */
} bucket;

struct rate_table {
    uint64_t seed;
    pthread_mutex_t locks[LOCKS];
    bucket sets[SETS][WAYS];
};

rate_table *rate_open(void)
{
    rate_table *table = must_alloc(sizeof *table);
    if (getrandom(&table->seed, sizeof table->seed, GRND_NONBLOCK) != (ssize_t)sizeof table->seed)
        table->seed = (uint64_t)(uintptr_t)table;
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&table->locks[i], NULL);
    return table;
}

void rate_close(rate_table *table)
{
    for (int i = 0; table && i < LOCKS; i++)
        pthread_mutex_destroy(&table->locks[i]);
    free(table);
}

/* --- who it is -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    hash ^= hash >> 29;
    return hash * UINT64_C(0xbf58476d1ce4e5b9);
}

static uint64_t owner_of(const rate_table *table, const char *address, const char *route)
{
    struct in6_addr v6;
    uint64_t hash = mix(table->seed, route, strlen(route) + 1);
    if (inet_pton(AF_INET6, address, &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6))
        hash = mix(hash, &v6, PREFIX_BYTES);
    else
        hash = mix(hash, address, strlen(address));
    return hash ? hash : 1;
}

/* --- its bucket ------------------------------------------------------------------------------- */

static bucket *find(bucket set[WAYS], uint64_t owner)
{
    bucket *fullest = &set[0];
    for (int i = 0; i < WAYS; i++) {
        if (set[i].owner == owner)
            return &set[i];
        if (set[i].full_ns < fullest->full_ns)
            fullest = &set[i];
    }
    *fullest = (bucket){.owner = owner};
    return fullest;
}

/* The moment at which a bucket is full says how empty it is: a token moves it by 1/rate seconds. */
static uint32_t take(bucket *b, uint32_t rate, int64_t now_ns)
{
    int64_t token_ns = NS_PER_S / rate;
    int64_t full = (b->full_ns > now_ns ? b->full_ns : now_ns) + token_ns;
    int64_t most = now_ns + (token_ns > NS_PER_S ? token_ns : NS_PER_S);
    if (full > most)
        return (uint32_t)((full - most) / NS_PER_MS + 1);
    b->full_ns = full;
    return 0;
}

uint32_t rate_take(rate_table *table, const char *address, const char *route, uint32_t rate,
                   int64_t now_ns)
{
    if (!rate)
        return 0;
    uint64_t owner = owner_of(table, address, route);
    size_t set = (owner >> 32) % SETS;
    pthread_mutex_t *lock = &table->locks[set % LOCKS];
    pthread_mutex_lock(lock);
    uint32_t wait_ms = take(find(table->sets[set], owner), rate, now_ns);
    pthread_mutex_unlock(lock);
    return wait_ms;
}
