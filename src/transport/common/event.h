/* Which headers of a message may be extension attributes of a CloudEvent. */
#ifndef SEMEL_TRANSPORT_COMMON_EVENT_H
#define SEMEL_TRANSPORT_COMMON_EVENT_H

#include <semel/message.h>

/* 1 if the header may be written as an extension attribute: its name has letters and digits only
 * and is none of CloudEvents' own, its value is text, and of several headers with its name it is
 * the first. */
int event_header_is_extension(const semel_message *message, size_t index);

#endif
