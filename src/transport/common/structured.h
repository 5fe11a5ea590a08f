/* CloudEvents in structured mode, where a message's body is the whole event. */
#ifndef SEMEL_TRANSPORT_COMMON_STRUCTURED_H
#define SEMEL_TRANSPORT_COMMON_STRUCTURED_H

#include "base/mem.h"

#include <semel/message.h>

/* The event that the message carries, by its content type: what it says wins over everything but
 * `delivery`, and what it does not say comes from the message. It lies in the arena. The message
 * itself if it carries none, or none that can be read; NULL when out of memory. */
semel_message *structured_read(mem_arena *arena, semel_message *message);

#endif
