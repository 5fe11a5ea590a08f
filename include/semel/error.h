/* What can go wrong, and what to do next.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_ERROR_H
#define SEMEL_ERROR_H

#include <semel/export.h>
#include <stdint.h>

SEMEL_BEGIN_DECLS

/* Statuses are classified by the next action. `retryable` in semel_error says the same for one error. */
typedef enum semel_status {
    SEMEL_OK = 0,

    /* The caller's mistake; nothing was changed. */
    SEMEL_EINVAL,       /* an argument, option, URL or key expression is wrong */
    SEMEL_EMISUSE,      /* called at the wrong time, from the wrong thread or process */
    SEMEL_EUNSUPPORTED, /* this backend cannot do that, or it was not built in */
    SEMEL_ENOTFOUND,    /* there is no such thing */
    SEMEL_ELIMIT,       /* larger than a limit that has a name */
    SEMEL_ESCHEMA,      /* the tables are missing, newer than this library, or not semel's */

    /* Try again: now (ECONFLICT) or after a while. */
    SEMEL_EBUSY,     /* a deadline passed while waiting for a lock, a connection or another copy */
    SEMEL_ECONFLICT, /* a deadlock or serialization failure; the work was rolled back */
    SEMEL_EUNAVAILABLE, /* the store or the broker cannot be reached */

    /* Stop and look. */
    SEMEL_ENOMEM,     /* out of memory; nothing is half done */
    SEMEL_ESTORE,     /* the store failed: I/O error, disk full, damage */
    SEMEL_ETRANSPORT, /* the broker refused: not routable, not allowed, closed */
    SEMEL_EUNKNOWN, /* a commit was sent and its answer lost: receive the same key again to settle it */
    SEMEL_ELOST,     /* the lease ended: this claim is no longer yours, and nothing was changed */
    SEMEL_EREJECTED, /* a policy of the inbox refuses the message; the outcome says which */

    /* For handlers. The library raises EHANDLER itself if a queued statement fails. */
    SEMEL_EHANDLER = 100, /* it failed this time: roll back, try again later */
    SEMEL_EGIVEUP = 101   /* it will never work: make it a dead letter now */
} semel_status;

/* Filled when a call fails; owned by the caller, nothing to free, safe when zeroed. A pointer to one
 * may always be NULL. The text is one line without a newline and never holds a password. */
typedef struct semel_error {
    semel_status status;
    int32_t native;    /* the backend's own number (SQLite extended code, errno), or 0 */
    char sqlstate[6];  /* where the backend has one, else "" */
    uint8_t retryable; /* 1: receiving, sending or stepping again may succeed later */
    uint8_t reserved;
    char text[496];
} semel_error;

/* A short constant name such as "SEMEL_EBUSY"; "SEMEL_E?" for a number that is none. */
SEMEL_API const char *semel_status_name(semel_status status);

/* Fills `err` (which may be NULL) and returns `status`: the way for handlers and backends to fail. */
SEMEL_API semel_status semel_fail(semel_error *err, semel_status status, const char *format, ...)
    SEMEL_PRINTF(3, 4);

/* Called by the loops that run until stopped (consumer, relay): once when trouble begins that they wait
 * out, with what it is, and once when it is over, with NULL. Not for every attempt in between, also if
 * the reason is another one by then. */
typedef void semel_notice(void *context, const semel_error *trouble);

SEMEL_END_DECLS

#endif
