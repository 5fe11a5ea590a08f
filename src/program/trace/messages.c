/* Spans of messages: receive, process, settle, send.
 *
 * Work across the store is linked, not parented: hours may lie between the one who sent a message
 * and the one who handles it, and a broker may deliver one message to many. So each of these spans
 * begins a trace of its own, with a link to the context in which the message was created. The lower
 * half of the trace id is taken over: whoever samples by the ratio of trace ids decides the same
 * about all that became of one order.
 *
 * The span of a handler's work has ids that are derived (tracer.h); so has its decision, which the
 * hook before the handler and the observer after it both make. */
#include "program/gateway/proxy_inbox.h"
#include "program/support/show.h"
#include "program/trace/tracer_internal.h"

#include <string.h>

/* --- which spans ------------------------------------------------------------------------------ */

/* Where the message was created; 0: nobody says. */
static int creation_of(trace_context *out, const semel_message *message)
{
    return trace_context_read(out, semel_message_header(message, "traceparent"));
}

/* What stands for the trace id of a message without one: the same for all its copies. */
static uint64_t low_half_of(const tracer *t, const char *name, const semel_message *message,
                            semel_bytes key)
{
    semel_bytes id = key.len ? key : message->id;
    return trace_hash(trace_hash(t->secret[0], name, strlen(name)), id.data, id.len);
}

/* What the message that a span is about says, and whether the span is to be made. */
typedef struct subject {
    trace_context creation;
    int is_created; /* `creation` is known */
    uint64_t low;   /* half of the trace id */
    int sampled;
} subject;

static subject look_at(const tracer *t, const char *name, const semel_message *message,
                       semel_bytes key)
{
    subject s = {0};
    s.is_created = creation_of(&s.creation, message);
    s.low = s.is_created ? trace_low_half(&s.creation) : low_half_of(t, name, message, key);
    s.sampled = !proxy_inbox_is(name) && /* the span of the request tells of its key */
                trace_sampler_takes(&t->settings.sampler, s.is_created ? &s.creation : NULL, s.low);
    return s;
}

/* The ids of the work that began at this time: for whoever asks, the same. */
static trace_context work_context(const tracer *t, const subject *of, const char *name,
                                  semel_bytes key, uint32_t attempt, int64_t started_ns)
{
    trace_context self = {.sampled = 1};
    uint64_t seed = trace_mix(t->secret[1] + (uint64_t)started_ns) + attempt;
    uint64_t work = trace_hash(trace_hash(seed, name, strlen(name)), key.data, key.len);
    trace_context_set(&self, trace_mix(work ^ of->low), of->low, trace_mix(work + 1));
    return self;
}

static trace_context new_context(tracer *t, uint64_t low)
{
    trace_context self = {.sampled = 1};
    uint64_t id = tracer_new_id(t);
    trace_context_set(&self, id, low, trace_mix(id ^ t->secret[0]));
    return self;
}

void tracer_on_start(void *context, const semel_start *start,
                     char traceparent[SEMEL_TRACEPARENT_SIZE])
{
    tracer *t = context;
    subject of = look_at(t, start->name, start->message, start->key);
    if (!of.sampled)
        return;
    trace_context self =
        work_context(t, &of, start->name, start->key, start->attempt, start->started_ns);
    trace_context_write(traceparent, &self);
}

/* --- attributes ------------------------------------------------------------------------------- */

/* Of a queue: what the registry of OpenTelemetry calls its broker. */
static const char *system_of(const char *scheme)
{
    static const char *const systems[][2] = {{"amqp", "rabbitmq"},
                                             {"kafka", "kafka"},
                                             {"nats", "nats"},
                                             {"redis", "redis"},
                                             {"valkey", "redis"}};
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++)
        if (strncmp(scheme, systems[i][0], strlen(systems[i][0])) == 0)
            return systems[i][1];
    return "semel";
}

