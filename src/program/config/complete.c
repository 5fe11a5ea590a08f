/* See complete.h. */
#include "program/config/complete.h"

#include "program/config/complete_http.h"
#include "program/config/options.h"
#include "program/config/read.h"

#include <string.h>

const queue_config *config_queue(const config *all, const char *name)
{
    for (size_t i = 0; name && i < all->queue_count; i++)
        if (strcmp(all->queues[i].name, name) == 0)
            return &all->queues[i];
    return NULL;
}

const inbox_config *config_inbox(const config *all, const char *name)
{
    for (size_t i = 0; name && i < all->inbox_count; i++)
        if (strcmp(all->inboxes[i].name, name) == 0)
            return &all->inboxes[i];
    return NULL;
}

const outbox_config *config_outbox(const config *all, const char *name)
{
    for (size_t i = 0; name && i < all->outbox_count; i++)
        if (strcmp(all->outboxes[i].name, name) == 0)
            return &all->outboxes[i];
    return NULL;
}

const char *config_inbox_from(const config *all, const inbox_config *inbox)
{
    if (inbox->from)
        return inbox->from;
    for (size_t i = 0; i < all->gateway.route_count; i++) {
        const route_config *route = &all->gateway.routes[i];
        if (route->inbox && route->path && strcmp(route->inbox, inbox->name) == 0)
            return route->path;
    }
    return "";
}

/* --- handlers --------------------------------------------------------------------------------- */

typedef struct handler_name {
    const char *name;
    handler_kind kind;
} handler_name;

static const handler_name handlers[] = {{"sql", HANDLER_SQL},
                                        {"http", HANDLER_HTTP},
                                        {"exec", HANDLER_EXEC},
                                        {"worker", HANDLER_WORKER}};

const char *config_handler_name(const inbox_config *inbox)
{
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
        if (handlers[i].kind == inbox->handler)
            return handlers[i].name;
    return inbox->send_count ? "send" : "";
}

static handler_kind kind_of(const config_node *inbox)
{
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
        if (!read_is_empty(tree_find(inbox, handlers[i].name)))
            return handlers[i].kind;
    return HANDLER_NONE;
}

/* A program by its path is meant relative to the file, wherever semel is started. */
static void resolve(region *memory, const config *all, config_list *command)
{
    if (!command->count || !strchr(command->items[0], '/') || command->items[0][0] == '/' ||
        strcmp(all->directory, ".") == 0)
        return;
    const char **items = region_alloc(memory, (command->count + 1) * sizeof *items);
    for (size_t i = 0; i < command->count; i++)
        items[i] = command->items[i];
    items[0] = region_printf(memory, "%s/%s", all->directory, command->items[0]);
    command->items = items;
}

static void complete_inbox(region *memory, const config *all, inbox_config *inbox)
{
    inbox->options.size = sizeof inbox->options;
    inbox->handler = kind_of(inbox->at);
    inbox->options.mode = inbox->handler == HANDLER_SQL || inbox->handler == HANDLER_NONE
                              ? SEMEL_QUEUED
                              : SEMEL_CLAIM;
    if (inbox->options.remember == SEMEL_REMEMBER_POSITIONS) { /* there are no keys to say it of */
        inbox->options.key = inbox->options.fingerprint = NULL;
        inbox->options.keep_details = 0;
    }
    resolve(memory, all, &inbox->exec.command);
    resolve(memory, all, &inbox->worker.command);
}

/* --- addresses -------------------------------------------------------------------------------- */

/* The file of sqlite: is relative to the config, as every path in it. */
static const char *resolve_url(region *memory, const config *all, const char *url)
{
    static const char *const prefixes[] = {"store:sqlite:", "sqlite:"};
    for (size_t i = 0; url && i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t len = strlen(prefixes[i]);
        if (strncmp(url, prefixes[i], len) == 0 && url[len] != '/' &&
            strcmp(all->directory, ".") != 0)
            return region_printf(memory, "%s%s/%s", prefixes[i], all->directory, url + len);
    }
    return url;
}

/* --- queues and outboxes ---------------------------------------------------------------------- */

static void complete_queue(region *memory, const config *all, queue_config *queue)
{
    queue->queue.size = sizeof queue->queue;
    queue->consumer.size = sizeof queue->consumer;
    if (queue->url && strcmp(queue->url, "store") == 0)
        queue->url = NULL;
    queue->url = resolve_url(memory, all, queue->url);
}

static void mark_queues(const config *all, queue_config *queue)
{
    for (size_t i = 0; i < all->inbox_count; i++)
        queue->is_read |= all->inboxes[i].from && strcmp(all->inboxes[i].from, queue->name) == 0;
    for (size_t i = 0; i < all->outbox_count; i++)
        queue->is_written |= strcmp(all->outboxes[i].to, queue->name) == 0;
    for (size_t i = 0; i < all->gateway.route_count; i++) {
        const char *to = all->gateway.routes[i].to;
        queue->is_written |= to && strcmp(to, queue->name) == 0;
    }
}

/* The outbox of a queue that `send` or `faults` names, or a route if the queue is not in the store,
 * unless it was declared. */
static void add_outbox(region *memory, config *all, outbox_config *outboxes, const char *queue,
                       const config_node *at)
{
    if (!queue || config_outbox(all, queue))
        return;
    reading quiet = {memory, NULL, "", 0};
    outbox_config *new = &outboxes[all->outbox_count++];
    read_defaults(&quiet, &section_outbox, new);
    new->name = new->to = queue;
    new->at = at;
}

static void complete_outboxes(region *memory, config *all)
{
    size_t most = all->outbox_count + all->gateway.route_count;
    for (size_t i = 0; i < all->inbox_count; i++)
        most += all->inboxes[i].send_count + 1;
    outbox_config *outboxes = region_alloc(memory, (most + 1) * sizeof *outboxes);
    if (all->outbox_count)
        memcpy(outboxes, all->outboxes, all->outbox_count * sizeof *outboxes);
    all->outboxes = outboxes;
    for (size_t i = 0; i < all->inbox_count; i++) {
        const inbox_config *inbox = &all->inboxes[i];
        for (size_t j = 0; j < inbox->send_count; j++)
            add_outbox(memory, all, outboxes, inbox->sends[j].to, inbox->sends[j].at);
        add_outbox(memory, all, outboxes, inbox->faults, inbox->at);
    }
    for (size_t i = 0; i < all->gateway.route_count; i++) {
        const route_config *route = &all->gateway.routes[i];
        const queue_config *queue = config_queue(all, route->to);
        if (queue && queue->url && strcmp(queue->url, "store") != 0)
            add_outbox(memory, all, outboxes, route->to, route->at);
    }
    for (size_t i = 0; i < all->outbox_count; i++) {
        outboxes[i].options.size = sizeof outboxes[i].options;
        if (!outboxes[i].to)
            outboxes[i].to = outboxes[i].name;
    }
}

void config_complete(region *memory, config *all)
{
    all->store.size = sizeof all->store;
    all->store_url = resolve_url(memory, all, all->store_url);
    /* read.c made these arrays for this configuration */
    inbox_config *inboxes = (inbox_config *)all->inboxes;
    queue_config *queues = (queue_config *)all->queues;
    for (size_t i = 0; i < all->inbox_count; i++)
        complete_inbox(memory, all, &inboxes[i]);
    complete_outboxes(memory, all);
    config_complete_routes(memory, all);
    for (size_t i = 0; i < all->queue_count; i++) {
        complete_queue(memory, all, &queues[i]);
        mark_queues(all, &queues[i]);
    }
}
