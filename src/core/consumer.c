/* Opening, closing, stepping; the rest of the consumer is in consumer_table.c (the table of
 * routes), consumer_inflight.c (deliveries in flight), consumer_worker.c (what a worker does
 * with them), consumer_routes.c (deliveries through the routes) and consumer_run.c (running with
 * workers). */
#include "core/consumer.h"

#include "base/wait.h"

#include <string.h>

/* --- opening ---------------------------------------------------------------------------------- */

static semel_status out_of_memory(const semel_consumer *consumer, semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM,
                      "out of memory for a consumer with a batch of %u and %u workers",
                      consumer->batch_most, consumer->options.workers);
}

static semel_status worker_init(worker *w, semel_consumer *consumer, semel_error *err)
{
    size_t batch = consumer->batch_most;
    w->consumer = consumer;
    w->limit = consumer->options.batch ? batch_limit_fixed(consumer->batch_most)
                                       : batch_limit_adaptive(consumer->batch_most);
    w->pace.budget_ms = BATCH_BUDGET_MS;
    w->terms = consumer->terms;
    w->terms.retry_ms = worker_retry_ms;
    w->terms.retry_context = w;
    w->terms.pace = w->limit.fixed ? NULL : &w->pace;
    consumer->limits += w->limit.now;
    w->jobs = mem_alloc(batch * sizeof(job *));
    w->chosen = mem_alloc(batch * sizeof *w->chosen);
    w->chosen_index = mem_alloc(batch * sizeof *w->chosen_index);
    w->positions = mem_alloc(batch * sizeof *w->positions);
    w->outcomes = mem_alloc(batch * sizeof *w->outcomes);
    w->buried = mem_alloc(batch * sizeof *w->buried);
    w->settles = mem_alloc(batch * sizeof *w->settles);
    w->settled = mem_alloc(batch * sizeof(job *));
    if (w->jobs && w->chosen && w->chosen_index && w->positions && w->outcomes && w->buried &&
        w->settles && w->settled)
        return SEMEL_OK;
    return out_of_memory(consumer, err);
}

static void worker_free(worker *w)
{
    mem_free(w->jobs);
    mem_free(w->chosen);
    mem_free(w->chosen_index);
    mem_free(w->positions);
    mem_free(w->outcomes);
    mem_free(w->buried);
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
    health_init(&consumer->health);
    consumer->has_lock = 1;
    return SEMEL_OK;
}

/* Is there a transaction that many messages can share? */
static int batches_help(const semel_consumer *consumer)
{
    for (size_t i = 0; i < consumer->group_count; i++) {
        const route_group *group = &consumer->groups[i];
        if (group->inbox->positions ||
            (!group->unkeyed && group->inbox->options.mode != SEMEL_CLAIM &&
             group->inbox->store->driver->units->savepoint))
            return 1;
    }
    return 0;
}

/* A transaction with one row for all of its messages gets cheaper for longer. */
static uint32_t batch_bound(const semel_consumer *consumer)
{
    return consumer->takes_runs ? BATCH_MOST_OF_RUN : BATCH_MOST;
}

/* Where messages are handled one by one anyway, a worker that took several would only keep them
 * from the other workers, for as long as the first of them takes. */
static uint32_t choose_most(const semel_consumer *consumer)
{
    if (consumer->options.batch)
        return consumer->options.batch;
    return batches_help(consumer) || consumer->options.workers == 1 ? batch_bound(consumer) : 1;
}

static void choose_inflight(semel_consumer *consumer)
{
    enum { INFLIGHT_LEAST = 100 };
    semel_consumer_options *options = &consumer->options;
    uint32_t batch = options->batch ? options->batch : batch_bound(consumer);
    uint32_t two_rounds = 2 * batch * options->workers;
    if (!options->inflight_max)
        options->inflight_max = two_rounds > INFLIGHT_LEAST ? two_rounds : INFLIGHT_LEAST;
}

