/* The health of all parts of a pipeline.
 *
 * Each store is asked once, and each outbox with relays what is due in it. The outboxes of a store
 * that does not answer are not asked, so that a store that is away costs one deadline and not one
 * for each relay. */
#include "core/pipeline.h"

#include <stdio.h>

typedef struct health_round {
    semel_pipeline *pipeline;
    semel_health_query query;
    semel_health_state worst;
    semel_pipeline_health_visitor *visitor;
    void *context;
    semel_health_state stores[SEMEL_PIPELINE_MAX];
} health_round;

static void tell(health_round *round, const char *element, const char *name,
                 const semel_health_part *part)
{
    char component[SEMEL_NAME_MAX + 16];
    if (part->state > round->worst)
        round->worst = part->state;
    if (!round->visitor)
        return;
    (void)snprintf(component, sizeof component, "%s %s", element, name);
    round->visitor(round->context, component, part);
}

static void ask_stores(health_round *round)
{
    const semel_pipeline *p = round->pipeline;
    for (size_t i = 0; i < p->table.stores.count; i++) {
        semel_health_part part = store_health(p->stores[i], round->query.deadline_ms);
        round->stores[i] = part.state;
        tell(round, "store", p->table.spec.stores[i].name, &part);
    }
}

/* Without an answer nothing is known to be due. */
static semel_stats ask_due(const health_round *round, size_t outbox)
{
    const semel_pipeline *p = round->pipeline;
    const char *store = p->table.spec.outboxes[outbox].store;
    semel_stats due = {0};
    if (round->stores[pipeline_store_index(&p->table, store)] == SEMEL_HEALTH_OK)
        (void)semel_outbox_stats(&due, sizeof due, p->outboxes[outbox], round->query.deadline_ms,
                                 NULL);
    return due;
}

/* The relays of an outbox stand side by side. */
static void ask_loops(health_round *round)
{
    const semel_pipeline *p = round->pipeline;
    uint32_t stalled_ms = round->query.stalled_after_ms;
    const char *asked = NULL;
    semel_stats due = {0};
    for (size_t i = 0; i < p->loop_count; i++) {
        const pipeline_loop *loop = &p->loops[i];
        semel_health_part part;
        if (loop->relay && loop->name != asked) {
            asked = loop->name;
            due = ask_due(round, pipeline_index(&p->table.outboxes, asked));
        }
        if (!loop->relay && !loop->consumer)
            continue;
        part = loop->consumer ? consumer_health(loop->consumer, stalled_ms)
                              : relay_health(loop->relay, &due, stalled_ms);
        tell(round, loop->element, loop->name, &part);
    }
}

semel_status semel_pipeline_health(semel_health_state *out, semel_pipeline *pipeline,
                                   const semel_health_query *query,
                                   semel_pipeline_health_visitor *visitor, void *context,
                                   semel_error *err)
{
    health_round round = {.pipeline = pipeline, .visitor = visitor, .context = context};
    semel_status status = pipeline_check_process(pipeline, err);
    if (!status)
        status = health_query_read(&round.query, query, err);
    if (status)
        return status;
    ask_stores(&round);
    ask_loops(&round);
    *out = round.worst;
    return SEMEL_OK;
}
