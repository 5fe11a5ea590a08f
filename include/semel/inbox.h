/* The inbox: a named scope of keys. An inbox handles each key once.
 *
 * Give every handler its own inbox: a message that reaches two inboxes is handled once in each of them.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_INBOX_H
#define SEMEL_INBOX_H

#include <semel/unit.h>

SEMEL_BEGIN_DECLS

/* How the work is protected. GUARANTEES.md in semel's documentation says what each mode promises and what it does
 * not promise. */
typedef enum semel_mode {
    SEMEL_TRANSACTION = 0, /* marker and work share one transaction: the effect happens once */
    SEMEL_CLAIM, /* a lease protects work that takes part in no transaction of the store */
    /* as SEMEL_TRANSACTION, for handlers that only queue statements, send messages and set a result: on a database
     * server all of that, with the marker, takes one round trip. The handler may also be called for a copy; its work is
     * then discarded */
    SEMEL_QUEUED
} semel_mode;

typedef enum semel_on_duplicate {
    SEMEL_DUPLICATE_SKIP = 0, /* SEMEL_OK, SEMEL_DUPLICATE */
    SEMEL_DUPLICATE_REPLAY,   /* SEMEL_OK, SEMEL_REPLAYED and the stored result, if one was set */
    SEMEL_DUPLICATE_REJECT    /* SEMEL_EREJECTED, SEMEL_DUPLICATE */
} semel_on_duplicate;

typedef enum semel_on_in_flight {
    SEMEL_IN_FLIGHT_WAIT = 0, /* wait up to wait_ms, then report */
    SEMEL_IN_FLIGHT_REPORT    /* SEMEL_EBUSY, SEMEL_IN_PROGRESS at once */
} semel_on_in_flight;

typedef enum semel_on_missing_key {
    /* SEMEL_EREJECTED, SEMEL_MISSING_KEY; also if a key function fails */
    SEMEL_MISSING_KEY_REJECT = 0,
    SEMEL_MISSING_KEY_PROCESS, /* run the handler without protection */
    SEMEL_MISSING_KEY_DIGEST   /* use the digest of type and body as the key */
} semel_on_missing_key;

typedef enum semel_on_mismatch {
    SEMEL_MISMATCH_REJECT = 0, /* SEMEL_EREJECTED, SEMEL_MISMATCH */
    SEMEL_MISMATCH_IGNORE      /* only the key decides; no fingerprint is stored */
} semel_on_mismatch;

typedef enum semel_on_stale {
    SEMEL_STALE_REJECT = 0, /* SEMEL_EREJECTED, SEMEL_STALE */
    SEMEL_STALE_PROCESS     /* run the handler as for a first copy */
} semel_on_stale;

/* Where the inbox reads the age of a message, to recognize a stale one. */
typedef enum semel_age {
    SEMEL_AGE_KNOWN = 0, /* the message's time, else its id if that is a UUIDv7 */
    SEMEL_AGE_ULID,      /* as above, else its id if that is a ULID */
    SEMEL_AGE_IGNORE     /* no message is ever stale */
} semel_age;

#define SEMEL_RETENTION_DEFAULT_MS UINT64_C(604800000) /* 7 days */
#define SEMEL_RETENTION_NONE       (UINT64_MAX - 1) /* a retention of zero: forget at the next sweep */
#define SEMEL_RETENTION_FOREVER    UINT64_MAX       /* never swept */

#define SEMEL_KEY_MAX   ((size_t)255) /* a longer key is stored as its SHA-256, never cut */
#define SEMEL_NAME_MAX  ((size_t)64)  /* of an inbox or outbox: letters, digits and . _ - */
#define SEMEL_BATCH_MAX ((size_t)10000)

/* Computes a key: writes it to `key`, which has room for `capacity` bytes, and its length to *len. A length of 0
 * means that the message has no key. If the room is too small, the function sets *len to the room that it needs and
 * returns SEMEL_ELIMIT; the inbox then calls it again with more room. */
typedef semel_status semel_key_function(void *key, size_t capacity, size_t *len,
                                        const semel_message *message, void *context,
                                        semel_error *err);

/* Zero means the default: for the policies, the first value of each enumeration above. */
typedef struct semel_inbox_options {
    size_t size;
    /* What makes two deliveries the same message: `id` (the default), `correlation-id`, `source`, `type`,
     * `header:NAME`, `json:/pointer/into/body`, `digest`, or several joined with `+`. */
    const char *key;
    semel_key_function *key_function; /* instead of `key` */
    void *key_context;
    semel_mode mode;
    semel_on_duplicate on_duplicate;
    semel_on_in_flight on_in_flight;
    semel_on_missing_key on_missing_key;
    semel_on_mismatch on_mismatch;
    semel_on_stale on_stale;
    semel_age age;
    uint32_t wait_ms;        /* longest wait for a copy in flight; default 5000 */
    uint32_t lease_ms;       /* claim mode; default 30000 */
    uint32_t attempts_max;   /* after so many it is a dead letter; default 5 */
    uint64_t retention_ms;   /* how long the inbox remembers a key; default 7 days */
    semel_outbox *faults;    /* of the same store: gets a message for every dead letter, with ... */
    const char *fault_topic; /* ... this topic; default "semel.fault" */
} semel_inbox_options;

