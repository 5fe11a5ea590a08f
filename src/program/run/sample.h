/* Texts that are made from a configuration for people: a URL without its secrets, and a
 * command that publishes a message which the configuration can handle. */
#ifndef SEMEL_PROGRAM_RUN_SAMPLE_H
#define SEMEL_PROGRAM_RUN_SAMPLE_H

#include "program/config/config.h"
#include "program/support/memory.h"

/* Without user, password and parameters: postgres db.internal/shop, sqlite:shop.db. */
void sample_url(buffer *to, const char *url);

/* The inbox that the next one speaks of: the first that reads a queue. NULL: none does. */
const inbox_config *sample_inbox(const config *all);

/* semel publish orders --type order.placed --copies 2 '{"order_id": 1042, "amount": 1250}' */
void sample_publish(buffer *to, const config *all);

#endif
