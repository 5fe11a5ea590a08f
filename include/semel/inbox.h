/* The inbox: a named scope of keys. An inbox handles each key once.
 *
 * Give every handler its own inbox: a message that reaches two inboxes is handled once in each of
 * them.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_INBOX_H
#define SEMEL_INBOX_H

#include <semel/unit.h>

SEMEL_BEGIN_DECLS

/* How the work is protected. GUARANTEES.md in semel's documentation says what each mode promises
 * and what it does not promise. */
typedef enum semel_mode {
    SEMEL_TRANSACTION = 0, /* marker and work share one transaction: the effect happens once */
    SEMEL_CLAIM, /* a lease protects work that takes part in no transaction of the store */
    /* as SEMEL_TRANSACTION, for handlers that only queue statements, send messages and set a
     * result: on a database server all of that, with the marker, takes one round trip. The handler
     * may also be called for a copy; its work is then discarded */
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
    SEMEL_MISMATCH_REJECT = 0, /* SEMEL_EREJECTED, SEMEL_MISMATCH, if the fingerprint differs */
    SEMEL_MISMATCH_IGNORE      /* only the key decides; no fingerprint is stored */
} semel_on_mismatch;

typedef enum semel_on_stale {
    /* SEMEL_EREJECTED, SEMEL_STALE: the message has no marker, and the inbox has forgotten
     * markers of its age, so it may have been handled before */
    SEMEL_STALE_REJECT = 0,
    SEMEL_STALE_PROCESS /* run the handler as for a first copy */
} semel_on_stale;

/* Where the inbox reads the age of a message, to recognize a stale one. An id may be that of an
 * entity, which is older than the message: choose UUID or ULID only if every message has an id
 * of its own. */
typedef enum semel_age {
    /* the message's time; SEMEL_HEADER_DUE, if the message was delayed or replayed */
    SEMEL_AGE_TIME = 0,
    SEMEL_AGE_UUID,  /* as above, else its id if that is a UUIDv7 */
    SEMEL_AGE_ULID,  /* as above, else its id if that is a ULID */
    SEMEL_AGE_IGNORE /* no message is ever stale */
} semel_age;

/* What the inbox remembers of the messages that it has handled. POSITIONS in semel's documentation
 * compares the two. */
typedef enum semel_remember {
    SEMEL_REMEMBER_KEYS = 0, /* a marker for each key, as long as the retention says */
    /* one row for each partition of a broker that has partitions and positions: it says which
     * position comes next, and moves in the transaction of the work. It recognizes every message
     * that the broker delivers again, for ever, but not one that its producer has sent twice */
    SEMEL_REMEMBER_POSITIONS
} semel_remember;

/* With SEMEL_REMEMBER_POSITIONS: a partition goes on at a later position than the next one. Brokers
 * leave out positions after compaction, for the marks of transactions, and when messages were
 * removed before they were read; and a message for which no route has this inbox may not be counted
 * here. Borrowed for the call. */
typedef struct semel_gap {
    size_t size;
    const char *inbox;
    const char *partition;
    int64_t expected;
    int64_t found;
} semel_gap;
typedef void semel_gap_function(void *context, const semel_gap *gap);

#define SEMEL_RETENTION_DEFAULT_MS UINT64_C(604800000) /* 7 days */
#define SEMEL_RETENTION_NONE       (UINT64_MAX - 1) /* retention zero: forget at the next sweep */
#define SEMEL_RETENTION_FOREVER    UINT64_MAX       /* never swept */

#define SEMEL_SWEEP_DEFAULT_MS UINT32_C(3600000) /* a round every hour */
#define SEMEL_SWEEP_OFF        UINT32_MAX        /* no rounds but those of the caller */

#define SEMEL_ATTEMPTS_FOREVER UINT32_MAX /* a message that fails is never given up */

#define SEMEL_KEY_MAX          ((size_t)255) /* a longer key is stored as its SHA-256, never cut */
#define SEMEL_NAME_MAX         ((size_t)255) /* of an inbox or outbox: letters, digits and . _ - */
#define SEMEL_BATCH_MAX        ((size_t)10000)
#define SEMEL_DETAIL_NAMES_MAX ((size_t)1000)

