/* See gateway.h. The table of routes is exchanged under one lock, which is held for moments only:
 * a request takes its route under it and then works without it.
 *
 * Exchanging the pipeline happens in two steps. Without one, requests for webhooks and publishing
 * wait in their workers, for PAUSE_MS at most: there is nothing else that these workers could do.
 * Then the table with the new pipeline is used. */
#include "program/gateway/gateway.h"

#include "program/gateway/gateway_internal.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAUSE_MS = 5000, NS_PER_MS = 1000000 };

static int64_t steady_ms(void)
{
    return steady_clock_ns() / NS_PER_MS;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void init_lock(gateway *g)
{
    pthread_condattr_t steady;
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&g->changed, &steady);
    pthread_condattr_destroy(&steady);
}

static void free_gateway(gateway *g)
{
    for (named_meter *at = g->meters, *next; at; at = next) {
        next = at->next;
        free(at->name);
        free(at);
    }
    rate_close(g->rates);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

semel_status gateway_open(gateway **out, const config *all, const gateway_links *links,
                          semel_error *err)
{
    gateway *g = must_alloc(sizeof *g);
    g->links = *links;
    g->rates = rate_open();
    init_lock(g);
    semel_status status = servers_open(g, all, err);
    if (status)
        free_gateway(g);
    else
        *out = g;
    return status;
}

semel_status gateway_prepare(gateway *g, const config *all, semel_error *err)
{
    return servers_prepare(g, all, err);
}

/* The servers wait for requests in hand, so the tables are not used any more after them. */
void gateway_close(gateway *g)
{
    if (!g)
        return;
    gateway_drain(g);
    servers_close(g);
    route_table_close(g->table);
    free_gateway(g);
}

void gateway_drain(gateway *g)
{
    pthread_mutex_lock(&g->lock);
    g->is_draining = 1;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    http_server_drain(g->server);
}

size_t gateway_pending(gateway *g)
{
    pthread_mutex_lock(&g->lock);
    size_t kept = g->kept;
    pthread_mutex_unlock(&g->lock);
    return kept;
}

const char *gateway_address(const gateway *g)
{
    return http_server_address(g->server);
}

/* --- routes in use ---------------------------------------------------------------------------- */

/* With the lock. */
static void keep(gateway_route *route)
{
    route->gateway->kept++;
    *(route->pipeline ? &route->table->others : &route->table->proxies) += 1;
}

void route_keep(gateway_route *route)
{
    pthread_mutex_lock(&route->gateway->lock);
    keep(route);
    pthread_mutex_unlock(&route->gateway->lock);
}

/* `users` is one of the table's two. The last user of a table that is left closes it, and keeps
 * the gateway and the stores for so long. */
static void release(gateway *g, route_table *table, size_t *users)
{
    pthread_mutex_lock(&g->lock);
    *users -= 1;
    int is_last = table->is_left && !table->proxies && !table->others;
    if (!table->others)
        pthread_cond_broadcast(&g->changed);
    if (is_last) {
        pthread_mutex_unlock(&g->lock);
        route_table_close(table);
        pthread_mutex_lock(&g->lock);
    }
    if (!--g->kept)
        pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void route_release(gateway_route *route)
{
    route_table *table = route->table;
    release(route->gateway, table, route->pipeline ? &table->others : &table->proxies);
}

/* --- exchanging ------------------------------------------------------------------------------- */

static void leave_pipeline(gateway *g)
{
    pthread_mutex_lock(&g->lock);
    if (g->has_pipeline)
        g->paused_ms = steady_ms();
    g->has_pipeline = 0;
    route_table *table = g->table;
    while (table && table->others)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    if (table)
        table_leave_pipeline(table);
}

static void use_table(gateway *g, route_table *table)
{
    pthread_mutex_lock(&g->lock);
    route_table *old = g->table;
    g->table = table;
    g->has_pipeline = 1;
    int is_unused = old && !old->proxies && !old->others;
    if (old)
        old->is_left = 1;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (is_unused)
        route_table_close(old);
}

void gateway_use(gateway *g, const config *all, semel_store *store, semel_pipeline *pipeline,
                 const assembly *parts)
{
    leave_pipeline(g);
    if (!pipeline)
        return;
    use_table(g, route_table_open(g, all, store, pipeline, parts));
    servers_exchange(g, all);
}

void gateway_visit(gateway *g, gateway_route_visitor *visit, void *context)
{
    pthread_mutex_lock(&g->lock);
    for (size_t i = 0; g->table && i < g->table->count; i++)
        if (g->has_pipeline || !g->table->routes[i].pipeline)
            visit(context, g->table->routes[i].config, g->table->routes[i].meter);
    pthread_mutex_unlock(&g->lock);
}

void gateway_visit_flights(gateway *g, gateway_flight_visitor *visit, void *context)
{
    pthread_mutex_lock(&g->lock);
    route_table *table = g->table;
    if (table)
        table->proxies++, g->kept++;
    pthread_mutex_unlock(&g->lock);
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++)
        if (!table->routes[i].pipeline && atomic_load(&table->routes[i].is_open))
            proxy_visit_flights(&table->routes[i], visit, context);
    release(g, table, &table->proxies);
}

/* --- one request ------------------------------------------------------------------------------ */

/* As routes are compared: without empty segments, into `to`, which has room for all of it. 0: the
 * path has segments that a server may take for another path, or a byte that no path has. Some
 * servers take "..;a=b" for "..". */
static int write_plain(char *to, const char *from)
{
    if (*from != '/')
        return 0;
    for (; *from; from++) {
        size_t len = *from == '/' ? strcspn(from + 1, "/;") : 0;
        if ((unsigned char)*from < ' ' || *from == 0x7f)
            return 0;
        if (*from == '/' && len && len <= 2 && strspn(from + 1, ".") >= len)
            return 0;
        if (*from != '/' || from[1] != '/')
            *to++ = *from;
    }
    *to = 0;
    return 1;
}

static const char *plain_path(http_request *request)
{
    const char *from = http_request_path(request);
    char *path = region_alloc(http_request_memory(request), strlen(from) + 1);
    return write_plain(path, from) ? path : NULL;
}

static void refuse_path(http_request *request)
{
    http_respond_problem(
        request, &(http_problem){.status = 400,
                                 .type = "bad-path",
                                 .title = "The path of the request is ambiguous",
                                 .detail = "It has . or .. segments or control characters."});
}

static void say_unavailable(http_request *request, const char *detail)
{
    http_respond_problem(request, &(http_problem){.status = 503,
                                                  .type = "unavailable",
                                                  .title = "The gateway cannot work at the moment",
                                                  .detail = detail,
                                                  .retry_after_s = 1});
}

/* With the lock. 0: the pipeline will not come in time. */
static int wait_for_pipeline(gateway *g)
{
    int64_t until = g->paused_ms + PAUSE_MS;
    struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * NS_PER_MS};
    if (g->is_draining || steady_ms() >= until)
        return 0;
    (void)pthread_cond_timedwait(&g->changed, &g->lock, &at);
    return 1;
}

