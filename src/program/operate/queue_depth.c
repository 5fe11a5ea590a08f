/* What waits at a broker: the broker is asked for the number of messages that are ready, and
 * nothing is received.
 *
 * A look must change nothing and needs no other rights than to look: its URL says so
 * (broker_url_to_look). */
#include "program/cli.h"
#include "program/operate/brokers.h"
#include "program/operate/queues.h"
#include "program/support/url_text.h"

#include <string.h>

/* A broker that could not be reached: it is not tried again for its next queue. */
struct queue_outage {
    queue_outage *next;
    const char *broker;
    const char *why;
};

static const char *known_outage(const queue_depths *all, const char *broker)
{
    for (const queue_outage *o = all->outages; o; o = o->next)
        if (strcmp(o->broker, broker) == 0)
            return o->why;
    return NULL;
}

static void note_outage(queue_depths *all, const char *broker, const char *why)
{
    queue_outage *outage = region_alloc(&all->tool->memory, sizeof *outage);
    *outage = (queue_outage){all->outages, broker, why};
    all->outages = outage;
}

static semel_status ask(uint64_t *ready, const char *url, semel_error *err)
{
    semel_transport *transport = NULL;
    semel_status status = semel_transport_open(&transport, url, NULL, err);
    if (!status)
        status = semel_transport_depth(ready, transport, err);
    semel_transport_close(transport);
    return status;
}

static queue_depth unknown(queue_depths *all, const queue_config *queue, int status,
                           const char *why)
{
    if (status)
        (void)tool_refuse(all->tool, status, "cannot query queue \"%s\": %s", queue->name, why);
    return (queue_depth){.ready = -1, .why = why, .status = status};
}

static queue_depth failed(queue_depths *all, const queue_config *queue, const char *broker,
                          const semel_error *err)
{
    region *memory = &all->tool->memory;
    const char *why = region_copy(memory, err->text, strlen(err->text));
    if (err->status == SEMEL_EUNAVAILABLE)
        note_outage(all, broker, why);
    else if (broker_fault_of(queue->url, err) == BROKER_MISSING)
        return unknown(all, queue, CLI_OK, "it does not exist at the broker");
    return unknown(all, queue,
                   err->status == SEMEL_EUNAVAILABLE || err->retryable ? CLI_TEMPORARY : CLI_FAILED,
                   why);
}

queue_depth queue_depth_of(queue_depths *all, const queue_config *queue)
{
    region *memory = &all->tool->memory;
    semel_error err = {0};
    uint64_t ready = 0;
    const broker_kind *kind = broker_kind_of(queue->url);
    if (!kind)
        return unknown(all, queue, CLI_OK, "a queue of this kind cannot be asked from here");
    if (!url_parameter(memory, queue->url, kind->receive))
        return unknown(all, queue, CLI_OK, kind->without);
    const char *broker = region_copy(memory, queue->url, strcspn(queue->url, "?"));
    const char *outage = known_outage(all, broker);
    if (outage)
        return unknown(all, queue, CLI_TEMPORARY, outage);
    if (ask(&ready, broker_url_to_look(memory, queue->url), &err))
        return failed(all, queue, broker, &err);
    return (queue_depth){.ready = ready > INT64_MAX ? INT64_MAX : (int64_t)ready};
}
