/* A store: the database that keeps markers, outgoing messages and dead letters.
 *
 *     memory:                         the memory of this process, which is lost when it ends
 *     sqlite:orders.db                a file, which several processes of one host may share
 *     sqlite:/var/lib/shop/orders.db?synchronous=full&cache_kib=16384&foreign_keys=on&share=on
 *
 *     postgres://user@host/database?schema=semel&pool=8
 *     mariadb://user@host/database?prefix=semel_&pool=8     (also mysql://)
 *     redis://user:password@host:6379/0?namespace=semel (also rediss://, valkey://)
 *
 * In a user name or a password, write %40 for @, %2F for /, %3F for ?, %23 for # and %25 for %.
 *
 * One writer at a time uses a sqlite: file; <semel/sqlite.h> says what that means for slow
 * handlers, and what share=off turns off.
 *
 * Threads may share a store. A store may not be used after fork(): the child opens its own.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_STORE_H
#define SEMEL_STORE_H

#include <semel/message.h>

SEMEL_BEGIN_DECLS

typedef struct semel_store semel_store;

/* Time, randomness and faults: the one seam between semel and its environment. A member that is
 * NULL means the real function of the system. Tests provide their own seam; <semel/test.h> has one.
 * Every thread that uses the store may call the members, so they must be thread-safe. */
typedef struct semel_seam {
    size_t size;
    void *context;
    int64_t (*wall_ms)(void *context); /* milliseconds since 1970 UTC; may jump */
    /* since the host booted; never jumps, and is the same in all processes */
    int64_t (*steady_ms)(void *context);
    void (*boot_id)(void *context, char id[37]); /* differs after each boot; "" if unknown */
    void (*sleep_ms)(void *context, uint32_t ms);
    void (*random)(void *context, void *bytes, size_t len);
    /* Called at every named point (SEMEL_FAULT_POINTS in test.h). Any status but SEMEL_OK makes the
     * call fail at that point, as if the store had failed (or the handler, at a point that ends in
     * .handled). The function need not return: it may end the process. */
    semel_status (*fault)(void *context, const char *point);
} semel_seam;

/* Called for each outcome: see <semel/observe.h>. */
typedef struct semel_event semel_event;
typedef void semel_observer(void *context, const semel_event *event);
typedef struct semel_tracing semel_tracing;
typedef struct semel_transaction_end semel_transaction_end;
typedef void semel_transaction_observer(void *context, const semel_transaction_end *end);

/* Every wait has an end, whatever the server does:
 *  - a statement waits for a lock for at most busy_ms, and for another copy of its message for at
 *    most the inbox's wait_ms;
 *  - a call waits for a free connection for at most busy_ms;
 *  - if the server owes an answer for answer_ms longer than that, the store gives up the
 *    connection.
 *
 * So each exchange with the server takes at most busy_ms + wait_ms + answer_ms. Most calls need one
 * exchange. A receive needs two, before and after the handler, and one more if it records a
 * failure. A handler's own statements also wait for locks for at most busy_ms (lock_timeout,
 * innodb_lock_wait_timeout and lock_wait_timeout of its transaction), unless the handler sets
 * another value. semel does not limit how long they run apart from that. */
typedef struct semel_store_options {
    size_t size;
    uint32_t busy_ms;       /* longest wait for a lock or a connection; default 5000 */
    const semel_seam *seam; /* borrowed until the store is closed; default: the system's */
    /* how long a server may owe an answer, beyond its waits for locks, before the store gives up
     * the connection; default 10000 */
    uint32_t answer_ms;
    semel_observer *observer; /* default: none, which costs nothing */
    void *observer_context;
    const semel_tracing *tracing; /* read while opening; default: none, which costs nothing */
    /* of every transaction, with observer_context; default: none, which costs nothing */
    semel_transaction_observer *transactions;
} semel_store_options;

/* Opens a store and changes nothing in the database. `options` may be NULL. */
SEMEL_API semel_status semel_store_open(semel_store **out, const char *url,
                                        const semel_store_options *options, semel_error *err);

/* What semel_store_open() would say of the URL before it looks for a file or contacts a server: for
 * configurations, to be checked elsewhere. SEMEL_EUNSUPPORTED: the store was not built in. */
