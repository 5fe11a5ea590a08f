/* The store driver table: what a driver must do to make a database a store. For authors of
 * backends; BACKENDS.md in semel's documentation is a guide, and examples/own_store/filestore.c in
 * its sources is a complete small driver.
 *
 * The core decides (keys, policies, retries, what an outcome means); the driver keeps rows. The
 * core asks for small atomic steps, nearly all of them inside a unit, which is one transaction of
 * the database:
 *
 *     receive, transaction mode    begin  mark  (handler)  put...  result_set  commit
 *     receive, queued mode         (handler)  begin  assume  queue...  put...  result_set  commit
 *     receive, claim mode          begin  claim  commit  (handler)  begin  finish  put...  commit
 *     relay                        begin  lease  commit  (broker)  begin  settle  commit
 *
 * A marker row is in one of three states: done, open or dead. This is the whole state machine:
 *
 *     (none) --mark--> done        (none) --claim--> open        open --claim, lease over--> open
 *     open --mark, lease over--> done       open --finish, token matches, lease live--> done
 *     open --fail--> open, no lease         open --bury--> dead   any but held --forget--> (none)
 *     open --fail, 0 attempts--> (none)     done, by mark in this unit --unmark--> (none)
 *     done, open without a live lease --sweep, past the cutoff--> (none)
 *     dead --letter_gone--> dead, which a sweep may remove, too
 *
 * A lease is live while a token is set and now < lease end. The driver uses its own clock: the
 * seam's or the server's, the same one for all clients, and one that does not jump (see `now`).
 *
 * The members are grouped by role. A group or a member that is marked optional may be NULL. The
 * core then does without it, or refuses to open what needs it: an inbox whose mode needs `mark`,
 * `queue` or `finish`, or an outbox if there are no outbox members. The core refuses when the inbox
 * or outbox is opened, never when a message arrives.
 *
 * Rules for every member
 *  - `store` and `unit` point to the driver's own state: the core allocates driver->store_size and
 *    driver->unit_size zeroed bytes and frees them after close, commit or rollback.
 *  - Several threads may call members on a `store` at once. One thread at a time calls members on a
 *    `unit`.
 *  - Inputs are borrowed for the call. Outputs are written on success only.
 *  - A driver whose database is a round trip away may defer the members whose answer the core does
 *    not wait for: begin, put, queue, assume, result_set, savepoint, keep, write of a note; and
 *    finish, renew, fail and bury of a token, as far as it cannot tell without asking. The next
 *    member that waits, commit at the latest, then reports their failures. All members take effect
 *    in the order of the calls, and before native() returns.
 *  - After a failure the unit stays open and may only be rolled back, unless the member's comment
 *    says otherwise.
 *  - Statuses: all members may return ENOMEM, ESTORE, EUNAVAILABLE, EBUSY and ECONFLICT, commit
 *    also EUNKNOWN, and members that add rows ELIMIT; members name any others. Drivers classify
 *    errors by number, never by text.
 *  - If a statement should have changed a row and did not, the driver returns an error; it never
 *    ignores that.
 *
 * A backend is complete when the conformance suite (tests/support/conformance in semel's sources)
 * passes against the real database.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SYS_STORE_H
#define SEMEL_SYS_STORE_H

#include <semel/dead.h>
#include <semel/look.h>
#include <semel/operate.h>
#include <semel/statement.h>
#include <semel/sys/rows.h>

SEMEL_BEGIN_DECLS

#define SEMEL_STORE_DRIVER_VERSION 7

/* What a store can do. The core refuses to open what needs more, and never silently does less. */
enum {
    SEMEL_STORE_TRANSACTIONS = 1, /* handlers can write in the unit's transaction */
    SEMEL_STORE_JOIN = 2,         /* units inside a transaction of the caller's */
    SEMEL_STORE_SHARED = 4,       /* several processes may use it at once */
    SEMEL_STORE_DISTANT = 8 /* a round trip away: the core calls put and queue just before commit */
};

