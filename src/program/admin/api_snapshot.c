/* What the configuration says, copied once when it is taken into use: an answer needs neither the
 * configuration, which a reload replaces, nor the pipeline. */
#include "program/admin/api_internal.h"
#include "program/cli.h"
#include "program/config/check.h"
#include "program/config/complete.h"
#include "program/config/summary.h"
#include "program/gateway/proxy_inbox.h"
#include "program/operate/brokers.h"
#include "program/run/assembly.h"
#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

static const char *copy(snapshot *s, const char *text)
{
    return text ? region_copy(&s->memory, text, strlen(text)) : NULL;
}

/* Without user, password and parameters. */
static const char *plain_url(snapshot *s, const char *url)
{
    const char *authority = strstr(url, "://");
    size_t len = strcspn(url, "?#");
    if (!authority || authority > url + len)
        return region_copy(&s->memory, url, len);
    authority += 3;
    size_t host = strcspn(authority, "/?#");
    const char *from = authority;
    for (size_t i = 0; i < host; i++)
        if (authority[i] == '@')
            from = authority + i + 1;
    return region_printf(&s->memory, "%.*s%.*s", (int)(authority - url), url,
                         (int)(url + len - from), from);
}

/* --- elements --------------------------------------------------------------------------------- */

/* "sql, 2 statements", "exec send-email", "http carrier:8080". */
static const char *handler_text(snapshot *s, const inbox_config *inbox)
{
    const char *name = config_handler_name(inbox);
    if (inbox->handler == HANDLER_SQL)
        return region_printf(&s->memory, "sql, %zu statement%s", inbox->sql.count,
                             inbox->sql.count == 1 ? "" : "s");
    const config_list *words = inbox->handler == HANDLER_EXEC     ? &inbox->exec.command
                               : inbox->handler == HANDLER_WORKER ? &inbox->worker.command
                                                                  : NULL;
    if (words && words->count) {
        const char *slash = strrchr(words->items[0], '/');
        return region_printf(&s->memory, "%s %s", name, slash ? slash + 1 : words->items[0]);
    }
    if (inbox->handler == HANDLER_HTTP && inbox->http.url)
        return region_printf(&s->memory, "%s", broker_location(&s->memory, inbox->http.url));
    return copy(s, name);
}

static const char *mode_word(const inbox_config *inbox)
{
    return inbox->options.mode == SEMEL_CLAIM    ? "claim"
           : inbox->options.mode == SEMEL_QUEUED ? "queued"
                                                 : "transaction";
}

/* The keys of a proxy route are an inbox, too. */
static inbox_facts proxy_facts(snapshot *s, const route_config *route,
                               const semel_pipeline *pipeline)
{
    const char *name = proxy_inbox_name(&s->memory, route);
    semel_inbox *inbox = pipeline ? semel_pipeline_find_inbox(pipeline, name) : NULL;
    return (inbox_facts){.name = name,
                         .handler =
                             region_printf(&s->memory, "proxy %s", plain_url(s, route->proxy)),
                         .mode = "claim",
                         .key = "Idempotency-Key",
                         .retention_ms = route->retention_ms,
                         .grade = inbox ? (int)semel_inbox_grade(inbox, NULL) : 0,
                         .is_proxy = 1};
}

static void add_proxies(snapshot *s, const config *all, const semel_pipeline *pipeline)
{
    for (size_t i = 0; i < all->gateway.route_count; i++)
        if (all->gateway.routes[i].kind == ROUTE_PROXY)
            s->inboxes[s->inbox_count++] = proxy_facts(s, &all->gateway.routes[i], pipeline);
}

