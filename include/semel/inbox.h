/* The inbox: a named scope of keys. Each key is handled in it once.
 *
 * Give every handler its own inbox: the same message in two inboxes is handled in each.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_INBOX_H
#define SEMEL_INBOX_H

#include <semel/unit.h>

SEMEL_BEGIN_DECLS

/* How the work is protected. docs/GUARANTEES.md says what each promises and what it does not. */
typedef enum semel_mode {
    SEMEL_TRANSACTION = 0, /* marker and work in one transaction: the effect happens once */
    SEMEL_CLAIM,           /* a lease around work that has no transaction with us */
    SEMEL_QUEUED /* as SEMEL_TRANSACTION, for handlers that do nothing themselves but queue statements,
                  * send and set a result: on a server all of it, marker included, is one round trip. Such
                  * a handler may be called for a copy, too, whose work is then thrown away. */
} semel_mode;

typedef enum semel_on_duplicate {
    SEMEL_DUPLICATE_SKIP = 0, /* SEMEL_OK, SEMEL_DUPLICATE */
    SEMEL_DUPLICATE_REPLAY,   /* SEMEL_OK, SEMEL_REPLAYED and the stored result, if one was set */
    SEMEL_DUPLICATE_REJECT    /* SEMEL_EREJECTED, SEMEL_DUPLICATE */
} semel_on_duplicate;

typedef enum semel_on_in_flight {
    SEMEL_IN_FLIGHT_WAIT = 0, /* up to wait_ms, then report */
    SEMEL_IN_FLIGHT_REPORT    /* SEMEL_EBUSY, SEMEL_IN_PROGRESS at once */
} semel_on_in_flight;

typedef enum semel_on_missing_key {
    SEMEL_MISSING_KEY_REJECT =
        0, /* SEMEL_EREJECTED, SEMEL_MISSING_KEY; also if a key function fails */
    SEMEL_MISSING_KEY_PROCESS, /* run the handler without protection */
    SEMEL_MISSING_KEY_DIGEST   /* use the digest of type and body */
} semel_on_missing_key;

typedef enum semel_on_mismatch {
    SEMEL_MISMATCH_REJECT = 0, /* SEMEL_EREJECTED, SEMEL_MISMATCH */
    SEMEL_MISMATCH_IGNORE      /* the key alone decides; no fingerprint is kept */
} semel_on_mismatch;

typedef enum semel_on_stale {
    SEMEL_STALE_REJECT = 0, /* SEMEL_EREJECTED, SEMEL_STALE */
    SEMEL_STALE_PROCESS     /* run it as a first copy */
} semel_on_stale;

/* Where the age of a message may be read from, to know a stale one. */
typedef enum semel_age {
    SEMEL_AGE_KNOWN = 0, /* its time; else its id, if that is a UUIDv7 */
    SEMEL_AGE_ULID,      /* as above; else its id, if that is a ULID */
    SEMEL_AGE_IGNORE     /* nothing is ever stale */
} semel_age;

#define SEMEL_RETENTION_DEFAULT_MS UINT64_C(604800000) /* 7 days */
#define SEMEL_RETENTION_NONE       (UINT64_MAX - 1) /* a retention of zero: forget at the next sweep */
#define SEMEL_RETENTION_FOREVER    UINT64_MAX       /* never swept */

#define SEMEL_KEY_MAX   ((size_t)255) /* a longer key is kept as its SHA-256, never cut */
#define SEMEL_NAME_MAX  ((size_t)64)  /* of an inbox or outbox: letters, digits and . _ - */
#define SEMEL_BATCH_MAX ((size_t)10000)

/* Writes a key of its own making to `key` (room: `capacity` bytes) and its length to *len; 0: none.
 * SEMEL_ELIMIT, with *len the room it needs, if that is too little: it is called again with more. */
typedef semel_status semel_key_function(void *key, size_t capacity, size_t *len,
                                        const semel_message *message, void *context,
                                        semel_error *err);

/* Zero means the default, which is the first of each list above. */
typedef struct semel_inbox_options {
    size_t size;
    /* What makes two deliveries the same message: `id` (default), `correlation-id`, `source`, `type`,
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
    uint32_t wait_ms;        /* for a copy in flight; default 5000 */
    uint32_t lease_ms;       /* claim mode; default 30000 */
    uint32_t attempts_max;   /* then it is a dead letter; default 5 */
    uint64_t retention_ms;   /* how long a key is remembered; default 7 days */
    semel_outbox *faults;    /* of the same store: every dead letter is announced here, with ... */
    const char *fault_topic; /* ... this topic; default "semel.fault" */
} semel_inbox_options;

/* The work. Return SEMEL_OK to commit; SEMEL_EHANDLER (or any other status) to roll back and be called
 * again later; SEMEL_EGIVEUP if trying again is pointless. Never commit or roll back yourself: neither the unit nor, by
 * SQL, its transaction. */