typedef struct semel_store_settings {
    uint32_t busy_ms;
    uint32_t answer_ms;
    const semel_seam *seam; /* complete: only `fault` may be NULL */
} semel_store_settings;

enum { SEMEL_WATCH_LATER = -2 };

/* --- units ------------------------------------------------------------------------------------ */

typedef struct semel_store_units {
    /* Opens a transaction. Waits up to wait_ms for a lock or a connection, then returns EBUSY. On
     * failure the unit is not open. EMISUSE if the calling thread itself has the unit open that the
     * call would wait for. */
    semel_status (*begin)(void *store, void *unit, semel_begin durability, uint32_t wait_ms,
                          semel_error *err);

    /* Ends the unit, whatever it returns. EUNKNOWN if the driver cannot tell whether the commit
     * took place; EMISUSE if the application ended the transaction; EHANDLER if a queued statement
     * failed, or if the handler left the transaction in a failed state; EREJECTED if a key that was
     * assumed to be free is not free; ELOST if a driver that defers finish, renew, fail or bury of
     * a token finds only now that the token is lost, and nothing was changed then. For a joined
     * unit it ends only the savepoint (and returns EMISUSE if the transaction is in a failed
     * state). */
    semel_status (*commit)(void *unit, semel_error *err);
    void (*rollback)(void *unit);

    /* Optional. Opens a unit inside the caller's transaction on `native`, with a savepoint. EMISUSE
     * if no transaction is open there. */
    semel_status (*join)(void *store, void *unit, void *native, semel_error *err);

    /* Optional. Runs the application's statement inside the transaction, after everything that was
     * called before it and by the commit at the latest. Rows that it returns are discarded. EINVAL
     * for what cannot be queued: an empty text, several statements, one that begins or ends a
     * transaction, a wrong number of values. A failure of the statement itself is EHANDLER (a
     * conflict is ECONFLICT), with the database's number and SQLSTATE. Where the database has no
     * SQL, the text is a command or statement of its own. NULL: the store takes none, and the core
     * refuses SEMEL_QUEUED. */
    semel_status (*queue)(void *unit, const char *sql, const semel_value values[], size_t count,
                          semel_error *err);

    /* Optional. Would `queue` take this text with `count` values, and would the database? It
     * prepares the statement inside the transaction, after everything that was called before, and
     * does not run it. EINVAL if not, with the database's own text and, in *position (never NULL, 0
     * when called), the byte of `sql`, from 1 on, if the database tells. EHANDLER: a queued
     * statement before it has failed. A driver with `queue` has it, too. */
    semel_status (*check)(void *unit, const char *sql, size_t count, size_t *position,
                          semel_error *err);

    /* Optional, all three or none. The core sets one savepoint at a time, then keeps or undoes it.
     * After undo the unit is usable. keep may fail as queue does, because of statements queued
     * since the savepoint; the core may then call undo. NULL: each message of a batch has a unit of
     * its own. */
    semel_status (*savepoint)(void *unit, semel_error *err);
    semel_status (*keep)(void *unit, semel_error *err);
    semel_status (*undo)(void *unit, semel_error *err);

    /* Optional. 1 if the driver or the application has written something in the unit. NULL: the
     * core assumes that only its own calls have written. */
    int (*used)(void *unit);

    /* Optional. Finds the cause after a handler has failed. OK: the handler's own work failed.
     * ECONFLICT: the database has undone the unit's work because of a deadlock or a serialization
     * failure, whatever the handler returned; the core begins the unit anew. EBUSY: a lock was not
     * available in time. EUNAVAILABLE: the connection is lost. EMISUSE: the transaction was ended
     * inside the unit, and part of its work may be committed. NULL: none of these can happen
     * without the core noticing. */
    semel_status (*verify)(void *unit, semel_error *err);

    /* Optional. The database connection on which the unit's transaction is open. */
    void *(*native)(void *unit);
} semel_store_units;

