/* Connections to a server: made when needed, kept for the next caller, never more than a limit.
 *
 * A caller that finds none waits, in the order of asking, until one is given back or its time is
 * over. One that comes from the pool was looked at (is_alive: without a round trip). When the
 * server cannot be reached, one thread tries at a time, with a pause between two attempts that
 * grows from POOL_BACKOFF_FIRST_MS to POOL_BACKOFF_MAX_MS, and the others wait with it: a server
 * that is down is not hammered.
 *
 * Each connection remembers which thread has it: a thread that would wait for itself alone is told
 * so. */
#ifndef SEMEL_STORE_SQL_POOL_H
#define SEMEL_STORE_SQL_POOL_H

#include <pthread.h>
#include <semel/error.h>
#include <sys/types.h>

/* An attempt gets what is left of the caller's time, but no less than POOL_ATTEMPT_MIN_MS: one that
 * is cut short says nothing about the server. */
enum { POOL_BACKOFF_FIRST_MS = 25, POOL_BACKOFF_MAX_MS = 1000, POOL_ATTEMPT_MIN_MS = 200 };

typedef struct pool_calls {
    /* One attempt, with a deadline of its own. EUNAVAILABLE: worth another one later; anything else
     * ends the wait at once (a wrong password does not become right). */
    semel_status (*connect)(void **out, void *context, uint32_t wait_ms, semel_error *err);
    int (*is_alive)(void *connection); /* cheap: no round trip */
    void (*close)(void *connection);
} pool_calls;

typedef struct pool_slot pool_slot;
typedef struct pool_waiter pool_waiter;

typedef struct pool {
    const pool_calls *calls;
    void *context;
    uint32_t limit;
    pid_t pid; /* of the process that opened it: sockets are not carried over fork() */
    pthread_mutex_t lock;
    pool_slot *slots;        /* `limit` of them */
    pool_waiter *first;      /* of the waiting threads, in the order of asking */
    uint64_t asked;          /* numbers them */
    uint32_t connecting;     /* how many are at it; while the server is down, one at most */
    uint32_t failures;       /* in a row; 0: the server is not known to be down */
    int64_t next_attempt_ms; /* by wait_clock_ms() */
    semel_error last_error;  /* why it could not be reached */
} pool;

semel_status pool_init(pool *p, const pool_calls *calls, void *context, uint32_t limit,
                       semel_error *err);
void pool_destroy(pool *p); /* closes all; none may be out. One that is zero is a no-op. */

/* EBUSY: all were out for wait_ms. EUNAVAILABLE: the server could not be reached for as long.
 * EMISUSE: all are out to this very thread, or this is a child of the process that made the
 * pool. */
semel_status pool_take(void **out, pool *p, uint32_t wait_ms, semel_error *err);

/* Back, to be used again (usable) or to be closed. */
void pool_give(pool *p, void *connection, int usable);

/* In a child of the process that made the pool: 1; EMISUSE. */
int pool_is_inherited(const pool *p);
semel_status pool_check_process(const pool *p, semel_error *err);

#endif
