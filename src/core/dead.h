/* Dead letters as the core sees them: what listing, discarding, expiring and replaying share. */
#ifndef SEMEL_CORE_DEAD_H
#define SEMEL_CORE_DEAD_H

#include "core/unit.h"

/* A letter, read into the arena of a unit. */
typedef struct letter {
    work_unit *unit;
    int64_t id;
    semel_bytes key;
    const semel_message *message;
    uint32_t attempts;
    const char *error;
} letter;

/* Reads the letter inside the unit's open transaction. ENOTFOUND if there is none, ESTORE if it is
 * damaged. */
semel_status letter_find(letter *out, work_unit *unit, semel_dead_origin origin, const char *name,
                         int64_t id, semel_error *err);

/* EREJECTED for a letter that was kept without its body: a handler would take the empty body for
 * the message's own. */
semel_status letter_check_body(const letter *found, semel_error *err);

/* Removes a letter, if it is there, and leaves its marker alone: that is done by now, or was never
 * there. */
semel_status dead_drop(semel_store *store, int64_t id, semel_error *err);

/* The filter of a caller, whatever size it has; `given` may be NULL. */
semel_status dead_filter_read(semel_dead_filter *out, const semel_dead_filter *given,
                              semel_error *err);

/* Letters whose names are no inbox's. */
#define LETTER_UNROUTED "unrouted"
#define LETTER_UNUSABLE "unusable"

/* inbox_failure.c: 1 if a marker belongs to a letter of an inbox with this key; letters of refused
 * messages have an identity of their own, and no marker. */
int letter_has_marker(semel_bytes key, const semel_message *message);

/* The key of the letter's message: without what makes it the letter's own. */
semel_bytes letter_key(semel_bytes key, const semel_message *message);

/* One letter that is replayed: a message of `store`, which the inbox of another store may
 * handle. */
typedef struct replay {
    semel_inbox *inbox;
    semel_handler *handler;
    void *context;
    semel_store *store;
    const char *name; /* of the letter */
    int64_t id;
    int foreign; /* the letter is not the inbox's own: a dead marker of the inbox is left alone */
    int keep;    /* the letter stays, because other routes still need it */
} replay;

semel_status dead_replay(semel_outcome *out, const replay *r, semel_error *err);

/* Replays the letters that a filter names, as semel_inbox_replay_all() does. `one` replays a
 * letter; it returns ENOTFOUND for a letter that is gone or none of its business. */
typedef semel_status replay_one(semel_outcome *out, int64_t id, void *context, semel_error *err);

typedef struct replay_counts {
    size_t replayed;
    size_t failed;
    semel_error *err; /* of the first failure; may be NULL */
} replay_counts;

semel_status dead_replay_each(replay_counts *counts, semel_store *store,
                              const semel_dead_filter *filter, replay_one *one, void *context,
                              semel_error *err);

#endif