/* --- markers ---------------------------------------------------------------------------------- */

typedef struct semel_store_markers {
    /* Reads the state of the key, without writing and without waiting: FREE (with the row's
     * attempts in mark->attempts, 0 if there is no row), DONE, HELD or DEAD. A change by another
     * open unit is HELD if the driver can tell; otherwise the driver does not see it. */
    semel_status (*look)(void *unit, semel_mark *mark, semel_error *err);

    /* Optional; needed for transaction mode. marks[] are keys of one inbox, sorted, without
     * repetition. Each free key becomes done in this unit (TAKEN, with the row's attempts); the
     * states of the others are reported. The call waits for keys in other open units, up to wait_ms
     * for all of them together, and then reports them as HELD. */
    semel_status (*mark)(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                         semel_error *err);

    /* Optional. As mark, for one key, but commit gives the answer: OK if the key was free and is
     * done now, else EREJECTED. After EREJECTED nothing at all was done, and mark->state is the
     * state of the row (with known_fingerprint), or FREE if the key is free after all or its state
     * is unknown; the core then uses mark. `mark` is valid until the unit ends. NULL: the core uses
     * mark. */
    semel_status (*assume)(void *unit, semel_mark *mark, uint32_t wait_ms, semel_error *err);

    /* Counts an attempt and claims the key. A free key becomes open, with a new token, a lease of
     * lease_ms from now and one attempt more than the larger of the row's and mark->attempts
     * (TAKEN). With lease_ms 0 the attempt is counted, but the key is not held, and the token
     * proves nothing. For a key that is not free its state is reported. */
    semel_status (*claim)(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err);

    /* Optional, both or none; needed for claim mode. finish makes an open row done; renew sets the
     * end of its lease. ELOST unless the token matches and the lease is live; the unit is usable
     * then. */
    semel_status (*finish)(void *unit, const semel_mark *mark, semel_error *err);
    semel_status (*renew)(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err);

    /* Records that the work failed, for the reason `why`: the row is open afterwards, with
     * mark->attempts attempts and without a lease. With mark->attempts 0 there is no row
     * afterwards: a claim that was given back leaves nothing behind. With a token: ELOST as above.
     * With token 0 the call replaces what this unit did to the row; a row that other units left
     * DONE, DEAD or HELD stays unchanged (ELOST). */
    semel_status (*fail)(void *unit, const semel_mark *mark, const char *why, semel_error *err);

    /* Optional. Of the keys that `mark` has taken in this unit these become what they were before:
     * there is no row. None of them had attempts. NULL: the core calls fail for each, which is a
     * round trip or more for each where the database is distant. */
    semel_status (*unmark)(void *unit, const semel_mark marks[], size_t count, semel_error *err);

    /* As fail, but the row is dead afterwards. Optional if the driver has no dead letters. */
    semel_status (*bury)(void *unit, const semel_mark *mark, const char *why, semel_error *err);

    /* Removes the row; if mark->state is DEAD, only a dead row. ENOTFOUND if there is no such row,
     * EBUSY if it is held. */
    semel_status (*forget)(void *unit, const semel_mark *mark, semel_error *err);

    /* Optional, both or none. The result stored with a done row of this or an earlier unit. get
     * allocates *out with malloc(), and the caller frees it; NULL if there is no result. set: ELOST
     * if there is no such row. NULL: the store keeps no results, and the core refuses
     * SEMEL_DUPLICATE_REPLAY. */
    semel_status (*result_set)(void *unit, const semel_mark *mark, semel_bytes result,
                               semel_error *err);
    semel_status (*result_get)(void *unit, const semel_mark *mark, void **out, size_t *len,
                               semel_error *err);

    /* Optional. Examines up to `rows` markers of the inbox from *position on, in transactions of
     * its own, and removes those that are not held and whose last change is before cutoff_ms,
     * but no dead row before letter_gone was called for it. Moves *position, and sets it to zero
     * at the end. Must not make writers wait for longer than one such batch takes. The
     * transaction that removes markers also raises SEMEL_NOTE_FORGOTTEN to the newest last
     * change among them. NULL: the database removes rows itself, by keep_ms. */
    semel_status (*sweep)(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                          semel_sweep_position *position, size_t *swept, semel_error *err);

    /* Optional. The letter of a dead row was discarded: the row stays dead, its last change is
     * now, and a sweep may remove it. ENOTFOUND if the key has no dead row. NULL: sweep removes
     * dead rows as it removes others. */
    semel_status (*letter_gone)(void *unit, const semel_mark *mark, semel_error *err);
} semel_store_markers;