/* All that it will ever need: no message costs an allocation of the consumer's. */
static semel_status consumer_alloc(semel_consumer *consumer, semel_error *err)
{
    const semel_consumer_options *options = &consumer->options;
    const semel_seam *seam = &consumer->transport->seam;
    choose_inflight(consumer);
    consumer->batch_most = choose_most(consumer);
    uint32_t most = consumer->batch_most * options->workers;
    hash_key key = {seam_random(seam), seam_random(seam)}; /* strangers choose the groups' names */
    consumer->delivery_room = most < options->inflight_max ? most : options->inflight_max;
    consumer->deliveries = mem_alloc(consumer->delivery_room * sizeof *consumer->deliveries);
    consumer->workers = mem_alloc(options->workers * sizeof *consumer->workers);
    if (!consumer->deliveries || !consumer->workers)
        return out_of_memory(consumer, err);
    semel_status status =
        inflight_open(&consumer->inflight, options->inflight_max, options->order, key, err);
    for (uint32_t i = 0; !status && i < options->workers; i++)
        status = worker_init(&consumer->workers[i], consumer, err);
    if (!status)
        status = consumer_trace_open(consumer, err);
    return status ? status : consumer_make_lock(consumer, err);
}

static semel_status consumer_check_choices(const semel_consumer_options *options, semel_error *err)
{
    if ((unsigned)options->on_unrouted > SEMEL_UNROUTED_IGNORE)
        return semel_fail(err, SEMEL_EINVAL,
                          "semel_consumer_options.on_unrouted: there is no choice %d",
                          (int)options->on_unrouted);
    if ((unsigned)options->order > SEMEL_ORDER_PARTITION)
        return semel_fail(err, SEMEL_EINVAL, "semel_consumer_options.order: there is no choice %d",
                          (int)options->order);
    if ((unsigned)options->on_failure > SEMEL_FAILURE_REJECT)
        return semel_fail(err, SEMEL_EINVAL,
                          "semel_consumer_options.on_failure: there is no choice %d",
                          (int)options->on_failure);
    if (options->batch > SEMEL_BATCH_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "semel_consumer_options.batch is %u; SEMEL_BATCH_MAX is %zu",
                          options->batch, SEMEL_BATCH_MAX);
    if (options->workers > SEMEL_WORKERS_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "semel_consumer_options.workers is %u; SEMEL_WORKERS_MAX is %zu",
                          options->workers, SEMEL_WORKERS_MAX);
    if (options->inflight_max > SEMEL_INFLIGHT_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "semel_consumer_options.inflight_max is %u; SEMEL_INFLIGHT_MAX is %zu",
                          options->inflight_max, SEMEL_INFLIGHT_MAX);
    return SEMEL_OK;
}

/* Positions need a transport that has them, and the order of each partition. */
static semel_status check_positions(semel_consumer *consumer, semel_error *err)
{
    const semel_transport_driver *driver = consumer->transport->driver;
    int has_positions = (driver->abilities & SEMEL_TRANSPORT_POSITIONS) != 0;
    size_t count = 0;
    for (size_t i = 0; i < consumer->group_count; i++) {
        const semel_inbox *inbox = consumer->groups[i].inbox;
        count += inbox->positions != NULL;
        if (inbox->positions && !has_positions)
            return semel_fail(err, SEMEL_EUNSUPPORTED,
                              "inbox \"%s\" remembers positions, and a %s: transport has none: let "
                              "it remember keys",
                              inbox->name, driver->scheme);
    }
    consumer->takes_runs = count == consumer->group_count;
    if (count)
        consumer->options.order = SEMEL_ORDER_PARTITION;
    if (consumer->options.order == SEMEL_ORDER_PARTITION && !has_positions)
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "SEMEL_ORDER_PARTITION: a %s: transport has no partitions; take "
                          "SEMEL_ORDER_GROUP",
                          driver->scheme);
    return SEMEL_OK;
}

/* What the broker is to decide, it must be able to decide. */
static semel_status check_on_failure(const semel_consumer *consumer, semel_error *err)
{
    const semel_consumer_options *options = &consumer->options;
    if (options->on_failure == SEMEL_FAILURE_HOLD)
        return SEMEL_OK;
    if (options->order != SEMEL_ORDER_NONE)
        return semel_fail(err, SEMEL_EINVAL,
                          "semel_consumer_options: a delivery that goes back to the broker loses "
                          "its place in its %s, so on_failure must be SEMEL_FAILURE_HOLD",
                          options->order == SEMEL_ORDER_GROUP
                              ? "group: with SEMEL_ORDER_GROUP"
                              : "partition: with SEMEL_ORDER_PARTITION, or an inbox that remembers "
                                "positions");
    if (options->on_failure == SEMEL_FAILURE_REJECT &&
        !transport_keeps_rejected(consumer->transport))
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "SEMEL_FAILURE_REJECT: this %s: transport would lose what is rejected; "
                          "give its queue a dead-letter route (RabbitMQ: dead_letter=), or take "
                          "SEMEL_FAILURE_REQUEUE or SEMEL_FAILURE_HOLD",
                          consumer->transport->driver->scheme);
    return SEMEL_OK;
}