typedef enum finding { FOUND, NO_TABLE, NO_ROUTE, NO_METHOD, NO_PIPELINE } finding;

/* With the lock. Without a pipeline the configuration of such a route may be freed at any moment
 * after the lock: nothing more is said about it then. */
static finding look_for(gateway_route **out, gateway *g, const char *path, const char *method)
{
    if (!g->table)
        return NO_TABLE;
    *out = route_table_find(g->table, path);
    if (!*out)
        return NO_ROUTE;
    if ((*out)->pipeline && !g->has_pipeline)
        return NO_PIPELINE;
    return route_accepts(*out, method) ? FOUND : NO_METHOD;
}

static void refuse_method(const gateway_route *route, http_request *request)
{
    buffer allow = {0};
    const config_list *methods = &route->config->methods;
    for (size_t i = 0; i < methods->count; i++)
        buffer_printf(&allow, "%s%s", i ? ", " : "", methods->items[i]);
    const http_header headers[] = {{"Allow", allow.data ? allow.data : ""}, {NULL, NULL}};
    const http_problem problem = {.status = 405,
                                  .type = "method-not-allowed",
                                  .title = "The route does not accept this method"};
    route_problem(request, &problem, headers, NULL);
    buffer_free(&allow);
}

/* The route is kept, or the request is answered. */
static gateway_route *take_route(gateway *g, http_request *request, const char *path)
{
    gateway_route *route = NULL;
    finding found;
    pthread_mutex_lock(&g->lock);
    do
        found = look_for(&route, g, path, http_request_method(request));
    while (found == NO_PIPELINE && wait_for_pipeline(g));
    if (route)
        keep(route);
    pthread_mutex_unlock(&g->lock);
    if (found == FOUND)
        return route;
    if (found == NO_ROUTE)
        http_respond_problem(
            request,
            &(http_problem){.status = 404, .type = "no-route", .title = "No route has this path"});
    else if (found == NO_METHOD)
        refuse_method(route, request);
    else
        say_unavailable(request, found == NO_TABLE
                                     ? "It has just been started and is not ready yet."
                                     : "Its configuration is being exchanged.");
    if (route) {
        route_count(route, found == NO_METHOD ? ROUTE_BAD_REQUEST : ROUTE_UNAVAILABLE,
                    steady_clock_ns());
        route_release(route);
    }
    return NULL;
}

