/* A unit of work: one transaction, or one claim.
 *
 * These calls are the steps of semel_inbox_receive() in transaction and claim mode; use them where
 * a callback does not fit. A unit has one owner at a time. It ends with commit, fail or rollback,
 * each of which frees it. A handler must not end its unit: there the three calls return
 * SEMEL_EMISUSE, and the work is rolled back as failed. A call on a unit that has ended returns
 * SEMEL_EMISUSE, too, as long as the store is open.
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
    SEMEL_UNDECIDED = 0, /* the call failed before anything was decided */
    SEMEL_CLAIMED,     /* the unit owns the key: do the work, then commit (semel_unit_claim only) */
    SEMEL_PROCESSED,   /* the handler ran and its unit is committed */
    SEMEL_DUPLICATE,   /* the message was handled before */
    SEMEL_REPLAYED,    /* handled before; the stored result is returned */
    SEMEL_IN_PROGRESS, /* another copy is being handled right now */
    SEMEL_MISMATCH,    /* handled before, but with other content under the same key */
    SEMEL_STALE, /* no marker, and markers of its age are forgotten: it may have been handled */
    SEMEL_MISSING_KEY, /* the key expression finds no key in the message */
    SEMEL_FAILED,      /* the handler failed and was rolled back; it will be tried again */
    SEMEL_DEAD         /* the message is now, or was already, a dead letter */
} semel_outcome;

SEMEL_API const char *semel_outcome_name(semel_outcome outcome);

/* Begins a transaction. */
SEMEL_API semel_status semel_unit_begin(semel_unit **out, semel_store *store, semel_error *err);

/* Claims the message's key in the inbox. SEMEL_CLAIMED: do the work. With any other outcome there
 * is no work to do, and the caller rolls the unit back. The message is borrowed until the unit
 * ends. A unit claims one key, before it does anything else: to claim the key of a redelivery, or a
 * key in claim mode, after other work in the unit is SEMEL_EMISUSE.
 *
 * In claim mode this call ends the transaction that begin opened and stores the claim in a
 * transaction of its own, so that no transaction is open during the work. In both modes the status
 * is that of semel_inbox_receive(). */
SEMEL_API semel_status semel_unit_claim(semel_outcome *out, semel_unit *unit, semel_inbox *inbox,
                                        const semel_message *message, semel_error *err);

/* The outbox of this name in the unit's store, if one is open in this process (the one that was
 * opened first), or NULL: for handlers that are declared in a constant table and have no handle at
 * hand. It is borrowed: its owner closes it, and not before the unit has ended. */
SEMEL_API semel_outbox *semel_unit_outbox(const semel_unit *unit, const char *name);

/* Stores a message in the outbox. It leaves if, and only if, the unit commits. A message without an
 * id gets a UUIDv7. SEMEL_EINVAL if the outbox is NULL, so that the result of semel_unit_outbox()
 * may be passed on without a check. */
SEMEL_API semel_status semel_unit_send(semel_unit *unit, semel_outbox *outbox,
                                       const semel_message *message, semel_error *err);

/* Queues a statement instead of running it. The same text works on every SQL store: ? stands for a
 * value, ?? for a question mark. The statement runs inside the unit's transaction, in the order in
 * which statements were queued, and by the commit at the latest (in claim mode: in the transaction
 * that completes the claim). So it costs no round trip of its own on a database server. If the
 * statement fails, the handler has failed, and everything is rolled back. The rows that it returns
 * are discarded, and the number of rows that it changes is not checked: use a constraint to refuse
 * what must not happen, or run the statement on the native connection. The call copies text and
 * values. SEMEL_EUNSUPPORTED on a store without SQL. */
SEMEL_API semel_status semel_unit_queue(semel_unit *unit, const char *sql,
                                        const semel_value values[], size_t count, semel_error *err);

/* Asks the database whether it would take this statement from semel_unit_queue() with `count`
 * values, without running it: the database prepares it inside the unit's transaction, after all
 * statements that were queued before. So a program finds at its start what would otherwise be an
 * error of its first message. SEMEL_EINVAL if it would not: the text is the database's own, and
 * *position, which may be NULL, is the byte of `sql`, counted from 1, at which it is wrong, or 0 if
 * the database does not tell. SEMEL_EHANDLER: a statement that was queued before has failed. After
 * a failure the unit may only be rolled back. SEMEL_EMISUSE if no transaction is open (claim and
 * queued mode), SEMEL_EUNSUPPORTED if the store cannot check.
 *
 *     semel_unit_begin(&unit, store, &err);
 *     status = semel_unit_check(unit, "UPDATE stock SET left = left - ? WHERE item = ?", 2,
 *                               &position, &err);
 *     semel_unit_rollback(unit);
 */
