/* Which topic a message gets that is sent to a queue of the configuration. */
#ifndef SEMEL_PROGRAM_HANDLER_TOPIC_H
#define SEMEL_PROGRAM_HANDLER_TOPIC_H

#include "program/config/config.h"
#include "program/support/memory.h"

/* The queue in the URL; the name of a queue in the store. NULL: the URL has an exchange, which
 * routes by the type of the message. */
const char *topic_of_queue(region *memory, const config *all, const char *name);

/* The topic of a message that is put into a queue whose topic is `fixed`. Its own decides only
 * where an exchange, or nothing, routes by it: a message with the subject "orders" that is meant
 * for the queue "returns" must not come to the queue "orders". */
const char *topic_of_message(const char *fixed, int is_in_store, const semel_message *message);

#endif
