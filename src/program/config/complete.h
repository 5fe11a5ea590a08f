/* What a configuration implies: modes of inboxes, outboxes for `send` and `faults`, which queues
 * are read and written, and the sizes of the library's structs. */
#ifndef SEMEL_PROGRAM_CONFIG_COMPLETE_H
#define SEMEL_PROGRAM_CONFIG_COMPLETE_H

#include "program/config/config.h"
#include "program/support/memory.h"

void config_complete(region *memory, config *all);

/* NULL: there is none of this name. */
const queue_config *config_queue(const config *all, const char *name);
const inbox_config *config_inbox(const config *all, const char *name);
const outbox_config *config_outbox(const config *all, const char *name);

/* The queue that it reads; without one, the path of the route that names it. Never NULL. */
const char *config_inbox_from(const config *all, const inbox_config *inbox);

/* As in the file: "sql"; "send" for an inbox with `send` alone; "" if it has neither. */
const char *config_handler_name(const inbox_config *inbox);

#endif
