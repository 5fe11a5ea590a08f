/* Opening, closing, stepping; the rest of the consumer is in consumer_inflight.c (deliveries in
 * flight), consumer_worker.c (what a worker does with them), consumer_routes.c (routes) and
 * consumer_run.c (running with workers). */
#include "core/consumer.h"

#include "base/wait.h"

#include <string.h>

/* --- opening --------------------------------------------------------------------------------------------- */

static semel_status check_routes(const semel_route *routes, size_t count, semel_error *err)
{
    if (count == 0 || count > SEMEL_ROUTES_MAX)
        return semel_fail(err, SEMEL_EINVAL, "a consumer takes 1 to %zu routes, not %zu",
                          SEMEL_ROUTES_MAX, count);
    for (size_t i = 0; i < count; i++) {
        if (!routes[i].pattern || !*routes[i].pattern || !routes[i].inbox || !routes[i].handler)
            return semel_fail(err, SEMEL_EINVAL,
                              "route %zu needs a pattern, an inbox and a handler", i + 1);
        semel_status status = store_can_keep_dead(routes[i].inbox->store, err);
        if (status)
            return status; /* there would be no place for what has no route, or is refused */
        for (size_t j = 0; j < i; j++)
            if (routes[j].inbox->store == routes[i].inbox->store &&
                routes[j].inbox->scope == routes[i].inbox->scope &&
                (routes[j].handler != routes[i].handler || routes[j].context != routes[i].context))
                return semel_fail(
                    err, SEMEL_EINVAL,
                    "routes %zu and %zu share inbox \"%s\" but not handler and context: one would "
                    "swallow the other's messages; give each its own inbox",
                    j + 1, i + 1, routes[i].inbox->name);
    }
    return SEMEL_OK;
}

static semel_status copy_routes(semel_consumer *consumer, const semel_route *routes, size_t count,
                                semel_error *err)
{
    size_t texts = 0;
    for (size_t i = 0; i < count; i++)
        texts += strlen(routes[i].pattern) + 1;
    consumer->routes = mem_alloc(count * sizeof *routes);
    consumer->patterns = mem_alloc(texts);
    if (!consumer->routes || !consumer->patterns)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu routes", count);
    char *text = consumer->patterns;
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(routes[i].pattern) + 1;
        consumer->routes[i] = routes[i];
        consumer->routes[i].pattern = memcpy(text, routes[i].pattern, len);
        text += len;
    }
    consumer->route_count = count;
    return SEMEL_OK;
}

static semel_status out_of_memory(const semel_consumer *consumer, semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM,
                      "out of memory for a consumer with a batch of %u and %u workers",
                      consumer->options.batch, consumer->options.workers);
}

static semel_status worker_init(worker *w, semel_consumer *consumer, semel_error *err)
{
    size_t batch = consumer->options.batch;
    w->consumer = consumer;
    w->jobs = mem_alloc(batch * sizeof(job *));
    w->chosen = mem_alloc(batch * sizeof *w->chosen);
    w->chosen_index = mem_alloc(batch * sizeof *w->chosen_index);
    w->outcomes = mem_alloc(batch * sizeof *w->outcomes);
    w->settles = mem_alloc(batch * sizeof *w->settles);
    w->settled = mem_alloc(batch * sizeof(job *));
    if (w->jobs && w->chosen && w->chosen_index && w->outcomes && w->settles && w->settled)
        return SEMEL_OK;
    return out_of_memory(consumer, err);
}

static void worker_free(worker *w)
{
    mem_free(w->jobs);
    mem_free(w->chosen);
    mem_free(w->chosen_index);
    mem_free(w->outcomes);
    mem_free(w->settles);
    mem_free(w->settled);
}

static semel_status consumer_make_lock(semel_consumer *consumer, semel_error *err)
{
    int error = pthread_mutex_init(&consumer->lock, NULL);
    if (!error && (error = wait_condition_init(&consumer->changed)) != 0)
        pthread_mutex_destroy(&consumer->lock);
    if (error)
        return semel_fail(err, SEMEL_ENOMEM, "no lock for a consumer: %s", strerror(error));
    consumer->has_lock = 1;
    return SEMEL_OK;
}

