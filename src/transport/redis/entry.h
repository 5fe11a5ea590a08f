/* A semel_message as the fields of a stream's entry, and back. docs/REDIS_STREAMS.md describes it.
 * Nothing is copied: what is read points into the reply. */
#ifndef SEMEL_TRANSPORT_REDIS_ENTRY_H
#define SEMEL_TRANSPORT_REDIS_ENTRY_H

#include "redis/client.h"

#include <semel/message.h>

/* Names and values as words of a request, with their number before. */
void stream_entry_write(redis_request *r, const semel_message *message);
size_t stream_entry_size(const semel_message *message); /* about so many bytes */

/* How many headers at most an entry with these fields has. */
size_t stream_entry_headers(const redisReply *fields);

/* `headers` has room for them. What is over a limit of message.h is left out, but for the body:
 * the consumer checks that. The message has no id if the entry has none. */
void stream_entry_read(semel_message *out, semel_header headers[], const redisReply *fields);

#endif
