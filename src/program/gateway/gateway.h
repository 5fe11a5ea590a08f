/* The gateway of `semel run`: HTTP for others. It listens from the start of the program until its
 * end, whatever becomes of the store.
 *
 * Routes need the store, and those of webhooks and publishing the pipeline, too. Until both are
 * there a request is answered with 503 and Retry-After. While a configuration is exchanged, proxy
 * routes go on with the old one, and requests for the other routes wait for a moment. So no request
 * is lost. */
#ifndef SEMEL_PROGRAM_GATEWAY_GATEWAY_H
#define SEMEL_PROGRAM_GATEWAY_GATEWAY_H

#include "program/config/config.h"
#include "program/gateway/route_meter.h"
#include "program/run/assembly.h"
#include "program/run/log.h"
#include "program/trace/tracer.h"

typedef struct gateway gateway;

typedef struct gateway_links {
    log *log;
    tracer *tracer; /* NULL: tracing is off */
    /* that of the store: it is also told of copies that the gateway answers by itself */
    semel_observer *observer;
    void *observer_context;
} gateway_links;

/* Listens as the configuration says, which must have gateway.listen. */
semel_status gateway_open(gateway **out, const config *all, const gateway_links *links,
                          semel_error *err);

/* Before a configuration is used: listens on its address, if that is another one, so that it is
 * known whether this can be done. What was prepared and is not used is closed by the next
 * gateway_prepare() or gateway_use(). */
semel_status gateway_prepare(gateway *g, const config *all, semel_error *err);

/* Requests are handled by this configuration from now on. It is not needed any more once another
 * one is used. A NULL pipeline: there is none for the moment; returns when no request uses the old
 * one. `all` and `store` are not looked at then. */
void gateway_use(gateway *g, const config *all, semel_store *store, semel_pipeline *pipeline,
                 const assembly *parts);

/* No new requests; those in hand are answered. Does not wait. */
void gateway_drain(gateway *g);

/* Requests in hand. */
size_t gateway_pending(gateway *g);

/* Waits for the requests in hand. NULL is a no-op. Before the store is closed. */
void gateway_close(gateway *g);

const char *gateway_address(const gateway *g); /* "127.0.0.1:8480", as it was bound */

/* --- for metrics and the page ----------------------------------------------------------------- */

/* Each route of the configuration that is used. `route` is valid for the call. */
typedef void gateway_route_visitor(void *context, const route_config *route,
                                   const route_meter *meter);
void gateway_visit(gateway *g, gateway_route_visitor *visit, void *context);

/* A key of a proxy route whose request this process has sent to the upstream. */
typedef struct gateway_flight {
    const char *route;
    semel_bytes key;  /* as the inbox gateway.ROUTE has it */
    int64_t since_ms; /* by the wall clock */
    size_t waiting;   /* copies that wait for its answer */
} gateway_flight;
typedef void gateway_flight_visitor(void *context, const gateway_flight *flight);
void gateway_visit_flights(gateway *g, gateway_flight_visitor *visit, void *context);

#endif
