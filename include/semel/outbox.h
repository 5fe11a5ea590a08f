/* The outbox: messages that are stored together with a business change and sent after it commits.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_OUTBOX_H
#define SEMEL_OUTBOX_H

#include <semel/unit.h>

SEMEL_BEGIN_DECLS

SEMEL_API semel_status semel_outbox_open(semel_outbox **out, semel_store *store, const char *name,
                                         semel_error *err);
SEMEL_API void semel_outbox_close(semel_outbox *outbox);

/* Begins a unit, sends the message with semel_unit_send() and commits: for a message that belongs to no other
 * change. */
SEMEL_API semel_status semel_outbox_send(semel_outbox *outbox, const semel_message *message,
                                         semel_error *err);

SEMEL_END_DECLS

#endif
