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
    SEMEL_SCOPE_QUEUE = 3 /* rows as in an outbox, for the consumers of <semel/queue.h> */
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
    /* how long the core needs the row after its last change. A database that lets rows expire may use it, but the row
     * must not expire earlier. SEMEL_RETENTION_FOREVER: never */
    uint64_t keep_ms;

    /* in: attempts known from another source. out: attempts that the store knows of by now */
    uint32_t attempts;
    semel_mark_state state;
    uint64_t known_fingerprint; /* of the row that the driver found; 0: none */
    uint64_t token;        /* claim: proves the ownership of the claim; never 0, never reused */
    int64_t held_until_ms; /* HELD: when the lease ends; 0 if unknown */
} semel_mark;

/* The place where a sweep stopped. Zero is the beginning. */
typedef struct semel_sweep_position {
    size_t len;
    unsigned char key[SEMEL_KEY_MAX];
} semel_sweep_position;

/* A message in an outbox. */
typedef struct semel_item {
    int64_t seq;       /* ascending in the order of capture within a group */
    uint64_t token;    /* proves the ownership of the lease */
    uint32_t attempts; /* this one included */
    uint32_t refusals; /* how often a relay settled it as refused */
    const semel_message *message;
} semel_item;

/* The driver calls it for each leased item, in the order in which the relay is to send them. Everything is borrowed for
 * the call. The sink must not use the store. */
typedef semel_status semel_item_sink(const semel_item *item, void *context, semel_error *err);

/* Settles a leased item. The verdict is ACK (the item was sent or moved to the dead letters, and leaves the outbox),
 * RETRY or RELEASE. */
typedef struct semel_item_settlement {
    int64_t seq;
    uint64_t token;
    semel_verdict verdict;
    uint32_t delay_ms;
    int refused; /* RETRY because the broker refused the message; counted separately from attempts */
    int lost; /* out: 1 if another call has leased the item, so that the token does not match; the item is unchanged */
} semel_item_settlement;

SEMEL_END_DECLS

#endif