/* Computes a key: writes it to `key`, which has room for `capacity` bytes, and its length to *len.
 * A length of 0 means that the message has no key. If the room is too small, the function sets *len
 * to the room that it needs and returns SEMEL_ELIMIT; the inbox then calls it again with more
 * room. */
typedef semel_status semel_key_function(void *key, size_t capacity, size_t *len,
                                        const semel_message *message, void *context,
                                        semel_error *err);

/* Zero means the default: for the policies, the first value of each enumeration above. */
typedef struct semel_inbox_options {
    size_t size;
    /* What makes two deliveries the same message: `id` (the default), `correlation-id`, `source`,
     * `type`, `header:NAME`, `json:/pointer/into/body`, `digest` (of type and body), or several
     * joined with `+`. 'text' in single quotes stands for itself, as in 'payment:'+json:/id. A name
     * or pointer may be in quotes, too, and must be if it contains a + or begins with a quote:
     * header:'a+b'. Inside quotes '' is one quote. With one part that is not quoted text, the key
     * is all parts one after the other (payment:42). With several, each part is preceded by its
     * length ("2:ab,1:c,"), so that different parts never make the same key. */
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
    uint32_t wait_ms;      /* longest wait for a copy in flight; default 5000 */
    uint32_t lease_ms;     /* claim mode; default 30000 */
    uint32_t attempts_max; /* after so many it is a dead letter; default 5 */
    /* how long the inbox remembers a key; default 7 days. All processes should use the same: one
     * that is running does not look up what a shorter retention of another has just removed */
    uint64_t retention_ms;
    semel_outbox *faults;    /* of the same store: gets a message for every dead letter, with ... */
    const char *fault_topic; /* ... this topic; default "semel.fault" */
    /* by how much the clocks of producer, consumer and store may differ; default 60000. A message
     * is stale only if it was made before the newest forgotten marker, or up to this much later */
    uint32_t clock_margin_ms;
    /* 1: the inbox may be opened with another key, mode (claim or transaction), fingerprint or
     * `remember` than before. Its markers stay as they are; the caller answers for what that means.
     * With SEMEL_REMEMBER_POSITIONS, a row that belongs to another cluster or to a topic that was
     * recreated is replaced, too */
    int accept_changes;
    /* What is compared between two messages with the same key; if it differs, on_mismatch decides.
     * `body` (type and body), `none`, or an expression as in `key`: json:/amount+json:/currency. A
     * part that a message does not have counts as empty: two messages without it are equal. The
     * default is `body`, or `none` if a part of the key is `json:` or `digest`: a key that is taken
     * from the body is there to recognize the same order in another event. After a change (see
     * accept_changes) a copy of a message that was handled before it may be reported as a
     * mismatch. */
    const char *fingerprint;
    /* how often running consumers and relays make a round of retention, in one process of all;
     * 0: SEMEL_SWEEP_DEFAULT_MS. SEMEL_SWEEP_OFF: never in this process */
    uint32_t sweep_every_ms;
    /* how long a dead letter of the inbox is kept, and its key with it; default
     * SEMEL_RETENTION_FOREVER. semel_inbox_sweep() removes older ones */
    uint64_t dead_retention_ms;
    int fault_body; /* 1: messages to `faults` carry body and content type of the failed message */
    /* 1: type and source of each message and the time of its receipt are kept with its key, for
     * semel_inbox_look() and semel_inbox_list(). Types and sources are stored as numbers: a new
     * name costs one transaction of its own, a known one nothing but its bytes. Names that are
     * longer than SEMEL_NAME_MAX or not UTF-8, and new names beyond SEMEL_DETAIL_NAMES_MAX of
     * each kind in one open inbox, are left out. So are new names if the unit is a joined one or
     * has done work before it claims. */
    int keep_details;
    /* 1: claim mode: a claim survives what other commits of the store survive. Else it costs less,
     * and a power failure (on PostgreSQL also a crash of the server) may undo the claim of a
     * message whose handler ran just then; the next copy would be its first attempt again. */
    int durable_claims;
    /* With SEMEL_REMEMBER_POSITIONS messages are received by semel_inbox_receive_run(), or by a
     * consumer whose transport has positions. The mode is not SEMEL_CLAIM, and what is about keys
     * is refused: key, key_function, fingerprint, keep_details and the policies for duplicates,
     * missing keys, mismatches and stale messages. A message that fails holds up its partition
     * until it succeeds, or until it is put aside as a dead letter, by attempts_max: 1 puts it
     * aside at once, SEMEL_ATTEMPTS_FOREVER never. */
    semel_remember remember;
    /* SEMEL_REMEMBER_POSITIONS: called when this process begins with a partition that has a gap,
     * by the thread that receives, outside of every transaction. NULL: gaps are not reported */
    semel_gap_function *gap;
    void *gap_context;
} semel_inbox_options;