/* All that it will ever need: no message costs an allocation of the consumer's. */
static semel_status consumer_alloc(semel_consumer *consumer, semel_error *err)
{
    const semel_consumer_options *options = &consumer->options;
    const semel_seam *seam = &consumer->transport->seam;
    uint32_t most = options->batch * options->workers;
    hash_key key = {seam_random(seam), seam_random(seam)}; /* strangers choose the groups' names */
    consumer->delivery_room = most < options->in_hand_max ? most : options->in_hand_max;
    consumer->deliveries = mem_alloc(consumer->delivery_room * sizeof *consumer->deliveries);
    consumer->workers = mem_alloc(options->workers * sizeof *consumer->workers);
    if (!consumer->deliveries || !consumer->workers)
        return out_of_memory(consumer, err);
    semel_status status =
        inflight_open(&consumer->inflight, options->in_hand_max, options->order, key, err);
    for (uint32_t i = 0; !status && i < options->workers; i++)
        status = worker_init(&consumer->workers[i], consumer, err);
    return status ? status : consumer_make_lock(consumer, err);
}

static semel_status consumer_check_choices(const semel_consumer_options *options, semel_error *err)
{
    if ((unsigned)options->on_unrouted > SEMEL_UNROUTED_IGNORE)
        return semel_fail(err, SEMEL_EINVAL,
                          "semel_consumer_options.on_unrouted: there is no choice %d",
                          (int)options->on_unrouted);
    if ((unsigned)options->order > SEMEL_ORDER_GROUP)
        return semel_fail(err, SEMEL_EINVAL, "semel_consumer_options.order: there is no choice %d",
                          (int)options->order);
    if (options->batch > SEMEL_BATCH_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "semel_consumer_options.batch is %u; SEMEL_BATCH_MAX is %zu",
                          options->batch, SEMEL_BATCH_MAX);
    if (options->workers > SEMEL_WORKERS_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "semel_consumer_options.workers is %u; SEMEL_WORKERS_MAX is %zu",
                          options->workers, SEMEL_WORKERS_MAX);
    if (options->in_hand_max > SEMEL_IN_HAND_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "semel_consumer_options.in_hand_max is %u; SEMEL_IN_HAND_MAX is %zu",
                          options->in_hand_max, SEMEL_IN_HAND_MAX);
    return SEMEL_OK;
}

static semel_status consumer_read_options(semel_consumer_options *out,
                                          const semel_consumer_options *given, semel_error *err)
{
    enum { IN_HAND_LEAST = 100 };
    semel_status status = options_read(out, sizeof *out, given, "semel_consumer_options", err);
    if (!status)
        status = consumer_check_choices(out, err);
    if (status)
        return status;
    out->batch = out->batch ? out->batch : 1;
    out->backoff_ms = out->backoff_ms ? out->backoff_ms : 200;
    out->backoff_max_ms = out->backoff_max_ms ? out->backoff_max_ms : 60000;
    out->workers = out->workers ? out->workers : 1;
    uint32_t two_rounds = 2 * out->batch * out->workers;
    if (!out->in_hand_max)
        out->in_hand_max = two_rounds > IN_HAND_LEAST ? two_rounds : IN_HAND_LEAST;
    return SEMEL_OK;
}

semel_status semel_consumer_open(semel_consumer **out, semel_transport *transport,
                                 const semel_route *routes, size_t count,
                                 const semel_consumer_options *options, semel_error *err)
{
    semel_consumer *consumer = mem_alloc(sizeof *consumer);
    if (!consumer)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a consumer");
    consumer->transport = transport;
    semel_status status = consumer_read_options(&consumer->options, options, err);
    if (!status)
        status = check_routes(routes, count, err);
    if (!status)
        status = copy_routes(consumer, routes, count, err);
    if (!status)
        status = consumer_alloc(consumer, err);
    if (!status)
        status = extender_open(consumer, err);
    if (status)
        semel_consumer_close(consumer);
    else
        *out = consumer;
    return status;
}

/* --- closing --------------------------------------------------------------------------------------------- */

/* In the order of delivery, which a broker may keep, or all at once. That it fails is no loss: what is not settled
 * the broker delivers again anyway, when the transport is closed or the connection ends. */
