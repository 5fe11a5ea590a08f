/* Dead letters: messages that semel has given up on, with everything that is needed to replay them.
 *
 * The marker of a dead message stays as long as its letter, whatever the retention of the inbox is:
 * until then a copy is SEMEL_DEAD, is counted, and is not handled. A letter ends in one of three
 * ways, in one transaction with its marker: it is replayed, it is discarded, or it expires
 * (semel_inbox_options.dead_retention_ms, semel_dead_sweep). Do not delete letters by SQL: their
 * markers would stay.
 *
 * What an inbox refuses (a mismatch, a missing key, a stale message), what has no key, and what has
 * no route is a letter without a marker: a copy is refused again.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_DEAD_H
#define SEMEL_DEAD_H

#include <semel/inbox.h>
#include <semel/outbox.h>

SEMEL_BEGIN_DECLS

typedef enum semel_dead_origin {
    SEMEL_DEAD_ANY = 0,
    SEMEL_DEAD_INBOX,  /* an inbox could not handle it */
    SEMEL_DEAD_OUTBOX, /* a relay could not send it */
    SEMEL_DEAD_QUEUE   /* a consumer rejected it from a queue (<semel/queue.h>) */
} semel_dead_origin;

/* A dead letter as a visitor sees it. Everything in it is borrowed for the call. */
typedef struct semel_dead {
    size_t size;
    int64_t id;
    semel_dead_origin origin;
    const char *name; /* of the inbox, outbox or queue */
    semel_bytes key;
    const semel_message *message; /* NULL if the row is damaged; `error` then says how */
    uint32_t attempts;
    int64_t at_ms; /* when semel gave up on it */
    const char *error;
    int64_t first_ms; /* when its first attempt was recorded; 0: before semel kept that time */
    uint32_t cause;   /* semel_cause() of <semel/operate.h> */
    int retry;        /* a semel_retry of <semel/operate.h> */
} semel_dead;

/* Returns SEMEL_OK to go on. Any other status ends the listing, and semel_dead_list() returns it.
 * The visitor must not use the store, which may be locked. */
typedef semel_status semel_dead_visitor(const semel_dead *dead, void *context, semel_error *err);

/* Which letters are meant. A member that is zero excludes none. */
typedef struct semel_dead_filter {
    size_t size;
    semel_dead_origin origin;
    const char *name;
    int64_t after_id;  /* for the next page */
    uint32_t limit;    /* of semel_dead_list(): letters in a page; default 100 */
    const char *type;  /* of the message, compared exactly */
    int64_t since_ms;  /* given up on at this time or later ... */
    int64_t until_ms;  /* ... and before this time */
    int64_t last_id;   /* no letter with a larger id */
    semel_bytes key;   /* exactly this one, as stored */
    uint32_t cause;    /* semel_cause() of <semel/operate.h> */
    const char *error; /* a part of the error; upper and lower case of ASCII are the same */
    int retry;         /* 1: letters for which a retry was asked (SEMEL_RETRY_ASKED) */
    int brief;         /* 1: messages without their headers and bodies */
} semel_dead_filter;

/* Lists dead letters in the order of their ids. A damaged row is shown as damaged and hides no
 * other row. */
SEMEL_API semel_status semel_dead_list(semel_store *store, const semel_dead_filter *filter,
                                       semel_dead_visitor *visitor, void *context,
                                       semel_error *err);

/* What becomes of the key of a letter that is discarded. Other origins than an inbox have none. */
typedef enum semel_discard {
    /* dead as before: a later copy is SEMEL_DEAD and is counted. The retention of the inbox begins
     * now */
    SEMEL_DISCARD_KEEP_DEAD = 0,
    SEMEL_DISCARD_FORGET_KEY /* the next copy runs as a first copy */
} semel_discard;

/* Removes a letter; in the same transaction its key stays dead or is forgotten. SEMEL_ENOTFOUND if
 * there is no such letter (any more). */
SEMEL_API semel_status semel_dead_discard(semel_store *store, int64_t id, semel_discard key,
                                          semel_error *err);

#define SEMEL_DEAD_SWEEP_BATCH 100 /* letters that one call removes by default */

/* One bounded step of the retention of letters: removes up to `rows` letters (0:
 * SEMEL_DEAD_SWEEP_BATCH) that the filter names and that semel gave up on longer than older_than_ms
 * ago (SEMEL_RETENTION_NONE: all, SEMEL_RETENTION_FOREVER: none). *more is 0 when there are no
 * more. semel_inbox_sweep() does it for the letters of its inbox; for those of outboxes and queues,
 * and for the names "unrouted" and "unusable", call this from time to time.
 *
 * The marker of a letter goes with it, in one transaction. The inbox then counts the key as
 * forgotten, as after a sweep: a copy that is as old is SEMEL_STALE. A letter that is being
 * replayed stays. */
SEMEL_API semel_status semel_dead_sweep(size_t *removed, int *more, semel_store *store,
                                        const semel_dead_filter *filter, uint64_t older_than_ms,
                                        uint32_t rows, semel_error *err);

/* Runs the handler once on a dead letter of this inbox. The letter is removed in the transaction
 * that commits the work. If the handler fails, the letter stays. If a copy was handled in the
 * meantime, the letter is a duplicate and is removed, too. SEMEL_ENOTFOUND if there is no such
 * letter, or no longer. */
SEMEL_API semel_status semel_inbox_replay(semel_outcome *out, semel_inbox *inbox, int64_t id,
                                          semel_handler *handler, void *context, semel_error *err);

/* Keeps a message that the inbox has just refused as a dead letter, as a consumer does: for callers
 * of semel_inbox_receive() whose sender gets no other chance to be heard. `refused` is the outcome,
 * SEMEL_MISMATCH, SEMEL_STALE or SEMEL_MISSING_KEY; others are SEMEL_EINVAL. The same content under
 * the same key is one letter, however often it comes. SEMEL_EUNSUPPORTED if the store keeps no dead
 * letters. */
SEMEL_API semel_status semel_inbox_bury_refused(semel_inbox *inbox, const semel_message *message,
                                                semel_outcome refused, semel_error *err);

/* Puts a dead letter of this outbox back into the outbox. Its attempts start at zero; its message
 * id is kept. */
SEMEL_API semel_status semel_outbox_replay(semel_outbox *outbox, int64_t id, semel_error *err);

/* Replays all letters of the inbox, or of the outbox, that the filter names (NULL: all), each as
 * the single call does, in the order of their ids. The filter's origin, name and limit are not
 * used. *replayed is the number of letters that are settled and gone, *failed the number of those
 * that stay: the handler failed again, the letter is damaged, was refused or is in use. The call
 * goes on behind a letter that fails, and tries none a second time; `err` describes the first
 * failure. Only an error of the store ends the call early, and is returned; both numbers are then
 * those of the letters before it. */
SEMEL_API semel_status semel_inbox_replay_all(size_t *replayed, size_t *failed, semel_inbox *inbox,
                                              const semel_dead_filter *filter,
                                              semel_handler *handler, void *context,
                                              semel_error *err);
SEMEL_API semel_status semel_outbox_replay_all(size_t *replayed, size_t *failed,
                                               semel_outbox *outbox,
                                               const semel_dead_filter *filter, semel_error *err);

SEMEL_END_DECLS

#endif
