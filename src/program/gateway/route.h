/* Routes of the gateway, as the core (gateway*.c) and the kinds of routes (proxy.c, webhook.c,
 * publish.c) share them.
 *
 * A kind is three functions. `open` is called when a configuration is used, with store and pipeline
 * at hand, and may keep what it needs in `state`; if it fails, the route answers 503 with the
 * text. `close` frees that when no request uses the route any more. `handle` is called by a worker
 * for each request that has passed what all routes have in common (path, method, limits). */
#ifndef SEMEL_PROGRAM_GATEWAY_ROUTE_H
#define SEMEL_PROGRAM_GATEWAY_ROUTE_H

#include "program/gateway/gateway.h"
#include "program/http/server.h"

#include <pthread.h>

typedef struct gateway_route {
    const route_config *config;
    const struct config *all; /* NULL for proxies, which outlive their configuration */
    route_meter *meter;
    semel_store *store;
    semel_pipeline *pipeline; /* NULL for proxies, as the next one */
    const assembly *assembly;
    log *log;
    const gateway_links *links;
    gateway *gateway;
    void *state; /* of its kind */
    /* the core's */
    struct route_table *table;
    pthread_mutex_t opening;
    atomic_int is_open;
    int is_said; /* that it cannot be opened */
    int64_t tried_ns;
} gateway_route;

/* Must answer the request (http_respond), before it returns or later, and count it once. */
typedef void route_handler(gateway_route *route, http_request *request);

semel_status proxy_open(gateway_route *route, semel_error *err);
void proxy_close(gateway_route *route);
void proxy_handle(gateway_route *route, http_request *request);
void proxy_visit_flights(gateway_route *route, gateway_flight_visitor *visit, void *context);

semel_status webhook_open(gateway_route *route, semel_error *err);
void webhook_close(gateway_route *route);
void webhook_handle(gateway_route *route, http_request *request);

semel_status publish_open(gateway_route *route, semel_error *err);
void publish_close(gateway_route *route);
void publish_handle(gateway_route *route, http_request *request);

/* What became of a request that was begun at this moment of steady_clock_ns(). From any thread. */
void route_count(gateway_route *route, route_outcome outcome, int64_t began_ns);

/* Around work that goes on after the handler has returned: as long as it is kept, neither the route
 * nor its pipeline is closed. */
void route_keep(gateway_route *route);
void route_release(gateway_route *route);

/* As http_respond_problem(), with headers of its own (the last one has no name; NULL: none) and
 * members of its own: pairs of names and texts, as in a problem document's extensions. */
void route_problem(http_request *request, const http_problem *problem, const http_header *headers,
                   const http_header *members);

/* --- tracing: route_trace.c ------------------------------------------------------------------- */

/* The core's: from now on the request has a span, which ends with its answer. */
void route_trace_begin(tracer *t, const gateway_route *route, http_request *request);

/* The trace context of what becomes of the request, for a message that is made of it: that of its
 * span or, if it is not sampled, that of its caller. NULL: there is none. In the memory of the
 * request. A tracestate is the caller's, and NULL if it cannot be passed on. */
const char *route_traceparent(http_request *request);
const char *route_tracestate(http_request *request);

/* Around a request to an upstream: the traceparent to send, or NULL. */
const char *route_trace_call(http_request *request);
void route_trace_called(http_request *request, const char *url, unsigned status, const char *error);

#endif
