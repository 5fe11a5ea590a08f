/* The inbox of a proxy route's keys: gateway.NAME. */
#ifndef SEMEL_PROGRAM_GATEWAY_PROXY_INBOX_H
#define SEMEL_PROGRAM_GATEWAY_PROXY_INBOX_H

#include "program/config/config.h"
#include "program/support/memory.h"

/* "gateway.charges" */
const char *proxy_inbox_name(region *memory, const route_config *route);

/* Whether an inbox is that of a proxy route, by its name. What it gets as the body of a message is
 * the checksum of a request, and what it stores is an answer. */
int proxy_inbox_is(const char *name);

/* Claim mode: the claim is stored before the upstream gets the request and completed with its
 * answer. The copies are the gateway's to wait for, so nothing waits in the store. An attempt that
 * did not end is no reason to bury the key, however often that happens: what becomes of it is the
 * route's policy (on_unknown), so there is no limit. */
semel_inbox_options proxy_inbox_options(const route_config *route);

#endif
