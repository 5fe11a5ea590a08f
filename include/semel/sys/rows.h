/* What the core and a store driver hand each other: keys, outgoing messages, and what becomes of them.
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
    SEMEL_BEGIN_DURABLE = 0, /* the commit survives all that the store can survive */
    SEMEL_BEGIN_RELAXED /* atomic, but may be lost with the power: leases, counts, sent marks */
} semel_begin;

typedef enum semel_mark_state {
    SEMEL_MARK_FREE = 0, /* there is no row, or an open one without a live lease */
    SEMEL_MARK_TAKEN,    /* it was free and is this unit's now */
    SEMEL_MARK_DONE,     /* handled */
    SEMEL_MARK_HELD,     /* a live claim, or another unit that has not ended */
    SEMEL_MARK_DEAD      /* given up on */
} semel_mark_state;

/* One key of one inbox on its way through the store. */
typedef struct semel_mark {
    int64_t inbox;
    semel_bytes key;      /* 1 to SEMEL_KEY_MAX bytes, any bytes, compared exactly */
    uint64_t fingerprint; /* of the content; 0: none is kept */
    uint64_t keep_ms; /* how long the row is needed after its last change: a database that lets rows
                           * expire may use it, and must not be early. SEMEL_RETENTION_FOREVER: no end */

    uint32_t attempts; /* in: starts known from elsewhere. out: starts known to the store by now */
    semel_mark_state state;
    uint64_t known_fingerprint; /* of the row that was there; 0: none */
    uint64_t token;        /* claim: what proves that the claim is ours; never 0, never reused */
    int64_t held_until_ms; /* HELD: when the lease ends, or 0 if that cannot be known */
} semel_mark;

/* Where a sweep stopped. Zero is the beginning. */
typedef struct semel_sweep_position {
    size_t len;
    unsigned char key[SEMEL_KEY_MAX];
} semel_sweep_position;

/* A message as it lies in an outbox. */
typedef struct semel_item {
    int64_t seq;       /* ascending in the order of capture within a group */
    uint64_t token;    /* proof of the lease */
    uint32_t attempts; /* this one included */
    uint32_t refusals; /* how often it was settled as refused */
    const semel_message *message;
} semel_item;

/* Called for each item taken, in the order in which they are to be sent; all is borrowed for the call. It
 * must not use the store. */
typedef semel_status semel_item_sink(const semel_item *item, void *context, semel_error *err);

/* What becomes of an item that was leased: ACK (sent, or moved to the dead letters: it leaves the outbox), RETRY or
 * RELEASE. */
typedef struct semel_item_settlement {
    int64_t seq;
    uint64_t token;
    semel_verdict verdict;
    uint32_t delay_ms;
    int refused; /* RETRY because the broker does not want it: counted apart from the attempts */
    int lost; /* out: 1 if the token did not fit: another call has leased the item; nothing was done */
} semel_item_settlement;

SEMEL_END_DECLS

#endif
