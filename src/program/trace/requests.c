/* Spans of HTTP: a request that the gateway answers (SERVER), and its request to an upstream
 * (CLIENT). Here the caller waits for the answer, so the spans are children of the caller's. */
#include "program/support/show.h"
#include "program/trace/tracer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVER_ERRORS = 500, CLIENT_ERRORS = 400 };

static void derive(tracer *t, trace_context *self, const trace_context *parent)
{
    uint64_t id = tracer_new_id(t);
    if (parent)
        memcpy(self->trace, parent->trace, sizeof self->trace);
    else
        trace_context_set(self, id, tracer_new_id(t), 1);
    uint64_t own = trace_mix(id ^ t->secret[1]) | 1; /* never zero */
    memcpy(self->span, &own, sizeof own);
    self->sampled = 1;
}

http_trace tracer_begin_http(tracer *t, semel_bytes traceparent)
{
    http_trace request = {0};
    request.has_parent = trace_context_read(&request.parent, traceparent);
    if (!t)
        return request;
    const trace_context *parent = request.has_parent ? &request.parent : NULL;
    derive(t, &request.self, parent);
    request.sampled =
        trace_sampler_takes(&t->settings.sampler, parent, trace_low_half(&request.self));
    request.started_ns = steady_clock_ns();
    return request;
}

int http_trace_context(const http_trace *request, char traceparent[SEMEL_TRACEPARENT_SIZE])
{
    if (!request->sampled && !request->has_parent)
        return 0;
    trace_context_write(traceparent, request->sampled ? &request->self : &request->parent);
    return 1;
}

static void add_status(span *s, int status, int errors_from)
{
    char text[16];
    if (status)
        span_number(s, "http.response.status_code", status);
    if (status < errors_from)
        return;
    (void)snprintf(text, sizeof text, "%d", status);
    span_text(s, "error.type", text);
}

void tracer_end_http(tracer *t, const http_trace *request, const http_trace_end *end)
{
    span s;
    if (!t || !request->sampled)
        return;
    span_head head = {.self = request->self,
                      .parent = request->has_parent ? &request->parent : NULL,
                      .operation = end->method,
                      .object = end->route,
                      .kind = SPAN_SERVER,
                      .start_ns = tracer_wall_ns(request->started_ns)};
    head.end_ns = tracer_wall_ns(steady_clock_ns());
    span_begin(&s, &head);
    span_text(&s, "http.request.method", end->method);
    span_text(&s, "http.route", end->route);
    span_text(&s, "url.path", end->path);
    span_text(&s, "url.scheme", "http");
    span_text(&s, "semel.dedup.outcome", end->outcome);
    add_status(&s, end->status, SERVER_ERRORS);
    tracer_push(t,
                span_end(&s, end->status >= SERVER_ERRORS ? end->error ? end->error : "" : NULL));
}

int tracer_begin_call(tracer *t, http_trace_call *out, const http_trace *of,
                      char traceparent[SEMEL_TRACEPARENT_SIZE])
{
    *out = (http_trace_call){0};
    if (!t || !of->sampled)
        return http_trace_context(of, traceparent);
    derive(t, &out->self, &of->self);
    out->started_ns = steady_clock_ns();
    trace_context_write(traceparent, &out->self);
    return 1;
}

/* scheme://host:port without user and password. */
static void add_server(span *s, const char *url)
{
    char host[256];
    const char *scheme_end = strstr(url, "://"), *at = scheme_end ? scheme_end + 3 : url;
    size_t len = strcspn(at, "/?#"), from = 0;
    for (size_t i = 0; i < len; i++)
        from = at[i] == '@' ? i + 1 : from;
    (void)snprintf(host, sizeof host, "%.*s", (int)(len - from), at + from);
    char *colon = strrchr(host, ':');
    if (colon && !strchr(colon, ']')) {
        *colon = '\0';
        span_number(s, "server.port", strtol(colon + 1, NULL, 10));
    } else {
        span_number(s, "server.port", strncmp(url, "https", 5) == 0 ? 443 : 80);
    }
    span_text(s, "server.address", host);
}

void tracer_end_call(tracer *t, const http_trace_call *call, const http_trace *of,
                     const http_trace_called *end)
{
    span s;
    if (!t || !of->sampled || !call->started_ns)
        return;
    span_head head = {.self = call->self,
                      .parent = &of->self,
                      .operation = end->method,
                      .kind = SPAN_CLIENT,
                      .start_ns = tracer_wall_ns(call->started_ns)};
    head.end_ns = tracer_wall_ns(steady_clock_ns());
    int failed = !end->status || end->status >= CLIENT_ERRORS;
    span_begin(&s, &head);
    span_text(&s, "http.request.method", end->method);
    add_server(&s, end->url);
    if (!end->status)
        span_text(&s, "error.type", "no_answer");
    add_status(&s, end->status, CLIENT_ERRORS);
    tracer_push(t, span_end(&s, failed ? end->error ? end->error : "" : NULL));
}