/* What an inbox sends to `faults` when a message becomes a dead letter, in the same transaction. It
 * is of the type "semel.fault", its source is the name of the inbox, and it has the correlation id
 * of the failed message. Its headers:
 *     semel-inbox, semel-error              which inbox gave up, and why
 *     semel-message-id, -type, -source, -topic   of the failed message, as far as it has them
 *     semel-attempts                        how many there were
 *     semel-first-time, semel-last-time     of the first attempt on record and of giving up, in
 *                                           RFC 3339, UTC, by the store's clock
 *     all headers of the failed message     (traceparent, ...), under their own names; one that is
 *                                           called like one of the above is called original-NAME
 *     semel-dropped-headers                 how many of them there was no room for, if any
 * A message that a policy refuses is announced each time it comes, under one and the same id. */

/* The work. It returns SEMEL_OK to commit, SEMEL_EHANDLER (or any other status) to roll back and be
 * called again later, and SEMEL_EGIVEUP if another attempt is pointless. SEMEL_ESTOPPED rolls back
 * as if the handler had not been called. A handler must not commit or roll back: neither the unit
 * nor, by SQL, its transaction. */
typedef semel_status semel_handler(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err);

/* `options` may be NULL. A bad key expression is SEMEL_EINVAL; the error text gives the position of
 * the mistake. SEMEL_EINVAL, too, if the inbox was opened with another key or mode before: the
 * text names both. SEMEL_EUNSUPPORTED if the store cannot do what the mode or a policy needs. */
SEMEL_API semel_status semel_inbox_open(semel_inbox **out, semel_store *store, const char *name,
                                        const semel_inbox_options *options, semel_error *err);
SEMEL_API void semel_inbox_close(semel_inbox *inbox);

/* Runs the handler, unless the message was handled before.
 *
 * SEMEL_OK means that the delivery is finished: acknowledge it (SEMEL_PROCESSED, _DUPLICATE,
 * _REPLAYED, _DEAD). Any other status means that the caller must not acknowledge the delivery, or
 * must decide itself:
 *     the handler's status  SEMEL_FAILED: let the broker deliver it again (SEMEL_EHANDLER if the
 *                           library found the failure: a queued statement, a constraint at the
 *                           commit, a limit of the server)
 *     SEMEL_EBUSY           SEMEL_IN_PROGRESS, or SEMEL_UNDECIDED if the store stayed locked
 *     SEMEL_EUNAVAILABLE    SEMEL_UNDECIDED: the store cannot be reached; this does not count as an
 *                           attempt
 *     SEMEL_EMISUSE         SEMEL_UNDECIDED: the handler itself ended the transaction
 *     SEMEL_ESTOPPED        SEMEL_UNDECIDED: the handler returned it; this does not count as an
 *                           attempt
 *     SEMEL_EREJECTED       SEMEL_MISSING_KEY, _MISMATCH, _STALE, _DUPLICATE: the inbox will never
 *                           accept it
 *     SEMEL_EUNKNOWN        receive the message again: the store will then know what became of the
 *                           commit
 * `out` is the one output that is always written: it is SEMEL_UNDECIDED when the call failed in
 * another way. */
SEMEL_API semel_status semel_inbox_receive(semel_outcome *out, semel_inbox *inbox,
                                           const semel_message *message, semel_handler *handler,
                                           void *context, semel_error *err);

