/* A worker's step: take or receive, handle, settle.
 *
 * Every delivery ends in exactly one verdict: ACK when each of its routes is settled, and REJECT
 * for what is no message at all, which must not come again nor hold up the others. With
 * reject_dead, what became a dead letter by this delivery is rejected, too: if the process dies
 * between the commit of the letter and the verdict, the broker delivers it again, and a redelivery
 * of a dead message is rejected. One that has to
 * come again is left to a transport that can put it off (RETRY); where it cannot, or where order is
 * kept, the job stays in flight, and the broker hears nothing of it: a requeue would bring it back
 * at once, behind others of its group, and use up its delivery limit. With on_failure REQUEUE or
 * REJECT that is what the user wants, and the broker has to decide: then a delivery whose handler
 * failed leaves the consumer at once.
 *
 * When the store cannot be reached nothing is settled and no attempt counts: the jobs stay in
 * flight as they were, and while there is one that may be handled, nothing more is received. A job
 * whose rows another unit has locked (EBUSY, ECONFLICT) waits a little, so that others are handled
 * meanwhile: it may be this one message only.
 *
 * How many jobs a worker takes follows what it has seen (consumer_batch.h), unless the caller has
 * said a number. A job that was left because the time for its batch was over is the next one again,
 * as if it had not been taken: no attempt, no setback and no backoff.
 *
 * A delivery that the broker has taken back before it was handled (`revoked` of the transport
 * table) leaves the consumer with the verdict RETRY, and nothing of it is counted. If it is taken
 * back later, its work is a duplicate wherever it comes again, or the other way round.
 *
 * Where the queue is in the store of the inbox, most verdicts go with the commit of the work
 * (consumer_settle.c).
 *
 * If the process dies anywhere here, what was not settled comes again, and what was done is a
 * duplicate then. */
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

/* --- taking and receiving (the lock is held) -------------------------------------------------- */

/* What is ready is shared by the workers that have nothing in work; a step has one worker. */
static size_t take_share(worker *self, int64_t now)
{
    semel_consumer *consumer = self->consumer;
    inflight *in = &consumer->inflight;
    uint32_t workers = consumer->running ? consumer->options.workers - consumer->working : 1;
    if (!consumer->takes_runs)
        return inflight_next(in, self->jobs,
                             batch_limit_share(&self->limit, in->ready_count, workers), now);
    uint32_t chains = (in->ready_count + workers - 1) / workers;
    return inflight_next_runs(in, self->jobs, self->limit.now, chains, now);
}

/* A worker that leaves something to do wakes an idle worker, which then does the same. After an
 * error that ends the run no worker takes anything. */
static void worker_next_jobs(worker *self)
{
    semel_consumer *consumer = self->consumer;
    inflight *in = &consumer->inflight;
    int64_t now = in->waiting.first ? now_ms(consumer) : 0; /* else it is not used */
    inflight_refresh(in, now);
    self->count = consumer->failed ? 0 : take_share(self, now);
    if (self->count) {
        consumer->busy_since_ms = wait_clock_ms();
        consumer->working++;
    }
    self->seen = consumer->outage_errors; /* what is done now is newer than any outage until now */
    if (self->count && consumer->idle &&
        (in->ready.first || (!consumer->receiving && inflight_room(in))))
        pthread_cond_signal(&consumer->changed);
}

