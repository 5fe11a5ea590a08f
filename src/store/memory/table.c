/* Two structures over the same markers.
 *
 * To find one by its key: open addressing with linear probing, at most 0.6 full. A slot has a part of
 * the hash, so that a foreign key is nearly never looked at, and the way to the marker. Removing shifts
 * the followers back, so there are no tombstones and nothing to clean. Growing doubles and moves all
 * slots at once. The table does not shrink: it is a quarter of what the markers themselves take.
 *
 * To walk them in time: markers lie in chunks of 8 KiB, in the order in which they came, and never
 * move. A removed marker leaves a hole, a chunk without markers is freed. Nothing in a chunk can have
 * been changed before the chunk was opened, so a sweep stops at the first chunk that is too young: what
 * a sweep costs depends on what has expired, not on what there is. Chunks are small because one marker
 * that stays keeps all of its chunk.
 *
 * A slot names chunk and offset instead of the marker itself: that costs nothing to follow, and removing
 * finds the chunk whose markers are counted without a pointer to it in every marker. */
#include "store/memory/table.h"

#include "base/mem.h"

#include <string.h>

enum { CHUNK_BYTES = 8192 - 48, SLOTS_FIRST = 64, CHUNKS_FIRST = 16 };

struct memory_chunk {
    uint64_t serial;
    int64_t opened_ms;
    uint32_t used; /* bytes, holes included */
    uint32_t live; /* markers */
    unsigned char bytes[CHUNK_BYTES];
};

static size_t marker_size(size_t key_len)
{
    return (offsetof(memory_marker, key) + key_len + 7) & ~(size_t)7;
}

static memory_marker *marker_at(memory_chunk *chunk, size_t offset)
{
    return (memory_marker *)(void *)(chunk->bytes + offset);
}

static memory_marker *marker_in(const memory_slot *slot)
{
    return marker_at(slot->chunk, slot->offset);
}

static int same_key(const memory_marker *marker, semel_bytes key)
{
    return marker->key_len == key.len && memcmp(marker->key, key.data, key.len) == 0;
}

memory_marker *memory_table_find(const memory_table *table, uint32_t hash, semel_bytes key)
{
    if (!table->slots)
        return NULL;
    for (size_t i = hash & table->mask; table->slots[i].chunk; i = (i + 1) & table->mask) {
        const memory_slot *slot = &table->slots[i];
        if (slot->hash == hash && same_key(marker_in(slot), key))
            return marker_in(slot);
    }
    return NULL;
}

static memory_slot *free_slot(memory_slot *slots, size_t mask, uint32_t hash)
{
    size_t i = hash & mask;
    while (slots[i].chunk)
        i = (i + 1) & mask;
    return &slots[i];
}

static int grow_slots(memory_table *table)
{
    size_t old_count = table->slots ? table->mask + 1 : 0;
    size_t count = old_count ? old_count * 2 : SLOTS_FIRST;
    memory_slot *slots = mem_alloc(count * sizeof *slots);
    if (!slots)
        return 0;
    for (size_t i = 0; i < old_count; i++)
        if (table->slots[i].chunk)
            *free_slot(slots, count - 1, table->slots[i].hash) = table->slots[i];
    mem_free(table->slots);
    table->slots = slots;
    table->mask = count - 1;
    return 1;
}

/* Room for one more chunk in the list: from the freed ones at its front, if they are half of it. */
static int stretch_chunk_list(memory_table *table)
{
    size_t first = table->first_chunk;
    if (first && first >= table->chunk_capacity / 2) {
        table->chunk_end -= first;
        table->serial_base += first;
        table->first_chunk = 0;
        memmove(table->chunks, table->chunks + first, table->chunk_end * sizeof(memory_chunk *));
        return 1;
    }
    size_t capacity = table->chunk_capacity ? table->chunk_capacity * 2 : CHUNKS_FIRST;
    memory_chunk **chunks = mem_resize(table->chunks, capacity * sizeof(memory_chunk *));
    if (!chunks)
        return 0;
    table->chunks = chunks;
    table->chunk_capacity = capacity;
    return 1;
}

static memory_chunk *last_chunk(const memory_table *table)
{
    return table->chunk_end > table->first_chunk ? table->chunks[table->chunk_end - 1] : NULL;
}

static int open_chunk(memory_table *table, int64_t now_ms)
{
    if (table->chunk_end == table->chunk_capacity && !stretch_chunk_list(table))
        return 0;
    memory_chunk *chunk = mem_alloc(sizeof *chunk);
    if (!chunk)
        return 0;
    chunk->serial = table->serial_base + table->chunk_end;
    chunk->opened_ms = now_ms;
    table->chunks[table->chunk_end++] = chunk;
    return 1;
}

