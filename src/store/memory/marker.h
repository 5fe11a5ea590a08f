/* One marker on its way through a verb: looked up, then held. See marker.c. */
#ifndef SEMEL_STORE_MEMORY_MARKER_H
#define SEMEL_STORE_MEMORY_MARKER_H

#include "store/memory/memory_internal.h"

typedef struct memory_found {
    memory_table *table;
    uint32_t hash;
    int others;            /* another open unit holds it */
    memory_marker *marker; /* NULL: there is none */
} memory_found;

/* Waits, if another unit holds the key. SEMEL_EINVAL if there is no such inbox. */
semel_status memory_look_up(memory_found *out, memory_unit *unit, const semel_mark *mark,
                            memory_wait *wait, semel_error *err);
semel_status memory_look_up_at_once(memory_found *out, memory_unit *unit, const semel_mark *mark,
                                    semel_error *err);

/* 0 if there is none, or this unit has forgotten it. */
int memory_is_there(const memory_found *at);

/* The state as others are told; SEMEL_MARK_TAKEN: free to be taken. */
semel_mark_state memory_state_of(memory_store *store, const memory_marker *marker);

/* Makes the marker this unit's, whatever it was, and leaves it without extra: the old one is the
 * journal's. Adds a marker if there is none. SEMEL_ELIMIT at keys_max. */
semel_status memory_hold(memory_found *at, memory_unit *unit, const semel_mark *mark,
                         semel_error *err);

/* When the first attempt began, before memory_hold() changes the marker; 0 for a key that is not
 * open and was handled at the first attempt. */
int64_t memory_first_ms(memory_store *store, const memory_found *at);

/* After memory_hold(): the marker keeps this time, unless it is 0, and the details of the mark. */
semel_status memory_keep_details(memory_found *at, memory_unit *unit, const semel_mark *mark,
                                 int64_t first_ms, semel_error *err);

void memory_set_attempts(memory_marker *marker, uint32_t attempts);

#endif
