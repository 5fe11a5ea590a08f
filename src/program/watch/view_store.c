/* What the store holds: dead letters of each inbox, and what waits in outboxes and queues. Nothing
 * is opened that the store does not know, since opening a name makes it known. */
#include "program/watch/view_internal.h"

#include <string.h>

enum { QUESTION_MS = 5000, COUNTED_MAX = 100000 };

static void add_group(view *v, const semel_dead_group *group)
{
    v->groups[v->group_count++] =
        (group_view){.origin = group->origin,
                     .cause = group->cause,
                     .letters = group->letters,
                     .first_ms = group->first_ms,
                     .last_ms = group->last_ms,
                     .name = region_copy(&v->memory, group->name, strlen(group->name)),
                     .text = region_copy(&v->memory, group->text, strlen(group->text))};
}

static semel_status count_group(const semel_dead_group *group, void *context, semel_error *err)
{
    view *v = context;
    inbox_view *inbox = group->origin == SEMEL_DEAD_INBOX ? view_inbox(v, group->name) : NULL;
    (void)err;
    v->dead += group->letters;
    if (v->group_count < VIEW_GROUPS_MAX)
        add_group(v, group);
    if (inbox)
        inbox->dead += (int64_t)group->letters;
    return SEMEL_OK;
}

void view_read_dead(view *v, tool *t)
{
    semel_dead_filter all = {.size = sizeof all};
    (void)semel_dead_groups(t->store, &all, count_group, v, &v->trouble);
}

/* --- what waits ------------------------------------------------------------------------------- */

static void read_outbox(view *v, tool *t, outbox_view *to)
{
    semel_outbox *outbox = NULL;
    semel_stats stats;
    if (semel_outbox_open(&outbox, t->store, to->name, &v->trouble))
        return;
    if (!semel_outbox_stats(&stats, sizeof stats, outbox, QUESTION_MS, &v->trouble)) {
        to->waiting = (int64_t)stats.unsent;
        if (stats.oldest_unsent_ms)
            to->oldest_ms =
                stats.at_ms > stats.oldest_unsent_ms ? stats.at_ms - stats.oldest_unsent_ms : 0;
    }
    semel_outbox_close(outbox);
}

typedef struct counting {
    int64_t now_ms;
    int64_t count, leased, delayed;
    int64_t first_ms; /* of the oldest one */
    int64_t last_seq;
} counting;

static semel_status count_message(const semel_outgoing *message, void *context, semel_error *err)
{
    counting *c = context;
    (void)err;
    if (!c->count || message->captured_ms < c->first_ms)
        c->first_ms = message->captured_ms;
    c->count++;
    c->leased += message->leased != 0;
    c->delayed += !message->leased && message->due_ms > c->now_ms;
    c->last_seq = message->seq;
    return SEMEL_OK;
}

/* By pages; a very long queue is counted so far only. */
static semel_status count_queue(counting *c, semel_transport *queue, semel_error *err)
{
    semel_outgoing_filter page = {.size = sizeof page, .limit = SEMEL_PAGE_MAX};
    int64_t before = -1;
    semel_status status = SEMEL_OK;
    while (!status && c->count != before && c->count < COUNTED_MAX) {
        before = c->count;
        page.after_seq = c->last_seq;
        status = semel_queue_list(queue, &page, count_message, c, err);
    }
    return status;
}

static void read_queue(view *v, tool *t, queue_view *to)
{
    semel_transport *queue = NULL;
    counting c = {0};
    if (semel_store_now(&c.now_ms, t->store, &v->trouble) ||
        semel_queue_open(&queue, t->store, to->name, NULL, &v->trouble))
        return;
    if (!count_queue(&c, queue, &v->trouble)) {
        to->waiting = c.count;
        to->leased = c.leased;
        to->delayed = c.delayed;
        to->oldest_ms = !c.count ? -1 : c.now_ms > c.first_ms ? c.now_ms - c.first_ms : 0;
    }
    semel_transport_close(queue);
}

static semel_status visit_outbox(const semel_name *name, void *context, semel_error *err)
{
    view *v = context;
    (void)err;
    for (size_t i = 0; i < v->outbox_count; i++)
        if (strcmp(v->outboxes[i].name, name->name) == 0)
            v->outboxes[i].waiting = 0; /* it can be asked */
    return SEMEL_OK;
}

static semel_status visit_queue(const semel_name *name, void *context, semel_error *err)
{
    view *v = context;
    (void)err;
    for (size_t i = 0; i < v->queue_count; i++)
        if (strcmp(v->queues[i].name, name->name) == 0 && !v->queues[i].is_broker)
            v->queues[i].waiting = 0;
    return SEMEL_OK;
}

void view_read_lag(view *v, tool *t)
{
    semel_status status =
        semel_store_names(t->store, SEMEL_NAME_OUTBOX, visit_outbox, v, &v->trouble);
    if (!status)
        status = semel_store_names(t->store, SEMEL_NAME_QUEUE, visit_queue, v, &v->trouble);
    for (size_t i = 0; !status && i < v->outbox_count; i++)
        if (v->outboxes[i].waiting == 0)
            read_outbox(v, t, &v->outboxes[i]);
    for (size_t i = 0; !status && i < v->queue_count; i++)
        if (v->queues[i].waiting == 0)
            read_queue(v, t, &v->queues[i]);
        else if (!v->queues[i].is_broker)
            v->queues[i].waiting = 0; /* the store does not know it: nothing was ever put there */
}
