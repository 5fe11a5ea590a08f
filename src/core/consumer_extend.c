/* Renewing the ownership of deliveries in flight, for transports that take a delivery back after a
 * time (`extend` of the transport table). Handlers may take longer than that, and what waits for
 * its backoff stays in flight, too.
 *
 * While the consumer runs, a thread does it, since all workers may be in a handler: three times in
 * each period, so that a call that fails can be repeated before the time is over. A consumer that
 * is used step by step does it at the beginning of a step. A delivery that was taken back all the
 * same comes again, to this consumer or another one, where the inbox knows it. */
#include "base/thread.h"
#include "base/wait.h"
#include "core/consumer.h"

#include <string.h>

enum { PER_PERIOD = 3 };

static size_t list_tags(const inflight *in, uint64_t tags[])
{
    size_t count = 0;
    for (const job *j = in->all.first; j; j = j->newer)
        tags[count++] = j->tag;
    return count;
}

/* An outage is the workers' to notice; here the next time comes soon enough. */
static void extend_all(semel_consumer *consumer)
{
    extender *e = &consumer->extender;
    semel_error ignored;
    uint32_t hold_ms = e->hold_ms;
    size_t count = list_tags(&consumer->inflight, e->tags);
    e->due_ms = wait_clock_ms() + hold_ms / PER_PERIOD + 1; /* never at once */
    if (!count)
        return;
    pthread_mutex_unlock(&consumer->lock);
    semel_status status = transport_extend(consumer->transport, e->tags, count, &hold_ms, &ignored);
    pthread_mutex_lock(&consumer->lock);
    if (!status && hold_ms)
        e->hold_ms = hold_ms;
}

static void *extender_loop(void *context)
{
    semel_consumer *consumer = context;
    extender *e = &consumer->extender;
    pthread_mutex_lock(&consumer->lock);
    while (!e->ends) {
        struct timespec until = wait_until(e->due_ms);
        if (wait_clock_ms() < e->due_ms)
            pthread_cond_timedwait(&e->changed, &consumer->lock, &until);
        else
            extend_all(consumer);
    }
    pthread_mutex_unlock(&consumer->lock);
    return NULL;
}

semel_status extender_open(semel_consumer *consumer, semel_error *err)
{
    extender *e = &consumer->extender;
    const semel_transport_driver *driver = consumer->transport->driver;
    if (!driver->extend || !transport_is_ours(consumer->transport))
        return SEMEL_OK; /* in a child nothing will be received, either */
    if (!(driver->abilities & SEMEL_TRANSPORT_SHARED))
        return semel_fail(err, SEMEL_EINVAL,
                          "%s: a transport that has `extend` must be one that threads may share",
                          driver->scheme);
    e->tags = mem_alloc(consumer->inflight.max * sizeof *e->tags);
    if (!e->tags)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a consumer");
    semel_status status = transport_extend(consumer->transport, NULL, 0, &e->hold_ms, err);
    e->due_ms = wait_clock_ms() + e->hold_ms / PER_PERIOD;
    return status;
}

void extender_close(semel_consumer *consumer)
{
    mem_free(consumer->extender.tags);
}

semel_status extender_start(semel_consumer *consumer, semel_error *err)
{
    extender *e = &consumer->extender;
    e->ends = 0;
    if (!e->hold_ms)
        return SEMEL_OK;
    int error = wait_condition_init(&e->changed);
    if (!error && (error = thread_start(&e->thread, extender_loop, consumer)) != 0)
        pthread_cond_destroy(&e->changed);
    e->runs = !error;
    if (!error)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ENOMEM, "the thread that keeps deliveries cannot be started: %s",
                      strerror(error));
}

void extender_stop(semel_consumer *consumer)
{
    extender *e = &consumer->extender;
    if (!e->runs)
        return;
    pthread_mutex_lock(&consumer->lock);
    e->ends = 1;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&consumer->lock);
    pthread_join(e->thread, NULL);
    pthread_cond_destroy(&e->changed);
    e->runs = 0;
}

void extender_step(semel_consumer *consumer)
{
    extender *e = &consumer->extender;
    if (!e->hold_ms || wait_clock_ms() < e->due_ms)
        return;
    pthread_mutex_lock(&consumer->lock);
    extend_all(consumer);
    pthread_mutex_unlock(&consumer->lock);
}
