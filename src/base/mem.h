/* Memory: the only place of the library that allocates, so that tests can make any allocation
 * fail. */
#ifndef SEMEL_BASE_MEM_H
#define SEMEL_BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t size);                /* zeroed; NULL when out of memory */
void *mem_resize(void *memory, size_t size); /* as realloc */
void mem_free(void *memory);

/* A growing block for things that live and go together: reset keeps the memory for the next round,
 * so a steady state allocates nothing. Pointers into it stay valid until reset. */
typedef struct mem_arena {
    struct mem_chunk *first;
    struct mem_chunk *current;
} mem_arena;

void *arena_alloc(mem_arena *arena, size_t size); /* aligned for anything; not zeroed */
void *arena_copy(mem_arena *arena, const void *data, size_t len); /* adds a NUL behind */
size_t arena_size(const mem_arena *arena);                        /* of the memory that it has */
void arena_reset(mem_arena *arena);
void arena_free(mem_arena *arena);

/* Tests only: the nth allocation from now fails (0: none does), counted over all threads. */
void mem_fail_at(long nth);
long mem_allocations(void);

#endif