typedef semel_status semel_handler(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err);

/* `options` may be NULL. A bad key expression is SEMEL_EINVAL, with the position of the mistake. */
SEMEL_API semel_status semel_inbox_open(semel_inbox **out, semel_store *store, const char *name,
                                        const semel_inbox_options *options, semel_error *err);
SEMEL_API void semel_inbox_close(semel_inbox *inbox);

/* Runs the handler unless the message was handled before.
 *
 * SEMEL_OK means: dealt with, acknowledge it (SEMEL_PROCESSED, _DUPLICATE, _REPLAYED, _DEAD).
 * Anything else means: do not acknowledge, or decide yourself:
 *     the handler's status  SEMEL_FAILED: let it be redelivered (SEMEL_EHANDLER if the library found the failure:
 *                           a queued statement, a constraint at the commit, a limit of the server)
 *     SEMEL_EBUSY           SEMEL_IN_PROGRESS, or SEMEL_UNDECIDED if the store stayed locked
 *     SEMEL_EUNAVAILABLE    SEMEL_UNDECIDED: the store cannot be reached; nobody's failure, and not counted
 *     SEMEL_EMISUSE         SEMEL_UNDECIDED: the handler ended the transaction behind the library's back
 *     SEMEL_EREJECTED       SEMEL_MISSING_KEY, _MISMATCH, _STALE, _DUPLICATE: it will never be accepted
 *     SEMEL_EUNKNOWN        receive it again: the store knows by then
 * `out` is the one output that is always written: SEMEL_UNDECIDED when the call failed otherwise. */
SEMEL_API semel_status semel_inbox_receive(semel_outcome *out, semel_inbox *inbox,
                                           const semel_message *message, semel_handler *handler,
                                           void *context, semel_error *err);

/* A result that was stored with a key; yours to free. */
typedef struct semel_result semel_result;
SEMEL_API semel_bytes semel_result_bytes(const semel_result *result);
SEMEL_API void semel_result_free(semel_result *result);

/* The same, and gives back what semel_unit_set_result() stored, by this run (SEMEL_PROCESSED) or by
 * the first one (SEMEL_REPLAYED); NULL if there is none. */
SEMEL_API semel_status semel_inbox_receive_result(semel_outcome *out, semel_result **result,
                                                  semel_inbox *inbox, const semel_message *message,
                                                  semel_handler *handler, void *context,
                                                  semel_error *err);

/* Many messages in one transaction, each with a savepoint of its own, so that one failure fails one
 * message. out[i] is the outcome of messages[i]; `err` is of the first one that failed. SEMEL_OK means
 * that every message has its outcome; acknowledge those with which receive would have returned
 * SEMEL_OK (semel_outcome_settled). Redeliveries, and every message of a claim-mode inbox, are handled
 * one by one. If the commit itself fails, no message has been processed and every outcome of the
 * transaction is SEMEL_UNDECIDED. Stored results are not fetched: a copy is SEMEL_DUPLICATE even where the
 * policy is replay. */
SEMEL_API semel_status semel_inbox_receive_batch(semel_outcome out[], semel_inbox *inbox,
                                                 const semel_message *const messages[],
                                                 size_t count, semel_handler *handler,
                                                 void *context, semel_error *err);

/* 1 for SEMEL_PROCESSED, _DUPLICATE, _REPLAYED and _DEAD: nothing is left to do for that delivery. */
SEMEL_API int semel_outcome_settled(semel_outcome outcome);

#define SEMEL_SWEEP_BATCH 1000 /* rows looked at by one call, unless told otherwise */

/* Retention, one bounded step: looks at up to `rows` markers (0: SEMEL_SWEEP_BATCH) from where the last
 * call stopped and removes those older than the retention. *more is 0 when a round is complete. Never
 * touches a live claim or an unsent message; several may run at once, in any processes. */
SEMEL_API semel_status semel_inbox_sweep(size_t *swept, int *more, semel_inbox *inbox,
                                         uint32_t rows, semel_error *err);

/* Forgets one key: its next copy runs as the first. SEMEL_ENOTFOUND; SEMEL_EBUSY while it is claimed. */
SEMEL_API semel_status semel_inbox_forget(semel_inbox *inbox, const semel_message *message,
                                          semel_error *err);

/* The key that the inbox computes for a message, for logs and tools. *len is its whole length; at most
 * `capacity` bytes are written. SEMEL_ENOTFOUND if it has none. */
SEMEL_API semel_status semel_inbox_key(void *key, size_t capacity, size_t *len,
                                       const semel_inbox *inbox, const semel_message *message,
                                       semel_error *err);

SEMEL_END_DECLS

#endif
