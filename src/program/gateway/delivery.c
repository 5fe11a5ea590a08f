/* See delivery.h.
 *
 * If the process dies before the commit, the client has no answer and sends again. If it dies
 * between the commit and the answer, the client sends again, too, and the inbox that reads the
 * queue finds the same id twice. */
#include "program/gateway/delivery.h"

#include "program/config/complete.h"
#include "program/handler/topic.h"

#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 10000, RETRY_AFTER_S = 5 };

struct delivery {
    region memory;
    semel_store *store;
    semel_transport *queue; /* NULL: by the outbox */
    const char *name;
    const char *fixed_topic;
};

semel_status delivery_open(delivery **out, const gateway_route *route, semel_error *err)
{
    const queue_config *queue = config_queue(route->all, route->config->to);
    semel_status status = SEMEL_OK;
    if (!queue)
        return semel_fail(err, SEMEL_EINVAL, "queue \"%s\" does not exist", route->config->to);
    delivery *d = must_alloc(sizeof *d);
    d->store = route->store;
    d->name = queue->name;
    d->fixed_topic = topic_of_queue(&d->memory, route->all, queue->name);
    if (!queue->url)
        status = semel_queue_open(&d->queue, route->store, queue->name, &queue->queue, err);
    if (status)
        delivery_close(d);
    else
        *out = d;
    return status;
}

void delivery_close(delivery *d)
{
    if (!d)
        return;
    semel_transport_close(d->queue);
    region_free(&d->memory);
    free(d);
}

/* --- sending ---------------------------------------------------------------------------------- */

static semel_status send_to_queue(const delivery *d, const semel_message *const messages[],
                                  size_t count, semel_error *err)
{
    semel_publish_result *results = must_alloc(count * sizeof *results);
    semel_status status = semel_transport_publish(results, d->queue, messages, count, WAIT_MS, err);
    for (size_t i = 0; !status && i < count; i++)
        if (results[i] != SEMEL_PUBLISH_CONFIRMED)
            status = semel_fail(err, SEMEL_EINVAL, "the queue refuses this message");
    free(results);
    return status;
}

static semel_status send_to_outbox(const delivery *d, const semel_message *const messages[],
                                   size_t count, semel_error *err)
{
    semel_unit *unit = NULL;
    semel_status status = semel_unit_begin(&unit, d->store, err);
    if (status)
        return status;
    semel_outbox *outbox = semel_unit_outbox(unit, d->name);
    for (size_t i = 0; !status && i < count; i++)
        status = semel_unit_send(unit, outbox, messages[i], err);
    if (!status)
        return semel_unit_commit(unit, err);
    semel_unit_rollback(unit);
    return status;
}

semel_status delivery_send(delivery *d, semel_message messages[], size_t count, semel_error *err)
{
    const semel_message **all = must_alloc((count + 1) * sizeof *all);
    for (size_t i = 0; i < count; i++) {
        messages[i].topic = topic_of_message(d->fixed_topic, d->queue != NULL, &messages[i]);
        all[i] = &messages[i];
    }
    semel_status status =
        d->queue ? send_to_queue(d, all, count, err) : send_to_outbox(d, all, count, err);
    free((void *)all);
    return status;
}

route_outcome delivery_refuse(http_request *request, const semel_error *why)
{
    if (why->status == SEMEL_EINVAL) {
        route_problem(request,
                      &(http_problem){.status = 400,
                                      .type = "bad-message",
                                      .title = "The message cannot be stored",
                                      .detail = why->text},
                      NULL, NULL);
        return ROUTE_BAD_REQUEST;
    }
    if (why->status == SEMEL_ELIMIT) {
        route_problem(request,
                      &(http_problem){.status = 413,
                                      .type = "too-large",
                                      .title = "The message is larger than the store takes",
                                      .detail = why->text},
                      NULL, NULL);
        return ROUTE_TOO_LARGE;
    }
    route_problem(request,
                  &(http_problem){.status = 503,
                                  .type = "unavailable",
                                  .title = "It cannot be stored for the moment",
                                  .detail = "Send it again, with the same id.",
                                  .retry_after_s = RETRY_AFTER_S},
                  NULL, NULL);
    return ROUTE_UNAVAILABLE;
}