/* --- notes ------------------------------------------------------------------------------------ */

typedef struct semel_store_notes {
    /* Reads a note: 0 and "" if there is none. With a lock, the answer is the newest one that
     * was committed, however old the transaction's view of the database is (ECONFLICT if the
     * database cannot do that), and the lock is held until the unit ends. EXCLUSIVE creates the
     * note if there is none, so that there is something to lock. */
    semel_status (*read)(void *unit, int64_t inbox, semel_note note, semel_note_lock lock,
                         semel_note_value *out, semel_error *err);

    /* Replaces a note that this unit has read with EXCLUSIVE. */
    semel_status (*write)(void *unit, int64_t inbox, semel_note note, const semel_note_value *value,
                          semel_error *err);
} semel_store_notes;

/* --- outbox ----------------------------------------------------------------------------------- */

typedef struct semel_store_outbox {
    /* Captures a message, which has an id, in the unit. */
    semel_status (*put)(void *unit, int64_t outbox, const semel_message *message, semel_error *err);

    /* Optional. As put, for many messages, in the given order. NULL: the core calls put for
     * each. */
    semel_status (*put_many)(void *unit, int64_t outbox, const semel_message *const messages[],
                             size_t count, semel_error *err);

    /* Leases up to `limit` messages that are due and not leased, and counts an attempt for each. A
     * message with a group is leased only if every earlier message of its group has left the outbox
     * or is leased by this same call; an earlier one blocks it while it is leased, in backoff or
     * delayed (delay_ms). An empty group means no group. The cost of a call does not grow with the
     * number of groups that wait, nor with the number of messages behind them. Rows that the driver
     * writes for that purpose belong to the unit; the core commits them if `used` is 1, even if no
     * message was leased. */
    semel_status (*lease)(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                          semel_item_sink *sink, void *context, semel_error *err);

    /* Applies each verdict whose token still matches, and reports the others as lost. A token
     * matches until another call has leased the item, even if the lease is over. */
    semel_status (*settle)(void *unit, int64_t outbox, semel_item_settlement settlements[],
                           size_t count, semel_error *err);

    /* Optional: queues. Each lease whose token still fits ends lease_ms from now, whether it is
     * over or not; the driver reports the others as lost. It does not read the verdicts. NULL: the
     * store cannot keep a queue. */
    semel_status (*extend)(void *unit, int64_t outbox, semel_item_settlement leases[], size_t count,
                           uint32_t lease_ms, semel_error *err);

    /* Over all outboxes, without queues: the number of messages, and when the oldest was captured
     * (0: no message). */
    semel_status (*unsent)(void *store, uint64_t *count, int64_t *oldest_ms, semel_error *err);
} semel_store_outbox;

/* --- dead letters ----------------------------------------------------------------------------- */

