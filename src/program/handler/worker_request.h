/* The line that a worker gets for a message, which is one JSON object:
 *
 *     inbox, id, key, idempotency_key, type, source, topic, group, correlation_id, content_type,
 *     time (RFC 3339), attempt (a number), traceparent, headers (an object of texts),
 *     body (JSON, as it was received), or body_text, or body_base64
 *
 * A member that the message does not have is left out. id and key are as people see them (semel
 * help keys). A header value that is not UTF-8 has U+FFFD in place of what is not. */
#ifndef SEMEL_PROGRAM_HANDLER_WORKER_REQUEST_H
#define SEMEL_PROGRAM_HANDLER_WORKER_REQUEST_H

#include "program/support/memory.h"

#include <semel/semel.h>

/* Appends the line with its newline. *id is the id in it, or NULL. */
semel_status worker_request(buffer *to, const char **id, region *memory, const char *inbox,
                            const semel_unit *unit, const semel_message *message, semel_error *err);

#endif
