/* The outbox: messages that are stored together with a business change and sent after it commits.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_OUTBOX_H
#define SEMEL_OUTBOX_H

#include <semel/unit.h>

SEMEL_BEGIN_DECLS

SEMEL_API semel_status semel_outbox_open(semel_outbox **out, semel_store *store, const char *name,
                                         semel_error *err);
/* Not before the units that have sent to it have ended. */
SEMEL_API void semel_outbox_close(semel_outbox *outbox);

/* Begins a unit, sends the message with semel_unit_send() and commits: for a message that belongs
 * to no other change. */
SEMEL_API semel_status semel_outbox_send(semel_outbox *outbox, const semel_message *message,
                                         semel_error *err);

/* What this process did with this outbox since it was opened, without asking the database: the
 * members from `captured` to `send_failed`, and `dead`. */
SEMEL_API void semel_outbox_counters(semel_counters *out, size_t size, const semel_outbox *outbox);

/* What the database holds of this outbox. See semel_store_stats(). */
SEMEL_API semel_status semel_outbox_stats(semel_stats *out, size_t size, semel_outbox *outbox,
                                          uint32_t deadline_ms, semel_error *err);

SEMEL_END_DECLS

#endif
