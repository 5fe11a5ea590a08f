/* Two structures over the same markers.
 *
 * To find one by its key: open addressing with linear probing, at most 0.6 full. A slot is eight
 * bytes: 32 bits of the hash, so that a foreign key is hardly ever looked at, and where the marker
 * is. A table so small is half as often a cache miss, which is what finding a key costs. Removing
 * shifts the followers back, so there are no tombstones and nothing to clean. Growing doubles and
 * moves all slots at once. The table does not shrink: it is a fifth of what the markers themselves
 * take.
 *
 * To walk them in time: markers lie in chunks of 8 KiB, in the order in which they came, and never
 * move. A removed marker leaves a hole, a chunk without markers is freed. Nothing in a chunk can
 * have been changed before the chunk was opened, so a sweep stops at the first chunk that is too
 * young: what a sweep costs depends on what has expired, not on what there is. Chunks are small
 * because one marker that stays keeps all of its chunk; some that were freed are kept, so that a
 * steady coming and going allocates nothing.
 *
 * The limit is 2^22 chunks for an inbox: 32 GiB, half a billion keys of 36 bytes. */
#include "store/memory/table.h"

#include "base/mem.h"

#include <string.h>

enum {
    CHUNK_BYTES = 8192 - 48,
    SLOTS_FIRST = 64,
    CHUNKS_FIRST = 16,
    SPARES_MAX = 128, /* 1 MiB */
    OFFSET_BITS = 10, /* in units of eight bytes */
    NUMBER_MAX = (1 << (32 - OFFSET_BITS)) - 1
};

struct memory_chunk {
    memory_chunk *next_spare;
    uint64_t serial;
    int64_t opened_ms;
    uint32_t number;
    uint32_t used; /* bytes, holes included */
    uint32_t live; /* markers */
    uint32_t reserved;
    unsigned char bytes[CHUNK_BYTES];
};

_Static_assert(CHUNK_BYTES <= 8 << OFFSET_BITS, "a slot can name every place in a chunk");

static size_t marker_size(size_t key_len)
{
    return (offsetof(memory_marker, key) + key_len + 7) & ~(size_t)7;
}

static memory_marker *marker_at(memory_chunk *chunk, size_t offset)
{
    return (memory_marker *)(void *)(chunk->bytes + offset);
}

static memory_chunk *chunk_in(const memory_table *table, uint32_t where)
{
    return table->numbers[where >> OFFSET_BITS].chunk;
}

static memory_marker *marker_in(const memory_table *table, uint32_t where)
{
    return marker_at(chunk_in(table, where), (where & ((1 << OFFSET_BITS) - 1)) * 8);
}

static int same_key(const memory_marker *marker, semel_bytes key)
{
    return marker->key_len == key.len && memcmp(marker->key, key.data, key.len) == 0;
}

memory_marker *memory_table_find(const memory_table *table, uint32_t hash, semel_bytes key)
{
    if (!table->slots)
        return NULL;
    for (size_t i = hash & table->mask; table->slots[i].where; i = (i + 1) & table->mask) {
        const memory_slot *slot = &table->slots[i];
        if (slot->hash == hash && same_key(marker_in(table, slot->where), key))
            return marker_in(table, slot->where);
    }
    return NULL;
}

static memory_slot *free_slot(memory_slot *slots, size_t mask, uint32_t hash)
{
    size_t i = hash & mask;
    while (slots[i].where)
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
        if (table->slots[i].where)
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

/* A free number is ready to be taken at free_number; 0 if there is none and none can be made. */
static int make_free_number(memory_table *table)
{
    if (table->free_number)
        return 1;
    if (table->number_end == table->number_capacity) {
        size_t capacity = table->number_capacity ? table->number_capacity * 2 : CHUNKS_FIRST;
        memory_number *numbers = mem_resize(table->numbers, capacity * sizeof(memory_number));
        if (!numbers)
            return 0;
        table->numbers = numbers;
        table->number_capacity = capacity;
    }
    if (!table->number_end)
        table->number_end = 1;
    if (table->number_end > NUMBER_MAX)
        return 0;
    table->free_number = table->number_end++;
    table->numbers[table->free_number].next_free = 0;
    return 1;
}

static memory_chunk *new_chunk(memory_table *table)
{
    memory_chunk *chunk = table->spares;
    if (!chunk)
        return mem_alloc(sizeof *chunk);
    table->spares = chunk->next_spare;
    table->spare_count--;
    memset(chunk, 0, offsetof(memory_chunk, bytes));
    return chunk;
}

static void free_chunk(memory_table *table, memory_chunk *chunk)
{
    if (table->spare_count == SPARES_MAX) {
        mem_free(chunk);
        return;
    }
    chunk->next_spare = table->spares;
    table->spares = chunk;
    table->spare_count++;
}

static int open_chunk(memory_table *table, int64_t now_ms)
{
    if (table->chunk_end == table->chunk_capacity && !stretch_chunk_list(table))
        return 0;
    memory_chunk *chunk = make_free_number(table) ? new_chunk(table) : NULL;
    if (!chunk)
        return 0;
    chunk->number = (uint32_t)table->free_number;
    table->free_number = table->numbers[chunk->number].next_free;
    table->numbers[chunk->number].chunk = chunk;
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
    uint32_t where = chunk->number << OFFSET_BITS | chunk->used / 8;
    *free_slot(table->slots, table->mask, hash) = (memory_slot){hash, where};
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
    table->numbers[chunk->number].next_free = table->free_number;
    table->free_number = chunk->number;
    free_chunk(table, chunk);
    while (!table->chunks[table->first_chunk])
        table->first_chunk++;
}

/* Fills the slot with the next follower that may stand there, and so on until a free slot. */
static void shift_back(memory_table *table, size_t hole)
{
    size_t mask = table->mask;
    for (size_t i = (hole + 1) & mask; table->slots[i].where; i = (i + 1) & mask) {
        size_t home = table->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table->slots[hole] = table->slots[i];
            hole = i;
        }
    }
    table->slots[hole].where = 0;
}

void memory_table_remove(memory_table *table, uint32_t hash, memory_marker *marker)
{
    size_t i = hash & table->mask;
    while (table->slots[i].hash != hash || marker_in(table, table->slots[i].where) != marker)
        i = (i + 1) & table->mask;
    memory_chunk *chunk = chunk_in(table, table->slots[i].where);
    size_t offset = (size_t)((unsigned char *)marker - chunk->bytes);
    shift_back(table, i);
    marker->state = MARKER_GONE;
    marker->held = 0;
    table->live--;
    if (offset + marker_size(marker->key_len) == chunk->used)
        chunk->used = (uint32_t)offset;
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

/* The end of a chunk may have been taken back and used again, for markers of other sizes: goes to
 * the first marker at or behind the offset, so that a walk never starts inside one. */
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

int memory_table_ends(const memory_table *table, memory_place *place, int64_t before_ms)
{
    const memory_chunk *chunk = chunk_at(table, place);
    return !chunk || chunk->opened_ms >= before_ms;
}

memory_marker *memory_table_walk(const memory_table *table, memory_place *place, int64_t before_ms,
                                 uint64_t *steps)
{
    while (*steps) {
        if (memory_table_ends(table, place, before_ms))
            return NULL;
        memory_chunk *chunk = table->chunks[place->serial - table->serial_base];
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
    while (table->spares)
        mem_free(new_chunk(table));
    mem_free(table->chunks);
    mem_free(table->numbers);
    mem_free(table->slots);
    *table = (memory_table){0};
}
