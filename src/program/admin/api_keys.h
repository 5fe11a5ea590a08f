/* A key of an inbox and what is known of it: its marker, and its rows in the history. */
#ifndef SEMEL_PROGRAM_ADMIN_API_KEYS_H
#define SEMEL_PROGRAM_ADMIN_API_KEYS_H

#include "program/admin/api_internal.h"

#include <semel/operate.h>

enum { KEY_ROWS_MAX = 500 }; /* of the history of one key; more are not counted */

/* Which rows of the history are meant. */
typedef struct row_filter {
    semel_outcome outcome; /* SEMEL_UNDECIDED: any */
    const char *type;
    int64_t since_ms;
} row_filter;

typedef struct key_facts {
    semel_bytes key; /* as it is stored */
    const char *type, *source, *message_id, *state;
    uint32_t attempts, copies, failures, processed, dead;
    int64_t first_ms, last_ms, at_ms, due_ms, took_ns, letter, sent; /* sent: -1: not known */
    int64_t newest_match; /* the id of the newest row that the filter names */
    size_t rows;
    semel_outcome last_outcome;
    int has_marker;
    semel_marker_state marker;
    int64_t marker_first_ms, marker_last_ms, lease_until_ms;
    uint32_t marker_attempts;
    int has_result;
    const char *marker_error;
    const char *unknown_why; /* a request to an upstream whose outcome is unknown */
} key_facts;

/* Reads both; `inbox` may be NULL, then there is no marker. */
semel_status key_read(key_facts *out, region *memory, const api_place *at, semel_inbox *inbox,
                      const char *name, semel_bytes key, const row_filter *filter,
                      semel_error *err);

/* Only the history, for lists; the marker is looked at if the history does not say the state, and
 * for the keys of a proxy route, whose answers say whether their outcome is known. */
semel_status key_read_history(key_facts *out, region *memory, const api_place *at,
                              semel_inbox *inbox, const char *name, semel_bytes key,
                              const row_filter *filter, semel_error *err);

/* {"failures": ..., "processed": ..., "copies": ..., "dead": ...} */
void key_put_strip(buffer *to, const key_facts *k);

/* 1 if the row is a copy that was kept from running. */
int key_is_copy(const semel_history *row);

/* An inbox that the store knows; NULL without an error if it does not know it yet. */
semel_status key_open_inbox(semel_inbox **out, const api_place *at, const char *name,
                            semel_error *err);

#endif
