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
    /* it was written by a claim before the commit of its unit, over nothing: the core may not have
     * known yet whether the inbox had forgotten the key */
    int unproven;
};

/* Bytes are borrowed. 0 if the value is damaged; what could be read is in *out. */
int keyed_marker_read(keyed_marker *out, semel_bytes value);

/* 0: out of memory. */
int keyed_marker_write(semel_bytes *out, mem_arena *arena, const keyed_marker *marker);

/* 0 if the record is not there (NULL) or is a hold over nothing: a key that the inbox does not
 * know. */
int keyed_marker_known(const semel_keyed_record *record);

/* --- for marker*.c ---------------------------------------------------------------------------- */

/* A key as a unit sees it: by its own change, by the hold or claim that it has, or as the database
 * has it. */
typedef struct keyed_found {
    keyed_space space;
    int known;           /* the inbox has a marker */
    keyed_marker marker; /* if it is known */
    int there;           /* a record, known or not */
    semel_keyed_record record;
    const keyed_change *change; /* the unit's own; NULL: none */
    keyed_hold *hold;           /* the unit's own; NULL: none */
    int was_fence;              /* a hold that had ended is under the claim: see hold.h */
    int64_t now_ms;
    uint32_t error_ms;
} keyed_found;

semel_status keyed_marker_look(keyed_found *out, keyed_unit *unit, const semel_mark *mark,
                               semel_error *err);

/* Reads a record that is there (NULL: none is) into a keyed_found. ESTORE if it is damaged. */
semel_status keyed_marker_take(keyed_found *out, const semel_keyed_record *record,
                               semel_error *err);

/* As others see it. TAKEN: free to be taken. */
semel_mark_state keyed_marker_state_of(const keyed_found *found);

/* Writes what was found into the mark. */
void keyed_marker_report(semel_mark *mark, const keyed_found *found);

/* When the first attempt was; 0 if there was none before, or if it was the one that made it
 * done. */
int64_t keyed_marker_first(const keyed_found *found);

/* The unit's change of the marker, which expects what was found, is of the kind WRITE, and is to
 * become `marker` with this guard. The marker is copied. NULL: out of memory. */
keyed_change *keyed_marker_change(keyed_unit *unit, const keyed_found *found,
                                  const semel_mark *mark, const keyed_marker *marker);

/* The marker of a claim, if its token proves that it is ours and its lease lives: by what this
 * process knows or else by the database. ELOST if not. And the change of its owner, which expects
 * that at commit. */
semel_status keyed_marker_owned(keyed_found *out, keyed_unit *unit, const semel_mark *mark,
                                semel_error *err);
keyed_change *keyed_marker_owned_change(keyed_unit *unit, const keyed_found *found,
                                        const semel_mark *mark, const keyed_marker *marker);

/* There is no marker afterwards. */
semel_status keyed_marker_remove(keyed_unit *unit, const keyed_found *found, const semel_mark *mark,
                                 semel_error *err);

/* What a mark says of the message, for a marker that is written. */
void keyed_marker_details(keyed_marker *marker, const semel_mark *mark);

/* When the database may remove the record by itself; 0: never. */
int64_t keyed_marker_expires(const keyed_store *store, int64_t now_ms, uint64_t keep_ms);

semel_status keyed_look(void *unit, semel_mark *mark, semel_error *err);
semel_status keyed_mark(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                        semel_error *err);
semel_status keyed_assume(void *unit, semel_mark *mark, uint32_t wait_ms, semel_error *err);
semel_status keyed_claim_key(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status keyed_finish(void *unit, const semel_mark *mark, semel_error *err);
semel_status keyed_renew(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err);
semel_status keyed_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status keyed_unmark(void *unit, const semel_mark marks[], size_t count, semel_error *err);
semel_status keyed_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err);
semel_status keyed_forget(void *unit, const semel_mark *mark, semel_error *err);
semel_status keyed_result_set(void *unit, const semel_mark *mark, semel_bytes result,
                              semel_error *err);
semel_status keyed_result_get(void *unit, const semel_mark *mark, void **out, size_t *len,
                              semel_error *err);
semel_status keyed_letter_gone(void *unit, const semel_mark *mark, semel_error *err);
semel_status keyed_sweep(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                         semel_sweep_position *position, size_t *swept, semel_error *err);

/* --- the value of a note, for sweep.c --------------------------------------------------------- */

int keyed_note_encode(semel_bytes *out, mem_arena *arena, int64_t number, const char *text);
int64_t keyed_note_number(const semel_keyed_record *record);

#endif