static const char *system_of_queue(const config *all, const char *queue)
{
    for (size_t i = 0; queue && i < all->queue_count; i++)
        if (strcmp(all->queues[i].name, queue) == 0)
            return all->queues[i].url ? system_of(all->queues[i].url) : "semel";
    return "semel";
}

static const char *queue_of_inbox(const config *all, const char *inbox)
{
    for (size_t i = 0; i < all->inbox_count; i++)
        if (strcmp(all->inboxes[i].name, inbox) == 0)
            return all->inboxes[i].from;
    return NULL;
}

static const char *queue_of_outbox(const config *all, const char *outbox)
{
    for (size_t i = 0; i < all->outbox_count; i++)
        if (strcmp(all->outboxes[i].name, outbox) == 0)
            return all->outboxes[i].to;
    return NULL;
}

static void add_operation(span *s, const char *operation, const char *system, const char *queue)
{
    span_text(s, "messaging.system", system);
    span_text(s, "messaging.operation.name", operation);
    span_text(s, "messaging.operation.type", operation);
    span_text(s, "messaging.destination.name", queue);
}

/* Keys and ids are shown as the log shows them. */
static void add_key(span *s, const tracer *t, const char *name, semel_bytes key)
{
    buffer shown = {0};
    if (!key.len)
        return;
    failures_key(&shown, t->log, key);
    span_text(s, name, shown.data);
    buffer_free(&shown);
}

static void add_message(span *s, const tracer *t, const semel_event *event)
{
    const semel_message *message = event->message;
    add_key(s, t, "messaging.message.id", message->id);
    add_key(s, t, "messaging.message.conversation_id", message->correlation_id);
    span_number(s, "messaging.message.body.size", (int64_t)message->body.len);
    span_text(s, "semel.message.type", message->type);
    if (event->attempt)
        span_number(s, "semel.attempt", event->attempt);
    if (event->letter)
        span_number(s, "semel.dead_letter", event->letter);
}

/* What a copy does is no error, and neither is a message that another worker has. */
static int is_error(semel_outcome outcome)
{
    return outcome == SEMEL_FAILED || outcome == SEMEL_DEAD || outcome == SEMEL_MISMATCH ||
           outcome == SEMEL_STALE || outcome == SEMEL_MISSING_KEY;
}

/* The error as the log may show it. */
static char *end_span(span *s, const tracer *t, const semel_event *event)
{
    buffer text = {0};
    if (!is_error(event->outcome))
        return span_end(s, NULL);
    if (event->error)
        failures_error(&text, event, outcomes_terms(t->outcomes, event->name));
    char *made = span_end(s, text.data ? text.data : "");
    buffer_free(&text);
    return made;
}

/* A word without a space, as attributes have them. */
static void add_outcome(span *s, const char *name, semel_outcome outcome)
{
    char word[32] = "";
    const char *text = semel_outcome_name(outcome);
    for (size_t i = 0; text[i] && i + 1 < sizeof word; i++)
        word[i] = (char)(text[i] == ' ' || text[i] == '-' ? '_' : text[i]);
    span_text(s, name, word);
}

static void link_creation(span *s, const subject *of, const semel_message *message)
{
    if (of->is_created)
        span_link(s, &of->creation, semel_message_header(message, "tracestate"));
}

/* --- outcomes --------------------------------------------------------------------------------- */

/* A message that was not handled (a copy, a refusal) has no start: the span is a moment. */
static span_head head_of(const semel_event *event, int64_t took_ns)
{
    span_head head = {.kind = SPAN_CONSUMER};
    int64_t started = event->started_ns ? event->started_ns : steady_clock_ns();
    head.start_ns = tracer_wall_ns(started);
    head.end_ns = head.start_ns + took_ns;
    return head;
}

