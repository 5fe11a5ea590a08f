/* What waits at a broker: the broker is asked for the number of messages that are ready, and
 * nothing is received.
 *
 * A look must change nothing and needs no other rights than to look. So the URL says declare=no:
 * opening it looks for queue and exchange, and neither makes nor compares them. What such a URL may
 * lose does not matter, because nothing is published. */
#include "program/cli.h"
#include "program/operate/doctor.h"
#include "program/operate/queues.h"

#include <string.h>

enum { NOT_FOUND = 404 }; /* AMQP's reply code; other transports say the same */

/* A broker that could not be reached: it is not tried again for its next queue. */
struct queue_outage {
    queue_outage *next;
    const char *broker;
    const char *why;
};

/* A kind of queue that can be asked: the parameter of its URL that receivers need. */
typedef struct queue_kind {
    const char *scheme; /* or the beginning of several */
    const char *parameter;
    const char *without; /* what to say if it is not there */
} queue_kind;

static const queue_kind *kind_of(const char *url)
{
    static const queue_kind kinds[] = {
        {"amqp", "queue", "its URL names an exchange, and no queue"},
        {"redis", "group", "its URL names a stream, and no group that reads it"},
        {"valkey", "group", "its URL names a stream, and no group that reads it"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(url, kinds[i].scheme, strlen(kinds[i].scheme)) == 0 && strstr(url, "://"))
            return &kinds[i];
    return NULL;
}

static int is_named(const char *parameter, size_t len, const char *name)
{
    size_t name_len = strlen(name);
    return len > name_len && parameter[name_len] == '=' && strncmp(parameter, name, name_len) == 0;
}

/* The URL without what it says about declaring and losing, and with what a look needs. */
static const char *to_look(region *memory, const char *url)
{
    size_t head = strcspn(url, "?");
    const char *result = region_printf(memory, "%.*s?declare=no&loss=warn", (int)head, url);
    for (const char *at = url + head; *at;) {
        size_t len = strcspn(++at, "&");
        if (len && !is_named(at, len, "declare") && !is_named(at, len, "loss"))
            result = region_printf(memory, "%s&%.*s", result, (int)len, at);
        at += len;
    }
    return result;
}

static const char *broker_of(region *memory, const char *url)
{
    return region_copy(memory, url, strcspn(url, "?"));
}

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

/* The broker's answer has a number for "not found", and not what it is. */
static queue_depth failed(queue_depths *all, const queue_config *queue, const char *broker,
                          const semel_error *err)
{
    region *memory = &all->tool->memory;
    const char *why = region_copy(memory, err->text, strlen(err->text));
    if (err->status == SEMEL_EUNAVAILABLE)
        note_outage(all, broker, why);
    else if (err->native == NOT_FOUND)
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
    const queue_kind *kind = kind_of(queue->url);
    if (!kind)
        return unknown(all, queue, CLI_OK, "a queue of this kind cannot be asked from here");
    if (!doctor_url_parameter(memory, queue->url, kind->parameter))
        return unknown(all, queue, CLI_OK, kind->without);
    const char *broker = broker_of(memory, queue->url);
    const char *outage = known_outage(all, broker);
    if (outage)
        return unknown(all, queue, CLI_TEMPORARY, outage);
    if (ask(&ready, to_look(memory, queue->url), &err))
        return failed(all, queue, broker, &err);
    return (queue_depth){.ready = ready > INT64_MAX ? INT64_MAX : (int64_t)ready};
}
