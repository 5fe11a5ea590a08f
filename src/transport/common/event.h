/* CloudEvents, as far as transports handle them alike: which headers of a message may be extension
 * attributes, and the structured mode. */
#ifndef SEMEL_TRANSPORT_COMMON_EVENT_H
#define SEMEL_TRANSPORT_COMMON_EVENT_H

#include "base/mem.h"

#include <semel/message.h>

/* 1 if the header may be written as an extension attribute: its name has letters and digits only
 * and is none of CloudEvents' own, its value is text, and of several headers with its name it is
 * the first. */
int event_header_is_extension(const semel_message *message, size_t index);

/* 1 if the message's body is a CloudEvent in structured mode, by its content type. */
int event_is_structured(const semel_message *message);

/* The event in the message's body, in the arena; what it does not say is the message's. The message
 * itself if it cannot be read; NULL when out of memory. */
semel_message *event_read_structured(mem_arena *arena, semel_message *message);

#endif