int memory_table_reserve(memory_table *table, size_t key_len, memory_clock *clock, void *context)
{
    int crowded = !table->slots || (table->live + 1) * 5 > (table->mask + 1) * 3;
    if (crowded && !grow_slots(table))
        return 0;
    const memory_chunk *chunk = last_chunk(table);
    if (chunk && CHUNK_BYTES - chunk->used >= marker_size(key_len))
        return 1;
    return open_chunk(table, clock(context));
}

memory_marker *memory_table_add(memory_table *table, uint32_t hash, semel_bytes key)
{
    memory_chunk *chunk = last_chunk(table);
    memory_marker *marker = marker_at(chunk, chunk->used);
    memset(marker, 0, offsetof(memory_marker, key));
    marker->key_len = key.len & 255;
    memcpy(marker->key, key.data, key.len);
    *free_slot(table->slots, table->mask, hash) = (memory_slot){chunk, hash, chunk->used};
    chunk->used += (uint32_t)marker_size(key.len);
    chunk->live++;
    table->live++;
    return marker;
}

/* The last chunk is kept for those that come next: it is only older than it would have to be. */
static void close_chunk(memory_table *table, memory_chunk *chunk)
{
    if (chunk == last_chunk(table)) {
        chunk->used = 0;
        return;
    }
    table->chunks[chunk->serial - table->serial_base] = NULL;
    mem_free(chunk);
    while (!table->chunks[table->first_chunk])
        table->first_chunk++;
}

/* Fills the slot with the next follower that may stand there, and so on until a free slot. */
static void shift_back(memory_table *table, size_t hole)
{
    size_t mask = table->mask;
    for (size_t i = (hole + 1) & mask; table->slots[i].chunk; i = (i + 1) & mask) {
        size_t home = table->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table->slots[hole] = table->slots[i];
            hole = i;
        }
    }
    table->slots[hole].chunk = NULL;
}

void memory_table_remove(memory_table *table, uint32_t hash, memory_marker *marker)
{
    size_t i = hash & table->mask;
    while (table->slots[i].hash != hash || marker_in(&table->slots[i]) != marker)
        i = (i + 1) & table->mask;
    memory_chunk *chunk = table->slots[i].chunk;
    uint32_t offset = table->slots[i].offset;
    shift_back(table, i);
    marker->state = MARKER_GONE;
    marker->held = 0;
    table->live--;
    if (offset + marker_size(marker->key_len) == chunk->used)
        chunk->used = offset;
    if (--chunk->live == 0)
        close_chunk(table, chunk);
}

/* The chunk that the place is in, or the next one behind it; NULL at the end. */
static memory_chunk *chunk_at(const memory_table *table, memory_place *place)
{
    if (place->serial < table->serial_base + table->first_chunk)
        *place = (memory_place){table->serial_base + table->first_chunk, 0};
    while (place->serial - table->serial_base < table->chunk_end) {
        memory_chunk *chunk = table->chunks[place->serial - table->serial_base];
        if (chunk && place->offset < chunk->used)
            return chunk;
        *place = (memory_place){place->serial + 1, 0};
    }
    return NULL;
}

/* The end of a chunk may have been taken back and used again, for markers of other sizes: goes to the
 * first marker at or behind the offset, so that a walk never starts inside one. */
void memory_table_resume(const memory_table *table, memory_place *place)
{
    uint64_t serial = place->serial;
    memory_chunk *chunk = chunk_at(table, place);
    if (!chunk || place->serial != serial)
        return;
    size_t offset = 0;
    while (offset < place->offset && offset < chunk->used)
        offset += marker_size(marker_at(chunk, offset)->key_len);
    place->offset = offset;
}

memory_marker *memory_table_walk(const memory_table *table, memory_place *place, int64_t before_ms,
                                 uint64_t *steps)
{
    while (*steps) {
        memory_chunk *chunk = chunk_at(table, place);
        if (!chunk || chunk->opened_ms >= before_ms)
            return NULL;
        memory_marker *marker = marker_at(chunk, place->offset);
        place->offset += marker_size(marker->key_len);
        --*steps;
        if (marker->state != MARKER_GONE)
            return marker;
    }
    return NULL;
}

void memory_table_free(memory_table *table)
{
    for (size_t i = table->first_chunk; i < table->chunk_end; i++)
        mem_free(table->chunks[i]);
    mem_free(table->chunks);
    mem_free(table->slots);
    *table = (memory_table){0};
}
