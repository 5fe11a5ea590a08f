/* A marker as its record's value has it. Who owns it at the moment is in the record itself: guard
 * and until_ms. */
#ifndef SEMEL_STORE_KEYED_MARKER_H
#define SEMEL_STORE_KEYED_MARKER_H

#include "store/keyed/keyed.h"

typedef enum keyed_marker_state {
    KEYED_OPEN = 1, /* the first, so that a value without a state is an open marker */
    KEYED_DONE,
    KEYED_DEAD
} keyed_marker_state;

/* What a hold was written over. A unit that ends without a commit brings it back; if its process
 * dies, the record stays as it is, and means the same as soon as the hold is over. */
typedef enum keyed_held {
    KEYED_NOT_HELD = 0,
    KEYED_HELD_OPEN, /* an open marker, whose other fields are as they were */
    KEYED_HELD_NEW   /* nothing: the record is no marker, and lists do not show it */
} keyed_held;

struct keyed_marker {
    keyed_marker_state state;
    keyed_held held;
    uint32_t attempts;
    uint64_t fingerprint;
    int64_t changed_ms;
    int64_t first_ms; /* 0: not known, or the first attempt was the one that made it done */
    int64_t type;
    int64_t source;
    int64_t received_ms;
    semel_bytes why;
    int has_result; /* which is the body */
    int letter_gone;
};

/* Bytes are borrowed. 0 if the value is damaged; what could be read is in *out. */
int keyed_marker_read(keyed_marker *out, semel_bytes value);

/* 0: out of memory. */
int keyed_marker_write(semel_bytes *out, mem_arena *arena, const keyed_marker *marker);

/* 0 if the record is not there (NULL) or is a hold over nothing: a key that the inbox does not
 * know. */
int keyed_marker_known(const semel_keyed_record *record);

#endif
