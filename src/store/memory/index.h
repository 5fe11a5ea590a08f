/* A hash index over things that carry a link of their own: adding never allocates, once room was
 * made. */
#ifndef SEMEL_STORE_MEMORY_INDEX_H
#define SEMEL_STORE_MEMORY_INDEX_H

#include <stddef.h>
#include <stdint.h>

typedef struct memory_link {
    struct memory_link *next;
    uint64_t hash;
} memory_link;

typedef struct memory_index {
    memory_link **buckets;
    size_t bucket_count; /* a power of two */
    size_t count;
} memory_index;

/* The thing that a link is part of. */
#define MEMORY_PART_OF(type, member, link) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* To be called before `count` grows by one, with what will be in it then; 0 when out of memory. */
int memory_index_reserve(memory_index *index, size_t count);
void memory_index_add(memory_index *index, memory_link *link, uint64_t hash);
void memory_index_remove(memory_index *index, memory_link *link);

/* All links with this hash, one after the other: things that differ may share it. */
memory_link *memory_index_first(const memory_index *index, uint64_t hash);
memory_link *memory_index_next(const memory_link *link);

void memory_index_free(memory_index *index); /* the things themselves are the caller's */

#endif
