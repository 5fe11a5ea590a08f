/* One atomic counter stands in every allocation. With a plan set (mem_fail_at) it makes the nth one
 * fail; without, it costs a few nanoseconds where malloc costs tens. */
#include "base/mem.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_SIZE = 16384 };

typedef struct mem_chunk {
    struct mem_chunk *next;
    size_t capacity;
    size_t used;
    alignas(max_align_t) unsigned char bytes[];
} mem_chunk;

static atomic_long allocations;
static atomic_long fail_at = -1;

void mem_fail_at(long nth)
{
    atomic_store(&fail_at, nth ? atomic_load(&allocations) + nth : -1);
}

long mem_allocations(void)
{
    return atomic_load(&allocations);
}

static int denied(void)
{
    long now = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    return now == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

void *mem_alloc(size_t size)
{
    return denied() ? NULL : calloc(1, size ? size : 1);
}

void *mem_resize(void *memory, size_t size)
{
    return denied() ? NULL : realloc(memory, size ? size : 1);
}

void mem_free(void *memory)
{
    free(memory);
}

static mem_chunk *chunk_new(size_t need)
{
    size_t capacity = need > CHUNK_SIZE ? need : CHUNK_SIZE;
    mem_chunk *chunk = denied() ? NULL : malloc(sizeof *chunk + capacity);
    if (chunk) {
        chunk->next = NULL;
        chunk->capacity = capacity;
        chunk->used = 0;
    }
    return chunk;
}

/* The next chunk that has room: the current one, one kept from an earlier round, or a new one.
 * Chunks behind the current are not in use in this round; one that is too small makes way for the
 * new one, or sizes that keep growing would leave a chunk behind each time. */
static mem_chunk *chunk_with_room(mem_arena *arena, size_t need)
{
    mem_chunk *chunk = arena->current;
    if (chunk && chunk->capacity - chunk->used >= need)
        return chunk;
    mem_chunk *kept = chunk ? chunk->next : NULL;
    if (kept && kept->capacity >= need) {
        kept->used = 0;
        return kept;
    }
    mem_chunk *fresh = chunk_new(need);
    if (!fresh)
        return NULL;
    fresh->next = kept ? kept->next : NULL;
    free(kept);
    if (chunk)
        chunk->next = fresh;
    else
        arena->first = fresh;
    return fresh;
}

void *arena_alloc(mem_arena *arena, size_t size)
{
    const size_t align = alignof(max_align_t);
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + align - 1) / align * align;
    mem_chunk *chunk = chunk_with_room(arena, size);
    if (!chunk)
        return NULL;
    void *memory = chunk->bytes + chunk->used;
    chunk->used += size;
    arena->current = chunk;
    return memory;
}

void *arena_copy(mem_arena *arena, const void *data, size_t len)
{
    if (len > SIZE_MAX / 2)
        return NULL;
    unsigned char *copy = arena_alloc(arena, len + 1);
    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, data, len);
    copy[len] = 0;
    return copy;
}

size_t arena_size(const mem_arena *arena)
{
    size_t size = 0;
    for (const mem_chunk *chunk = arena->first; chunk; chunk = chunk->next)
        size += chunk->capacity;
    return size;
}

void arena_reset(mem_arena *arena)
{
    arena->current = arena->first;
    if (arena->first)
        arena->first->used = 0;
}

void arena_free(mem_arena *arena)
{
    for (mem_chunk *chunk = arena->first; chunk;) {
        mem_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    arena->first = arena->current = NULL;
}
