/* The markers of one inbox, found by key and walked in the order of arrival. See table.c. */
#ifndef SEMEL_STORE_MEMORY_TABLE_H
#define SEMEL_STORE_MEMORY_TABLE_H

#include <semel/message.h>

struct memory_unit;
struct memory_extra;

typedef enum memory_marker_state {
    MARKER_GONE = 0, /* a hole, or a row that its unit has forgotten and not committed yet */
    MARKER_OPEN,
    MARKER_DONE,
    MARKER_DEAD
} memory_marker_state;

enum {
    MARKER_ATTEMPTS_MAX = (1 << 21) - 1
}; /* a count stops here; no limit of attempts is so high */

typedef union memory_since {
    int64_t changed_ms;        /* not held: when it was last changed */
    struct memory_unit *owner; /* held: by this open unit */
} memory_since;

/* 28 bytes and the key: 64 for a key of 36. What few markers have lies apart, in `extra`. */
typedef struct memory_marker {
    memory_since since;
    uint64_t fingerprint;
    struct memory_extra *extra; /* claim and result; NULL: none */
    uint32_t attempts : 21;
    uint32_t held : 1;
    uint32_t state : 2;
    uint32_t key_len : 8;
    unsigned char key[];
} memory_marker;

typedef struct memory_chunk memory_chunk;

typedef struct memory_slot {
    uint32_t hash;
    uint32_t where; /* number of the chunk and offset in it; 0: a free slot */
} memory_slot;

typedef union memory_number {
    memory_chunk *chunk;
    size_t next_free; /* of a number that is free: the next such one; 0: there is no more */
} memory_number;

typedef struct memory_table {
    memory_slot *slots;
    size_t mask; /* number of slots - 1 */
    size_t live; /* markers */

    /* The chunks by number, from 1 on. Numbers of freed chunks are used again. */
    memory_number *numbers;
    size_t number_end;
    size_t number_capacity;
    size_t free_number;
    memory_chunk *spares; /* freed ones that are kept for the next, without a number */
    size_t spare_count;

    /* The chunks in the order in which they were opened: chunks[first_chunk] to chunks[chunk_end -
     * 1], NULL where one has been freed. The serial of chunks[i] is serial_base + i. */
    memory_chunk **chunks;
    size_t first_chunk;
    size_t chunk_end;
    size_t chunk_capacity;
    uint64_t serial_base;
} memory_table;

/* A place in the order of arrival. It stays good while markers come and go. */
typedef struct memory_place {
    uint64_t serial;
    uint64_t offset;
} memory_place;

memory_marker *memory_table_find(const memory_table *table, uint32_t hash, semel_bytes key);

/* Makes room for one more marker; 0 when out of memory. The clock is asked only if that takes a
 * chunk. */
typedef int64_t memory_clock(void *context);
int memory_table_reserve(memory_table *table, size_t key_len, memory_clock *clock, void *context);

/* Adds a key that is not there; its marker is zero otherwise. Room must have been made. */
memory_marker *memory_table_add(memory_table *table, uint32_t hash, semel_bytes key);

/* `hash` is that of the marker's key. */
void memory_table_remove(memory_table *table, uint32_t hash, memory_marker *marker);

/* To be called before a walk goes on from a place of an earlier one. */
void memory_table_resume(const memory_table *table, memory_place *place);

/* The next marker from *place on, which is moved behind it. NULL at the end, and when *steps, which
 * counts down with each marker and each hole, is 0. What was opened at or after before_ms is past
 * the end: nothing in it can have been changed earlier. */
memory_marker *memory_table_walk(const memory_table *table, memory_place *place, int64_t before_ms,
                                 uint64_t *steps);

/* 1 if a walk from here would find nothing. */
int memory_table_ends(const memory_table *table, memory_place *place, int64_t before_ms);

/* Gives up all memory. The extras must have been freed before. */
void memory_table_free(memory_table *table);

#endif
