/* `dead retry --here`: the handlers of the configuration in this process. No broker is needed: what
 * a handler sends goes into an outbox, whose relay is in a running semel. */
#include "program/cli.h"
#include "program/operate/dead_retrying.h"

/* The inboxes and outboxes without queues: nothing is received and nothing is sent. */
static void make_local(retrying *r, semel_pipeline_spec *spec)
{
    const config *all = r->w->tool.all;
    semel_pipeline_inbox *inboxes =
        region_alloc(&r->memory, (all->inbox_count + 1) * sizeof *inboxes);
    semel_pipeline_outbox *outboxes =
        region_alloc(&r->memory, (all->outbox_count + 1) * sizeof *outboxes);
    for (size_t i = 0; i < all->inbox_count; i++) {
        inboxes[i] = spec->inboxes[i];
        inboxes[i].from = NULL;
        inboxes[i].types = NULL;
        inboxes[i].handler = NULL;
        inboxes[i].context = NULL;
        inboxes[i].require = 0;
    }
    for (size_t i = 0; i < all->outbox_count; i++)
        outboxes[i] = (semel_pipeline_outbox){.name = spec->outboxes[i].name};
    spec->queues = NULL;
    spec->inboxes = inboxes;
    spec->outboxes = outboxes;
}

int retrying_open_here(retrying *r)
{
    tool *t = &r->w->tool;
    semel_error why = {0};
    const assembly_options options = {0};
    if (!t->all)
        return cli_usage(t->command, "--here needs a config, which says what the handlers are");
    semel_status status = assembly_open(&r->assembly, t->all, t->store, &options, &why);
    if (status)
        return tool_failed(t, &why);
    semel_pipeline_spec local = *assembly_spec(r->assembly);
    make_local(r, &local);
    status = semel_pipeline_open(&r->pipeline, &local, &why);
    r->place = (retry_place){.store = t->store,
                             .all = t->all,
                             .pipeline = r->pipeline,
                             .spec = assembly_handlers(r->assembly)};
    return status ? tool_failed(t, &why) : CLI_OK;
}

void retrying_close_here(retrying *r)
{
    semel_pipeline_close(r->pipeline);
    assembly_close(r->assembly);
}
