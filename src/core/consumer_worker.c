/* A worker's step: take or receive, handle, settle.
 *
 * Every delivery ends in exactly one verdict: ACK when each of its routes is settled, and REJECT for what is no
 * message at all, which must not come again nor hold up the others. One that has to come again is left to a
 * transport that can put it off (RETRY); where it cannot, or where order is kept, the job stays in flight, and the
 * broker hears nothing of it: a requeue would bring it back at once, behind others of its group, and use up its
 * delivery limit.
 *
 * When the store cannot be reached nothing is settled and nobody is blamed: the jobs stay in flight as they were,
 * and while there is one that may be handled, nothing more is received. What is locked by somebody
 * else (EBUSY, ECONFLICT) waits a little, so that others are handled meanwhile: it may be this one message only.
 *
 * If the process dies anywhere here, what was not settled comes again, and what was done is a duplicate then. */
#include "base/wait.h"
#include "core/consumer.h"

uint32_t consumer_backoff_ms(const semel_consumer *consumer, uint32_t failures)
{
    return seam_backoff_ms(&consumer->transport->seam, consumer->options.backoff_ms,
                           consumer->options.backoff_max_ms, failures ? failures : 1);
}

static int64_t now_ms(const semel_consumer *consumer)
{
    return seam_steady_ms(&consumer->transport->seam);
}

/* --- taking and receiving (the lock is held) --------------------------------------------------------------- */

/* Whoever leaves something to do wakes one who is idle, who will do the same. After an error that ends the run nobody
 * begins anything. */
static void worker_next_jobs(worker *self)
{
    semel_consumer *consumer = self->consumer;
    inflight *in = &consumer->inflight;
    int64_t now = in->waiting.first ? now_ms(consumer) : 0; /* else nobody asks for it */
    self->count =
        consumer->failed ? 0 : inflight_next(in, self->jobs, consumer->options.batch, now);
    self->seen = consumer->outage_errors; /* what is done now is newer than any outage until now */
    if (self->count && consumer->idle &&
        (in->ready.first || (!consumer->receiving && inflight_room(in))))
        pthread_cond_signal(&consumer->changed);
}

/* No longer than until something is due by itself. */
static uint32_t until_due(const semel_consumer *consumer, uint32_t wait_ms)
{
    int64_t due = inflight_due_ms(&consumer->inflight);
    if (due == INT64_MAX)
        return wait_ms;
    int64_t left = due - now_ms(consumer);
    return left >= (int64_t)wait_ms ? wait_ms : left > 1 ? (uint32_t)left : 1;
}

/* Without the lock while the transport waits: others work on. */
static semel_status worker_receive(worker *self, uint32_t wait_ms, semel_error *err)
{
    semel_consumer *consumer = self->consumer;
    uint32_t room = inflight_room(&consumer->inflight);
    uint32_t losses =
        consumer->losses; /* what a loss during the call leaves behind is not newer than it */
    size_t count = 0;
    consumer->receiving = 1;
    pthread_mutex_unlock(&consumer->lock);
    semel_status status = semel_transport_receive(
        consumer->transport, consumer->deliveries,
        room < consumer->receive_max ? room : consumer->receive_max, &count, wait_ms, err);
    pthread_mutex_lock(&consumer->lock);
    consumer->receiving = 0;
    if (status) {
        self->outage = OUTAGE_BROKER;
        consumer->losses++;
        return status;
    }
    outage_over(self, OUTAGE_BROKER);
    for (size_t i = 0; i < count; i++)
        inflight_add(&consumer->inflight, &consumer->deliveries[i], losses);
    return SEMEL_OK;
}

static void wait_for_change(semel_consumer *consumer, uint32_t wait_ms)
{
    struct timespec until = wait_until(wait_clock_ms() + wait_ms);
    consumer->idle++;
    pthread_cond_timedwait(&consumer->changed, &consumer->lock, &until);
    consumer->idle--;
}

static semel_status find_work(worker *self, uint32_t wait_ms, semel_error *err)
{
    semel_consumer *consumer = self->consumer;
    semel_status status = SEMEL_OK;
    worker_next_jobs(self);
    if (self->count || consumer->failed)
        return SEMEL_OK;
    if (wait_ms)
        wait_ms = until_due(consumer, wait_ms);
    if (!consumer->receiving && inflight_room(&consumer->inflight))
        status = worker_receive(self, wait_ms, err);
    else if (wait_ms)
        wait_for_change(consumer, wait_ms);
    if (!status)
        worker_next_jobs(self);
    return status;
}

/* --- after the work ------------------------------------------------------------------------------------------ */

static int broker_delays(const semel_consumer *consumer)
{
    return (consumer->transport->driver->abilities & SEMEL_TRANSPORT_DELAYS) &&
           consumer->options.order == SEMEL_ORDER_NONE;
}

