/* What a message does not say although a CloudEvent must: its type, its source. `dead export`
 * writes something in their place, and an attribute by which `publish --cloudevents` takes it away
 * again. */
#ifndef SEMEL_PROGRAM_SUPPORT_UNSAID_H
#define SEMEL_PROGRAM_SUPPORT_UNSAID_H

#include <semel/message.h>

/* Adds the attribute if type or source are missing, before they are filled in. The message gets its
 * headers from `room`. */
void unsaid_add(semel_message *message, semel_header room[SEMEL_HEADERS_MAX]);

/* Takes the attribute away, and what it names. */
void unsaid_take(semel_message *message, semel_header room[SEMEL_HEADERS_MAX]);

#endif