static semel_status consumer_read_options(semel_consumer_options *out,
                                          const semel_consumer_options *given, semel_error *err)
{
    semel_status status = options_read(out, sizeof *out, given, "semel_consumer_options", err);
    if (!status)
        status = consumer_check_choices(out, err);
    if (status)
        return status;
    out->backoff_ms = out->backoff_ms ? out->backoff_ms : 200;
    out->backoff_max_ms = out->backoff_max_ms ? out->backoff_max_ms : 60000;
    out->workers = out->workers ? out->workers : 1;
    out->attempts_max = out->attempts_max ? out->attempts_max : 5;
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
    consumer->terms.stopped = &consumer->stopped;
    consumer->terms.endless = consumer->options.on_failure != SEMEL_FAILURE_HOLD;
    if (!status)
        status = table_open(consumer, routes, count, err);
    if (!status)
        status = check_positions(consumer, err);
    if (!status)
        status = check_on_failure(consumer, err);
    if (!status)
        status = consumer_alloc(consumer, err);
    if (!status)
        status = extender_open(consumer, err);
    if (!status)
        status = consumer_open_retention(consumer, err);
    if (status)
        semel_consumer_close(consumer);
    else
        *out = consumer;
    return status;
}

/* --- closing ---------------------------------------------------------------------------------- */

/* Its health may be asked for meanwhile, and what is in flight is extended: the lock is held while
 * it changes. */
static void take_oldest(worker *w, uint32_t delay_ms)
{
    semel_consumer *consumer = w->consumer;
    job *j;
    w->count = 0;
    pthread_mutex_lock(&consumer->lock);
    while (w->count < consumer->batch_most && (j = inflight_next_oldest(&consumer->inflight))) {
        w->settles[w->count] = (semel_delivery_settlement){j->tag, SEMEL_VERDICT_RETRY, delay_ms};
        w->jobs[w->count++] = j;
    }
    pthread_mutex_unlock(&consumer->lock);
}

static void remove_taken(worker *w)
{
    semel_consumer *consumer = w->consumer;
    pthread_mutex_lock(&consumer->lock);
    for (size_t i = 0; i < w->count; i++)
        inflight_remove(&consumer->inflight, w->jobs[i]);
    pthread_mutex_unlock(&consumer->lock);
}

/* In the order of delivery, which a broker may keep, or all at once. That it fails is no loss: what
 * is not settled the broker delivers again anyway, when the transport is closed or the connection
 * ends. */
void consumer_give_back(semel_consumer *consumer, uint32_t delay_ms)
{
    worker *w = &consumer->workers[0];
    if (consumer->inflight.count)
        transport_give_back(consumer->transport);
    do {
        take_oldest(w, delay_ms);
        if (w->count)
            (void)semel_transport_settle(consumer->transport, w->settles, w->count, NULL);
        remove_taken(w);
    } while (w->count);
}

void semel_consumer_close(semel_consumer *consumer)
{
    if (!consumer)
        return;
    if (consumer->has_lock && transport_is_ours(consumer->transport)) {
        consumer_give_back(consumer, 0);
        pthread_cond_destroy(&consumer->changed);
        health_destroy(&consumer->health);
        pthread_mutex_destroy(&consumer->lock);
    }
    consumer_trace_close(consumer);
    for (uint32_t i = 0; consumer->workers && i < consumer->options.workers; i++)
        worker_free(&consumer->workers[i]);
    inflight_close(&consumer->inflight);
    extender_close(consumer);
    retention_close(&consumer->retention);
    mem_free(consumer->workers);
    mem_free(consumer->deliveries);
    table_close(consumer);
    mem_free(consumer);
}

/* --- stepping --------------------------------------------------------------------------------- */

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
        if (status || w->taken || !wait_ms || consumer_is_stopped(consumer))
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

/* What waits for its next attempt is not due. */
semel_health_part consumer_health(semel_consumer *consumer, uint32_t stalled_after_ms)
{
    pthread_mutex_lock(&consumer->lock);
    uint64_t waiting = consumer->inflight.count;
    int64_t busy_since = inflight_busy(&consumer->inflight) ? consumer->busy_since_ms : 0;
    pthread_mutex_unlock(&consumer->lock);
    return health_read(&consumer->health, waiting, busy_since, stalled_after_ms);
}