typedef struct semel_store_dead {
    /* Stores a dead letter; the driver chooses dead->id and at_ms, and first_ms if that is 0.
     * There is at most one per (origin, name, key): a second one replaces the first, and keeps the
     * id, the earlier first_ms and `retry`, which put does not read. */
    semel_status (*put)(void *unit, const semel_dead *dead, semel_error *err);

    /* Removes a dead letter. ENOTFOUND if there is none with this id. */
    semel_status (*drop)(void *unit, int64_t id, semel_error *err);

    /* As semel_dead_list(), but inside the unit, so that the unit changes the rows that it has
     * read. The driver does not read filter->error. A letter without a stored cause is shown with
     * the cause 0 and passes every filter->cause: the core decides. */
    semel_status (*list)(void *unit, const semel_dead_filter *filter, semel_dead_visitor *visitor,
                         void *context, semel_error *err);
} semel_store_dead;

/* --- notification of committed messages ------------------------------------------------------- */

/* How a relay learns of messages that another process has committed. The core makes these calls one
 * at a time; it may call watch repeatedly. */
typedef struct semel_store_watch {
    /* A descriptor that becomes readable when messages were committed or when the connection
     * breaks; -1 if there is none. The relay polls in any case. SEMEL_WATCH_LATER: there is no
     * descriptor now, or there has been one only since this call, so notifications may have been
     * missed; the relay looks for messages and calls watch again soon. */
    int (*watch)(void *store);

    /* Reads what made the descriptor readable. 1 if there may be messages to lease. */
    int (*heard)(void *store);

    void (*unwatch)(void *store);
} semel_store_watch;

/* --- lists ------------------------------------------------------------------------------------ */

/* Each reads what is committed, in a transaction of its own, waits for no unit and makes none wait.
 * The filters are complete; a limit is never 0. A row that cannot be read is shown as damaged or as
 * far as it can be read, and hides no other. The visitor must not use the store. */
typedef struct semel_store_lists {
    /* The marker with filter->key or, if that is empty, those behind filter->after in the order of
     * their keys. The keys are as stored. The driver does not read filter->state. */
    semel_status (*markers)(void *store, int64_t inbox, const semel_marker_filter *filter,
                            semel_marker_visitor *visitor, void *context, semel_error *err);

    /* Optional. What is in an outbox or a queue, by seq. */
    semel_status (*outgoing)(void *store, int64_t outbox, const semel_outgoing_filter *filter,
                             semel_outgoing_visitor *visitor, void *context, semel_error *err);

    /* Optional, both or none. What `settle` was told to keep (semel_item_settlement.sent), from
     * (after_ms, after_seq) on, upwards or downwards. sweep_sent removes up to `rows` of those that
     * were sent before cutoff_ms, the oldest first, in the unit. */
    semel_status (*sent)(void *store, int64_t outbox, const semel_sent_filter *filter,
                         semel_outgoing_visitor *visitor, void *context, semel_error *err);
    semel_status (*sweep_sent)(void *unit, int64_t outbox, int64_t cutoff_ms, uint32_t rows,
                               size_t *removed, semel_error *err);
} semel_store_lists;

/* --- operation -------------------------------------------------------------------------------- */

/* What <semel/operate.h> is made of. Members with a `unit` belong to it; the others read as lists
 * do. Each is optional. */
