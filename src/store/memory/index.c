/* Buckets of linked things. It grows while there is memory for it; when there is none it goes on
 * with the buckets it has, only slower. */
#include "store/memory/index.h"

#include "base/mem.h"

enum { BUCKETS_FIRST = 64 };

/* Numbers that follow each other, such as ids, spread as well as real hashes do. */
static memory_link **bucket_of(const memory_index *index, uint64_t hash)
{
    uint64_t spread = (hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return &index->buckets[(spread >> 32) & (index->bucket_count - 1)];
}

static void put_in(memory_index *index, memory_link *link)
{
    memory_link **bucket = bucket_of(index, link->hash);
    link->next = *bucket;
    *bucket = link;
}

int memory_index_reserve(memory_index *index, size_t count)
{
    if (index->buckets && count <= index->bucket_count)
        return 1;
    memory_index grown = {.bucket_count = index->buckets ? index->bucket_count * 2 : BUCKETS_FIRST};
    grown.buckets = mem_alloc(grown.bucket_count * sizeof(memory_link *));
    if (!grown.buckets)
        return index->buckets != NULL;
    for (size_t i = 0; index->buckets && i < index->bucket_count; i++)
        for (memory_link *link = index->buckets[i], *next; link; link = next) {
            next = link->next;
            put_in(&grown, link);
        }
    grown.count = index->count;
    mem_free(index->buckets);
    *index = grown;
    return 1;
}

void memory_index_add(memory_index *index, memory_link *link, uint64_t hash)
{
    link->hash = hash;
    put_in(index, link);
    index->count++;
}

void memory_index_remove(memory_index *index, memory_link *link)
{
    memory_link **at = bucket_of(index, link->hash);
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    index->count--;
}

static memory_link *with_hash(memory_link *link, uint64_t hash)
{
    while (link && link->hash != hash)
        link = link->next;
    return link;
}

memory_link *memory_index_first(const memory_index *index, uint64_t hash)
{
    return index->buckets ? with_hash(*bucket_of(index, hash), hash) : NULL;
}

memory_link *memory_index_next(const memory_link *link)
{
    return with_hash(link->next, link->hash);
}

void memory_index_free(memory_index *index)
{
    mem_free(index->buckets);
    *index = (memory_index){0};
}
