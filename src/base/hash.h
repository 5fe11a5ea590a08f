/* SipHash-2-4: a keyed 64-bit hash. For hash tables whose keys come from messages, which an
 * attacker may choose, and for fingerprints. */
#ifndef SEMEL_BASE_HASH_H
#define SEMEL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct hash_key {
    uint64_t k0;
    uint64_t k1;
} hash_key;

typedef struct hash_state {
    uint64_t v0, v1, v2, v3;
    uint64_t tail;
    uint64_t total;
} hash_state;

uint64_t hash_bytes(hash_key key, const void *data, size_t len);

/* In pieces: the same as hash_bytes() over all of them together. */
void hash_begin(hash_state *state, hash_key key);
void hash_add(hash_state *state, const void *data, size_t len);
uint64_t hash_end(hash_state *state);

#endif
