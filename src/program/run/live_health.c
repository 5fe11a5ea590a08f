/* Is this process healthy, and is it ready? Healthy: what it has opened works, or it has only just
 * begun to open it. Ready: it receives messages. */
#include "program/run/live_internal.h"
#include "program/support/show.h"

#include <string.h>

enum { QUESTION_MS = 2000, NS_PER_MS = 1000000 };

typedef struct findings {
    const semel_pipeline *pipeline; /* while it is asked */
    buffer problems;                /* JSON objects with commas between them */
    size_t relays;
    int64_t now_ms;
} findings;

static void add_problem(findings *f, const char *component, const char *msg, int64_t since_ms,
                        uint64_t waiting, const char *error)
{
    buffer *to = &f->problems;
    int64_t for_ms = since_ms && f->now_ms > since_ms ? f->now_ms - since_ms : 0;
    buffer_text(to, to->len ? ",{\"component\":" : "{\"component\":");
    show_json(to, component, strlen(component));
    buffer_text(to, ",\"msg\":");
    show_json(to, msg, strlen(msg));
    buffer_printf(to, ",\"for_ms\":%lld,\"waiting\":%llu,\"error\":", (long long)for_ms,
                  (unsigned long long)waiting);
    show_json(to, error, strlen(error));
    buffer_text(to, "}");
}

static int is_relay(const char *component)
{
    return strncmp(component, "outbox ", 7) == 0;
}

/* The name of the one store is the program's own and says nothing. */
static const char *shown(const char *component)
{
    return strncmp(component, "store ", 6) == 0 ? "store" : component;
}

static semel_status copy_error(const semel_outgoing *message, void *context, semel_error *err)
{
    (void)err;
    if (!*message->error)
        return SEMEL_OK;
    buffer_text(context, message->error);
    return SEMEL_ESTOPPED;
}

/* Why an outbox does not move: the error of one of the messages that wait longest. Of a queue that
 * is not known: its handlers take long. */
static void find_reason(const findings *f, const char *component, buffer *to)
{
    enum { LOOKED_AT = 20 };
    semel_outgoing_filter first = {.size = sizeof first, .limit = LOOKED_AT};
    semel_outbox *outbox =
        is_relay(component) ? semel_pipeline_find_outbox(f->pipeline, component + 7) : NULL;
    if (outbox)
        (void)semel_outbox_list(outbox, &first, copy_error, to, NULL);
}

static void add_stalled(findings *f, const char *component, const semel_health_part *part)
{
    buffer reason = {0};
    find_reason(f, component, &reason);
    add_problem(f, component, semel_health_name(part->state), part->since_ms, part->waiting,
                reason.data ? reason.data : "");
    buffer_free(&reason);
}

static void visit(void *context, const char *component, const semel_health_part *part)
{
    findings *f = context;
    f->relays += (size_t)is_relay(component);
    if (part->state == SEMEL_HEALTH_STALLED)
        add_stalled(f, component, part);
    else if (part->state > SEMEL_HEALTH_OK)
        add_problem(f, shown(component), semel_health_name(part->state), part->since_ms,
                    part->waiting, part->error);
}

/* 1: there is a pipeline. It stays open while it is asked. */
static int ask_pipeline(live *all, findings *f, uint32_t stalled_after_ms)
{
    semel_health_state state;
    semel_health_query query = {
        .size = sizeof query, .deadline_ms = QUESTION_MS, .stalled_after_ms = stalled_after_ms};
    semel_error why = {0};
    pthread_mutex_lock(&all->pipeline_lock);
    int is_open = all->pipeline != NULL;
    f->pipeline = all->pipeline;
    if (is_open && semel_pipeline_health(&state, all->pipeline, &query, visit, f, &why))
        add_problem(f, "pipeline", "cannot be asked", 0, 0, why.text);
    pthread_mutex_unlock(&all->pipeline_lock);
    return is_open;
}

static void add_counts(const live *all, const findings *f, buffer *to)
{
    int64_t last_ms = meters_last_ms(all->meters);
    buffer_printf(to, ",\"up_ms\":%lld,\"brokers\":%zu,\"relays\":%zu",
                  (long long)((steady_clock_ns() - all->started_ns) / NS_PER_MS),
                  all->names.broker_count, f->relays);
    if (last_ms) {
        buffer_text(to, ",\"last_outcome\":\"");
        show_rfc3339(to, last_ms);
        buffer_printf(to, "\",\"last_outcome_ago_ms\":%lld",
                      (long long)(f->now_ms > last_ms ? f->now_ms - last_ms : 0));
    }
}

/* While the configuration is exchanged there is no pipeline for a moment: that is no trouble. */
void live_write_health(live *all, buffer *to, uint32_t stalled_after_ms)
{
    findings f = {.now_ms = wall_clock_ms()};
    int is_open = ask_pipeline(all, &f, stalled_after_ms);
    pthread_mutex_lock(&all->lock);
    if (*all->waiting_for && !is_open)
        add_problem(&f, all->waiting_for, "unreachable", all->waiting_ms, 0, all->waiting_why);
    int ready = !all->is_stopping && (is_open || (all->was_ready && !*all->waiting_for));
    buffer_printf(to, "{\"healthy\":%s,\"ready\":%s,\"started\":%s,\"stopping\":%s,",
                  f.problems.len ? "false" : "true", ready ? "true" : "false",
                  is_open || all->was_ready ? "true" : "false",
                  all->is_stopping ? "true" : "false");
    live_write_process(all, to);
    add_counts(all, &f, to);
    buffer_printf(to, ",\"problems\":[%s]}", f.problems.len ? f.problems.data : "");
    pthread_mutex_unlock(&all->lock);
    buffer_free(&f.problems);
}
