/* What can go wrong, and what the caller can do next.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_ERROR_H
#define SEMEL_ERROR_H

#include <semel/export.h>
#include <stdint.h>

SEMEL_BEGIN_DECLS

/* Statuses are grouped by what the caller should do next. `retryable` in semel_error says the same
 * for one error. */
typedef enum semel_status {
    SEMEL_OK = 0,

    /* The caller made a mistake; nothing was changed. */
    SEMEL_EINVAL,       /* an argument, option, URL or key expression is wrong */
    SEMEL_EMISUSE,      /* called at the wrong time, or from the wrong thread or process */
    SEMEL_EUNSUPPORTED, /* the backend cannot do that, or was not built in */
    SEMEL_ENOTFOUND,    /* the object that the call names does not exist */
    SEMEL_ELIMIT,       /* larger than one of the named limits */
    SEMEL_ESCHEMA,      /* the tables are missing, newer than this library, or not semel's */

    /* Try again: at once (ECONFLICT) or after a while. */
    SEMEL_EBUSY,     /* a deadline passed while waiting for a lock, a connection or another copy */
    SEMEL_ECONFLICT, /* a deadlock or serialization failure; the work was rolled back */
    SEMEL_EUNAVAILABLE, /* the store or the broker cannot be reached */

    /* Stop and investigate. */
    SEMEL_ENOMEM,     /* out of memory; nothing was left half done */
    SEMEL_ESTORE,     /* the store failed: I/O error, disk full, damage */
    SEMEL_ETRANSPORT, /* the broker refused: not routable, not allowed, closed */
    SEMEL_EUNKNOWN,   /* a commit was sent, but its answer was lost: receive the same key again */
    SEMEL_ELOST, /* the lease has ended: the claim is no longer the caller's; nothing was changed */
    SEMEL_EREJECTED, /* a policy of the inbox refuses the message; the outcome says which */

    /* For handlers. The library itself returns EHANDLER if a queued statement fails. */
    SEMEL_EHANDLER = 100, /* the work failed this time: roll back and try again later */
    SEMEL_EGIVEUP = 101,  /* the work can never succeed: make it a dead letter now */
    /* the work was ended early because the program stops: roll back, and count no attempt. See
     * semel_unit_stopping() */
    SEMEL_ESTOPPED = 102
} semel_status;

/* A failing call fills it. The caller owns it; there is nothing to free, and a zeroed one is valid.
 * Every semel_error * parameter may be NULL. The text is one line without a newline and never
 * contains a password. */
typedef struct semel_error {
    semel_status status;
    int32_t native;    /* the backend's own number (SQLite extended code, errno), or 0 */
    char sqlstate[6];  /* if the backend has one, else "" */
    uint8_t retryable; /* 1: receiving, sending or stepping again may succeed later */
    uint8_t reserved;
    char text[496];
} semel_error;

/* A short constant name such as "SEMEL_EBUSY"; "SEMEL_E?" for a number that is not a status. */
SEMEL_API const char *semel_status_name(semel_status status);

/* Fills `err`, which may be NULL, and returns `status`. Handlers and backends report failures with
 * it. */
SEMEL_API semel_status semel_fail(semel_error *err, semel_status status, const char *format, ...)
    SEMEL_PRINTF(3, 4);

/* semel_consumer_run() and semel_relay_run() call it once when an outage begins that they wait out,
 * with its error, and once when the outage is over, with NULL. They do not call it for the attempts
 * in between, even if the reason changes in the meantime.
 *
 * They do the same when retention fails with an error that is not retryable, or again and again:
 * the run goes on, and the call with NULL comes when a later round of retention is complete. An
 * outage may begin and end in between. */
typedef void semel_notice(void *context, const semel_error *trouble);

SEMEL_END_DECLS

#endif