/* The work. It returns SEMEL_OK to commit, SEMEL_EHANDLER (or any other status) to roll back and be called again
 * later, and SEMEL_EGIVEUP if another attempt is pointless. A handler must not commit or roll back: neither the unit
 * nor, by SQL, its transaction. */
typedef semel_status semel_handler(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err);

/* `options` may be NULL. A bad key expression is SEMEL_EINVAL; the error text gives the position of the mistake.
 * SEMEL_EUNSUPPORTED if the store cannot do what the mode or a policy needs. */
SEMEL_API semel_status semel_inbox_open(semel_inbox **out, semel_store *store, const char *name,
                                        const semel_inbox_options *options, semel_error *err);
SEMEL_API void semel_inbox_close(semel_inbox *inbox);

/* Runs the handler, unless the message was handled before.
 *
 * SEMEL_OK means that the delivery is finished: acknowledge it (SEMEL_PROCESSED, _DUPLICATE, _REPLAYED, _DEAD).
 * Any other status means that the caller must not acknowledge the delivery, or must decide itself:
 *     the handler's status  SEMEL_FAILED: let the broker deliver it again (SEMEL_EHANDLER if the library found the
 *                           failure: a queued statement, a constraint at the commit, a limit of the server)
 *     SEMEL_EBUSY           SEMEL_IN_PROGRESS, or SEMEL_UNDECIDED if the store stayed locked
 *     SEMEL_EUNAVAILABLE    SEMEL_UNDECIDED: the store cannot be reached; this does not count as an attempt
 *     SEMEL_EMISUSE         SEMEL_UNDECIDED: the handler itself ended the transaction
 *     SEMEL_EREJECTED       SEMEL_MISSING_KEY, _MISMATCH, _STALE, _DUPLICATE: the inbox will never accept it
 *     SEMEL_EUNKNOWN        receive the message again: the store will then know what became of the commit
 * `out` is the one output that is always written: it is SEMEL_UNDECIDED when the call failed in another way. */
SEMEL_API semel_status semel_inbox_receive(semel_outcome *out, semel_inbox *inbox,
                                           const semel_message *message, semel_handler *handler,
                                           void *context, semel_error *err);

/* A result that was stored with a key. The caller frees it. */
typedef struct semel_result semel_result;
SEMEL_API semel_bytes semel_result_bytes(const semel_result *result);
SEMEL_API void semel_result_free(semel_result *result);

/* As semel_inbox_receive(), and also returns what semel_unit_set_result() stored in this run (SEMEL_PROCESSED) or in
 * the first one (SEMEL_REPLAYED); NULL if no result was stored. */
SEMEL_API semel_status semel_inbox_receive_result(semel_outcome *out, semel_result **result,
                                                  semel_inbox *inbox, const semel_message *message,
                                                  semel_handler *handler, void *context,
                                                  semel_error *err);

/* Handles many messages in one transaction. Each message has a savepoint of its own, so that a failing message fails
 * alone. out[i] is the outcome of messages[i]; `err` describes the first failure. SEMEL_OK means that every message
 * has its outcome; acknowledge those for which semel_inbox_receive() would have returned SEMEL_OK (see
 * semel_outcome_settled). Redeliveries, and all messages of an inbox in claim mode, are handled one by one. If the
 * commit itself fails, no message was processed, and every outcome of the transaction is SEMEL_UNDECIDED; but if one
 * message may have caused the failure (a queued statement that failed, a connection that was lost or a transaction
 * that ended during the work), each message is received by itself. A store that limits the changes of a transaction
 * handles a large batch in several. Stored results are not read: a copy is SEMEL_DUPLICATE even if the policy is
 * replay. */
SEMEL_API semel_status semel_inbox_receive_batch(semel_outcome out[], semel_inbox *inbox,
                                                 const semel_message *const messages[],
                                                 size_t count, semel_handler *handler,
                                                 void *context, semel_error *err);

/* Returns 1 for SEMEL_PROCESSED, _DUPLICATE, _REPLAYED and _DEAD: nothing is left to do for that delivery. */
SEMEL_API int semel_outcome_settled(semel_outcome outcome);

#define SEMEL_SWEEP_BATCH 1000 /* rows that one call examines by default */

/* Does one bounded step of retention: examines up to `rows` markers (0: SEMEL_SWEEP_BATCH), starting where the last
 * call stopped, and removes those that are older than the retention. *more is 0 when a round is complete. The sweep
 * never removes a live claim or an unsent message. Several sweeps may run at once, in any number of processes. */
SEMEL_API semel_status semel_inbox_sweep(size_t *swept, int *more, semel_inbox *inbox,
                                         uint32_t rows, semel_error *err);

/* Forgets the key of the message: its next copy runs as a first copy. SEMEL_ENOTFOUND if the inbox does not know the
 * key, SEMEL_EBUSY while the key is claimed. */
SEMEL_API semel_status semel_inbox_forget(semel_inbox *inbox, const semel_message *message,
                                          semel_error *err);

/* Computes the key of a message as the inbox does, for logs and tools. *len is the length of the whole key; at most
 * `capacity` bytes are written. SEMEL_ENOTFOUND if the message has no key. */
SEMEL_API semel_status semel_inbox_key(void *key, size_t capacity, size_t *len,
                                       const semel_inbox *inbox, const semel_message *message,
                                       semel_error *err);

SEMEL_END_DECLS

#endif