/* A result that was stored with a key. The caller frees it. */
typedef struct semel_result semel_result;
SEMEL_API semel_bytes semel_result_bytes(const semel_result *result);
SEMEL_API void semel_result_free(semel_result *result);

/* As semel_inbox_receive(), and also returns what semel_unit_set_result() stored in this run
 * (SEMEL_PROCESSED) or in the first one (SEMEL_REPLAYED); NULL if no result was stored. */
SEMEL_API semel_status semel_inbox_receive_result(semel_outcome *out, semel_result **result,
                                                  semel_inbox *inbox, const semel_message *message,
                                                  semel_handler *handler, void *context,
                                                  semel_error *err);

/* Handles many messages in one transaction. Each message has a savepoint of its own, so that a
 * failing message fails alone. out[i] is the outcome of messages[i]; `err` describes the first
 * failure. SEMEL_OK means that every message has its outcome; acknowledge those for which
 * semel_inbox_receive() would have returned SEMEL_OK (see semel_outcome_settled). Redeliveries, and
 * all messages of an inbox in claim mode, are handled one by one. If the commit itself fails, no
 * message was processed, and every outcome of the transaction is SEMEL_UNDECIDED; but if one
 * message may have caused the failure (a queued statement that failed, a connection that was lost
 * or a transaction that ended during the work), each message is received by itself. A store that
 * limits the changes of a transaction handles a large batch in several. SEMEL_ESTOPPED: a handler
 * returned it; the messages that it was returned for, and those that were not begun, are
 * SEMEL_UNDECIDED, and the others have their outcomes. The outcomes are those of
 * semel_inbox_receive(), also for a message that comes twice in one batch. With the policy replay,
 * each copy costs one look for its result; the result itself is not returned. */
SEMEL_API semel_status semel_inbox_receive_batch(semel_outcome out[], semel_inbox *inbox,
                                                 const semel_message *const messages[],
                                                 size_t count, semel_handler *handler,
                                                 void *context, semel_error *err);

/* Messages of one partition that follow each other: for SEMEL_REMEMBER_POSITIONS. */
typedef struct semel_run {
    size_t size;
    const char *partition; /* "orders/3": whatever names it; not empty */
    /* what the positions count in: the id of the cluster or of the topic. NULL or "": not known */
    const char *origin;
    const int64_t *positions; /* ascending, from 0 on */
    const semel_message *const *messages;
    size_t count;
} semel_run;

/* Handles a run in one transaction, which also moves the position of its partition: so a second
 * caller with the same messages, such as a consumer that the broker has written off, finds that
 * they are duplicates. Handlers have no savepoints; if one fails, all is rolled back, and
 * those before it run again without it. The messages must be given in the order of the partition,
 * and none left out: what comes later than an undecided message moves the position past it.
 *
 * out[i] is the outcome of messages[i]: SEMEL_PROCESSED, _DUPLICATE or _DEAD for some of them,
 * from the first on, then possibly SEMEL_FAILED for one. The rest is SEMEL_UNDECIDED, and has to
 * wait: give it again, together with the one that failed. SEMEL_OK means that something was decided
 * and the store works; `err` describes the message that failed. Attempts are counted before they
 * start whenever the last one may not have ended: at the first run of a partition in this process,
 * after a failure, and after SEMEL_EUNKNOWN. So a message that kills its process becomes a dead
 * letter, too, and those beside it do not.
 *
 * SEMEL_EREJECTED: the row of this partition belongs to another cluster (the origins differ), or
 * its topic was recreated (a message that it should know is newer than its last change, or is
 * another one). Nothing was changed: see accept_changes and semel_inbox_forget_partition(). */
SEMEL_API semel_status semel_inbox_receive_run(semel_outcome out[], semel_inbox *inbox,
                                               const semel_run *run, semel_handler *handler,
                                               void *context, semel_error *err);

/* The position that the inbox expects next in a partition: all before it are decided.
 * SEMEL_ENOTFOUND if it has not received anything from that partition. */
SEMEL_API semel_status semel_inbox_position(int64_t *next, semel_inbox *inbox,
                                            const char *partition, semel_error *err);

/* Forgets the position of a partition: whatever comes next from it is handled, from there on. For
 * topics that were recreated. Nothing must receive from the partition meanwhile. */
