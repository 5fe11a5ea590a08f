/* The store driver table: what a database client must do to be a store. For people who write backends;
 * docs/BACKENDS.md takes a newcomer through one, and examples/filestore.c is a complete small one.
 *
 * The core decides (keys, policies, retries, what an outcome means); a driver keeps rows. The core asks
 * for small atomic steps, nearly all of them inside a unit, which is one transaction of the database:
 *
 *     receive, transaction mode    begin  mark  (handler)  put...  result_set  commit
 *     receive, queued mode         (handler)  begin  assume  queue...  put...  result_set  commit
 *     receive, claim mode          begin  claim  commit  (handler)  begin  finish  put...  commit
 *     relay                        begin  lease  commit  (broker)  begin  settle  commit
 *
 * A marker row is in one of three states, and this is the whole state machine:
 *
 *     (none) --mark--> done        (none) --claim--> open        open --claim, lease over--> open
 *     open --mark, lease over--> done       open --finish, token fits, lease live--> done
 *     open --fail--> open, no lease         open --bury--> dead        any but held --forget--> (none)
 *     done, dead, open without a live lease --sweep, past the cutoff--> (none)
 *
 * A lease is live while a token is set and now < lease end. Time is the driver's own: the seam's clock or
 * the server's, one for all clients, and one that does not jump (see `now`).
 *
 * The members are grouped by role. A group, or a member, that is said to be optional may be NULL; the core
 * then does without it, or refuses to open what needs it: an inbox whose mode needs `mark`, `queue` or
 * `claim`, an outbox without outbox members. It refuses at opening, never at a message.
 *
 * Rules for every member
 *  - `store` and `unit` point to the driver's own state: the core allocates driver->store_size and
 *    driver->unit_size zeroed bytes and frees them after close, commit or rollback.
 *  - Members on `store` may be called by several threads at once; those on a `unit` by one at a time.
 *  - Inputs are borrowed for the call. Outputs are written on success only.
 *  - A driver whose database is a round trip away may put off the members whose answer the core does not
 *    wait for: begin, put, queue, assume, result_set, savepoint, keep. A failure of one of them is then
 *    reported by the next member that waits: by commit at the latest. All take effect in the order of the
 *    calls, and before native() returns.
 *  - On any failure the unit stays open, and usable for rollback only, unless said otherwise.
 *  - Statuses: ENOMEM, ESTORE, EUNAVAILABLE, EBUSY, ECONFLICT and EUNKNOWN (commit only) from all, ELIMIT
 *    from those that add rows; others where they are named. Errors are classified by number, never by text.
 *  - A statement that should have changed a row and did not is an error, never silence.
 *
 * A backend is complete when the conformance suite (tests/support/conformance in semel's sources) passes
 * against the real database.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SYS_STORE_H
#define SEMEL_SYS_STORE_H

#include <semel/dead.h>
#include <semel/statement.h>
#include <semel/sys/rows.h>

SEMEL_BEGIN_DECLS

#define SEMEL_STORE_DRIVER_VERSION 3

/* What a store can do. Asking for what it cannot is refused when opening, never degraded in silence. */
enum {
    SEMEL_STORE_TRANSACTIONS = 1, /* the handler's own writes can go into the unit */
    SEMEL_STORE_JOIN = 2,         /* units inside a transaction that the caller has open */
    SEMEL_STORE_SHARED = 4,       /* several processes may use it at once */
    SEMEL_STORE_DISTANT =
        8 /* a round trip away: put and queue are called shortly before commit only */
};

typedef struct semel_store_settings {
    uint32_t busy_ms;
    uint32_t answer_ms;
    const semel_seam *seam; /* complete: no member is NULL */
} semel_store_settings;

enum { SEMEL_WATCH_LATER = -2 };

/* --- units ------------------------------------------------------------------------------------------ */

