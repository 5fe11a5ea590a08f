/* SipHash-2-4 after Aumasson and Bernstein's paper; checked against its test vector in tests. */
#include "base/hash.h"

static inline uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void mix(hash_state *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 = rotate(s->v0, 32) + s->v3;
    s->v2 += s->v1;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static inline void absorb(hash_state *s, uint64_t word)
{
    s->v3 ^= word;
    mix(s);
    mix(s);
    s->v0 ^= word;
}

/* The same word on every machine: the first byte is the lowest. Compilers make one load of it. */
static inline uint64_t load_word(const unsigned char *b)
{
    return (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24 |
           (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40 | (uint64_t)b[6] << 48 |
           (uint64_t)b[7] << 56;
}

/* Fewer than eight bytes. */
static inline uint64_t load_some(const unsigned char *bytes, size_t len)
{
    uint64_t word = 0;
    for (size_t i = 0; i < len; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

static inline hash_state start(hash_key key)
{
    return (hash_state){.v0 = key.k0 ^ UINT64_C(0x736f6d6570736575),
                        .v1 = key.k1 ^ UINT64_C(0x646f72616e646f6d),
                        .v2 = key.k0 ^ UINT64_C(0x6c7967656e657261),
                        .v3 = key.k1 ^ UINT64_C(0x7465646279746573)};
}

/* `tail` holds the bytes (total % 8 of them) that do not fill a word yet. */
static inline void add(hash_state *s, const unsigned char *bytes, size_t len)
{
    size_t have = s->total % 8;
    s->total += len;
    while (have && len) {
        s->tail |= (uint64_t)*bytes++ << (8 * have);
        len--;
        have = (have + 1) % 8;
        if (!have) {
            absorb(s, s->tail);
            s->tail = 0;
        }
    }
    for (; len >= 8; bytes += 8, len -= 8)
        absorb(s, load_word(bytes));
    s->tail |= load_some(bytes, len);
}

static inline uint64_t end(hash_state *s)
{
    absorb(s, s->tail | s->total << 56);
    s->v2 ^= 0xff;
    for (int i = 0; i < 4; i++)
        mix(s);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

void hash_begin(hash_state *s, hash_key key)
{
    *s = start(key);
}

/* On a copy, which stays in registers: bytes may alias anything, for all the compiler knows. */
void hash_add(hash_state *s, const void *data, size_t len)
{
    hash_state copy = *s;
    add(&copy, data, len);
    *s = copy;
}

uint64_t hash_end(hash_state *s)
{
    return end(s);
}

uint64_t hash_bytes(hash_key key, const void *data, size_t len)
{
    hash_state state = start(key);
    add(&state, data, len);
    return end(&state);
}
