/* `run --once`: is anything left to do?
 *
 * Nothing is left when no consumer has a delivery, no outbox has a message that is due, no queue in
 * the store that an inbox reads has one, no retry of a dead letter is asked for, and all of this
 * was so several times in a row while no outcome came: a message may be on its way from a relay to
 * a broker and back. What waits for a later time is left. */
#include "program/run/service_internal.h"
#include "program/support/show.h"

#include <string.h>

enum { QUIET_ROUNDS = 5, DEADLINE_MS = 5000 };

static void count_waiting(void *context, const char *component, const semel_health_part *part)
{
    (void)component;
    *(uint64_t *)context += part->waiting;
}

typedef struct due_count {
    int64_t now_ms;
    int found;
} due_count;

static semel_status count_due(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    due_count *due = context;
    (void)err;
    due->found |= outgoing->leased || outgoing->due_ms <= due->now_ms;
    return due->found ? SEMEL_ESTOPPED : SEMEL_OK;
}

/* Only the first page: whatever is due stands there, unless very much waits before it. */
static int queue_is_empty(const service *s, const queue_config *queue)
{
    due_count due = {0};
    semel_outgoing_filter page = {.size = sizeof page, .limit = SEMEL_PAGE_MAX};
    semel_transport *transport = semel_pipeline_find_queue(s->now.pipeline, queue->name);
    if (!transport || queue->url || !semel_pipeline_find_consumer(s->now.pipeline, queue->name))
        return 1;
    if (semel_store_now(&due.now_ms, s->store, NULL))
        return 0;
    semel_status status = semel_queue_list(transport, &page, count_due, &due, NULL);
    return !due.found && !status;
}

static int nothing_waits(service *s)
{
    uint64_t waiting = 0;
    semel_health_state state;
    semel_health_query query = {.size = sizeof query, .deadline_ms = DEADLINE_MS};
    if (semel_pipeline_health(&state, s->now.pipeline, &query, count_waiting, &waiting, NULL))
        return 0;
    if (waiting || state == SEMEL_HEALTH_WAITING || !retrier_is_idle(s->now.retrier))
        return 0;
    for (size_t i = 0; i < s->all->queue_count; i++)
        if (!queue_is_empty(s, &s->all->queues[i]))
            return 0;
    return 1;
}

int service_is_idle(service *s)
{
    outcome_totals totals = outcomes_totals(s->outcomes);
    int same = memcmp(&totals, &s->once_totals, sizeof totals) == 0;
    s->once_totals = totals;
    s->quiet_rounds = same && nothing_waits(s) ? s->quiet_rounds + 1 : 0;
    return s->quiet_rounds >= QUIET_ROUNDS;
}