typedef struct semel_store_operation {
    /* The names of a kind behind `after` ("": all), in their order byte by byte, at most `limit`.
     * The driver leaves the definition "". */
    semel_status (*names)(void *store, semel_scope kind, const char *after, uint32_t limit,
                          semel_name_visitor *visitor, void *context, semel_error *err);

    /* Of the messages with these seqs in an outbox or a queue, those that no live lease holds:
     * wake makes them due now, and remove removes them. *changed is the number of these. */
    semel_status (*wake)(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                         size_t *changed, semel_error *err);
    semel_status (*remove)(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                           size_t *changed, semel_error *err);

    /* Not needed where no seq is ever given to a second message; the core then reads the message
     * before the unit, by `outgoing` of the lists. Shows the message with this seq, with headers
     * and body, as the unit sees it; none if it is not there. */
    semel_status (*outgoing)(void *unit, int64_t outbox, int64_t seq,
                             semel_outgoing_visitor *visitor, void *context, semel_error *err);

    /* As semel_dead_set_retry(). ENOTFOUND if no row was changed. With SEMEL_RETRY_FAILED the
     * letter has no cause any more, and is listed with the cause 0: the core computes it. */
    semel_status (*set_retry)(void *unit, int64_t id, semel_retry from, semel_retry to,
                              const char *error, semel_error *err);

    /* As semel_audit_write(): a new row gets id and at_ms. ENOTFOUND if the row to replace is not
     * there. */
    semel_status (*audit_put)(void *unit, semel_audit *entry, semel_error *err);
    semel_status (*audit_list)(void *store, const semel_audit_filter *filter,
                               semel_audit_visitor *visitor, void *context, semel_error *err);

    /* Adds or replaces the row; seen_ms is now. process_remove: the row of `id`, and those that
     * were last seen before cutoff_ms. */
    semel_status (*process_put)(void *unit, const semel_process *process, semel_error *err);
    semel_status (*process_remove)(void *unit, const char *id, int64_t cutoff_ms, semel_error *err);
    semel_status (*process_list)(void *store, semel_process_visitor *visitor, void *context,
                                 semel_error *err);
} semel_store_operation;

/* --- history ---------------------------------------------------------------------------------- */

/* Rows about deliveries, which decide nothing: see semel_history. Their ids ascend in the order of
 * writing and are never used again, and `trim` counts them in place of rows. */
typedef struct semel_store_history {
    /* Adds the rows in the unit, in the given order and in as few round trips as it can. Their keys
     * are as stored, and no text is NULL but type and source. `message` is never NULL: with
     * kept 0 it has id, type and source only. A row whose message the database cannot take, being
     * too large, is stored with kept 0. */
    semel_status (*put)(void *unit, const semel_history rows[], size_t count, semel_error *err);

    /* As a list: rows before filter->before_id, the largest id first, at most filter->limit. A
     * message has id, type and source and, if it was kept and the filter asks for contents, the
     * rest. It is NULL, with `damage` and with the row's own id, type and source, if it cannot be
     * read. */
    semel_status (*list)(void *store, const semel_history_filter *filter,
                         semel_history_visitor *visitor, void *context, semel_error *err);

    /* Of the `limit` rows with the smallest ids, removes those with an id of at most the largest
     * one less rows_kept (0: none), and those with an at_ms before cutoff_ms (0: none). */
    semel_status (*trim)(void *unit, uint64_t rows_kept, int64_t cutoff_ms, uint32_t limit,
                         size_t *removed, semel_error *err);

    /* The smallest and the largest id, and at_ms of the first; all 0 if there is no row. */
    semel_status (*bounds)(void *store, int64_t *first_id, int64_t *last_id, int64_t *first_ms,
                           semel_error *err);
} semel_store_history;

/* --- schema and inspection -------------------------------------------------------------------- */

/* As semel_store_schema(), semel_store_migrate_to() (the version is never 0) and
 * semel_store_inspect(). Each is optional. */
typedef struct semel_store_inspection {
    semel_status (*schema)(void *store, semel_schema_visitor *visitor, void *context,
                           semel_error *err);
    semel_status (*migrate_to)(void *store, int32_t version, semel_error *err);
    semel_status (*inspect)(void *store, semel_finding_visitor *visitor, void *context,
                            semel_error *err);
} semel_store_inspection;

/* --- the table -------------------------------------------------------------------------------- */