static uint32_t delay_of(const semel_consumer *consumer, const job *j)
{
    uint32_t before = broker_delays(consumer) ? j->message->delivery : j->failures + 1;
    return consumer_backoff_ms(consumer, before + j->setbacks);
}

static semel_delivery_settlement verdict_of(const semel_consumer *consumer, const job *j)
{
    semel_delivery_settlement settle = {.tag = j->tag, .verdict = SEMEL_VERDICT_ACK};
    if (j->unusable) {
        settle.verdict = SEMEL_VERDICT_REJECT;
    } else if (j->unsettled) {
        settle.verdict = SEMEL_VERDICT_RETRY;
        settle.delay_ms = delay_of(consumer, j);
    }
    return settle;
}

/* The verdicts; what stays in flight gets none. */
static size_t choose_verdicts(worker *self, size_t *acked)
{
    semel_consumer *consumer = self->consumer;
    size_t count = 0;
    for (size_t i = 0; i < self->count; i++) {
        job *j = self->jobs[i];
        if (j->unsettled && !broker_delays(consumer))
            continue;
        self->settles[count] = verdict_of(consumer, j);
        self->settled[count] = j;
        *acked += self->settles[count++].verdict == SEMEL_VERDICT_ACK;
    }
    return count;
}

/* Whatever the transport says, these are no longer ours: what it could not settle comes again. That it does not know
 * some of them any more, because they took longer than it grants, is nobody's mistake. */
static semel_status worker_settle(worker *self, size_t count, semel_error *err)
{
    semel_error why;
    semel_status status =
        count ? semel_transport_settle(self->consumer->transport, self->settles, count, &why)
              : SEMEL_OK;
    if (status == SEMEL_EINVAL)
        return semel_fail(err, SEMEL_ELOST, "%s", why.text);
    if (status)
        *err = why;
    return status;
}

/* A connection that is lost takes along all that came by it, and much of that may still be in flight. Each of
 * these fails to be settled later; only the first says something new. */
static void note_loss(worker *self, size_t count, semel_status status)
{
    semel_consumer *consumer = self->consumer;
    if (!status || status == SEMEL_ELOST)
        return;
    for (size_t i = 0; i < count; i++)
        if (self->settled[i]->losses != consumer->losses)
            return;
    consumer->losses++;
    self->outage = OUTAGE_BROKER;
}

static void postpone_job(semel_consumer *consumer, job *j)
{
    inflight_postpone(&consumer->inflight, j, now_ms(consumer) + delay_of(consumer, j));
}

static semel_status settle_or_postpone(worker *self, size_t *acked, semel_error *err)
{
    semel_consumer *consumer = self->consumer;
    size_t count = choose_verdicts(self, acked);
    semel_status status = worker_settle(self, count, err);
    pthread_mutex_lock(&consumer->lock);
    note_loss(self, count, status);
    for (size_t i = 0; i < self->count; i++)
        if (self->jobs[i]->unsettled && !broker_delays(consumer))
            postpone_job(consumer, self->jobs[i]);
    for (size_t i = 0; i < count; i++)
        inflight_remove(&consumer->inflight, self->settled[i]);
    outage_over(self, OUTAGE_STORE | (count && !status ? OUTAGE_BROKER : 0));
    pthread_mutex_unlock(&consumer->lock);
    return status;
}

/* A commit without an answer was a start, at least: the next one is counted beforehand, or a message that takes its
 * connection down at each commit would be tried for ever. */
static void put_back_job(semel_consumer *consumer, job *j, semel_status status)
{
    int locked_out = status == SEMEL_EBUSY || status == SEMEL_ECONFLICT;
    if (status == SEMEL_EUNKNOWN && j->unsettled)
        j->failed = 1;
    if (j->failed || (locked_out && j->unsettled))
        postpone_job(consumer, j);
    else
        inflight_put_back(&consumer->inflight, j);
}

static void put_back_all(worker *self, semel_status status, const semel_error *why)
{
    semel_consumer *consumer = self->consumer;
    pthread_mutex_lock(&consumer->lock);
    for (size_t i = 0; i < self->count; i++)
        put_back_job(consumer, self->jobs[i], status);
    self->outage = OUTAGE_STORE;
    outage_begin(consumer, self->outage, why); /* before anybody else can take one of them */
    pthread_mutex_unlock(&consumer->lock);
}

semel_status worker_step(worker *self, uint32_t wait_ms, size_t *acked, semel_error *err)
{
    semel_consumer *consumer = self->consumer;
    size_t count = 0;
    self->outage = OUTAGE_NONE;
    pthread_mutex_lock(&consumer->lock);
    semel_status status = find_work(self, wait_ms, err);
    pthread_mutex_unlock(&consumer->lock);
    if (status || !self->count)
        return status;
    status = route_jobs(self, err);
    if (status)
        put_back_all(self, status, err);
    else if (!(status = settle_or_postpone(self, &count, err)))
        *acked = count;
    return status;
}