static void add_inboxes(snapshot *s, const config *all, const semel_pipeline *pipeline)
{
    s->inboxes = region_alloc(&s->memory, (all->inbox_count + all->gateway.route_count + 1) *
                                              sizeof *s->inboxes);
    s->inbox_count = all->inbox_count;
    for (size_t i = 0; i < all->inbox_count; i++) {
        const inbox_config *from = &all->inboxes[i];
        int grade = pipeline ? (int)assembly_grade(pipeline, from) : (int)summary_grade(all, from);
        s->inboxes[i] = (inbox_facts){.name = copy(s, from->name),
                                      .from = copy(s, from->from),
                                      .handler = handler_text(s, from),
                                      .mode = mode_word(from),
                                      .key = copy(s, from->options.key ? from->options.key : "id"),
                                      .retention_ms = from->options.retention_ms,
                                      .grade = grade};
    }
    add_proxies(s, all, pipeline);
}

static void add_outboxes(snapshot *s, const config *all)
{
    s->outboxes = region_alloc(&s->memory, (all->outbox_count + 1) * sizeof *s->outboxes);
    s->outbox_count = all->outbox_count;
    for (size_t i = 0; i < all->outbox_count; i++)
        s->outboxes[i] =
            (outbox_facts){copy(s, all->outboxes[i].name), copy(s, all->outboxes[i].to)};
}

static broker_facts *find_broker(snapshot *s, const char *name)
{
    for (size_t i = 0; i < s->broker_count; i++)
        if (strcmp(s->brokers[i].name, name) == 0)
            return &s->brokers[i];
    s->brokers[s->broker_count] = (broker_facts){.name = name, .url = name};
    return &s->brokers[s->broker_count++];
}

/* A broker is as good as the weakest of its queues. */
static void grade_broker(broker_facts *broker, const semel_pipeline *pipeline, const char *queue)
{
    const semel_store *store = pipeline ? semel_pipeline_find_store(pipeline, "store") : NULL;
    const semel_transport *transport = pipeline ? semel_pipeline_find_queue(pipeline, queue) : NULL;
    if (!store || !transport)
        return;
    int grade = (int)semel_store_grade(store, SEMEL_TRANSACTION, transport);
    if (!broker->grade || grade < broker->grade)
        broker->grade = grade;
}

static void add_queues(snapshot *s, const config *all, const semel_pipeline *pipeline)
{
    s->queues = region_alloc(&s->memory, (all->queue_count + 1) * sizeof *s->queues);
    s->brokers = region_alloc(&s->memory, (all->queue_count + 1) * sizeof *s->brokers);
    s->queue_count = all->queue_count;
    for (size_t i = 0; i < all->queue_count; i++) {
        const queue_config *from = &all->queues[i];
        const char *url = from->url;
        const char *broker = url ? broker_location(&s->memory, url) : NULL;
        s->queues[i] =
            (queue_facts){.name = copy(s, from->name),
                          .location = url ? broker_queue_location(&s->memory, url) : "store",
                          .broker = broker,
                          .is_read = from->is_read,
                          .is_written = from->is_written};
        if (broker)
            grade_broker(find_broker(s, broker), pipeline, from->name);
    }
}

/* --- what is doubtful ------------------------------------------------------------------------- */

static void add_check(snapshot *s, size_t *room, check_facts check)
{
    if (s->check_count == *room) {
        *room = *room ? 2 * *room : 16;
        s->checks = must_realloc(s->checks, *room * sizeof *s->checks);
    }
    s->checks[s->check_count++] = check;
}

static void add_diagnostics(snapshot *s, size_t *room, const config *all)
{
    diagnostics found = {0};
    config_check(all, &found);
    for (size_t i = 0; i < found.count; i++) {
        const diagnostic *d = found.items[i];
        buffer text = {0};
        secret_add_masked(&text, &found.hidden, d->text);
        add_check(s, room,
                  (check_facts){.state = d->level == LEVEL_ERROR ? "fail" : "warn",
                                .what = copy(s, d->path),
                                .text = copy(s, text.data ? text.data : ""),
                                .help = copy(s, d->help[0])});
        buffer_free(&text);
    }
    diagnostic_free(&found);
}