typedef struct semel_store_driver {
    uint32_t version;   /* SEMEL_STORE_DRIVER_VERSION */
    uint32_t abilities; /* SEMEL_STORE_... */
    const char *scheme; /* "sqlite" */
    size_t store_size;
    size_t unit_size;
    uint32_t changes_max; /* most rows that one unit may change (batches are split); 0: no limit */

    /* May block up to settings->busy_ms. EINVAL for a bad URL: the text names the wrong part and
     * never shows a password. On failure the driver has released everything that it acquired.
     * `settings` outlives the store. `argument` is the URL or, for semel_store_open_driver(), its
     * caller's argument. */
    semel_status (*open)(void *store, const void *argument, const semel_store_settings *settings,
                         semel_error *err);
    void (*close)(void *store);

    /* Optional. Brings the schema up to date. It can be repeated after a crash, and several
     * processes may run it at once. */
    semel_status (*migrate)(void *store, semel_error *err);

    /* The clock for leases and retention, in milliseconds since 1970. It is steady: setting the
     * host's clock does not move it. The driver may ask the server. */
    semel_status (*now)(void *store, int64_t *out_ms, semel_error *err);

    semel_durability (*durability)(const void *store);

    /* The number of a name, assigned on first use and never changed. ESCHEMA if the tables do not
     * exist, need a newer driver, or are not semel's. */
    semel_status (*scope)(void *store, semel_scope kind, const char *name, int64_t *out,
                          semel_error *err);

    /* Optional. Counts what the tables hold, without locks and within about deadline_ms. Sets
     * open_claims for an inbox only, to -1 if the markers cannot be read in that time. The letters
     * of a kind have the origin of the same number. */
    semel_status (*stats)(void *store, const semel_stats_of *of, uint32_t deadline_ms,
                          semel_stats *out, semel_error *err);

    /* Optional. Runs a statement of the application's that has no values, outside of any unit:
     * where the database ends a transaction when a table changes. EINVAL if it does not take it.
     * NULL: the core queues it in a unit. */
    semel_status (*run)(void *store, const char *sql, semel_error *err);

    const semel_store_units *units;
    const semel_store_markers *markers; /* optional; needed for inboxes */
    /* optional. Without them the core cannot know what a sweep has removed: it takes every
     * message without a marker that is older than the retention for a stale one, and each
     * process sweeps at times of its own */
    const semel_store_notes *notes;
    const semel_store_outbox *outbox; /* optional; needed for outboxes and relays */
    /* optional if there is no outbox: no message then becomes a dead letter, consumers are
     * refused, and the broker has to limit deliveries */
    const semel_store_dead *dead;
    const semel_store_watch *watch;           /* optional */
    const semel_store_lists *lists;           /* optional; needed for <semel/look.h> */
    const semel_store_operation *operation;   /* optional; needed for <semel/operate.h> */
    const semel_store_inspection *inspection; /* optional; the same */
    const semel_store_history *history;       /* optional; the same */

    /* Optional. What is wrong with a URL, as far as the URL itself shows it: EINVAL for what open()
     * would refuse. The driver contacts and makes nothing. A piece of the URL stands between double
     * quotes in the text of an error, and a password never does. NULL: opening it tells. */
    semel_status (*check_url)(const char *url, semel_error *err);
} semel_store_driver;

/* Opens a store with a driver that is not built in: the application's own, or a wrapper. The
 * driver's open() gets `argument` in place of a URL; it may be NULL if the driver allows that. The
 * driver must outlive the store. */
SEMEL_API semel_status semel_store_open_driver(semel_store **out, const semel_store_driver *driver,
                                               const void *argument,
                                               const semel_store_options *options,
                                               semel_error *err);

/* The driver's own state, for accessor functions that a driver offers; NULL if the store has
 * another driver. */
SEMEL_API void *semel_store_state(const semel_store *store, const semel_store_driver *driver);

/* For headers that give access to a backend's own connection (see semel/sqlite.h). */
SEMEL_API semel_status semel_unit_join_native(semel_unit **out, semel_store *store,
                                              const char *scheme, void *native, semel_error *err);
SEMEL_API void *semel_unit_native(semel_unit *unit, const char *scheme);

SEMEL_END_DECLS

#endif