static void observe_received(tracer *t, const semel_event *event, const subject *of)
{
    span s;
    const char *queue = queue_of_inbox(t->all, event->name);
    span_head head = head_of(event, event->handler_ns);
    head.operation = "process";
    head.object = event->name;
    head.self =
        event->started_ns && event->attempt
            ? work_context(t, of, event->name, event->key, event->attempt, event->started_ns)
            : new_context(t, of->low);
    span_begin(&s, &head);
    add_operation(&s, "process", system_of_queue(t->all, queue), queue);
    span_text(&s, "messaging.consumer.group.name", event->name);
    add_message(&s, t, event);
    add_key(&s, t, "semel.key", event->key);
    add_outcome(&s, "semel.dedup.outcome", event->outcome);
    if (is_error(event->outcome))
        add_outcome(&s, "error.type", event->outcome);
    link_creation(&s, of, event->message);
    tracer_push(t, end_span(&s, t, event));
}

/* What was handed to an inbox of the same store was not sent: its `process` tells of it. */
static void observe_sent(tracer *t, const semel_event *event, const subject *of)
{
    span s;
    const char *queue = queue_of_outbox(t->all, event->name);
    span_head head = head_of(event, event->publish_ns);
    if (!event->publish_ns)
        return;
    head.operation = "send";
    head.object = queue ? queue : event->name;
    head.kind = SPAN_CLIENT;
    head.self = new_context(t, of->low);
    span_begin(&s, &head);
    add_operation(&s, "send", system_of_queue(t->all, queue), queue);
    span_text(&s, "semel.outbox", event->name);
    add_message(&s, t, event);
    if (is_error(event->outcome))
        add_outcome(&s, "error.type", event->outcome);
    link_creation(&s, of, event->message);
    tracer_push(t, end_span(&s, t, event));
}

void tracer_observe(tracer *t, const semel_event *event)
{
    if (!t)
        return;
    subject of = look_at(t, event->name, event->message, event->key);
    if (!of.sampled)
        return;
    if (event->kind == SEMEL_EVENT_SENT)
        observe_sent(t, event, &of);
    else
        observe_received(t, event, &of);
}

/* --- what a consumer and its transport do for many at once ------------------------------------ */

/* 1 if the context of a message of the batch is sampled: then the batch is. */
static int takes(const tracer *t, trace_context *out, semel_bytes traceparent)
{
    return trace_context_read(out, traceparent) &&
           trace_sampler_takes(&t->settings.sampler, out, trace_low_half(out));
}

static size_t first_taken(const tracer *t, const semel_transfer *transfer)
{
    trace_context found;
    size_t i = 0;
    while (i < transfer->count && !takes(t, &found, transfer->traceparents[i]))
        i++;
    return i;
}

static void add_links(span *s, const tracer *t, const semel_transfer *transfer, size_t first)
{
    trace_context found;
    for (size_t i = first; i < transfer->count; i++)
        if (takes(t, &found, transfer->traceparents[i]))
            span_link(s, &found, (semel_bytes){NULL, 0});
}

void tracer_on_transfer(void *context, const semel_transfer *transfer)
{
    tracer *t = context;
    span s;
    size_t first = first_taken(t, transfer);
    uint64_t low = tracer_new_id(t);
    int received = transfer->kind == SEMEL_TRANSFER_RECEIVED;
    const char *operation = received ? "receive" : "settle";
    if (first == transfer->count && !trace_sampler_takes(&t->settings.sampler, NULL, low))
        return;
    span_head head = {.operation = operation,
                      .object = transfer->queue,
                      .kind = SPAN_CLIENT,
                      .self = new_context(t, low),
                      .start_ns = tracer_wall_ns(transfer->started_ns)};
    head.end_ns = head.start_ns + transfer->took_ns;
    span_begin(&s, &head);
    add_operation(&s, operation, system_of(transfer->scheme), transfer->queue);
    span_number(&s, "messaging.batch.message_count", (int64_t)transfer->count);
    if (transfer->error)
        span_text(&s, "error.type", "transport");
    add_links(&s, t, transfer, first);
    tracer_push(t, span_end(&s, transfer->error));
}