typedef struct semel_store_units {
    /* Opens a transaction. Waits up to wait_ms for a lock or connection, then EBUSY. On failure the unit
     * is not open. EMISUSE if this thread has a unit open that the call would wait for. */
    semel_status (*begin)(void *store, void *unit, semel_begin durability, uint32_t wait_ms,
                          semel_error *err);

    /* Ends the unit, whatever it returns. EUNKNOWN if the driver cannot tell whether the commit took place;
     * EMISUSE if the application ended the transaction; EHANDLER if a queued statement failed, or the
     * handler left the transaction failed; EREJECTED if a key that was assumed to be free is not. For a
     * joined unit: ends the savepoint only (and there EMISUSE if the transaction was left failed). */
    semel_status (*commit)(void *unit, semel_error *err);
    void (*rollback)(void *unit);

    /* Optional. Opens a unit inside the caller's transaction on `native`, by a savepoint. EMISUSE if no
     * transaction is open there. */
    semel_status (*join)(void *store, void *unit, void *native, semel_error *err);

    /* Optional. The application's statement, which runs inside the transaction after what was asked for
     * before it, by the commit at the latest. Rows that it returns are dropped. EINVAL for what cannot be
     * queued: an empty text, several statements, one that begins or ends a transaction, a wrong number of
     * values. A failure of the statement itself is EHANDLER (a conflict is ECONFLICT), with the database's
     * number and SQLSTATE. NULL: the store has no SQL, and SEMEL_QUEUED is refused. */
    semel_status (*queue)(void *unit, const char *sql, const semel_value values[], size_t count,
                          semel_error *err);

    /* Optional, all three or none. One savepoint at a time: set, then either kept or undone. After undo the
     * unit is usable. keep may fail as queue does, for what was queued since; it can be undone then. NULL:
     * each message of a batch has a unit of its own. */
    semel_status (*savepoint)(void *unit, semel_error *err);
    semel_status (*keep)(void *unit, semel_error *err);
    semel_status (*undo)(void *unit, semel_error *err);

    /* Optional. 1 if something was written in the unit, by the driver or by the application. NULL: the core
     * takes it that nothing was but what it asked for. */
    int (*used)(void *unit);

    /* Optional. Called when the handler has failed: was the handler at fault (OK)? ECONFLICT if the database
     * has undone the unit's work by a deadlock or a serialization failure, whatever the handler made of it:
     * the unit is begun anew; EBUSY if a lock was not to be had in time; EUNAVAILABLE if the connection is
     * lost; EMISUSE if the transaction was ended inside the unit and part of its work may be committed.
     * NULL: none of these can happen unnoticed by the core. */
    semel_status (*verify)(void *unit, semel_error *err);

    /* Optional. The database's own connection, on which the unit's transaction is open. */
    void *(*native)(void *unit);
} semel_store_units;

/* --- markers ---------------------------------------------------------------------------------------- */

