/* A request of a webhook, after its signature was verified, as a message: its id is what the sender
 * calls it, its source the route, its type what the sender says. */
#ifndef SEMEL_PROGRAM_GATEWAY_WEBHOOK_EVENT_H
#define SEMEL_PROGRAM_GATEWAY_WEBHOOK_EVENT_H

#include "program/gateway/signature.h"
#include "program/http/server.h"

typedef struct webhook_event {
    semel_message message; /* in the memory of the request */
    semel_header headers[SEMEL_HEADERS_MAX];
    const char *challenge; /* of Slack, which wants it back: this is no message; else NULL */
    const char *missing;   /* where the id was expected; NULL: it was found */
    const char *wrong;     /* with the id; NULL: nothing */
} webhook_event;

/* `keys` is an inbox whose key expression is the route's; NULL: the preset knows. */
void webhook_event_read(webhook_event *out, const route_config *route, http_request *request,
                        const signature_facts *facts, const semel_inbox *keys);

/* 1 if a header is kept with the message: what the sender adds, never a signature or a secret. */
int webhook_keeps_header(const route_config *route, const char *name);

#endif
