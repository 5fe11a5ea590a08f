/* Spans of requests. The trace of a request is kept with it (http_request_keep) and ends when it is
 * answered, whoever answers it and in whatever thread. Without tracing nothing is kept, and the
 * context of the caller is passed on as it came, if it is one. */
#include "program/gateway/route.h"

#include <string.h>
#include <strings.h>

typedef struct route_trace {
    tracer *tracer;
    const char *route; /* the path of the configuration */
    http_trace request;
    http_trace_call call;
    int was_called; /* the upstream was */
} route_trace;

static semel_bytes bytes_of(const char *text)
{
    return text ? semel_str(text) : (semel_bytes){NULL, 0};
}

static const char *outcome_of(const route_trace *trace, const http_response *response)
{
    for (const http_header *h = response->headers; h && h->name; h++)
        if (strcasecmp(h->name, "Idempotent-Replayed") == 0)
            return "replayed";
    return trace->was_called ? "executed" : response->status == 202 ? "accepted" : NULL;
}

static void end(void *kept, const http_request *request, const http_response *response)
{
    route_trace *trace = kept;
    tracer_end_http(trace->tracer, &trace->request,
                    &(http_trace_end){.method = http_request_method(request),
                                      .route = trace->route,
                                      .path = http_request_path(request),
                                      .outcome = outcome_of(trace, response),
                                      .status = (int)response->status});
}

/* What is not sampled needs an end only if there is a tracer; and the route may be closed before
 * the request is answered, so its path is copied. */
void route_trace_begin(tracer *t, const gateway_route *route, http_request *request)
{
    if (!t)
        return;
    region *memory = http_request_memory(request);
    route_trace *trace = region_alloc(memory, sizeof *trace);
    const char *path = route->config->path;
    trace->tracer = t;
    trace->request = tracer_begin_http(t, bytes_of(http_request_header(request, "traceparent")));
    trace->route = trace->request.sampled ? region_copy(memory, path, strlen(path)) : "";
    http_request_keep(request, trace, trace->request.sampled ? end : NULL);
}

static http_trace trace_of(const http_request *request)
{
    const route_trace *trace = http_request_kept(request);
    return trace ? trace->request
                 : tracer_begin_http(NULL, bytes_of(http_request_header(request, "traceparent")));
}

const char *route_traceparent(http_request *request)
{
    char text[SEMEL_TRACEPARENT_SIZE];
    http_trace trace = trace_of(request);
    return http_trace_context(&trace, text)
               ? region_copy(http_request_memory(request), text, strlen(text))
               : NULL;
}

const char *route_tracestate(http_request *request)
{
    const char *value = http_request_header(request, "tracestate");
    return trace_of(request).has_parent && http_request_header_count(request, "tracestate") == 1 &&
                   trace_state_is_valid(bytes_of(value))
               ? value
               : NULL;
}

const char *route_trace_call(http_request *request)
{
    char text[SEMEL_TRACEPARENT_SIZE];
    route_trace *trace = http_request_kept(request);
    if (!trace)
        return route_traceparent(request);
    trace->was_called = 1;
    return tracer_begin_call(trace->tracer, &trace->call, &trace->request, text)
               ? region_copy(http_request_memory(request), text, strlen(text))
               : NULL;
}

void route_trace_called(http_request *request, const char *url, unsigned status, const char *error)
{
    const route_trace *trace = http_request_kept(request);
    if (trace)
        tracer_end_call(trace->tracer, &trace->call, &trace->request,
                        &(http_trace_called){.method = http_request_method(request),
                                             .url = url,
                                             .status = (int)status,
                                             .error = status ? NULL : error});
}
