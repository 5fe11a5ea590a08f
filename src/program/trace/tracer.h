/* Tracing of `semel run`: what becomes of messages and requests, as spans for an OpenTelemetry
 * collector.
 *
 * Whether something is sampled is decided first and by arithmetic alone; what is not sampled costs
 * nothing more. A span that is sampled is written by the thread whose work it tells of and put into
 * a bounded queue; a thread of its own sends them. When the queue is full a span is dropped and
 * counted. Nobody ever waits for the collector.
 *
 * No table connects a handler with its outcome: the ids of the span of a handler's work are derived
 * from its inbox, key, attempt and start, by the one who tells the handler (tracer_hooks) and by
 * the one who tells the collector (tracer_observe). */
#ifndef SEMEL_PROGRAM_TRACE_TRACER_H
#define SEMEL_PROGRAM_TRACE_TRACER_H

#include "program/run/outcomes.h"
#include "program/trace/context.h"

typedef struct tracer tracer;

/* NULL: tracing is off, neither the configuration nor the environment names a collector. What is
 * wrong with the environment is said in the log. */
tracer *tracer_open(const config *all, log *l, const outcomes *o);

/* Sends what is left, for as long as deadline_ms; a request that hangs may take a second longer.
 * No hook may be called any more. NULL is a no-op. */
void tracer_close(tracer *t, int64_t deadline_ms);

/* Another configuration is used for names of queues. As outcomes_configure(). */
void tracer_configure(tracer *t, const config *all);

/* For semel_store_options.tracing, and for the observer. All of these take NULL. */
const semel_tracing *tracer_hooks(const tracer *t);
void tracer_observe(tracer *t, const semel_event *event);

/* --- requests that come by HTTP --------------------------------------------------------------- */

/* One request, from its first byte to its answer. A zeroed one is not sampled. */
typedef struct http_trace {
    trace_context self;
    trace_context parent;
    int has_parent;
    int sampled;
    int64_t started_ns; /* by the steady clock */
} http_trace;

/* The header of the request, or {NULL, 0}. The span is a child of the caller's. */
http_trace tracer_begin_http(tracer *t, semel_bytes traceparent);

/* The context to pass on: that of the request's span if it is sampled, else that of the caller.
 * 0: there is none. A tracestate of the caller may go with it. */
int http_trace_context(const http_trace *request, char traceparent[SEMEL_TRACEPARENT_SIZE]);

typedef struct http_trace_end {
    const char *method;
    const char *route;   /* of the configuration: the name that has few values */
    const char *path;    /* of the request, without its query */
    const char *outcome; /* executed, replayed, accepted, ... */
    int status;
    const char *error; /* NULL: none */
} http_trace_end;
void tracer_end_http(tracer *t, const http_trace *request, const http_trace_end *end);

/* A request to an upstream, as a child of it: the context to send. 0: as http_trace_context() of
 * the request, which was written. */
typedef struct http_trace_call {
    trace_context self;
    int64_t started_ns;
} http_trace_call;
int tracer_begin_call(tracer *t, http_trace_call *out, const http_trace *of,
                      char traceparent[SEMEL_TRACEPARENT_SIZE]);
typedef struct http_trace_called {
    const char *method;
    const char *url;   /* scheme, host and port are taken from it */
    int status;        /* 0: there was no answer */
    const char *error; /* NULL: none */
} http_trace_called;
void tracer_end_call(tracer *t, const http_trace_call *call, const http_trace *of,
                     const http_trace_called *end);

#endif
