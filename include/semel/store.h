/* A store: the database that keeps markers, outgoing messages and dead letters.
 *
 *     memory:                         this process only; gone with it
 *     sqlite:orders.db                a file; several processes of one host may share it
 *     sqlite:/var/lib/shop/orders.db?synchronous=full&cache_kib=16384&foreign_keys=on
 *
 *     postgres://user@host/database?schema=semel&pool=8
 *     mariadb://user@host/database?prefix=semel_&pool=8     (also mysql://)
 *
 * In a user's name or a password @ is written %40, / %2F, ? %3F, # %23 and % %25.
 *
 * A store may be shared by threads. It may not be carried over fork(): open it in the child.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_STORE_H
#define SEMEL_STORE_H

#include <semel/message.h>

SEMEL_BEGIN_DECLS

typedef struct semel_store semel_store;

/* Time, randomness and faults: the one seam between semel and its surroundings. NULL anywhere means
 * the real thing. Tests put their own here; <semel/test.h> has one ready. All are called from whichever
 * thread is using the store, so they must be safe for that. */
typedef struct semel_seam {
    size_t size;
    void *context;
    int64_t (*wall_ms)(void *context); /* milliseconds since 1970 UTC; may jump */
    int64_t (*steady_ms)(
        void *context); /* since the host booted; never jumps, same in all processes */
    void (*boot_id)(void *context, char id[37]); /* tells one boot from the next; "" if it cannot */
    void (*sleep_ms)(void *context, uint32_t ms);
    void (*random)(void *context, void *bytes, size_t len);
    /* Called at every named point (SEMEL_FAULT_POINTS in test.h). Anything but SEMEL_OK makes the call
     * fail there, as if the store had (or, at a point ending in .handled, the handler). It may also
     * not return. */
    semel_status (*fault)(void *context, const char *point);
} semel_seam;

/* Every wait has an end, whatever the server does. A statement waits for a lock, or for another copy of its message, no
 * longer than busy_ms (the inbox's wait_ms); a connection is waited for for busy_ms; and a server that owes an answer
 * for answer_ms longer than that is taken for lost, with its connection. So a call ends after busy_ms + wait_ms +
 * answer_ms at the latest for each conversation that it needs: one for most; two for a receive, before and after
 * the handler, and one more if a failure is to be recorded. A handler's own statements wait for locks for busy_ms, too
 * (lock_timeout, innodb_lock_wait_timeout and lock_wait_timeout of its transaction, which it may set otherwise); how long
 * they take besides is its own affair. */
typedef struct semel_store_options {
    size_t size;
    uint32_t busy_ms;       /* longest wait for a lock or a connection; default 5000 */
    const semel_seam *seam; /* borrowed until the store is closed; default: the system's */
    uint32_t
        answer_ms; /* of a server: how long it may owe an answer, beyond the time that it waits for locks,
                         * before its connection is given up; default 10000 */
} semel_store_options;

/* Opens; changes nothing in the database. `options` may be NULL. */
SEMEL_API semel_status semel_store_open(semel_store **out, const char *url,
                                        const semel_store_options *options, semel_error *err);

/* Every inbox, outbox and unit of the store must have been closed before. NULL is a no-op. */
SEMEL_API void semel_store_close(semel_store *store);

/* Creates or upgrades semel's own tables, each step in a transaction of its own. Safe to call at every
 * start and from several processes at once. SEMEL_ESCHEMA if the tables are newer or not semel's. */
SEMEL_API semel_status semel_store_migrate(semel_store *store, semel_error *err);

/* How much a commit survives. The broker's acknowledgement must not be stronger than this. */
typedef enum semel_durability {
    SEMEL_DURABLE_NOT = 1, /* gone with the process */
    SEMEL_DURABLE_PROCESS, /* survives kill -9, not power loss */
    SEMEL_DURABLE_POWER    /* survives power loss */
} semel_durability;

SEMEL_API semel_durability semel_store_durability(const semel_store *store);

/* Milliseconds since 1970 by the store's own clock: what retention and leases are measured with. It
 * does not jump when the host's clock is set. */
SEMEL_API semel_status semel_store_now(int64_t *out_ms, semel_store *store, semel_error *err);

/* What this process did through this store since it was opened, and what the outboxes hold now. */
typedef struct semel_counters {
    uint64_t processed;
    uint64_t duplicates;
    uint64_t replayed;
    uint64_t in_progress;
    uint64_t mismatched;
    uint64_t stale;
    uint64_t missing_key;
    uint64_t unprotected; /* processed without a key, because the policy says so */
    uint64_t failed;
    uint64_t dead;
    uint64_t captured; /* messages put into an outbox */
    uint64_t sent;
    uint64_t resent; /* of those sent: not at the first attempt, so the broker may have two */
    uint64_t send_failed;
    uint64_t swept;
    uint64_t unsent;          /* messages in the outbox now */
    int64_t oldest_unsent_ms; /* when the oldest of them was captured; 0 if there is none */
} semel_counters;

/* `size` is sizeof(semel_counters): a caller built against an older header gets what it knows. */
SEMEL_API semel_status semel_store_counters(semel_counters *out, size_t size, semel_store *store,
                                            semel_error *err);

SEMEL_END_DECLS

#endif