typedef struct semel_store_markers {
    /* What is known of the key, without writing and without waiting: FREE (mark->attempts tells the starts
     * that the row knows, 0 if there is no row), DONE, HELD or DEAD. A change of another unit that has not
     * ended is HELD if the driver can tell, and not seen otherwise. */
    semel_status (*look)(void *unit, semel_mark *mark, semel_error *err);

    /* Optional: transaction mode. marks[] are of one inbox, sorted by key, no key twice. For each: a free key
     * becomes done in this unit (TAKEN, with the attempts that the row knew); others are reported as they
     * are. Keys in other open units are waited for, up to wait_ms for the whole call, then HELD. */
    semel_status (*mark)(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                         semel_error *err);

    /* Optional. As mark, for one key, but its answer comes with the commit: OK if the key was free and is
     * done now, EREJECTED if not. In that case nothing at all was done, and mark->state says what the row is
     * (with known_fingerprint), or is FREE if it is free after all or cannot be told: the core marks it then.
     * `mark` must live until the unit ends. NULL: the core uses mark. */
    semel_status (*assume)(void *unit, semel_mark *mark, uint32_t wait_ms, semel_error *err);

    /* Counts a start, and claims the key. A free key becomes open with a new token, a lease of lease_ms from
     * now and one more attempt than known to the row or in mark->attempts (TAKEN). With lease_ms 0 the
     * attempt is counted and nothing is held, and the token proves nothing. Others are reported as they
     * are. */
    semel_status (*claim)(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err);

    /* Optional, both or none: claim mode. open -> done, the lease -> longer. ELOST unless the token fits and
     * the lease is live; the unit is intact then. */
    semel_status (*finish)(void *unit, const semel_mark *mark, semel_error *err);
    semel_status (*renew)(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err);

    /* The work failed, for the reason `why`: the row is open afterwards, with mark->attempts attempts and
     * without a lease. With a token: ELOST as above. With token 0 the call replaces what this unit did to
     * the row, and rows that other units left DONE, DEAD or HELD stay as they are (ELOST). */
    semel_status (*fail)(void *unit, const semel_mark *mark, const char *why, semel_error *err);

    /* Given up on: like fail, but the row is dead afterwards. Optional without dead letters. */
    semel_status (*bury)(void *unit, const semel_mark *mark, const char *why, semel_error *err);

    /* Removes the row; if mark->state is DEAD, only a dead one. ENOTFOUND if there is no such row, EBUSY if it is
     * held. */
    semel_status (*forget)(void *unit, const semel_mark *mark, semel_error *err);

    /* Optional, both or none. The result kept with a done row of this or an earlier unit. get: *out is
     * malloc'ed, the caller frees it; NULL if there is none. set: ELOST if there is no such row. NULL: the
     * store keeps no results, and SEMEL_DUPLICATE_REPLAY is refused. */
    semel_status (*result_set)(void *unit, const semel_mark *mark, semel_bytes result,
                               semel_error *err);
    semel_status (*result_get)(void *unit, const semel_mark *mark, void **out, size_t *len,
                               semel_error *err);

    /* Optional. Looks at up to `rows` markers of the inbox from *position on, in transactions of its own, and
     * removes those that are not held and whose last change is before cutoff_ms. Moves *position; sets it
     * to zero at the end. Must not keep writers waiting for longer than one such batch. NULL: the database
     * removes rows itself, by keep_ms. */
    semel_status (*sweep)(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                          semel_sweep_position *position, size_t *swept, semel_error *err);
} semel_store_markers;

/* --- outbox ----------------------------------------------------------------------------------------- */

typedef struct semel_store_outbox {
    /* Captures a message (which has an id) in the unit. */
    semel_status (*put)(void *unit, int64_t outbox, const semel_message *message, semel_error *err);

    /* Optional. The same for many, in this order. NULL: the core calls put for each. */
    semel_status (*put_many)(void *unit, int64_t outbox, const semel_message *const messages[],
                             size_t count, semel_error *err);

    /* Leases up to `limit` messages that are due and not leased, and counts the attempt. A message with
     * a group is leased only if every earlier one of its group is gone or is leased by this very call,
     * whatever keeps it: a lease, a backoff or its delay_ms. An empty group is none. The cost of a call does
     * not grow with the number of groups that wait, nor with the number of messages that wait behind them.
     * What the driver notes for that is in the unit, and committed if `used` says so, also where no message
     * was leased. */
    semel_status (*lease)(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                          semel_item_sink *sink, void *context, semel_error *err);

    /* Applies each verdict whose token still fits (the lease may be over, as long as no other call has
     * leased the item); reports the others as lost. */
    semel_status (*settle)(void *unit, int64_t outbox, semel_item_settlement settlements[],
                           size_t count, semel_error *err);

    /* Optional: queues. Each lease whose token still fits ends lease_ms from now, whether it is over or not; the others
     * are reported as lost. The verdicts are not read. NULL: the store cannot keep a queue. */
    semel_status (*extend)(void *unit, int64_t outbox, semel_item_settlement leases[], size_t count,
                           uint32_t lease_ms, semel_error *err);

    /* Over all outboxes, and without queues: how many messages are there, and when the oldest was captured (0:
     * none). */
    semel_status (*unsent)(void *store, uint64_t *count, int64_t *oldest_ms, semel_error *err);
} semel_store_outbox;

/* --- dead letters ------------------------------------------------------------------------------------ */