/* One warning for each line of what a transport says. */
static void add_warnings(snapshot *s, size_t *room, const config *all,
                         const semel_pipeline *pipeline)
{
    for (size_t i = 0; pipeline && i < all->queue_count; i++) {
        const semel_transport *t = semel_pipeline_find_queue(pipeline, all->queues[i].name);
        const char *text = t ? semel_transport_warnings(t) : NULL;
        if (text && *text)
            add_check(
                s, room,
                (check_facts){.state = "warn",
                              .what = region_printf(&s->memory, "queue %s", all->queues[i].name),
                              .text = copy(s, text)});
    }
}

/* A warning whose path is that of an inbox belongs to its row, too. */
static void tell_inboxes(snapshot *s)
{
    for (size_t i = 0; i < s->inbox_count; i++)
        for (size_t c = 0; c < s->check_count && !s->inboxes[i].warning; c++) {
            const char *what = s->checks[c].what, *name = s->inboxes[i].name;
            const char *at = what && name ? strstr(what, name) : NULL;
            char behind = at ? at[strlen(name)] : 'x';
            if (at && strncmp(what, "inboxes", 7) == 0 &&
                (!behind || behind == '.' || behind == '"'))
                s->inboxes[i].warning = s->checks[c].text;
        }
}

/* --- the gateway ------------------------------------------------------------------------------ */

static const char *route_kind_word(route_kind kind)
{
    return kind == ROUTE_PROXY ? "proxy" : kind == ROUTE_WEBHOOK ? "webhook" : "publish";
}

static const char *destination(region *memory, const route_config *route)
{
    if (route->proxy)
        return broker_location(memory, route->proxy);
    return route->inbox ? region_printf(memory, "inbox %s", route->inbox)
           : route->to  ? region_printf(memory, "queue %s", route->to)
                        : NULL;
}

void api_put_route(buffer *to, region *memory, const route_config *route)
{
    put_text(to, "name", route->name);
    put_text(to, "path", route->path);
    put_open(to, "methods", '[');
    for (size_t i = 0; i < route->methods.count; i++)
        put_text(to, NULL, route->methods.items[i]);
    put_close(to, ']');
    put_text(to, "kind", route_kind_word(route->kind));
    put_text(to, "to", destination(memory, route));
}

static void add_routes(snapshot *s, const config *all)
{
    buffer routes = {0};
    buffer_text(&routes, "[");
    for (size_t i = 0; i < all->gateway.route_count; i++) {
        put_open(&routes, NULL, '{');
        api_put_route(&routes, &s->memory, &all->gateway.routes[i]);
        put_close(&routes, '}');
    }
    buffer_text(&routes, "]");
    s->routes = routes.data;
}

/* --- the whole -------------------------------------------------------------------------------- */

snapshot *snapshot_make(const config *all, const semel_pipeline *pipeline)
{
    snapshot *s = must_alloc(sizeof *s);
    const semel_store *store = pipeline ? semel_pipeline_find_store(pipeline, "store") : NULL;
    buffer values = {0};
    size_t room = 0;
    s->uses = 1;
    s->path = copy(s, all->path);
    s->store_url = plain_url(s, all->store_url);
    s->store_grade = store ? (int)semel_store_grade(store, SEMEL_TRANSACTION, NULL) : 0;
    add_inboxes(s, all, pipeline);
    add_outboxes(s, all);
    add_queues(s, all, pipeline);
    add_diagnostics(s, &room, all);
    add_warnings(s, &room, all, pipeline);
    tell_inboxes(s);
    add_routes(s, all);
    api_put_values(&values, all);
    s->values = values.data;
    s->has_history = all->history.enabled;
    s->has_token = all->admin.token != NULL;
    s->token = all->admin.token ? must_copy(all->admin.token) : NULL;
    return s;
}

void snapshot_free(snapshot *s)
{
    if (s->token)
        explicit_bzero(s->token, strlen(s->token));
    free(s->token);
    free(s->values);
    free(s->routes);
    free(s->checks);
    region_free(&s->memory);
    free(s);
}

const inbox_facts *snapshot_inbox(const snapshot *s, const char *name)
{
    for (size_t i = 0; i < s->inbox_count; i++)
        if (strcmp(s->inboxes[i].name, name) == 0)
            return &s->inboxes[i];
    return NULL;
}
