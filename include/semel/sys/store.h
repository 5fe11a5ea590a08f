/* The store driver table: what a backend must do to be a store. For people who write backends.
 *
 * The core decides (keys, policies, retries, what an outcome means); a driver keeps rows. It is asked
 * for small atomic steps, nearly all of them inside a unit, which is one transaction of the backend:
 *
 *     receive, transaction mode    begin  mark  (handler)  put...  result_set  commit
 *     receive, queued mode         (handler)  begin  assume  queue...  put...  result_set  commit
 *     receive, claim mode          begin  claim  commit  (handler)  begin  finish  put...  commit
 *     relay                        begin  take  commit  (broker)  begin  settle  commit
 *
 * A marker row is in one of three states, and this is the whole state machine:
 *
 *     (none) --mark--> done        (none) --claim--> open        open --claim, lease over--> open
 *     open --mark, lease over--> done       open --finish, token fits, lease live--> done
 *     open --fail--> open, no lease         open --bury--> dead        any but held --forget--> (none)
 *     done, dead, open without a live lease --sweep, past the cutoff--> (none)
 *
 * "Live" means: a token is set and now < lease end. Time is the driver's own: the seam's clock or the
 * server's, one for all clients, and one that does not jump (see `now`).
 *
 * Rules for every member
 *  - `store` and `unit` point to the driver's own state: the core allocates driver->store_size and
 *    driver->unit_size zeroed bytes and frees them after close, commit or rollback.
 *  - Members on `store` may be called by several threads at once; those on a `unit` by one at a time.
 *  - Inputs are borrowed for the call. Outputs are written on success only.
 *  - A driver whose database is a round trip away may put off the members whose answer nobody waits for:
 *    begin, put, queue, assume, result_set, savepoint, keep. What goes wrong with them is then the failure of
 *    the next member that waits: commit at the latest. All take effect in the order of the calls, and before
 *    native() returns.
 *  - On any failure the unit stays open, and usable for rollback only, unless said otherwise.
 *  - Statuses: ENOMEM, ESTORE, EUNAVAILABLE, EBUSY, ECONFLICT and EUNKNOWN (commit only) from all, ELIMIT
 *    from those that add rows; others where they are named. Errors are classified by number, never by text.
 *  - A statement that should have changed a row and did not is an error, never silence.
 *
 * A new backend is done when tests/support/conformance/conformance_store.c passes against the real thing.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_SYS_STORE_H
#define SEMEL_SYS_STORE_H

#include <semel/dead.h>
#include <semel/statement.h>
#include <semel/store.h>

SEMEL_BEGIN_DECLS

#define SEMEL_STORE_DRIVER_VERSION 2

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

typedef enum semel_scope { SEMEL_SCOPE_INBOX = 1, SEMEL_SCOPE_OUTBOX = 2 } semel_scope;

typedef enum semel_begin {
    SEMEL_BEGIN_DURABLE = 0, /* the commit survives all that the store can survive */
    SEMEL_BEGIN_RELAXED /* atomic, but may be lost with the power: leases, counts, sent marks */
} semel_begin;

typedef enum semel_mark_state {
    SEMEL_MARK_TAKEN = 1, /* it was free and is this unit's now */
    SEMEL_MARK_DONE,      /* handled */
    SEMEL_MARK_HELD,      /* a live claim, or another unit that has not ended */
    SEMEL_MARK_DEAD       /* given up on */
} semel_mark_state;

