/* A request as it is passed on to the upstream, and its answer.
 *
 * Everything end-to-end is passed on in both directions, and nothing that is between two
 * neighbours (RFC 9110, 7.6.1). The request is sent once: libcurl would send it again if a
 * connection that it had kept turned out to be dead, which nobody can tell from a server that died
 * after the work (http_transfer.h).
 *
 * Whether the upstream may have got the request is known by whether there was a connection to send
 * it on. */
#include "program/gateway/proxy.h"

#include "program/handler/drain.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- headers ---------------------------------------------------------------------------------- */

static int is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcasecmp(name, *names) == 0)
            return 1;
    return 0;
}

/* Is it one of the words of a Connection header? */
static int is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);
    while (list && *list) {
        list += strspn(list, ", \t");
        size_t word = strcspn(list, ", \t");
        if (word == len && strncasecmp(list, name, len) == 0)
            return 1;
        list += word;
    }
    return 0;
}

static int is_between_neighbours(const char *name)
{
    static const char *const names[] = {"Connection",
                                        "Keep-Alive",
                                        "Proxy-Connection",
                                        "Proxy-Authenticate",
                                        "Proxy-Authorization",
                                        "TE",
                                        "Trailer",
                                        "Transfer-Encoding",
                                        "Upgrade",
                                        NULL};
    return is_one_of(name, names);
}

typedef struct passing {
    const upstream_call *call;
    struct curl_slist *list;
    const char *forwarded, *via;
    const char *traceparent; /* NULL: none */
    int has_type, has_accept, has_proto, has_host, failed;
} passing;

static void add_line(passing *p, const char *text)
{
    struct curl_slist *more = curl_slist_append(p->list, text);
    if (more)
        p->list = more;
    else
        p->failed = 1;
}

static void add_pair(passing *p, const char *name, const char *value)
{
    buffer line = {0};
    buffer_printf(&line, *value ? "%s: %s" : "%s;", name, value); /* as libcurl writes no value */
    add_line(p, line.data);
    buffer_free(&line);
}

/* The values of several headers of a name are one list. */
static void join(passing *p, const char **list, const char *value)
{
    region *memory = http_request_memory(p->call->request);
    *list = *list ? region_printf(memory, "%s, %s", *list, value)
                  : region_copy(memory, value, strlen(value));
}

typedef struct listing {
    const char *name;
    int is_listed;
} listing;

static void look_into(void *context, const char *name, const char *value)
{
    listing *l = context;
    l->is_listed |= strcasecmp(name, "Connection") == 0 && is_listed(value, l->name);
}

/* By any of the Connection headers. */
static int is_of_this_hop(const http_request *request, const char *name)
{
    listing l = {.name = name};
    http_request_headers(request, look_into, &l);
    return l.is_listed;
}

static void pass_header(void *context, const char *name, const char *value)
{
    static const char *const own[] = {"Host",        "Content-Length", "Expect",
                                      "traceparent", "tracestate",     NULL};
    passing *p = context;
    if (is_one_of(name, own) || is_between_neighbours(name) ||
        is_of_this_hop(p->call->request, name))
        return;
    if (strcasecmp(name, "X-Forwarded-For") == 0) {
        join(p, &p->forwarded, value);
    } else if (strcasecmp(name, "Via") == 0) {
        join(p, &p->via, value);
    } else {
        p->has_type |= strcasecmp(name, "Content-Type") == 0;
        p->has_accept |= strcasecmp(name, "Accept") == 0;
        p->has_proto |= strcasecmp(name, "X-Forwarded-Proto") == 0;
        p->has_host |= strcasecmp(name, "X-Forwarded-Host") == 0;
        add_pair(p, name, value);
    }
}

/* Who asks, and for which name; and none of what libcurl would say by itself. */
static void add_own(passing *p)
{
    const http_request *request = p->call->request;
    const char *host = http_request_header(request, "Host");
    join(p, &p->forwarded, http_request_peer(request));
    join(p, &p->via, "1.1 semel");
    add_pair(p, "X-Forwarded-For", p->forwarded);
    add_pair(p, "Via", p->via);
    if (p->traceparent)
        add_pair(p, "traceparent", p->traceparent);
    if (p->traceparent && route_tracestate(p->call->request))
        add_pair(p, "tracestate", route_tracestate(p->call->request));
    if (!p->has_proto)
        add_line(p, "X-Forwarded-Proto: http");
    if (!p->has_host && host)
        add_pair(p, "X-Forwarded-Host", host);
    if (!p->has_type)
        add_line(p, "Content-Type:");
    if (!p->has_accept)
        add_line(p, "Accept:");
    add_line(p, "Expect:");
}

/* --- the request ------------------------------------------------------------------------------ */

static int has_body(const http_request *request)
{
    const char *method = http_request_method(request);
    return http_request_body(request).len || strcmp(method, "POST") == 0 ||
           strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
}

static unsigned set_body(CURL *curl, const http_request *request)
{
    semel_bytes body = http_request_body(request);
    const char *method = http_request_method(request);
    unsigned failed = 0;
    if (strcmp(method, "HEAD") == 0)
        return curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (has_body(request)) {
        failed |= curl_easy_setopt(curl, CURLOPT_POST, 1L);
        failed |= curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.len ? body.data : "");
        failed |= curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
    }
    failed |= curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    return failed;
}

