/* See view.h. */
#include "program/config/complete.h"
#include "program/watch/view_internal.h"

#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>

static const char *copy(view *v, const char *text)
{
    return region_copy(&v->memory, text, strlen(text));
}

/* For one more. */
static void *make_room(void *items, size_t count, size_t size)
{
    enum { STEP = 16 };
    return count % STEP ? items : must_realloc(items, (count + STEP) * size);
}

inbox_view *view_inbox(view *v, const char *name)
{
    for (size_t i = 0; i < v->inbox_count; i++)
        if (strcmp(v->inboxes[i].name, name) == 0)
            return &v->inboxes[i];
    return NULL;
}

inbox_view *view_add_inbox(view *v, const char *name)
{
    inbox_view *found = view_inbox(v, name);
    if (found || v->inbox_count == VIEW_NAMES_MAX)
        return found;
    v->inboxes = make_room(v->inboxes, v->inbox_count, sizeof *v->inboxes);
    v->inboxes[v->inbox_count] = (inbox_view){.name = copy(v, name), .from = ""};
    return &v->inboxes[v->inbox_count++];
}

outbox_view *view_add_outbox(view *v, const char *name)
{
    for (size_t i = 0; i < v->outbox_count; i++)
        if (strcmp(v->outboxes[i].name, name) == 0)
            return &v->outboxes[i];
    if (v->outbox_count == VIEW_NAMES_MAX)
        return NULL;
    v->outboxes = make_room(v->outboxes, v->outbox_count, sizeof *v->outboxes);
    v->outboxes[v->outbox_count] =
        (outbox_view){.name = copy(v, name), .waiting = -1, .oldest_ms = -1};
    return &v->outboxes[v->outbox_count++];
}

queue_view *view_add_queue(view *v, const char *name)
{
    for (size_t i = 0; i < v->queue_count; i++)
        if (strcmp(v->queues[i].name, name) == 0)
            return &v->queues[i];
    if (v->queue_count == VIEW_NAMES_MAX)
        return NULL;
    v->queues = make_room(v->queues, v->queue_count, sizeof *v->queues);
    v->queues[v->queue_count] = (queue_view){.name = copy(v, name), .waiting = -1, .oldest_ms = -1};
    return &v->queues[v->queue_count++];
}

static void add_configured(view *v, const config *all, const argument_list *inboxes)
{
    for (size_t i = 0; i < all->inbox_count; i++)
        if (filters_match(inboxes, all->inboxes[i].name)) {
            inbox_view *inbox = view_add_inbox(v, all->inboxes[i].name);
            inbox->from = copy(v, config_inbox_from(all, &all->inboxes[i]));
        }
    for (size_t i = 0; i < all->outbox_count; i++)
        (void)view_add_outbox(v, all->outboxes[i].name);
    for (size_t i = 0; i < all->queue_count; i++)
        view_add_queue(v, all->queues[i].name)->is_broker = all->queues[i].url != NULL;
}

typedef struct naming {
    view *v;
    const argument_list *inboxes;
} naming;

static semel_status add_stored(const semel_name *name, void *context, semel_error *err)
{
    naming *n = context;
    (void)err;
    if (filters_match(n->inboxes, name->name))
        (void)view_add_inbox(n->v, name->name);
    return SEMEL_OK;
}

void view_read(view *out, tool *t, const argument_list *inboxes, int lag)
{
    *out = (view){.at_ms = wall_clock_ms(), .at_ns = steady_clock_ns()};
    naming n = {out, inboxes};
    if (t->all)
        add_configured(out, t->all, inboxes);
    view_read_processes(out, t, inboxes);
    if (!out->trouble.status && ((!t->all && !out->processes) || inboxes->count))
        (void)semel_store_names(t->store, SEMEL_NAME_INBOX, add_stored, &n, &out->trouble);
    if (!out->trouble.status)
        view_read_dead(out, t);
    if (lag && !out->trouble.status)
        view_read_lag(out, t);
    out->took_ns = steady_clock_ns() - out->at_ns;
}

uint64_t view_unsent(const view *v, int64_t *oldest_ms)
{
    uint64_t unsent = 0;
    *oldest_ms = -1;
    for (size_t i = 0; i < v->outbox_count; i++) {
        const outbox_view *outbox = &v->outboxes[i];
        unsent += outbox->waiting > 0 ? (uint64_t)outbox->waiting : 0;
        *oldest_ms = outbox->oldest_ms > *oldest_ms ? outbox->oldest_ms : *oldest_ms;
    }
    return unsent;
}

uint64_t view_pause_ms(const view *v, uint64_t every_ms)
{
    enum { SHARE = 5, LEAST_MAX_MS = 15000, NS_PER_MS = 1000000 };
    uint64_t least_ms = (uint64_t)(v->took_ns / NS_PER_MS) * SHARE;
    least_ms = least_ms < LEAST_MAX_MS ? least_ms : LEAST_MAX_MS;
    return every_ms > least_ms ? every_ms : least_ms;
}

void view_free(view *v)
{
    free(v->inboxes);
    free(v->outboxes);
    free(v->queues);
    region_free(&v->memory);
    *v = (view){0};
}
