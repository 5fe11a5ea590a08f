/* A bare set of keys, as one would write it for this purpose and no other: SipHash with a key, open
 * addressing with linear probing at most 0.6 full, slots of eight bytes (32 bits of the hash and
 * where the key is), the keys one behind the other in blocks. No locks, no time, no states, nothing
 * to undo. */
#include "base/hash.h"
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    SLOTS_FIRST = 64,
    BLOCK_BYTES = 1 << 16,
    ENTRY_BYTES = 40,
    BLOCK_ENTRIES = BLOCK_BYTES / 40
};

typedef struct slot {
    uint32_t hash;
    uint32_t where; /* number of the entry, from 1 on; 0: a free slot */
} slot;

typedef struct entry {
    uint32_t len;
    unsigned char key[ENTRY_BYTES - 4];
} entry;

struct hashset {
    hash_key hash;
    slot *slots;
    size_t mask;
    size_t count;
    entry **blocks;
    size_t block_count;
};

static entry *entry_at(const hashset *set, uint32_t where)
{
    size_t index = where - 1;
    return &set->blocks[index / BLOCK_ENTRIES][index % BLOCK_ENTRIES];
}

static slot *free_slot(slot *slots, size_t mask, uint32_t hash)
{
    size_t i = hash & mask;
    while (slots[i].where)
        i = (i + 1) & mask;
    return &slots[i];
}

static void hashset_grow(hashset *set)
{
    size_t count = (set->mask + 1) * 2;
    slot *slots = must_alloc(count * sizeof *slots);
    for (size_t i = 0; i <= set->mask; i++)
        if (set->slots[i].where)
            *free_slot(slots, count - 1, set->slots[i].hash) = set->slots[i];
    free(set->slots);
    set->slots = slots;
    set->mask = count - 1;
}

static void add_block(hashset *set)
{
    set->blocks = realloc(set->blocks, (set->block_count + 1) * sizeof(entry *));
    if (!set->blocks)
        die("out of memory");
    set->blocks[set->block_count++] = must_alloc(BLOCK_BYTES);
}

hashset *hashset_new(void)
{
    hashset *set = must_alloc(sizeof *set);
    if (getrandom(&set->hash, sizeof set->hash, 0) != (ssize_t)sizeof set->hash)
        die("no random bytes");
    set->slots = must_alloc(SLOTS_FIRST * sizeof *set->slots);
    set->mask = SLOTS_FIRST - 1;
    return set;
}

int hashset_add(hashset *set, const void *key, size_t len)
{
    uint32_t hash = (uint32_t)(hash_bytes(set->hash, key, len) >> 32);
    if ((set->count + 1) * 5 > (set->mask + 1) * 3)
        hashset_grow(set);
    size_t i = hash & set->mask;
    for (; set->slots[i].where; i = (i + 1) & set->mask) {
        if (set->slots[i].hash != hash)
            continue;
        const entry *known = entry_at(set, set->slots[i].where);
        if (known->len == len && memcmp(known->key, key, len) == 0)
            return 0;
    }
    if (set->count % BLOCK_ENTRIES == 0)
        add_block(set);
    set->slots[i] = (slot){hash, (uint32_t)++set->count};
    entry *added = entry_at(set, (uint32_t)set->count);
    added->len = (uint32_t)len;
    memcpy(added->key, key, len);
    return 1;
}

void hashset_free(hashset *set)
{
    for (size_t i = 0; i < set->block_count; i++)
        free(set->blocks[i]);
    free(set->blocks);
    free(set->slots);
    free(set);
}
