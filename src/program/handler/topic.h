/* Which topic a message gets that is sent to a queue of the configuration. */
#ifndef SEMEL_PROGRAM_HANDLER_TOPIC_H
#define SEMEL_PROGRAM_HANDLER_TOPIC_H

#include "program/config/config.h"
#include "program/support/memory.h"

/* The queue in the URL; the name of a queue in the store. NULL: the URL has an exchange, which
 * routes by the type of the message. */
const char *topic_of_queue(region *memory, const config *all, const char *name);

#endif
