/* Dead letters: messages that semel has given up on, with everything that is needed to replay them.
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
} semel_dead;

/* Returns SEMEL_OK to go on. Any other status ends the listing, and semel_dead_list() returns it. The visitor must
 * not use the store, which may be locked. */
typedef semel_status semel_dead_visitor(const semel_dead *dead, void *context, semel_error *err);

typedef struct semel_dead_filter {
    size_t size;
    semel_dead_origin origin;
    const char *name; /* NULL: all */
    int64_t after_id; /* for the next page */
    uint32_t limit;   /* default 100 */
} semel_dead_filter;

/* Lists dead letters in the order of their ids. A damaged row is shown as damaged and hides no other row. */
SEMEL_API semel_status semel_dead_list(semel_store *store, const semel_dead_filter *filter,
                                       semel_dead_visitor *visitor, void *context,
                                       semel_error *err);

SEMEL_API semel_status semel_dead_discard(semel_store *store, int64_t id, semel_error *err);

/* Runs the handler once on a dead letter of this inbox. The letter is removed in the transaction that commits the
 * work. If the handler fails, the letter stays. If a copy was handled in the meantime, the letter is a
 * duplicate and is removed, too. SEMEL_ENOTFOUND if there is no such letter, or no longer. */
SEMEL_API semel_status semel_inbox_replay(semel_outcome *out, semel_inbox *inbox, int64_t id,
                                          semel_handler *handler, void *context, semel_error *err);

/* Puts a dead letter of this outbox back into the outbox. Its attempts start at zero; its message id is kept. */
SEMEL_API semel_status semel_outbox_replay(semel_outbox *outbox, int64_t id, semel_error *err);

SEMEL_END_DECLS

#endif
