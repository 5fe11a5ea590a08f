/* A unit of work: one transaction, or one claim.
 *
 * semel_inbox_receive() is made of these calls and of nothing else; use them where a callback does not
 * fit. A unit has one owner at a time and ends with commit, fail or rollback, each of which frees it. A handler's
 * unit is not the handler's to end: there the three are SEMEL_EMISUSE, and its work is rolled back as failed. A unit
 * that is used after its end answers SEMEL_EMISUSE, too, as long as its store is open.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_UNIT_H
#define SEMEL_UNIT_H

#include <semel/statement.h>
#include <semel/store.h>

SEMEL_BEGIN_DECLS

typedef struct semel_unit semel_unit;
typedef struct semel_inbox semel_inbox;
typedef struct semel_outbox semel_outbox;

/* What became of a message. */
typedef enum semel_outcome {
    SEMEL_UNDECIDED = 0, /* nothing was decided: the call failed before that */
    SEMEL_CLAIMED,       /* it is yours: do the work, then commit (only from semel_unit_claim) */
    SEMEL_PROCESSED,     /* the handler ran and its unit is committed */
    SEMEL_DUPLICATE,     /* handled before */
    SEMEL_REPLAYED,      /* handled before; the stored result is the answer */
    SEMEL_IN_PROGRESS,   /* another copy is being handled right now */
    SEMEL_MISMATCH,      /* handled before, but with other content under the same key */
    SEMEL_STALE,       /* older than the retention and without a marker: perhaps handled long ago */
    SEMEL_MISSING_KEY, /* the key expression finds nothing in it */
    SEMEL_FAILED,      /* the handler failed; rolled back, to be tried again */
    SEMEL_DEAD         /* given up on: it is, or already was, a dead letter */
} semel_outcome;

SEMEL_API const char *semel_outcome_name(semel_outcome outcome);

/* Begins a transaction. */
SEMEL_API semel_status semel_unit_begin(semel_unit **out, semel_store *store, semel_error *err);

/* Takes the message's key in the inbox. SEMEL_CLAIMED: go on and do the work. Anything else: there is
 * nothing to do, roll the unit back. The message is borrowed until the unit ends. A unit takes one key, and
 * takes it first: work done before the claim of a redelivery or in claim mode is SEMEL_EMISUSE.
 *
 * In claim mode the transaction that begin opened is ended and the claim stored by itself, so that none
 * is open while the work goes on. In both modes the status is that of semel_inbox_receive(). */
SEMEL_API semel_status semel_unit_claim(semel_outcome *out, semel_unit *unit, semel_inbox *inbox,
                                        const semel_message *message, semel_error *err);

/* The message leaves if, and only if, the unit commits. A message without an id gets a UUIDv7. */
SEMEL_API semel_status semel_unit_send(semel_unit *unit, semel_outbox *outbox,
                                       const semel_message *message, semel_error *err);

/* Queues a statement instead of running it; the same text on every SQL store. ? stands for a value, ?? for a
 * question mark. It runs inside the unit's transaction, in its turn, by the commit at the latest (in claim mode:
 * in the transaction that completes the claim), so that on a database server it costs no round trip of its own.
 * If it fails then, that is the handler's failure: everything is rolled back. Rows that it returns are thrown
 * away, and how many it changes is not looked at: let a constraint refuse what must not happen, or run the
 * statement yourself. Text and values are copied. SEMEL_EUNSUPPORTED on a store without SQL. */
SEMEL_API semel_status semel_unit_queue(semel_unit *unit, const char *sql,
                                        const semel_value values[], size_t count, semel_error *err);

#define SEMEL_RESULT_MAX ((size_t)1 << 20) /* bytes of a stored result, at most */

/* Kept with the marker, for replay to later copies. The last call wins. */
SEMEL_API semel_status semel_unit_set_result(semel_unit *unit, const void *data, size_t len,
                                             semel_error *err);

/* Claim mode: still working; the lease ends this long from now (0: the inbox's lease).
 * SEMEL_ELOST if it had ended. */
SEMEL_API semel_status semel_unit_renew(semel_unit *unit, uint32_t lease_ms, semel_error *err);

/* Marker, outgoing messages, result and, in transaction mode, the handler's writes: all or nothing.
 * SEMEL_ELOST: the lease had ended, nothing was written. SEMEL_EUNKNOWN: receive the key again. SEMEL_EHANDLER: a queued
 * statement failed, or the work ran into a limit of the server; rolled back, and counted as a failed attempt. */
SEMEL_API semel_status semel_unit_commit(semel_unit *unit, semel_error *err);

/* The work failed: rolls back, counts the attempt, keeps `why` with the key; at the inbox's limit, or
 * if `why` says SEMEL_EGIVEUP, the message becomes a dead letter. *out is SEMEL_FAILED or SEMEL_DEAD. If the
 * key is someone else's by now, or the unit is a joined one, nothing is recorded, and that is no error:
 * SEMEL_OK, SEMEL_FAILED. */
SEMEL_API semel_status semel_unit_fail(semel_outcome *out, semel_unit *unit, const semel_error *why,
                                       semel_error *err);

/* Undoes everything and frees the key; says nothing about the work. NULL is a no-op. */
SEMEL_API void semel_unit_rollback(semel_unit *unit);

/* The key as the inbox computed it: pass it on to services that take an idempotency key. It lives as
 * long as the unit; {NULL, 0} before a claim. */
SEMEL_API semel_bytes semel_unit_key(const semel_unit *unit);

/* Which attempt at this key this is, from 1, as far as the store knows. */
SEMEL_API uint32_t semel_unit_attempt(const semel_unit *unit);

SEMEL_END_DECLS

#endif
