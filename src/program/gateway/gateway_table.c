/* The routes of one configuration, and which of them a request is for.
 *
 * Proxies have copies of what their configuration says: a request that waits for its upstream may
 * outlive the configuration, the pipeline and the table that is used by then. Their table is freed
 * with the last of them. */
#include "program/gateway/gateway_internal.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

#define REOPEN_NS INT64_C(1000000000)

typedef struct route_class {
    semel_status (*open)(gateway_route *route, semel_error *err);
    void (*close)(gateway_route *route);
} route_class;

static const route_class classes[] = {[ROUTE_PUBLISH] = {publish_open, publish_close},
                                      [ROUTE_WEBHOOK] = {webhook_open, webhook_close},
                                      [ROUTE_PROXY] = {proxy_open, proxy_close}};

/* --- copies ----------------------------------------------------------------------------------- */

static const char *copy_text(region *to, const char *text)
{
    return text ? region_copy(to, text, strlen(text)) : NULL;
}

static config_list copy_list(region *to, const config_list *list)
{
    const char **items = region_alloc(to, (list->count + 1) * sizeof *items);
    for (size_t i = 0; i < list->count; i++)
        items[i] = copy_text(to, list->items[i]);
    return (config_list){items, list->count};
}

static const route_config *copy_proxy(region *to, const route_config *from)
{
    route_config *copy = region_alloc(to, sizeof *copy);
    *copy = *from;
    copy->name = copy_text(to, from->name);
    copy->path = copy_text(to, from->path);
    copy->proxy = copy_text(to, from->proxy);
    copy->key_header = copy_text(to, from->key_header);
    copy->methods = copy_list(to, &from->methods);
    copy->identity = copy_list(to, &from->identity);
    copy->replay = copy_list(to, &from->replay);
    copy->replay_headers = copy_list(to, &from->replay_headers);
    copy->to = copy->inbox = copy->key = NULL;
    copy->tokens = copy->secrets = (config_list){NULL, 0};
    copy->hmac = (hmac_config){0};
    copy->at = NULL;
    return copy;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* With the lock. */
static route_meter *meter_of(gateway *g, const char *name)
{
    named_meter *at = g->meters;
    while (at && strcmp(at->name, name) != 0)
        at = at->next;
    if (at)
        return &at->meter;
    at = must_alloc(sizeof *at);
    at->name = must_copy(name);
    at->next = g->meters;
    g->meters = at;
    return &at->meter;
}

static void say_closed(const gateway_route *route, const semel_error *why)
{
    buffer subject = {0};
    buffer_printf(&subject, "route %s", route->config->name);
    log_write(route->log, &(log_entry){.level = LOG_WARNING,
                                       .event = "route_failed",
                                       .subject = subject.data,
                                       .msg = why->text,
                                       .fields = {{"route", route->config->name, 0}}});
    buffer_free(&subject);
}

static int try_open(gateway_route *route)
{
    semel_error why = {0};
    route->tried_ns = steady_clock_ns();
    semel_status status = classes[route->config->kind].open(route, &why);
    if (status && !route->is_said)
        say_closed(route, &why);
    route->is_said = status != SEMEL_OK;
    atomic_store(&route->is_open, !status);
    return !status;
}

int route_table_reopen(gateway_route *route)
{
    int is_open = atomic_load(&route->is_open);
    if (is_open)
        return 1;
    pthread_mutex_lock(&route->opening);
    is_open = atomic_load(&route->is_open);
    if (!is_open && steady_clock_ns() - route->tried_ns > REOPEN_NS)
        is_open = try_open(route);
    pthread_mutex_unlock(&route->opening);
    return is_open;
}

static void init_route(gateway_route *out, route_table *table, const route_config *from,
                       const gateway_route *common)
{
    int is_proxy = from->kind == ROUTE_PROXY;
    *out = *common;
    out->config = is_proxy ? copy_proxy(&table->memory, from) : from;
    pthread_mutex_lock(&table->gateway->lock);
    out->meter = meter_of(table->gateway, from->name);
    pthread_mutex_unlock(&table->gateway->lock);
    pthread_mutex_init(&out->opening, NULL);
    if (is_proxy) {
        out->all = NULL;
        out->pipeline = NULL;
        out->assembly = NULL;
    }
    (void)try_open(out);
}

route_table *route_table_open(gateway *g, const config *all, semel_store *store,
                              semel_pipeline *pipeline, const assembly *parts)
{
    route_table *table = must_alloc(sizeof *table);
    const gateway_route common = {.all = all,
                                  .store = store,
                                  .pipeline = pipeline,
                                  .assembly = parts,
                                  .links = &g->links,
                                  .log = g->links.log,
                                  .gateway = g,
                                  .table = table};
    table->gateway = g;
    table->count = all->gateway.route_count;
    table->rate = all->gateway.rate;
    table->routes = region_alloc(&table->memory, (table->count + 1) * sizeof *table->routes);
    for (size_t i = 0; i < table->count; i++)
        init_route(&table->routes[i], table, &all->gateway.routes[i], &common);
    return table;
}

static void close_route(gateway_route *route)
{
    if (atomic_exchange(&route->is_open, 0))
        classes[route->config->kind].close(route);
}

void table_leave_pipeline(route_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->routes[i].pipeline)
            close_route(&table->routes[i]);
}

void route_table_close(route_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++) {
        close_route(&table->routes[i]);
        pthread_mutex_destroy(&table->routes[i].opening);
    }
    region_free(&table->memory);
    free(table);
}

/* --- finding ---------------------------------------------------------------------------------- */

/* How many bytes of the path say that it is this route's; 0: it is not. An exact path is longer
 * than any prefix of it. */
static size_t match(const char *pattern, const char *path)
{
    size_t len = strlen(pattern);
    if (len > 1 && pattern[len - 1] == '*' && pattern[len - 2] == '/')
        return strncmp(pattern, path, len - 1) == 0 ? len - 1 : 0;
    return strcmp(pattern, path) == 0 ? len + 1 : 0;
}

gateway_route *route_table_find(route_table *table, const char *path)
{
    gateway_route *best = NULL;
    size_t longest = 0;
    for (size_t i = 0; i < table->count; i++) {
        size_t len = match(table->routes[i].config->path, path);
        if (len > longest) {
            longest = len;
            best = &table->routes[i];
        }
    }
    return best;
}

int route_accepts(const gateway_route *route, const char *method)
{
    const config_list *methods = &route->config->methods;
    for (size_t i = 0; i < methods->count; i++)
        if (strcmp(methods->items[i], method) == 0)
            return 1;
    return 0;
}