SEMEL_API semel_status semel_store_check_url(const char *url, semel_error *err);

/* The caller must have closed every inbox, outbox and unit of the store before. NULL is a no-op. */
SEMEL_API void semel_store_close(semel_store *store);

/* Creates or upgrades semel's own tables; each step is a transaction of its own. A program may call
 * it at every start, and several processes may call it at once. Tables of a newer version that this
 * library may use are left as they are. SEMEL_ESCHEMA if it may not use them, or if they are not
 * semel's. */
SEMEL_API semel_status semel_store_migrate(semel_store *store, semel_error *err);

/* Runs the application's own statements, without values, one after the other: CREATE TABLE IF NOT
 * EXISTS and the like, which must be safe to repeat. They share one transaction, so that all of
 * them or none take effect; but MariaDB commits by itself what changes a table, and there each
 * statement stands alone. *failed, which may be NULL, is the number of the one that failed, from 0
 * on. SEMEL_EINVAL if the database does not take it, SEMEL_EUNSUPPORTED on a store without SQL. */
SEMEL_API semel_status semel_store_run(semel_store *store, const char *const statements[],
                                       size_t count, size_t *failed, semel_error *err);

/* What a commit survives. The broker's acknowledgement must not be stronger than this. */
typedef enum semel_durability {
    SEMEL_DURABLE_NOT = 1, /* lost when the process ends */
    SEMEL_DURABLE_PROCESS, /* survives kill -9, not power loss */
    SEMEL_DURABLE_POWER    /* survives power loss */
} semel_durability;

SEMEL_API semel_durability semel_store_durability(const semel_store *store);

/* The time of the store's own clock, by which retention and leases are measured, in milliseconds
 * since 1970. The clock does not jump when the host's clock is set. */
SEMEL_API semel_status semel_store_now(int64_t *out_ms, semel_store *store, semel_error *err);

/* What this process did through this store handle since it was opened, and what the outboxes hold
 * now. */
typedef struct semel_counters {
    uint64_t processed;
    uint64_t duplicates;
    uint64_t replayed;
    uint64_t in_progress;
    uint64_t mismatched;
    uint64_t stale;
    uint64_t missing_key;
    uint64_t unprotected; /* processed without a key, as the policy allows */
    uint64_t failed;
    uint64_t dead;
    uint64_t captured; /* messages stored in an outbox */
    uint64_t sent;
    uint64_t resent; /* sent, but not at the first attempt: the broker may have two copies */
    uint64_t send_failed;
    uint64_t swept;
    uint64_t unsent;          /* messages in all outboxes now */
    int64_t oldest_unsent_ms; /* when the oldest of them was captured; 0 if there is none */
} semel_counters;

/* What the database holds now. */
typedef struct semel_stats {
    uint64_t unsent;          /* messages in the outbox, or in all outboxes; not those in queues */
    int64_t oldest_unsent_ms; /* when the oldest of them was captured; 0 if there is none */
    /* those of them whose time has come and that no relay has leased; a message may still have to
     * wait for one before it in its group */
    uint64_t due;
    int64_t oldest_due_ms; /* since when the first of them has been due; 0 if none is */
    uint64_t dead;         /* dead letters */
    /* keys that a claim holds, for semel_inbox_stats() only; -1: not known, because all markers of
     * the inbox could not be read before the deadline */
    int64_t open_claims;
    int64_t at_ms; /* the time of the store's clock when this was counted */
    int64_t keys;  /* markers of the inbox, for semel_inbox_stats() only; -1 as for open_claims */
} semel_stats;

/* Asks the database. Takes about deadline_ms at most, even if the server does not answer: then it
 * fails with SEMEL_EUNAVAILABLE or SEMEL_EBUSY. Counting takes time in proportion to what is
 * counted. `size` is sizeof(semel_stats). See also semel_inbox_stats() and semel_outbox_stats(). */
SEMEL_API semel_status semel_store_stats(semel_stats *out, size_t size, semel_store *store,
                                         uint32_t deadline_ms, semel_error *err);

/* `size` is sizeof(semel_counters): a caller that was built against an older header gets the
 * members it knows. */
SEMEL_API semel_status semel_store_counters(semel_counters *out, size_t size, semel_store *store,
                                            semel_error *err);

SEMEL_END_DECLS

#endif
