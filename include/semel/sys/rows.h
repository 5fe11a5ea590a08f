/* What the core and a store driver exchange: keys, outgoing messages and settlements.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SYS_ROWS_H
#define SEMEL_SYS_ROWS_H

#include <semel/inbox.h>
#include <semel/store.h>
#include <semel/sys/verdict.h>

SEMEL_BEGIN_DECLS

typedef enum semel_scope {
    SEMEL_SCOPE_INBOX = 1,
    SEMEL_SCOPE_OUTBOX = 2,
    SEMEL_SCOPE_QUEUE = 3, /* rows as in an outbox, for the consumers of <semel/queue.h> */
    SEMEL_SCOPE_TYPE = 4,  /* of messages, for the details of markers; the name is UTF-8 */
    SEMEL_SCOPE_SOURCE = 5,
    /* 6 is taken: `semel run` on MariaDB keeps rows under it that are not in their outbox yet */
    /* a partition in an inbox, which has the note SEMEL_NOTE_POSITION; the name is UTF-8 */
    SEMEL_SCOPE_PARTITION = 7
} semel_scope;

typedef enum semel_begin {
    SEMEL_BEGIN_DURABLE = 0, /* the commit survives everything that the store can survive */
    SEMEL_BEGIN_RELAXED /* atomic, but a power failure may undo it: leases, counts, sent marks */
} semel_begin;

typedef enum semel_mark_state {
    SEMEL_MARK_FREE = 0, /* there is no row, or an open row without a live lease */
    SEMEL_MARK_TAKEN,    /* the key was free, and this unit owns it now */
    SEMEL_MARK_DONE,     /* the message was handled */
    SEMEL_MARK_HELD,     /* a live claim or another open unit owns the key */
    SEMEL_MARK_DEAD      /* the message is a dead letter */
} semel_mark_state;

/* One key of one inbox: what the core asks about it, and what the driver answers. */
typedef struct semel_mark {
    int64_t inbox;
    semel_bytes key;      /* 1 to SEMEL_KEY_MAX bytes, any bytes, compared exactly */
    uint64_t fingerprint; /* of the content; 0: none is kept */
    /* how long the core needs the row after its last change. A database that lets rows expire may
     * use it, but the row must not expire earlier. SEMEL_RETENTION_FOREVER: never */
    uint64_t keep_ms;

    /* in: attempts known from another source. out: attempts that the store knows of by now */
    uint32_t attempts;
    semel_mark_state state;
    uint64_t known_fingerprint; /* of the row that the driver found; 0: none */
    uint64_t token;        /* claim: proves the ownership of the claim; never 0, never reused */
    int64_t held_until_ms; /* HELD: when the lease ends; 0 if unknown */

    /* out, of `look`: when the first attempt at the key was recorded, and when the row was last
     * changed, by the store's clock. 0 if there is no row, or if the driver does not know */
    int64_t first_ms;
    int64_t changed_ms;

    /* in: kept with the row by mark, assume, claim, fail and bury; 0: none. Type and source are
     * numbers of names (SEMEL_SCOPE_TYPE, SEMEL_SCOPE_SOURCE) */
    int64_t type;
    int64_t source;
    int64_t received_ms;

    /* in, of `claim`: 1 if the core has yet to find out whether the message is stale, and rolls the
     * unit back if it is. A driver that stores a claim before the commit must not do so then: a
     * process that dies in between would leave a row, which proves to the next copy that the key
     * was not forgotten */
    int unsure;
    /* out, of claim and mark: the row that was there was left by a claim that was stored before its
     * commit, so it does not prove that the key was not forgotten. Drivers that never do that leave
     * it 0 */
    int unproven;
} semel_mark;

/* The place where a sweep stopped. Zero is the beginning. */
typedef struct semel_sweep_position {
    size_t len;
    unsigned char key[SEMEL_KEY_MAX];
    /* in: 1 if the caller cannot leave the work to another process that is making a round. A
     * driver in which only one process at a time makes a round then sweeps beside it */
    int beside;
} semel_sweep_position;

/* What a store keeps about an inbox itself, or about a partition in it. */
typedef enum semel_note {
    SEMEL_NOTE_DEFINITION = 1, /* text: what the inbox was opened with and cannot change */
    SEMEL_NOTE_FORGOTTEN = 2,  /* number: the newest last change of a marker that a sweep removed */
    SEMEL_NOTE_HORIZON =
        3, /* number: the smallest age, in ms, at which sweeps may have removed markers */
    SEMEL_NOTE_SWEEP = 4, /* number: when the next round of retention is due */
    /* of a partition (SEMEL_SCOPE_PARTITION), number: the position that comes next; text: what the
     * core knows of it */
    SEMEL_NOTE_POSITION = 5
} semel_note;

typedef enum semel_note_lock {
    SEMEL_NOTE_UNLOCKED = 0,
    /* the newest value that was committed. Other units may read the note, and may have to wait
     * until this unit ends before they write it */
    SEMEL_NOTE_SHARED,
    SEMEL_NOTE_EXCLUSIVE
} semel_note_lock;

#define SEMEL_NOTE_TEXT_MAX ((size_t)2400)

typedef struct semel_note_value {
    int64_t number;
    /* out: the time of the store's clock when the note was read; 0 if there is no such note */
    int64_t now_ms;
    char text[SEMEL_NOTE_TEXT_MAX + 1];
} semel_note_value;

/* What is counted: a whole store (kind 0), or one inbox or outbox of it. */
typedef struct semel_stats_of {
    semel_scope kind;
    int64_t scope;    /* 0: all */
    const char *name; /* NULL: all */
} semel_stats_of;

/* A message in an outbox. */
typedef struct semel_item {
    int64_t seq;       /* ascending in the order of capture within a group */
    uint64_t token;    /* proves the ownership of the lease */
    uint32_t attempts; /* this one included */
    uint32_t refusals; /* how often a relay settled it as refused */
    const semel_message *message;
} semel_item;

/* The driver calls it for each leased item, in the order in which the relay is to send them.
 * Everything is borrowed for the call. The sink must not use the store. */
typedef semel_status semel_item_sink(const semel_item *item, void *context, semel_error *err);

/* Settles a leased item. The verdict is ACK (the item was sent or moved to the dead letters, and
 * leaves the outbox), RETRY or RELEASE. */
typedef struct semel_item_settlement {
    int64_t seq;
    uint64_t token;
    semel_verdict verdict;
    uint32_t delay_ms;
    /* RETRY because the broker refused the message; counted separately from attempts */
    int refused;
    /* out: 1 if another call has leased the item, so that the token does not match; the item is
     * unchanged */
    int lost;
    const char *error; /* RETRY: why the attempt failed, kept with the row; NULL: as before */
    int sent; /* ACK: 1 if the message was sent, and a row for `sent` of the lists is kept of it */
} semel_item_settlement;

SEMEL_END_DECLS

#endif
