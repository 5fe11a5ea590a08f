/* See live.h. */
#include "program/config/complete.h"
#include "program/gateway/proxy_inbox.h"
#include "program/run/live_internal.h"
#include "program/support/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

live *live_open(log *l, const outcomes *o, int counts_only)
{
    live *all = must_alloc(sizeof *all);
    all->log = l;
    all->outcomes = o;
    all->meters = meters_open();
    all->started_ms = wall_clock_ms();
    all->started_ns = steady_clock_ns();
    pthread_mutex_init(&all->lock, NULL);
    pthread_mutex_init(&all->pipeline_lock, NULL);
    unique_id(all->id);
    (void)gethostname(all->host, sizeof all->host - 1);
    all->wake_fd = counts_only ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (all->wake_fd >= 0) {
        all->presence = presence_open(all);
        all->server = server_open(all);
    }
    return all;
}

void live_close(live *all)
{
    if (!all)
        return;
    server_close(all->server);
    presence_close(all->presence);
    taps_close(all->taps);
    if (all->wake_fd >= 0)
        (void)close(all->wake_fd);
    meters_close(all->meters);
    region_free(&all->names.memory);
    pthread_mutex_destroy(&all->lock);
    pthread_mutex_destroy(&all->pipeline_lock);
    free(all);
}

void live_abandon(live *all)
{
    if (all && *all->path)
        (void)unlink(all->path);
}

/* --- what the process runs -------------------------------------------------------------------- */

static const char *copy(live_names *names, const char *text)
{
    return region_copy(&names->memory, text, strlen(text));
}

static const char **make_list(live_names *names, size_t count)
{
    return region_alloc(&names->memory, (count + 1) * sizeof(char *));
}

/* The keys of a proxy route are an inbox, too. */
static void copy_inboxes(live_names *names, const config *from)
{
    size_t most = from->inbox_count + from->gateway.route_count;
    names->inboxes = make_list(names, most);
    names->from = make_list(names, most);
    names->inbox_count = from->inbox_count;
    for (size_t i = 0; i < from->inbox_count; i++) {
        names->inboxes[i] = copy(names, from->inboxes[i].name);
        names->from[i] = copy(names, config_inbox_from(from, &from->inboxes[i]));
    }
    for (size_t i = 0; i < from->gateway.route_count; i++)
        if (from->gateway.routes[i].kind == ROUTE_PROXY) {
            names->from[names->inbox_count] = copy(names, from->gateway.routes[i].path);
            names->inboxes[names->inbox_count++] =
                proxy_inbox_name(&names->memory, &from->gateway.routes[i]);
        }
}

static void copy_outboxes(live_names *names, const config *from)
{
    names->outboxes = make_list(names, from->outbox_count);
    names->outbox_count = from->outbox_count;
    for (size_t i = 0; i < from->outbox_count; i++)
        names->outboxes[i] = copy(names, from->outboxes[i].name);
}

/* Where the broker of a queue is: user, password, host and port. */
static size_t authority_of(const char *url, const char **at)
{
    const char *scheme_end = strstr(url, "://");
    *at = scheme_end ? scheme_end + 3 : url;
    return strcspn(*at, "/?#");
}

static int is_same_broker(const char *a, const char *b)
{
    const char *at_a, *at_b;
    size_t len_a = authority_of(a, &at_a), len_b = authority_of(b, &at_b);
    return len_a == len_b && !memcmp(at_a, at_b, len_a);
}

static int is_new_broker(const config *from, size_t queue)
{
    if (!from->queues[queue].url)
        return 0;
    for (size_t i = 0; i < queue; i++)
        if (from->queues[i].url && is_same_broker(from->queues[i].url, from->queues[queue].url))
            return 0;
    return 1;
}

static void copy_queues(live_names *names, const config *from)
{
    names->queues = make_list(names, from->queue_count);
    names->queue_count = from->queue_count;
    for (size_t i = 0; i < from->queue_count; i++) {
        names->queues[i] = copy(names, from->queues[i].name);
        names->broker_count += (size_t)is_new_broker(from, i);
    }
}

void live_configure(live *all, const config *configured)
{
    live_names names = {0}, old;
    char *path = realpath(configured->path, NULL);
    names.config = copy(&names, path ? path : configured->path);
    free(path);
    copy_inboxes(&names, configured);
    copy_outboxes(&names, configured);
    copy_queues(&names, configured);
    pthread_mutex_lock(&all->lock);
    old = all->names;
    all->names = names;
    pthread_mutex_unlock(&all->lock);
    region_free(&old.memory);
}

/* --- how far it is ---------------------------------------------------------------------------- */

void live_use_store(live *all, semel_store *store)
{
    if (all->presence)
        presence_use_store(all->presence, store);
}

void live_use_pipeline(live *all, semel_pipeline *pipeline)
{
    pthread_mutex_lock(&all->pipeline_lock);
    all->pipeline = pipeline;
    pthread_mutex_unlock(&all->pipeline_lock);
    if (!pipeline)
        return;
    pthread_mutex_lock(&all->lock);
    all->was_ready = 1;
    pthread_mutex_unlock(&all->lock);
}

void live_wait_for(live *all, const char *component, const char *why)
{
    pthread_mutex_lock(&all->lock);
    if (component && !*all->waiting_for)
        all->waiting_ms = wall_clock_ms();
    (void)snprintf(all->waiting_for, sizeof all->waiting_for, "%s", component ? component : "");
    (void)snprintf(all->waiting_why, sizeof all->waiting_why, "%s", component ? why : "");
    pthread_mutex_unlock(&all->lock);
}

void live_stopping(live *all)
{
    pthread_mutex_lock(&all->lock);
    all->is_stopping = 1;
    pthread_mutex_unlock(&all->lock);
}

/* --- outcomes --------------------------------------------------------------------------------- */

void live_observe(live *all, const semel_event *event)
{
    meters_count(all->meters, event);
    if (all->taps)
        taps_offer(all->taps, event, all->outcomes);
}

const char *live_id(const live *all)
{
    return all->id;
}

meter *live_meter(live *all, const char *inbox)
{
    return meters_find(all->meters, SEMEL_EVENT_RECEIVED, inbox);
}
