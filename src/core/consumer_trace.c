/* What the tracer of the store learns of a consumer and its transport: batches that were received,
 * and batches that were settled. Without a tracer none of this is done, and no memory is taken.
 *
 * A message belongs to the transport until it is settled. So its trace context is copied before
 * that. */
#include "core/consumer.h"

#include <string.h>

#define TRACEPARENT "traceparent"

static const semel_store *traced_store(const semel_consumer *consumer)
{
    const semel_store *store = consumer->letters ? consumer->letters->store : NULL;
    return store && store->tracing.transfer ? store : NULL;
}

static int alloc_settled(worker *self, size_t count)
{
    self->traced = mem_alloc(sizeof *self->traced);
    if (!self->traced)
        return 0;
    self->traced->values = mem_alloc(count * sizeof *self->traced->values);
    self->traced->texts = mem_alloc(count * sizeof *self->traced->texts);
    return self->traced->values && self->traced->texts;
}

semel_status consumer_trace_open(semel_consumer *consumer, semel_error *err)
{
    if (!traced_store(consumer))
        return SEMEL_OK;
    consumer->contexts = mem_alloc(consumer->delivery_room * sizeof *consumer->contexts);
    int all = consumer->contexts != NULL;
    for (uint32_t i = 0; i < consumer->options.workers; i++)
        all = all && alloc_settled(&consumer->workers[i], consumer->batch_most);
    return all ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "out of memory for a traced consumer");
}

void consumer_trace_close(semel_consumer *consumer)
{
    mem_free(consumer->contexts);
    for (uint32_t i = 0; consumer->workers && i < consumer->options.workers; i++) {
        settled_contexts *traced = consumer->workers[i].traced;
        if (!traced)
            continue;
        mem_free(traced->values);
        mem_free(traced->texts);
        mem_free(traced);
    }
}

static void report(const semel_consumer *consumer, semel_transfer transfer)
{
    transfer.scheme = consumer->transport->driver->scheme;
    transfer.queue = consumer->queue;
    transfer_report(traced_store(consumer), &transfer);
}

int64_t consumer_trace_receiving(const semel_consumer *consumer)
{
    return consumer->contexts ? observe_start(traced_store(consumer)) : 0;
}

void consumer_trace_received(semel_consumer *consumer, size_t count, int64_t started_ns,
                             const char *error)
{
    if (!consumer->contexts || (!count && !error))
        return;
    for (size_t i = 0; i < count; i++)
        consumer->contexts[i] = semel_message_header(consumer->deliveries[i].message, TRACEPARENT);
    report(consumer, (semel_transfer){.kind = SEMEL_TRANSFER_RECEIVED,
                                      .traceparents = consumer->contexts,
                                      .count = count,
                                      .started_ns = started_ns,
                                      .error = error});
}

/* What is longer than a traceparent of today is none, or one of a version that begins like it. */
static semel_bytes copy_context(char text[SEMEL_TRACEPARENT_SIZE], const semel_message *message)
{
    semel_bytes value = semel_message_header(message, TRACEPARENT);
    if (!value.data)
        return value;
    size_t len = value.len < SEMEL_TRACEPARENT_SIZE ? value.len : SEMEL_TRACEPARENT_SIZE;
    memcpy(text, value.data, len);
    return (semel_bytes){text, len};
}

int64_t worker_trace_settling(worker *self, size_t count)
{
    settled_contexts *traced = self->traced;
    for (size_t i = 0; traced && i < count; i++)
        traced->values[i] = copy_context(traced->texts[i], self->settled[i]->message);
    return traced ? observe_start(traced_store(self->consumer)) : 0;
}

void worker_trace_settled(const worker *self, size_t count, int64_t started_ns, const char *error)
{
    if (self->traced)
        report(self->consumer, (semel_transfer){.kind = SEMEL_TRANSFER_SETTLED,
                                                .traceparents = self->traced->values,
                                                .count = count,
                                                .started_ns = started_ns,
                                                .error = error});
}