SEMEL_API semel_status semel_unit_check(semel_unit *unit, const char *sql, size_t count,
                                        size_t *position, semel_error *err);

#define SEMEL_RESULT_MAX ((size_t)1 << 20) /* most bytes of a stored result */

/* Stores a result with the marker, for replay to later copies. The last call wins. */
SEMEL_API semel_status semel_unit_set_result(semel_unit *unit, const void *data, size_t len,
                                             semel_error *err);

/* Claim mode: renews the lease, which then ends lease_ms from now (0: the inbox's lease_ms).
 * SEMEL_ELOST if the lease had ended. */
SEMEL_API semel_status semel_unit_renew(semel_unit *unit, uint32_t lease_ms, semel_error *err);

/* Commits the marker, the outgoing messages, the result and, in transaction mode, the handler's
 * writes: all or nothing. SEMEL_ELOST: the lease had ended, and nothing was written.
 * SEMEL_EUNKNOWN: receive the key again. SEMEL_EHANDLER: a queued statement failed, or the work
 * exceeded a limit of the server; the unit is rolled back, and a failed attempt is counted. */
SEMEL_API semel_status semel_unit_commit(semel_unit *unit, semel_error *err);

/* Reports that the work failed: rolls back, counts the attempt and stores `why` with the key. At
 * the inbox's attempts_max, or if the status in `why` is SEMEL_EGIVEUP, the message becomes a dead
 * letter. *out is SEMEL_FAILED or SEMEL_DEAD. If another unit owns the key by now, or if the unit
 * is a joined one, nothing is recorded. That is not an error: the call returns SEMEL_OK and
 * SEMEL_FAILED. */
SEMEL_API semel_status semel_unit_fail(semel_outcome *out, semel_unit *unit, const semel_error *why,
                                       semel_error *err);

/* Undoes everything and releases the key, without counting a failure. NULL is a no-op. */
SEMEL_API void semel_unit_rollback(semel_unit *unit);

/* The key as the inbox computed it: any bytes, and the same for every inbox with the same key
 * expression. It is valid as long as the unit; {NULL, 0} before a claim. */
SEMEL_API semel_bytes semel_unit_key(const semel_unit *unit);

/* The stored result of a copy whose claim ended as SEMEL_REPLAYED, or what semel_unit_set_result()
 * was given; valid as long as the unit. {NULL, 0}: none. */
SEMEL_API semel_bytes semel_unit_result(const semel_unit *unit);

#define SEMEL_IDEMPOTENCY_KEY_SIZE 37 /* 36 characters and a NUL */

/* Writes the key to pass on to services that recognize repeated requests, as in an Idempotency-Key
 * header: a UUID (version 8: 122 bits of the SHA-256 of the inbox's name and the whole key), since
 * some services accept nothing else. It depends on the inbox's name and the message's key and on
 * nothing else: it is the same for all copies and attempts, in every process and store, and differs
 * between two inboxes (handlers) that receive the same message. A handler that makes several
 * requests appends something to it. SEMEL_EMISUSE before a claim, SEMEL_ENOTFOUND if the message
 * has no key, SEMEL_EUNSUPPORTED in a build without OpenSSL. */
SEMEL_API semel_status semel_unit_idempotency_key(char out[SEMEL_IDEMPOTENCY_KEY_SIZE],
                                                  const semel_unit *unit, semel_error *err);

/* The number of this attempt at the key, starting at 1, as far as the store knows. */
SEMEL_API uint32_t semel_unit_attempt(const semel_unit *unit);

/* 1 if the consumer or the local relay that runs the handler was asked to stop. A slow handler
 * should ask from time to time, and then either finish soon or return SEMEL_ESTOPPED: its work is
 * rolled back, the attempt does not count, and the message is delivered again, here or elsewhere.
 * In claim mode the handler must return SEMEL_ESTOPPED only if its effects so far may be repeated.
 * 0 in a unit that neither of the two runs. */
SEMEL_API int semel_unit_stopping(const semel_unit *unit);

SEMEL_END_DECLS

#endif