/* One key of one inbox on its way through the store. */
typedef struct semel_mark {
    int64_t inbox;
    semel_bytes key;      /* 1 to SEMEL_KEY_MAX bytes, any bytes, compared exactly */
    uint64_t fingerprint; /* of the content; 0: none is kept */

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

typedef enum semel_verdict {
    SEMEL_ITEM_REMOVE = 1, /* sent, or moved to the dead letters: it leaves the outbox */
    SEMEL_ITEM_RETRY,      /* failed: due again after delay_ms */
    SEMEL_ITEM_RELEASE     /* not tried, and the attempt is not counted: due again after delay_ms;
                            * with 0 at once, in its old place */
} semel_verdict;

typedef struct semel_settlement {
    int64_t seq;
    uint64_t token;
    semel_verdict verdict;
    uint32_t delay_ms;
    int refused; /* RETRY because the broker does not want it: counted apart from the attempts */
    int lost; /* out: 1 if the token did not fit: someone else has the item now; nothing was done */
} semel_settlement;

enum { SEMEL_WATCH_LATER = -2 };

typedef struct semel_store_driver {
    uint32_t version;   /* SEMEL_STORE_DRIVER_VERSION */
    uint32_t abilities; /* SEMEL_STORE_... */
    const char *scheme; /* "sqlite" */
    size_t store_size;
    size_t unit_size;

    /* May block up to settings->busy_ms. EINVAL for a bad URL: name the part that is wrong, and never
     * print a password. On failure whatever was acquired has been released. `settings` outlives the
     * store. */
    semel_status (*open)(void *store, const char *url, const semel_store_settings *settings,
                         semel_error *err);
    void (*close)(void *store);

    /* Brings the schema up to date: restartable, safe to run from several processes at once. */
    semel_status (*migrate)(void *store, semel_error *err);

    /* The clock that leases and retention are measured by: milliseconds since 1970, but steady: when
     * the host's clock is set, it goes on as before. May ask the server. */
    semel_status (*now)(void *store, int64_t *out_ms, semel_error *err);

    semel_durability (*durability)(const void *store);

    /* The number of a name, made on first use; stable for ever. ESCHEMA if the tables are not there,
     * are newer than the driver, or are not semel's. */
    semel_status (*scope)(void *store, semel_scope kind, const char *name, int64_t *out,
                          semel_error *err);

    /* Opens a transaction. Waits up to wait_ms for a lock or connection, then EBUSY. On failure the unit
     * is not open. EMISUSE if this thread has one open that it would wait for. */
    semel_status (*begin)(void *store, void *unit, semel_begin durability, uint32_t wait_ms,
                          semel_error *err);

    /* Opens a unit inside the caller's transaction on `native`, by a savepoint. NULL without the
     * ability. EMISUSE if no transaction is open there. */
    semel_status (*join)(void *store, void *unit, void *native, semel_error *err);

    /* Ends the unit, whatever it returns. EUNKNOWN if it cannot tell whether the commit took place;
     * EMISUSE if somebody else ended the transaction; EHANDLER if a queued statement failed, or the
     * handler left the transaction failed; EREJECTED if a key that was assumed to be free is not. For a
     * joined unit: ends the savepoint only (and there EMISUSE if the transaction was left failed). */
    semel_status (*commit)(void *unit, semel_error *err);
    void (*rollback)(void *unit);

    /* The application's statement, to be run inside the transaction in its turn, by the commit at the
     * latest. Rows it returns are thrown away. EINVAL as sql_translate() in src/base/sql.h. A failure of the
     * statement itself is EHANDLER (a conflict is ECONFLICT), with the database's number and SQLSTATE. NULL:
     * the store has no SQL. */
    semel_status (*queue)(void *unit, const char *sql, const semel_value values[], size_t count,
                          semel_error *err);

    /* One savepoint at a time: set, then either kept or undone. After undo the unit is usable. keep may
     * fail as queue, with what was queued since; it can be undone then. */
    semel_status (*savepoint)(void *unit, semel_error *err);
    semel_status (*keep)(void *unit, semel_error *err);
    semel_status (*undo)(void *unit, semel_error *err);

    /* 1 if something was written in the unit, by us or by the application. */
    int (*used)(void *unit);

    /* Asked when the handler has failed: was that its own fault (OK)? ECONFLICT if the database has undone the unit's
     * work by a deadlock or a serialization failure, whatever the handler made of it: it is begun anew; EBUSY if a lock
     * was not to be had in time; EUNAVAILABLE if the connection is lost; EMISUSE if the transaction was ended inside
     * the unit and part of its work may be committed. NULL: none of it can happen behind the core's back. */
    semel_status (*verify)(void *unit, semel_error *err);

    /* The backend's own connection, on which the unit's transaction is open; NULL if it has none. */
    void *(*native)(void *unit);

    /* --- markers -------------------------------------------------------------------------------- */

    /* Transaction mode. marks[] are of one inbox, sorted by key, no key twice. For each: a free key
     * becomes done in this unit (TAKEN, with the attempts that the row knew); others are reported as they
     * are. Keys in other open units are waited for, up to wait_ms for the whole call, then HELD. */
    semel_status (*mark)(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                         semel_error *err);

    /* As mark, for one key, but its answer comes with the commit: OK if the key was free and is done now,
     * EREJECTED if not. In that case nothing at all was done, and mark->state says what the row is (with
     * known_fingerprint), or is 0 if it is free after all or cannot be told: mark it then. `mark` must live
     * until the unit ends. NULL: the core uses mark. */
    semel_status (*assume)(void *unit, semel_mark *mark, uint32_t wait_ms, semel_error *err);

    /* Claim mode. A free key becomes open with a new token, a lease of lease_ms from now and one more
     * attempt than known to the row or in mark->attempts (TAKEN). With lease_ms 0 the attempt is
     * counted and nothing is held, and the token proves nothing. Others are reported as they are. */
    semel_status (*claim)(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err);

    /* open -> done, the lease -> longer. ELOST unless token fits and lease is live; the unit is intact. */
    semel_status (*finish)(void *unit, const semel_mark *mark, semel_error *err);
    semel_status (*renew)(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err);

    /* The work failed, for the reason `why`: the row is open with mark->attempts attempts and no lease
     * afterwards. With a token: ELOST as above. Without (token 0): whatever this unit did to the row, and DONE, DEAD or HELD rows of others are left alone (ELOST). */
    semel_status (*fail)(void *unit, const semel_mark *mark, const char *why, semel_error *err);

    /* Given up on: like fail, but the row is dead afterwards. */
    semel_status (*bury)(void *unit, const semel_mark *mark, const char *why, semel_error *err);

    /* Removes the row. ENOTFOUND if there is none, EBUSY if it is held. */
    semel_status (*forget)(void *unit, const semel_mark *mark, semel_error *err);

    /* The result kept with a done row of this or an earlier unit. get: *out is malloc'ed, the caller
     * frees it; NULL if there is none. set: ELOST if there is no such row. */
    semel_status (*result_set)(void *unit, const semel_mark *mark, semel_bytes result,
                               semel_error *err);
    semel_status (*result_get)(void *unit, const semel_mark *mark, void **out, size_t *len,
                               semel_error *err);

    /* Looks at up to `rows` markers of the inbox from *position on, in transactions of its own, and
     * removes those that are not held and whose last change is before cutoff_ms. Moves *position; sets it
     * to zero at the end. Must not keep writers waiting for longer than one such batch. */
    semel_status (*sweep)(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                          semel_sweep_position *position, size_t *swept, semel_error *err);

    /* --- outbox --------------------------------------------------------------------------------- */

    /* Captures a message (which has an id) in the unit. */
    semel_status (*put)(void *unit, int64_t outbox, const semel_message *message, semel_error *err);

    /* The same for many, in this order. NULL: the core calls put for each. */
    semel_status (*put_many)(void *unit, int64_t outbox, const semel_message *const messages[],
                             size_t count, semel_error *err);

    /* Leases up to `limit` messages that are due and not leased, and counts the attempt. A message with
     * a group is taken only if every earlier one of its group is gone or is taken by this very call, whatever
     * keeps it: a lease, a backoff or its delay_ms. An empty group is none. What a call costs does not grow
     * with the number of groups that wait, nor with the number of messages that wait behind them. What it has
     * noted for that is in the unit, and committed if `used` says so, also where nothing was handed out. */
    semel_status (*take)(void *unit, int64_t outbox, uint32_t limit, uint32_t lease_ms,
                         semel_item_sink *sink, void *context, semel_error *err);

    /* Applies each verdict whose token still fits (the lease may be over, as long as nobody else has
     * taken the item); reports the others as lost. */
    semel_status (*settle)(void *unit, int64_t outbox, semel_settlement settlements[], size_t count,
                           semel_error *err);

    /* Over all outboxes: how many are there, and when the oldest was captured (0: none). */
    semel_status (*unsent)(void *store, uint64_t *count, int64_t *oldest_ms, semel_error *err);

    /* How to hear of messages that somebody anywhere has committed. watch gives a descriptor that becomes
     * readable then (or when it has broken), or -1 if there is none: whoever waits also looks by itself
     * now and then. SEMEL_WATCH_LATER: there is none now, or only since now, and something may have been missed: look
     * and ask again soon. heard reads what made it readable, and is 1 if there may be something to take. unwatch
     * closes it. Calls come one at a time, but watch may be asked again and again. All NULL: the store cannot
     * tell. */
    int (*watch)(void *store);
    int (*heard)(void *store);
    void (*unwatch)(void *store);

    /* --- dead letters --------------------------------------------------------------------------- */

    /* Keeps one; dead->id and at_ms are the driver's to choose. At most one per (origin, name, key):
     * a second one replaces the first, under the first one's id. */
    semel_status (*dead_put)(void *unit, const semel_dead *dead, semel_error *err);

    /* Removes one. ENOTFOUND. */
    semel_status (*dead_drop)(void *unit, int64_t id, semel_error *err);

    /* As semel_dead_list(); inside the unit, so that what is read is what is then changed. */
    semel_status (*dead_list)(void *unit, const semel_dead_filter *filter,
                              semel_dead_visitor *visitor, void *context, semel_error *err);
} semel_store_driver;

/* For the header that gives access to a backend's own handle (see semel/sqlite.h). */
SEMEL_API semel_status semel_unit_join_native(semel_unit **out, semel_store *store,
                                              const char *scheme, void *native, semel_error *err);
SEMEL_API void *semel_unit_native(semel_unit *unit, const char *scheme);

SEMEL_END_DECLS

#endif