static int is_within_rate(gateway *g, gateway_route *route, http_request *request, int64_t now_ns)
{
    enum { MS_PER_S = 1000 };
    uint32_t rate = route->config->rate ? route->config->rate : route->table->rate;
    uint32_t wait_ms =
        rate_take(g->rates, http_request_peer(request), route->config->name, rate, now_ns);
    if (!wait_ms)
        return 1;
    route_count(route, ROUTE_LIMITED, now_ns);
    http_respond_problem(request, &(http_problem){.status = 429,
                                                  .type = "rate-limited",
                                                  .title = "Too many requests from this address",
                                                  .retry_after_s = wait_ms / MS_PER_S + 1});
    return 0;
}

static void handle_by_kind(gateway_route *route, http_request *request)
{
    static route_handler *const handlers[] = {[ROUTE_PUBLISH] = publish_handle,
                                              [ROUTE_WEBHOOK] = webhook_handle,
                                              [ROUTE_PROXY] = proxy_handle};
    handlers[route->config->kind](route, request);
}

void gateway_handle(http_request *request, void *context)
{
    gateway *g = context;
    int64_t now_ns = steady_clock_ns();
    const char *path = plain_path(request);
    if (!path) {
        refuse_path(request);
        return;
    }
    gateway_route *route = take_route(g, request, path);
    if (!route)
        return;
    route_trace_begin(g->links.tracer, route, request);
    if (is_within_rate(g, route, request, now_ns)) {
        if (route_table_reopen(route)) {
            handle_by_kind(route, request);
        } else {
            route_count(route, ROUTE_UNAVAILABLE, now_ns);
            say_unavailable(request, "The route could not be opened; the log says why.");
        }
    }
    route_release(route);
}

/* A body that is refused for its length is counted here: no handler will see it. */
static uint64_t limit_of(gateway *g, const http_request *request, const char *path)
{
    uint64_t limit = 0;
    const char *length = http_request_header(request, "Content-Length");
    pthread_mutex_lock(&g->lock);
    gateway_route *route = g->table ? route_table_find(g->table, path) : NULL;
    if (route && (g->has_pipeline || !route->pipeline)) {
        limit = route->config->body_bytes;
        if (limit && length && strtoull(length, NULL, 10) > limit)
            route_count(route, ROUTE_TOO_LARGE, steady_clock_ns());
    }
    pthread_mutex_unlock(&g->lock);
    return limit;
}

uint64_t gateway_body_limit(const http_request *request, void *context)
{
    const char *path = http_request_path(request);
    char *plain = must_alloc(strlen(path) + 1);
    uint64_t limit = write_plain(plain, path) ? limit_of(context, request, plain) : 0;
    free(plain);
    return limit;
}
