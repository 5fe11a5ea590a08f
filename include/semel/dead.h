/* Dead letters: messages given up on, with all that is needed to replay them.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_DEAD_H
#define SEMEL_DEAD_H

#include <semel/inbox.h>
#include <semel/outbox.h>

SEMEL_BEGIN_DECLS

typedef enum semel_dead_origin {
    SEMEL_DEAD_ANY = 0,
    SEMEL_DEAD_INBOX,  /* could not be handled */
    SEMEL_DEAD_OUTBOX, /* could not be sent */
    SEMEL_DEAD_QUEUE   /* rejected by a consumer of a queue of <semel/queue.h> */
} semel_dead_origin;

/* As shown to a visitor; everything is borrowed for the call. */
typedef struct semel_dead {
    size_t size;
    int64_t id;
    semel_dead_origin origin;
    const char *name; /* of the inbox, outbox or queue */
    semel_bytes key;
    const semel_message *message; /* NULL if the row is damaged: `error` then says how */
    uint32_t attempts;
    int64_t at_ms; /* when it was given up on */
    const char *error;
} semel_dead;

/* Return SEMEL_OK to go on; anything else ends the listing, which returns it. The visitor must not use
 * the store: it may be locked. */
typedef semel_status semel_dead_visitor(const semel_dead *dead, void *context, semel_error *err);

typedef struct semel_dead_filter {
    size_t size;
    semel_dead_origin origin;
    const char *name; /* NULL: all */
    int64_t after_id; /* for the next page */
    uint32_t limit;   /* default 100 */
} semel_dead_filter;

/* In the order of their ids. A damaged row is shown as such and hides no other. */
SEMEL_API semel_status semel_dead_list(semel_store *store, const semel_dead_filter *filter,
                                       semel_dead_visitor *visitor, void *context,
                                       semel_error *err);

SEMEL_API semel_status semel_dead_discard(semel_store *store, int64_t id, semel_error *err);

/* Runs the handler on a dead letter of this inbox, once: the letter goes in the same transaction that
 * the work commits in. If it fails, the letter stays. A copy that was handled meanwhile makes it a
 * duplicate, and the letter goes too. SEMEL_ENOTFOUND if there is no such letter (any more). */
SEMEL_API semel_status semel_inbox_replay(semel_outcome *out, semel_inbox *inbox, int64_t id,
                                          semel_handler *handler, void *context, semel_error *err);

/* Puts a dead letter of this outbox back into it, with its attempts set to zero and its id kept. */
SEMEL_API semel_status semel_outbox_replay(semel_outbox *outbox, int64_t id, semel_error *err);

SEMEL_END_DECLS

#endif
