/* The brokers: can each queue that is not in the store be reached, and is it as its URL says?
 *
 * Opening a transport receives nothing. It would declare what is missing if the URL says
 * declare=yes; here such a URL is changed to declare=check, and what is missing is no problem. */
#include "program/operate/brokers.h"
#include "program/operate/doctor.h"

#include <string.h>

static const char declares[] = "declare=yes";

/* The URL with declare=check instead. */
static const char *without_declaring(region *memory, const char *url)
{
    const char *at = strchr(url, '?') ? strstr(strchr(url, '?'), declares) : NULL;
    return at ? region_printf(memory, "%.*sdeclare=check%s", (int)(at - url), url,
                              at + strlen(declares))
              : url;
}

/* The host of a URL, which may have a user and a password before it. */
static const char *host_of(region *memory, const char *url)
{
    const char *start = strstr(url, "://");
    start = start ? start + 3 : url;
    size_t len = strcspn(start, "/?#");
    for (size_t i = len; i > 0; i--)
        if (start[i - 1] == '@')
            return region_copy(memory, start + i, strcspn(start + i, ":/?#"));
    return region_copy(memory, start, strcspn(start, ":/?#"));
}

/* The broker's answer has a number for "not found", and not what it is. */
static const char *name_missing(region *memory, const queue_config *queue)
{
    const char *name = doctor_url_parameter(memory, queue->url, "queue");
    const char *exchange = doctor_url_parameter(memory, queue->url, "exchange");
    const char *stream = doctor_url_parameter(memory, queue->url, "stream");
    const char *group = doctor_url_parameter(memory, queue->url, "group");
    if (stream && group)
        return region_printf(memory, "group \"%s\" of stream \"%s\"", group, stream);
    return name && exchange
               ? region_printf(memory, "queue \"%s\" or exchange \"%s\"", name, exchange)
           : name     ? region_printf(memory, "queue \"%s\"", name)
           : exchange ? region_printf(memory, "exchange \"%s\"", exchange)
                      : region_printf(memory, "what queues.%s.url names", queue->name);
}

/* What is missing, for `run` to make or for a person. */
static void find_missing(doctor *d, const queue_config *queue)
{
    const char *host = host_of(&d->memory, queue->url);
    const char *what = name_missing(&d->memory, queue);
    if (strstr(queue->url, declares))
        doctor_find(d, DOCTOR_BROKER, SEMEL_SEVERITY_OK, NULL,
                    "%s does not exist on %s yet; run declares it", what, host);
    else
        doctor_find(d, DOCTOR_BROKER, SEMEL_SEVERITY_ERROR,
                    region_printf(&d->memory, "add declare=yes to queues.%s.url, or declare the %s",
                                  queue->name,
                                  *what == 'e'   ? "exchange"
                                  : *what == 'g' ? "group"
                                                 : "queue"),
                    "%s does not exist on %s", what, host);
}

/* The same where the error names it. */
static void find_named_missing(doctor *d, const queue_config *queue, const semel_error *why)
{
    const broker_kind *kind = broker_kind_of(queue->url);
    if (kind->declares && strstr(queue->url, declares))
        doctor_find(d, DOCTOR_BROKER, SEMEL_SEVERITY_OK, NULL,
                    "the stream or consumer of queue %s does not exist yet; run declares it",
                    queue->name);
    else
        doctor_find(d, DOCTOR_BROKER, SEMEL_SEVERITY_ERROR,
                    kind->declares ? region_printf(&d->memory,
                                                   "add declare=yes to queues.%s.url, or make them",
                                                   queue->name)
                                   : "make it with the broker's tools; semel makes none",
                    "queue %s: %s", queue->name, why->text);
}

static void find_failure(doctor *d, const queue_config *queue, const semel_error *why)
{
    broker_fault fault = broker_fault_of(queue->url, why);
    doctor_check check = fault == BROKER_DIFFERENT ? DOCTOR_TOPOLOGY : DOCTOR_BROKER;
    const char *fix = NULL, *not_as = fault == BROKER_DIFFERENT ? " is not as its URL says" : "";
    if (fault == BROKER_MISSING) {
        if (broker_kind_of(queue->url)->says_which)
            find_named_missing(d, queue, why);
        else
            find_missing(d, queue);
        return;
    }
    if (fault == BROKER_DIFFERENT)
        fix = region_printf(&d->memory, "change queues.%s.url, or delete the queue", queue->name);
    if (fault == BROKER_REFUSED)
        fix = region_printf(&d->memory,
                            "correct user and password in queues.%s.url, or give the user the "
                            "rights",
                            queue->name);
    if (why->status == SEMEL_EUNAVAILABLE)
        fix = region_printf(&d->memory, "start the broker, or correct the address in queues.%s.url",
                            queue->name);
    doctor_find(d, check, SEMEL_SEVERITY_ERROR, fix, "queue %s%s: %s", queue->name, not_as,
                why->text);
}

/* One sentence per line. */
static void find_warnings(doctor *d, const queue_config *queue, const semel_transport *transport)
{
    const char *at = semel_transport_warnings(transport);
    for (size_t len; *at; at += len + (at[len] == '\n')) {
        len = strcspn(at, "\n");
        doctor_find(d, DOCTOR_TOPOLOGY, SEMEL_SEVERITY_WARNING, NULL, "queue %s: %.*s", queue->name,
                    (int)len, at);
    }
}

static void look_at_queue(doctor *d, size_t number)
{
    const queue_config *queue = &d->all->queues[number];
    semel_error why = {0};
    const char *url = without_declaring(&d->memory, queue->url);
    if (semel_transport_open(&d->transports[number], url, NULL, &why)) {
        find_failure(d, queue, &why);
        return;
    }
    doctor_find(d, DOCTOR_BROKER, SEMEL_SEVERITY_OK, NULL, "queue %s can be reached on %s",
                queue->name, host_of(&d->memory, queue->url));
    find_warnings(d, queue, d->transports[number]);
}

void doctor_look_at_brokers(doctor *d)
{
    d->transports = region_alloc(&d->memory, (d->all->queue_count + 1) * sizeof(semel_transport *));
    for (size_t i = 0; i < d->all->queue_count; i++)
        if (d->all->queues[i].url && (d->all->queues[i].is_read || d->all->queues[i].is_written))
            look_at_queue(d, i);
}