/* No more than the workers can take: what the consumer holds, no other process can handle. */
static uint32_t receive_max(const worker *self)
{
    const semel_consumer *consumer = self->consumer;
    uint32_t room = inflight_room(&consumer->inflight);
    uint32_t most = consumer->running ? consumer->limits : self->limit.now;
    most = most < consumer->delivery_room ? most : consumer->delivery_room;
    return room < most ? room : most;
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
    uint32_t max = receive_max(self);
    uint32_t losses =
        consumer->losses; /* what a loss during the call leaves behind is not newer than it */
    size_t count = 0;
    consumer->receiving = 1;
    pthread_mutex_unlock(&consumer->lock);
    int64_t started_ns = consumer_trace_receiving(consumer);
    semel_status status = semel_transport_receive(consumer->transport, consumer->deliveries, max,
                                                  &count, wait_ms, err);
    consumer_trace_received(consumer, status ? 0 : count, started_ns, status ? err->text : NULL);
    pthread_mutex_lock(&consumer->lock);
    consumer->receiving = 0;
    if (status) {
        self->outage = OUTAGE_BROKER;
        consumer->losses++;
        return status;
    }
    outage_over(self, OUTAGE_BROKER);
    if (count)
        consumer->busy_since_ms = wait_clock_ms();
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

/* --- after the work --------------------------------------------------------------------------- */

static int broker_delays(const semel_consumer *consumer)
{
    return (consumer->transport->driver->abilities & SEMEL_TRANSPORT_DELAYS) &&
           consumer->options.order == SEMEL_ORDER_NONE;
}

/* Attempts that the backoff counts, the last one included. */
static uint32_t tries_of(const semel_consumer *consumer, const job *j)
{
    uint32_t tries = broker_delays(consumer) ? j->message->delivery : j->failures + 1;
    return tries + j->setbacks;
}

static uint32_t delay_of(const semel_consumer *consumer, const job *j)
{
    return consumer_backoff_ms(consumer, tries_of(consumer, j));
}

/* With REJECT it does not come again; with REQUEUE the broker says when, if it cannot be told. */
static int knows_retry(const semel_consumer *consumer)
{
    semel_on_failure policy = consumer->options.on_failure;
    return policy == SEMEL_FAILURE_HOLD ||
           (policy == SEMEL_FAILURE_REQUEUE && broker_delays(consumer));
}

uint32_t worker_retry_ms(void *worker_, const semel_message *message)
{
    const worker *self = worker_;
    const semel_consumer *consumer = self->consumer;
    for (size_t i = 0; knows_retry(consumer) && i < self->count; i++)
        if (self->jobs[i]->message == message) {
            uint32_t tries = tries_of(consumer, self->jobs[i]);
            return seam_backoff_most_ms(consumer->options.backoff_ms,
                                        consumer->options.backoff_max_ms, tries ? tries : 1);
        }
    return 0;
}

/* Is it the broker that decides what becomes of this failure? */
static int is_left_to_broker(const semel_consumer *consumer, const job *j)
{
    return j->failed && consumer->options.on_failure != SEMEL_FAILURE_HOLD;
}

/* Its turn did not come in this step; unless a route before had tried, and failed. */
static int is_left(const job *j)
{
    return j->left && !j->failed;
}

/* A handler that ended early has not failed, and the broker need not count a delivery: the job is
 * given back when the consumer is closed. */
static int stays_in_flight(const semel_consumer *consumer, const job *j)
{
    return !j->revoked && j->unsettled && !is_left_to_broker(consumer, j) &&
           (j->stopped || is_left(j) || !broker_delays(consumer));
}

static int is_rejected(const semel_consumer *consumer, const job *j)
{
    const semel_consumer_options *options = &consumer->options;
    if (j->unsettled)
        return options->on_failure == SEMEL_FAILURE_REJECT && is_left_to_broker(consumer, j);
    return j->dead && options->reject_dead;
}

static semel_delivery_settlement verdict_of(const semel_consumer *consumer, const job *j)
{
    semel_delivery_settlement settle = {.tag = j->tag, .verdict = SEMEL_VERDICT_ACK};
    if (j->revoked) {
        settle.verdict = SEMEL_VERDICT_RETRY;
        return settle;
    }
    if (j->unusable || is_rejected(consumer, j)) {
        settle.verdict = SEMEL_VERDICT_REJECT;
    } else if (j->unsettled) {
        settle.verdict = SEMEL_VERDICT_RETRY;
        settle.delay_ms = broker_delays(consumer) ? delay_of(consumer, j) : 0;
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
        if (stays_in_flight(consumer, j))
            continue;
        self->settles[count] = verdict_of(consumer, j);
        self->settled[count] = j;
        *acked += self->settles[count++].verdict == SEMEL_VERDICT_ACK;
    }
    return count;
}

/* Whatever the transport answers, these deliveries leave the consumer: what the transport could not
 * settle comes again. A transport may have forgotten some of them, because they took longer than it
 * grants; that is no error of the run. */
static semel_status worker_settle(worker *self, size_t count, semel_error *err)
{
    semel_error why;
    if (!count)
        return SEMEL_OK;
    int64_t started_ns = worker_trace_settling(self, count);
    semel_status status =
        semel_transport_settle(self->consumer->transport, self->settles, count, &why);
    worker_trace_settled(self, count, started_ns, status ? why.text : NULL);
    if (status == SEMEL_EINVAL)
        return semel_fail(err, SEMEL_ELOST, "%s", why.text);
    if (status)
        *err = why;
    return status;
}

/* A connection that is lost takes along all that came by it, and much of that may still be in
 * flight. Each of these fails to be settled later; only the first says something new. */
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

/* Those that were left keep their order. */
static void keep_jobs(worker *self)
{
    semel_consumer *consumer = self->consumer;
    for (size_t i = 0; i < self->count; i++)
        if (stays_in_flight(consumer, self->jobs[i]) && !is_left(self->jobs[i]))
            postpone_job(consumer, self->jobs[i]);
    for (size_t i = self->count; i > 0; i--)
        if (is_left(self->jobs[i - 1]))
            inflight_put_first(&consumer->inflight, self->jobs[i - 1]);
    if (consumer->inflight.ready.first && consumer->idle)
        pthread_cond_signal(&consumer->changed);
}

/* What the step says about the next batch. Before any job leaves the worker. */
static batch_seen see_step(const worker *self, int64_t whole_ms)
{
    batch_seen seen = {.taken = (uint32_t)self->count,
                       .handled = (uint32_t)self->count,
                       .handlers_ms = self->handlers_ms,
                       .whole_ms = whole_ms};
    for (size_t i = 0; i < self->count; i++) {
        const job *j = self->jobs[i];
        seen.handled -= is_left(j) ? 1 : 0;
        seen.troubled |= j->failed || j->dead || (j->unsettled && !is_left(j));
    }
    return seen;
}

static void note_step(worker *self, const batch_seen *seen)
{
    uint32_t before = self->limit.now;
    batch_limit_note(&self->limit, seen);
    self->consumer->limits += self->limit.now - before;
}

static semel_status settle_or_postpone(worker *self, const batch_seen *seen, size_t *acked,
                                       semel_error *err)
{
    semel_consumer *consumer = self->consumer;
    size_t count = choose_verdicts(self, acked);
    semel_status status = worker_settle(self, count, err);
    pthread_mutex_lock(&consumer->lock);
    consumer->working--;
    note_loss(self, count, status);
    note_step(self, seen);
    for (size_t i = 0; i < count; i++)
        inflight_remove(&consumer->inflight, self->settled[i]);
    keep_jobs(self); /* the first one that is left of a chain is its first one now */
    outage_over(self, OUTAGE_STORE | (count && !status ? OUTAGE_BROKER : 0));
    pthread_mutex_unlock(&consumer->lock);
    return status;
}

/* A commit without an answer was a start, at least: the next one is counted beforehand, or a
 * message that takes its connection down at each commit would be tried for ever. */
static void put_back_job(semel_consumer *consumer, job *j, semel_status status)
{
    int locked_out = status == SEMEL_EBUSY || status == SEMEL_ECONFLICT;
    if (status == SEMEL_EUNKNOWN && j->unsettled)
        j->failed = 1;
    if (j->failed || (locked_out && j->unsettled && !j->left))
        postpone_job(consumer, j);
    else
        inflight_put_back(&consumer->inflight, j);
}

static void put_back_all(worker *self, semel_status status, const semel_error *why)
{
    semel_consumer *consumer = self->consumer;
    pthread_mutex_lock(&consumer->lock);
    consumer->working--;
    consumer->limits -= self->limit.now;
    batch_limit_reset(&self->limit);
    consumer->limits += self->limit.now;
    for (size_t i = 0; i < self->count; i++)
        put_back_job(consumer, self->jobs[i], status);
    self->outage = OUTAGE_STORE;
    outage_begin(consumer, self->outage, why); /* before another worker can take one of them */
    pthread_mutex_unlock(&consumer->lock);
}

/* Just before they are handled. */
static void ask_revoked(worker *self)
{
    const semel_transport *transport = self->consumer->transport;
    if (!transport->driver->revoked)
        return;
    for (size_t i = 0; i < self->count; i++) {
        job *j = self->jobs[i];
        j->revoked = j->revoked || transport->driver->revoked(transport->state, j->tag);
    }
}

semel_status worker_step(worker *self, uint32_t wait_ms, size_t *acked, semel_error *err)
{
    semel_consumer *consumer = self->consumer;
    size_t count = 0;
    self->outage = OUTAGE_NONE;
    self->taken = 0;
    pthread_mutex_lock(&consumer->lock);
    semel_status status = find_work(self, wait_ms, err);
    pthread_mutex_unlock(&consumer->lock);
    if (status || !self->count)
        return status;
    int64_t began_ms = self->terms.pace ? now_ms(consumer) : 0;
    self->taken = self->count;
    ask_revoked(self);
    status = route_jobs(self, err);
    batch_seen seen = see_step(self, self->terms.pace ? now_ms(consumer) - began_ms : 0);
    count = worker_end_settled(self);
    if (status)
        put_back_all(self, status, err);
    else if (!(status = settle_or_postpone(self, &seen, &count, err)))
        *acked = count;
    if (count && !status)
        health_moved(&consumer->health, &consumer->transport->seam);
    return status;
}
