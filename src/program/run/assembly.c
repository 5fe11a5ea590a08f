/* See assembly.h. Every outbox of the configuration has one relay to its queue. */
#include "program/run/assembly.h"

#include "program/config/definition.h"
#include "program/gateway/proxy_inbox.h"
#include "program/handler/handler.h"
#include "program/run/live.h"
#include "program/support/memory.h"

#include <stdlib.h>
#include <string.h>

static const char store_name[] = "store";

struct assembly {
    region memory;
    handler **handlers; /* one for each inbox */
    size_t handler_count;
    semel_pipeline_store stores[2]; /* the last one is empty */
    semel_pipeline_spec spec;
};

/* A handler, and where it is counted while it runs. */
typedef struct counted {
    handler *handler;
    meter *meter; /* NULL: not counted */
} counted;

static semel_status run_counted(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    const counted *c = context;
    if (c->meter)
        atomic_fetch_add_explicit(&c->meter->in_progress, 1, memory_order_relaxed);
    semel_status status = handler_run(unit, message, c->handler, err);
    if (c->meter)
        atomic_fetch_sub_explicit(&c->meter->in_progress, 1, memory_order_relaxed);
    return status;
}

static counted *make_counted(region *memory, handler *of, live *where, const char *inbox)
{
    counted *c = region_alloc(memory, sizeof *c);
    c->handler = of;
    c->meter = where ? live_meter(where, inbox) : NULL;
    return c;
}

/* --- elements --------------------------------------------------------------------------------- */

static void add_queues(assembly *a, const config *all)
{
    semel_pipeline_queue *queues =
        region_alloc(&a->memory, (all->queue_count + 1) * sizeof *queues);
    size_t count = 0;
    for (size_t i = 0; i < all->queue_count; i++) {
        const queue_config *from = &all->queues[i];
        if (from->is_read || from->is_written)
            queues[count++] =
                (semel_pipeline_queue){.name = from->name,
                                       .url = from->url,
                                       .options = from->url ? NULL : &from->queue,
                                       .consumer = from->is_read ? &from->consumer : NULL};
    }
    a->spec.queues = queues;
}

static void add_outboxes(assembly *a, const config *all)
{
    semel_pipeline_outbox *outboxes =
        region_alloc(&a->memory, (all->outbox_count + 1) * sizeof *outboxes);
    for (size_t i = 0; i < all->outbox_count; i++) {
        const outbox_config *from = &all->outboxes[i];
        outboxes[i] =
            (semel_pipeline_outbox){.name = from->name, .to = from->to, .options = &from->options};
    }
    a->spec.outboxes = outboxes;
}

static semel_inbox_options *inbox_options(assembly *a, const inbox_config *from,
                                          const assembly_options *options)
{
    semel_inbox_options *copy = region_alloc(&a->memory, sizeof *copy);
    *copy = from->options;
    for (size_t i = 0; i < options->accept_count; i++)
        copy->accept_changes |= definition_is_named(from, options->accept[i]);
    return copy;
}

/* The gateway itself receives what they handle; the pipeline does their retention. */
static void add_proxy_inboxes(assembly *a, const config *all, semel_pipeline_inbox *out)
{
    for (size_t i = 0; i < all->gateway.route_count; i++) {
        const route_config *route = &all->gateway.routes[i];
        if (route->kind != ROUTE_PROXY)
            continue;
        semel_inbox_options *options = region_alloc(&a->memory, sizeof *options);
        *options = proxy_inbox_options(route);
        *out++ =
            (semel_pipeline_inbox){.name = proxy_inbox_name(&a->memory, route), .options = options};
    }
}

/* The handler of each inbox is opened on the way. */
static semel_status add_inboxes(assembly *a, const config *all, const assembly_options *options,
                                semel_error *err)
{
    semel_pipeline_inbox *inboxes = region_alloc(
        &a->memory, (all->inbox_count + all->gateway.route_count + 1) * sizeof *inboxes);
    a->handlers = region_alloc(&a->memory, all->inbox_count * sizeof(handler *));
    a->spec.inboxes = inboxes;
    for (size_t i = 0; i < all->inbox_count; i++) {
        const inbox_config *from = &all->inboxes[i];
        semel_status status = handler_open(&a->handlers[i], all, from, err);
        if (status)
            return status;
        a->handler_count++;
        inboxes[i] = (semel_pipeline_inbox){
            .name = from->name,
            .from = from->from,
            .types = from->types.count ? from->types.items : NULL,
            .handler = run_counted,
            .context = make_counted(&a->memory, a->handlers[i], options->live, from->name),
            .options = inbox_options(a, from, options),
            .faults = from->faults,
            .require = from->require};
    }
    add_proxy_inboxes(a, all, inboxes + all->inbox_count);
    return SEMEL_OK;
}

semel_status assembly_open(assembly **out, const config *all, semel_store *store,
                           const assembly_options *options, semel_error *err)
{
    assembly *a = must_alloc(sizeof *a);
    a->stores[0] = (semel_pipeline_store){.name = store_name, .opened = store};
    a->spec = (semel_pipeline_spec){.size = sizeof a->spec,
                                    .stores = a->stores,
                                    .notice = options->notice,
                                    .notice_context = options->notice_context};
    add_queues(a, all);
    add_outboxes(a, all);
    semel_status status = add_inboxes(a, all, options, err);
    if (status)
        assembly_close(a);
    else
        *out = a;
    return status;
}

void assembly_close(assembly *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->handler_count; i++)
        handler_close(a->handlers[i]);
    region_free(&a->memory);
    free(a);
}

const semel_pipeline_spec *assembly_spec(const assembly *a)
{
    return &a->spec;
}

/* --- grades ----------------------------------------------------------------------------------- */

semel_grade assembly_grade(const semel_pipeline *pipeline, const inbox_config *inbox)
{
    return semel_inbox_grade(semel_pipeline_find_inbox(pipeline, inbox->name),
                             semel_pipeline_find_queue(pipeline, inbox->from));
}
