/* From when the age of a message counts, if not from its own time: it was delayed, or it was
 * replayed. The moment travels in a header of the message, so that it reaches an inbox through
 * every broker. */
#ifndef SEMEL_BASE_DUE_H
#define SEMEL_BASE_DUE_H

#include "base/mem.h"

#include <semel/message.h>

/* Sets the header of `message`, in place of one that it has. The headers go to the arena. */
semel_status due_set(semel_message *message, mem_arena *arena, int64_t due_ms, semel_error *err);

/* The same for a message that is replayed, which must not fail for want of room: a message with
 * SEMEL_HEADERS_MAX headers keeps its age. */
semel_status due_set_if_room(semel_message *message, mem_arena *arena, int64_t due_ms,
                             semel_error *err);

/* The header's value in milliseconds since 1970; 0 if there is none, or no such number. */
int64_t due_get(const semel_message *message);

#endif