typedef struct semel_store_dead {
    /* Keeps one; dead->id and at_ms are the driver's to choose. At most one per (origin, name, key):
     * a second one replaces the first, under the first one's id. */
    semel_status (*put)(void *unit, const semel_dead *dead, semel_error *err);

    /* Removes one. ENOTFOUND. */
    semel_status (*drop)(void *unit, int64_t id, semel_error *err);

    /* As semel_dead_list(); inside the unit, so that what is read is what is then changed. */
    semel_status (*list)(void *unit, const semel_dead_filter *filter, semel_dead_visitor *visitor,
                         void *context, semel_error *err);
} semel_store_dead;

/* --- news of committed messages ----------------------------------------------------------------------- */

/* How a relay learns of messages that another process has committed. Calls come one at a time, but watch may be
 * called again and again. */
typedef struct semel_store_watch {
    /* A descriptor that becomes readable then (or when it has broken), or -1 if there is none: the relay also
     * looks by itself now and then. SEMEL_WATCH_LATER: there is none now, or only since now, and news may have
     * been missed: the relay looks, and asks again soon. */
    int (*watch)(void *store);

    /* Reads what made the descriptor readable, and is 1 if there may be something to lease. */
    int (*heard)(void *store);

    void (*unwatch)(void *store);
} semel_store_watch;

/* --- the table ---------------------------------------------------------------------------------------- */

typedef struct semel_store_driver {
    uint32_t version;   /* SEMEL_STORE_DRIVER_VERSION */
    uint32_t abilities; /* SEMEL_STORE_... */
    const char *scheme; /* "sqlite" */
    size_t store_size;
    size_t unit_size;
    uint32_t changes_max; /* rows that one unit may change; 0: any number. A batch is cut by it */

    /* May block up to settings->busy_ms. EINVAL for a bad URL: name the part that is wrong, and never
     * print a password. On failure whatever was acquired has been released. `settings` outlives the
     * store. `argument` is the URL or, for semel_store_open_driver(), what its caller gave. */
    semel_status (*open)(void *store, const void *argument, const semel_store_settings *settings,
                         semel_error *err);
    void (*close)(void *store);

    /* Optional. Brings the schema up to date: restartable, safe to run from several processes at once. */
    semel_status (*migrate)(void *store, semel_error *err);

    /* The clock that leases and retention are measured by: milliseconds since 1970, but steady: when
     * the host's clock is set, it goes on as before. May ask the server. */
    semel_status (*now)(void *store, int64_t *out_ms, semel_error *err);

    semel_durability (*durability)(const void *store);

    /* The number of a name, made on first use; stable for ever. ESCHEMA if the tables are not there,
     * are newer than the driver, or are not semel's. */
    semel_status (*scope)(void *store, semel_scope kind, const char *name, int64_t *out,
                          semel_error *err);

    const semel_store_units *units;
    const semel_store_markers *markers; /* optional: inboxes */
    const semel_store_outbox *outbox;   /* optional: outboxes and relays */
    const semel_store_dead
        *dead; /* optional without an outbox: then no message is ever given up, consumers are
                                   * refused, and the broker has to limit deliveries */
    const semel_store_watch *watch; /* optional */
} semel_store_driver;

/* Opens a store with a driver that is not built in: the application's own, or a wrapper. `argument` reaches the
 * driver's open() in place of a URL, and may be NULL if the driver allows it. The driver must outlive the store. */
SEMEL_API semel_status semel_store_open_driver(semel_store **out, const semel_store_driver *driver,
                                               const void *argument,
                                               const semel_store_options *options,
                                               semel_error *err);

/* The driver's own state, for accessors that a driver brings along; NULL if the store has another driver. */
SEMEL_API void *semel_store_state(const semel_store *store, const semel_store_driver *driver);

/* For the header that gives access to a backend's own handle (see semel/sqlite.h). */
SEMEL_API semel_status semel_unit_join_native(semel_unit **out, semel_store *store,
                                              const char *scheme, void *native, semel_error *err);
SEMEL_API void *semel_unit_native(semel_unit *unit, const char *scheme);

SEMEL_END_DECLS

#endif