void consumer_give_back(semel_consumer *consumer, uint32_t delay_ms)
{
    worker *w = &consumer->workers[0];
    if (consumer->inflight.count)
        transport_give_back(consumer->transport);
    do {
        job *j;
        w->count = 0;
        while (w->count < consumer->options.batch &&
               (j = inflight_next_oldest(&consumer->inflight))) {
            w->settles[w->count] =
                (semel_delivery_settlement){j->tag, SEMEL_VERDICT_RETRY, delay_ms};
            w->jobs[w->count++] = j;
        }
        if (w->count)
            (void)semel_transport_settle(consumer->transport, w->settles, w->count, NULL);
        for (size_t i = 0; i < w->count; i++)
            inflight_remove(&consumer->inflight, w->jobs[i]);
    } while (w->count);
}

void semel_consumer_close(semel_consumer *consumer)
{
    if (!consumer)
        return;
    if (consumer->has_lock && transport_is_ours(consumer->transport)) {
        consumer_give_back(consumer, 0);
        pthread_cond_destroy(&consumer->changed);
        pthread_mutex_destroy(&consumer->lock);
    }
    for (uint32_t i = 0; consumer->workers && i < consumer->options.workers; i++)
        worker_free(&consumer->workers[i]);
    inflight_close(&consumer->inflight);
    extender_close(consumer);
    mem_free(consumer->workers);
    mem_free(consumer->deliveries);
    mem_free(consumer->routes);
    mem_free(consumer->patterns);
    mem_free(consumer);
}

/* --- stepping -------------------------------------------------------------------------------------------- */

semel_status consumer_enter(semel_consumer *consumer, semel_error *err)
{
    if (atomic_exchange(&consumer->in_use, 1))
        return semel_fail(err, SEMEL_EMISUSE,
                          "this consumer is stepping or running already: it has one owner at a "
                          "time, and cannot be called from its own handlers");
    return SEMEL_OK;
}

void consumer_leave(semel_consumer *consumer)
{
    atomic_store(&consumer->in_use, 0);
}

/* In slices, so that a stop from a signal handler is noticed soon. */
static semel_status step_in_slices(semel_consumer *consumer, size_t *acked, uint32_t wait_ms,
                                   semel_error *err)
{
    enum { SLICE_MS = 100 };
    worker *w = &consumer->workers[0];
    for (;;) {
        uint32_t slice = wait_ms < SLICE_MS ? wait_ms : SLICE_MS;
        extender_step(consumer);
        semel_status status = worker_step(w, slice, acked, err);
        wait_ms -= slice;
        if (status || w->count || !wait_ms || consumer_is_stopped(consumer))
            return status;
    }
}

semel_status semel_consumer_step(size_t *settled, semel_consumer *consumer, uint32_t wait_ms,
                                 semel_error *err)
{
    semel_error why;
    size_t acked = 0;
    semel_status status = consumer_enter(consumer, err);
    if (status)
        return status;
    consumer->receive_max = consumer->options.batch < consumer->delivery_room
                                ? consumer->options.batch
                                : consumer->delivery_room;
    status = step_in_slices(consumer, &acked, wait_ms, &why);
    if (status && !why.retryable)
        consumer_give_back(consumer, consumer_backoff_ms(consumer, 1));
    consumer_leave(consumer);
    if (!status)
        *settled = acked;
    else if (err)
        *err = why;
    return status;
}

/* --- replay ------------------------------------------------------------------------------------------------ */

semel_status semel_consumer_replay(semel_outcome *out, semel_consumer *consumer, int64_t dead_id,
                                   semel_error *err)
{
    semel_status status = SEMEL_ENOTFOUND;
    *out = SEMEL_UNDECIDED;
    for (size_t i = 0; i < consumer->route_count; i++) {
        const semel_route *route = &consumer->routes[i];
        status =
            semel_inbox_replay(out, route->inbox, dead_id, route->handler, route->context, err);
        if (status != SEMEL_ENOTFOUND)
            return status;
    }
    return semel_fail(err, status, "none of the consumer's inboxes has a dead letter %lld",
                      (long long)dead_id);
}
