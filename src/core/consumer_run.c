/* Running until stopped, with as many workers as asked for.
 *
 * All workers do the same: step after step. The caller's thread is the first of them, the others
 * are started here and have ended before the run returns. A worker that finds nothing to do
 * receives, one at a time; the others wait until there is something (consumer_worker.c).
 *
 * An outage that may pass is waited out by all together: the worker that meets it first says how
 * long, and the more often in a row, the longer. Those that were at work meanwhile and meet it,
 * too, do not make it longer. An error that will not pass ends the run: the others finish what they
 * have in work, and everything else goes back to the broker.
 *
 * Between two steps a worker does a step of retention if it is time (retention.c), but not in an
 * outage. Its failures do not concern the deliveries. */
#include "base/thread.h"
#include "core/consumer.h"

#include <string.h>

enum { SLICE_MS = 100, PIECE_MS = 50 };

/* --- outages (the lock is held) --------------------------------------------------------------- */

static void notify_outage(const semel_consumer *consumer, const semel_error *outage)
{
    if (consumer->options.notice)
        consumer->options.notice(consumer->options.notice_context, outage);
}

void outage_over(const worker *self, int outage)
{
    semel_consumer *consumer = self->consumer;
    if (!consumer->in_outage || self->seen != consumer->outage_errors)
        return;
    consumer->in_outage &= ~outage;
    if (consumer->in_outage)
        return;
    consumer->failures = 0;
    health_enter(&consumer->health, &consumer->transport->seam, SEMEL_HEALTH_OK, NULL);
    notify_outage(consumer, NULL);
}

static void begin_pause(semel_consumer *consumer)
{
    int64_t now = seam_steady_ms(&consumer->transport->seam);
    if (now < consumer->resume_ms)
        return;
    consumer->failures++;
    consumer->resume_ms = now + consumer_backoff_ms(consumer, consumer->failures);
}

void outage_begin(semel_consumer *consumer, int outage, const semel_error *why)
{
    if (!consumer->running)
        return;
    if (!why->retryable) {
        if (!consumer->failed)
            consumer->why = *why;
        consumer->failed = 1;
        pthread_cond_broadcast(&consumer->changed);
        return;
    }
    if (!outage)
        return;
    consumer->outage_errors++;
    if (!consumer->in_outage) {
        health_enter(&consumer->health, &consumer->transport->seam, SEMEL_HEALTH_WAITING, why);
        notify_outage(consumer, why);
    }
    consumer->in_outage |= outage;
    begin_pause(consumer);
}

/* --- retention -------------------------------------------------------------------------------- */

static void report_retention(void *context, const semel_error *trouble)
{
    semel_consumer *consumer = context;
    pthread_mutex_lock(&consumer->lock);
    notify_outage(consumer, trouble);
    pthread_mutex_unlock(&consumer->lock);
}

semel_status consumer_open_retention(semel_consumer *consumer, semel_error *err)
{
    semel_status status =
        retention_open(&consumer->retention, consumer->group_count, &consumer->transport->seam,
                       report_retention, consumer, err);
    for (size_t i = 0; !status && i < consumer->group_count; i++)
        if (!consumer->groups[i].unkeyed)
            retention_add(&consumer->retention, consumer->groups[i].inbox);
    return status;
}

static void keep_retention(semel_consumer *consumer)
{
    if (!retention_is_due(&consumer->retention))
        return;
    pthread_mutex_lock(&consumer->lock);
    int in_outage = consumer->in_outage;
    pthread_mutex_unlock(&consumer->lock);
    if (!in_outage)
        retention_step(&consumer->retention);
}

/* --- the workers ------------------------------------------------------------------------------ */

/* How long is still to be waited; -1: this is the end. */
static int64_t pause_left_ms(semel_consumer *consumer)
{
    pthread_mutex_lock(&consumer->lock);
    int64_t left = consumer->resume_ms - seam_steady_ms(&consumer->transport->seam);
    if (consumer->failed || consumer_is_stopped(consumer))
        left = -1;
    else if (left < 0)
        left = 0;
    pthread_mutex_unlock(&consumer->lock);
    return left;
}

static void *worker_loop(void *context)
{
    worker *self = context;
    semel_consumer *consumer = self->consumer;
    semel_error why;
    for (int64_t left; (left = pause_left_ms(consumer)) >= 0;) {
        size_t acked;
        if (left) {
            seam_sleep_ms(&consumer->transport->seam, left < PIECE_MS ? (uint32_t)left : PIECE_MS);
            continue;
        }
        keep_retention(consumer);
        if (!worker_step(self, retention_wait_ms(&consumer->retention, SLICE_MS), &acked, &why))
            continue;
        if (self->outage == OUTAGE_STORE)
            continue; /* it has been said */
        pthread_mutex_lock(&consumer->lock);
        outage_begin(consumer, self->outage, &why);
        pthread_mutex_unlock(&consumer->lock);
    }
    return NULL;
}

/* A thread that cannot be started ends the run, as any error that will not pass. */
static uint32_t start_workers(semel_consumer *consumer)
{
    uint32_t started = 1;
    int error = 0;
    while (started < consumer->options.workers && !error) {
        worker *next = &consumer->workers[started];
        error = thread_start(&next->thread, worker_loop, next);
        started += !error;
    }
    if (!error)
        return started;
    semel_error why;
    semel_fail(&why, SEMEL_ENOMEM, "worker %u of %u cannot be started: %s", started + 1,
               consumer->options.workers, strerror(error));
    pthread_mutex_lock(&consumer->lock);
    outage_begin(consumer, OUTAGE_NONE, &why);
    pthread_mutex_unlock(&consumer->lock);
    return started;
}

static semel_status run_workers(semel_consumer *consumer, semel_error *err)
{
    consumer->in_outage = 0;
    consumer->failures = 0;
    consumer->resume_ms = 0;
    consumer->failed = 0;
    consumer->running = 1;
    retention_start(&consumer->retention);
    health_enter(&consumer->health, &consumer->transport->seam, SEMEL_HEALTH_OK, NULL);
    uint32_t started = start_workers(consumer);
    worker_loop(&consumer->workers[0]);
    for (uint32_t i = 1; i < started; i++)
        pthread_join(consumer->workers[i].thread, NULL);
    consumer->running = 0;
    consumer->in_outage = 0; /* no worker waits it out any more, so none reports its end */
    health_enter(&consumer->health, &consumer->transport->seam,
                 consumer->failed ? SEMEL_HEALTH_FAILED : SEMEL_HEALTH_STOPPED,
                 consumer->failed ? &consumer->why : NULL);
    if (!consumer->failed)
        return SEMEL_OK;
    consumer->failed = 0;
    consumer_give_back(consumer, consumer_backoff_ms(consumer, 1));
    if (err)
        *err = consumer->why;
    return consumer->why.status;
}

semel_status semel_consumer_run(semel_consumer *consumer, semel_error *err)
{
    const semel_transport_driver *driver = consumer->transport->driver;
    if (consumer->options.workers > 1 && !(driver->abilities & SEMEL_TRANSPORT_SHARED))
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "a consumer with %u workers needs a transport that may be shared by "
                          "threads, and %s: may not; take one worker, or one transport and "
                          "consumer for each thread",
                          consumer->options.workers, driver->scheme);
    semel_status status = consumer_enter(consumer, err);
    if (status)
        return status;
    status = extender_start(consumer, err);
    if (!status)
        status = run_workers(consumer, err);
    extender_stop(consumer);
    consumer_leave(consumer);
    return status;
}

void semel_consumer_stop(semel_consumer *consumer)
{
    atomic_store(&consumer->stopped, 1);
}
