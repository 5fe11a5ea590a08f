/* What the checks of routes share (check_gateway.c, check_webhook.c). */
#ifndef SEMEL_PROGRAM_CONFIG_CHECK_ROUTE_H
#define SEMEL_PROGRAM_CONFIG_CHECK_ROUTE_H

#include "program/config/check.h"

void check_webhook(const checking *c, const route_config *route); /* check_webhook.c, as the next */
void check_senders(const checking *c); /* inboxes, by the senders whose messages they get */

/* The node of an option of a route; NULL: it is not set. */
const config_node *check_route_node(const route_config *route, const char *name);

/* An element of a list, or the value that stands for a list of one. */
const config_node *check_item(const config_node *list, size_t index);

/* Reports a text that cannot be the name of a header. NULL is a no-op. */
void check_header(const checking *c, const config_node *node);

#endif