/* The upstream's URL with the target behind it, as it was sent. */
static const char *url_of(const upstream_call *call)
{
    const char *base = call->route->proxy, *target = http_request_target(call->request);
    size_t len = strlen(base);
    while (len && base[len - 1] == '/')
        len--;
    const char *scheme = strstr(target, "://"); /* the absolute form has a host of its own */
    if (*target != '/' && scheme)
        target = scheme + 3 + strcspn(scheme + 3, "/?");
    return region_printf(http_request_memory(call->request), "%.*s%s%s", (int)len, base,
                         *target == '/' ? "" : "/", target);
}

static int set_request(CURL *curl, const upstream_call *call, const passing *p)
{
    unsigned failed = p->failed ? 1 : 0;
    failed |= curl_easy_setopt(curl, CURLOPT_URL, url_of(call));
    failed |= curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    failed |= curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    failed |= curl_easy_setopt(curl, CURLOPT_HTTPHEADER, p->list);
    failed |= set_body(curl, call->request);
    return !failed;
}

/* --- the answer ------------------------------------------------------------------------------- */

static int is_passed_back(const char *name, const char *connection)
{
    static const char *const own[] = {"Content-Length", "Date", NULL};
    return !is_one_of(name, own) && !is_between_neighbours(name) && !is_listed(connection, name);
}

static const char *copy(region *memory, const char *text)
{
    return region_copy(memory, text, strlen(text));
}

static void take_headers(upstream_call *call, CURL *curl)
{
    region *memory = http_request_memory(call->request);
    struct curl_header *at = NULL;
    size_t count = 0;
    while ((at = curl_easy_nextheader(curl, CURLH_HEADER, -1, at)))
        count++;
    http_header *to = call->headers = region_alloc(memory, (count + 1) * sizeof *to);
    const char *connection = "";
    for (size_t i = 0; curl_easy_header(curl, "Connection", i, CURLH_HEADER, -1, &at) == CURLHE_OK;
         i++)
        connection = region_printf(memory, "%s,%s", connection, at->value);
    for (at = NULL; (at = curl_easy_nextheader(curl, CURLH_HEADER, -1, at));)
        if (is_passed_back(at->name, connection))
            *to++ = (http_header){copy(memory, at->name), copy(memory, at->value)};
}

static upstream_end end_of(const http_transfer *t, CURLcode code, unsigned status)
{
    int has_status = status >= 200 && status <= 599;
    if (!code && has_status)
        return UPSTREAM_ANSWERED;
    if (t->too_long && has_status)
        return UPSTREAM_TOO_LARGE;
    return t->sent ? UPSTREAM_UNKNOWN : UPSTREAM_UNREACHED;
}

/* When the time for draining is over, what runs is given up: its outcome is stored as unknown. */
static int gives_up(const http_transfer *t)
{
    (void)t;
    return drain_is_over();
}

static void say_why(upstream_call *call, const http_transfer *t, CURLcode code)
{
    if (call->end == UPSTREAM_ANSWERED)
        return;
    if (code)
        (void)http_transfer_fail(t, code, SEMEL_EHANDLER, &call->why);
    else
        semel_fail(&call->why, SEMEL_EHANDLER, "http: the answer has no valid status");
    if (drain_is_over() && code == CURLE_ABORTED_BY_CALLBACK && !t->lost)
        semel_fail(&call->why, SEMEL_EHANDLER, "semel was stopped before the upstream answered");
}

static void perform(upstream_call *call, http_transfer *t, const passing *p)
{
    long status = 0;
    if (!set_request(t->curl, call, p)) {
        call->end = UPSTREAM_UNREACHED;
        semel_fail(&call->why, SEMEL_ENOMEM, "http: libcurl does not take the request");
        return;
    }
    CURLcode code = http_transfer_run(t);
    (void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    call->status = (unsigned)status;
    call->end = end_of(t, code, call->status);
    call->body = t->body;
    if (call->end == UPSTREAM_ANSWERED)
        take_headers(call, t->curl);
    say_why(call, t, code);
}

void upstream_run(upstream_call *call)
{
    const route_config *route = call->route;
    passing p = {.call = call, .traceparent = route_trace_call(call->request)};
    http_transfer t = {.timeout_ms = route->timeout_ms,
                       .private_addresses = route->private_addresses,
                       .sends_once = 1,
                       .room = (size_t)route->response_bytes,
                       .unit = call->unit,
                       .lease_ms = route->lease_ms,
                       .gives_up = gives_up};
    http_request_headers(call->request, pass_header, &p);
    add_own(&p);
    call->end = UPSTREAM_UNREACHED;
    if (!http_transfer_begin(&t, call->pool, &call->why)) {
        perform(call, &t, &p);
        http_transfer_end(&t);
    }
    route_trace_called(
        call->request, route->proxy,
        call->end == UPSTREAM_ANSWERED || call->end == UPSTREAM_TOO_LARGE ? call->status : 0,
        call->why.text);
    curl_slist_free_all(p.list);
}