SEMEL_API semel_status semel_inbox_forget_partition(semel_inbox *inbox, const char *partition,
                                                    semel_error *err);

/* Returns 1 for SEMEL_PROCESSED, _DUPLICATE, _REPLAYED and _DEAD: nothing is left to do for that
 * delivery. */
SEMEL_API int semel_outcome_settled(semel_outcome outcome);

#define SEMEL_SWEEP_BATCH 1000 /* rows that one call examines by default */

/* Does one bounded step of retention: examines up to `rows` markers (0: SEMEL_SWEEP_BATCH),
 * starting where the last call stopped, and removes those that are older than the retention. *more
 * is 0 when a round is complete. The sweep never removes a live claim, an unsent message, or the
 * marker of a dead letter. Several sweeps may run at once, in any number of processes.
 *
 * A round begins with the inbox's dead letters that are older than dead_retention_ms, up to `rows`
 * in a step; each goes with its marker. *swept counts markers and letters.
 *
 * semel_consumer_run(), and semel_relay_run() with a local hand-off, sweep their inboxes by
 * themselves (sweep_every_ms), and a running pipeline all of its inboxes. Without one of these
 * running, in any process, the markers stay for ever, unless the program makes a round itself from
 * time to time:
 *
 *     int more = 1;
 *     size_t swept;
 *     while (more)
 *         if (semel_inbox_sweep(&swept, &more, inbox, 0, &err))
 *             return report(&err);
 */
SEMEL_API semel_status semel_inbox_sweep(size_t *swept, int *more, semel_inbox *inbox,
                                         uint32_t rows, semel_error *err);

/* Removes all markers whose last change is longer ago than older_than_ms, whatever the retention
 * is, in bounded steps, and never a live claim. *removed is their number. After an error, call it
 * again: it removes what is left. SEMEL_EUNSUPPORTED if the store removes markers by itself.
 *
 * A copy of what was forgotten is SEMEL_STALE if its age is known, as after a sweep. An age below
 * the retention needs care: this process knows of it at once, processes that run a consumer or a
 * relay learn of it within about a minute, and the others when they begin a round or open the
 * inbox. Until then, such a copy runs there as a first copy. SEMEL_EUNSUPPORTED for such an age if
 * the store keeps no notes. */
SEMEL_API semel_status semel_inbox_purge(size_t *removed, semel_inbox *inbox,
                                         uint64_t older_than_ms, semel_error *err);

/* What this process did through this inbox since it was opened, without asking the database: the
 * members from `processed` to `dead`, and `swept`. */
SEMEL_API void semel_inbox_counters(semel_counters *out, size_t size, const semel_inbox *inbox);

/* What the database holds of this inbox: `dead` and `open_claims`. See semel_store_stats(). */
SEMEL_API semel_status semel_inbox_stats(semel_stats *out, size_t size, semel_inbox *inbox,
                                         uint32_t deadline_ms, semel_error *err);

/* Forgets the key of the message: its next copy runs as a first copy, unless it is as old as what
 * sweeps have removed, and therefore stale. SEMEL_ENOTFOUND if the inbox
 * does not know the key, SEMEL_EBUSY while the key is claimed. */
SEMEL_API semel_status semel_inbox_forget(semel_inbox *inbox, const semel_message *message,
                                          semel_error *err);

/* Computes the key of a message as the inbox does (with SEMEL_MISSING_KEY_DIGEST, the digest of a
 * message without a key), for logs and tools. *len is the length of the whole key; at most
 * `capacity` bytes are written. SEMEL_ENOTFOUND if the message has no key. */
SEMEL_API semel_status semel_inbox_key(void *key, size_t capacity, size_t *len,
                                       const semel_inbox *inbox, const semel_message *message,
                                       semel_error *err);

/* What semel_unit_idempotency_key() gives the handler of this message in this inbox. */
SEMEL_API semel_status semel_inbox_idempotency_key(char out[SEMEL_IDEMPOTENCY_KEY_SIZE],
                                                   const semel_inbox *inbox,
                                                   const semel_message *message, semel_error *err);

SEMEL_END_DECLS

#endif
