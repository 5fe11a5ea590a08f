/* A worker's turn: take or receive, handle, settle.
 *
 * Every delivery ends in exactly one verdict: ACK when each of its routes is settled, and REJECT for what is no
 * message at all, which must not come again nor hold up the others. One that has to come again is left to a
 * transport that can put it off (RETRY); where it cannot, or where order is kept, the job waits in hand, and the
 * broker hears nothing of it: a requeue would bring it back at once, behind others of its group, and use up its
 * delivery limit.
 *
 * When the store cannot be reached nothing is settled and nobody is blamed: the jobs stay in hand as they were,
 * and while there is something in hand that may be handled, nothing more is received. What is locked by somebody
 * else (EBUSY, ECONFLICT) waits a little, so that others get their turn: it may be this one message only.
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
static void take(worker *self)
{
    semel_consumer *consumer = self->consumer;
    hand *h = &consumer->hand;
    int64_t now = h->waiting.first ? now_ms(consumer) : 0; /* else nobody asks for it */
    self->count = consumer->failed ? 0 : hand_take(h, self->jobs, consumer->options.batch, now);
    self->seen = consumer->meetings; /* what is done now is newer than any trouble until now */
    if (self->count && consumer->idle && (h->ready.first || (!consumer->receiving && hand_room(h))))
        pthread_cond_signal(&consumer->changed);
}

/* No longer than until something is due by itself. */
static uint32_t shorten(const semel_consumer *consumer, uint32_t wait_ms)
{
    int64_t due = hand_due_ms(&consumer->hand);
    if (due == INT64_MAX)
        return wait_ms;
    int64_t left = due - now_ms(consumer);
    return left >= (int64_t)wait_ms ? wait_ms : left > 1 ? (uint32_t)left : 1;
}

/* Without the lock while the transport waits: others work on. */
static semel_status receive(worker *self, uint32_t wait_ms, semel_error *err)
{
    semel_consumer *consumer = self->consumer;
    uint32_t room = hand_room(&consumer->hand);
    uint32_t era =
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
        self->trouble = TROUBLE_BROKER;
        consumer->losses++;
        return status;
    }
    crew_trouble_over(self, TROUBLE_BROKER);
    for (size_t i = 0; i < count; i++)
        hand_add(&consumer->hand, &consumer->deliveries[i], era);
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
    take(self);
    if (self->count || consumer->failed)
        return SEMEL_OK;
    if (wait_ms)
        wait_ms = shorten(consumer, wait_ms);
    if (!consumer->receiving && hand_room(&consumer->hand))
        status = receive(self, wait_ms, err);
    else if (wait_ms)
        wait_for_change(consumer, wait_ms);
    if (!status)
        take(self);
    return status;
}

/* --- after the work ------------------------------------------------------------------------------------------ */

static int may_delegate(const semel_consumer *consumer)
{
    return (consumer->transport->driver->abilities & SEMEL_TRANSPORT_DELAYS) &&
           consumer->options.order == SEMEL_ORDER_NONE;
}

static uint32_t delay_of(const semel_consumer *consumer, const job *j)
{
    uint32_t before = may_delegate(consumer) ? j->message->delivery : j->failures + 1;
    return consumer_backoff_ms(consumer, before + j->setbacks);
}

static semel_delivery_settlement verdict_on(const semel_consumer *consumer, const job *j)
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

/* The verdicts; what is kept in hand gets none. */
static size_t judge(worker *self, size_t *acked)
{
    semel_consumer *consumer = self->consumer;
    size_t count = 0;
    for (size_t i = 0; i < self->count; i++) {
        job *j = self->jobs[i];
        if (j->unsettled && !may_delegate(consumer))
            continue;
        self->settles[count] = verdict_on(consumer, j);
        self->settled[count] = j;
        *acked += self->settles[count++].verdict == SEMEL_VERDICT_ACK;
    }
    return count;
}

/* Whatever the transport says, these are no longer ours: what it could not settle comes again. That it does not know
 * some of them any more, because they took longer than it grants, is nobody's mistake. */
static semel_status settle(worker *self, size_t count, semel_error *err)
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

/* A connection that is lost takes along all that came by it, and much of that may still be in hand. Each of these
 * fails to be settled in its turn; only the first says something new. */
static void note_loss(worker *self, size_t count, semel_status status)
{
    semel_consumer *consumer = self->consumer;
    if (!status || status == SEMEL_ELOST)
        return;
    for (size_t i = 0; i < count; i++)
        if (self->settled[i]->era != consumer->losses)
            return;
    consumer->losses++;
    self->trouble = TROUBLE_BROKER;
}

static void postpone(semel_consumer *consumer, job *j)
{
    hand_postpone(&consumer->hand, j, now_ms(consumer) + delay_of(consumer, j));
}

static semel_status settle_and_keep(worker *self, size_t *acked, semel_error *err)
{
    semel_consumer *consumer = self->consumer;
    size_t count = judge(self, acked);
    semel_status status = settle(self, count, err);
    pthread_mutex_lock(&consumer->lock);
    note_loss(self, count, status);
    for (size_t i = 0; i < self->count; i++)
        if (self->jobs[i]->unsettled && !may_delegate(consumer))
            postpone(consumer, self->jobs[i]);
    for (size_t i = 0; i < count; i++)
        hand_remove(&consumer->hand, self->settled[i]);
    crew_trouble_over(self, TROUBLE_STORE | (count && !status ? TROUBLE_BROKER : 0));
    pthread_mutex_unlock(&consumer->lock);
    return status;
}

/* A commit without an answer was a start, at least: the next one is counted beforehand, or a message that takes its
 * connection down at each commit would be tried for ever. */
static void keep(semel_consumer *consumer, job *j, semel_status status)
{
    int locked_out = status == SEMEL_EBUSY || status == SEMEL_ECONFLICT;
    if (status == SEMEL_EUNKNOWN && j->unsettled)
        j->failed = 1;
    if (j->failed || (locked_out && j->unsettled))
        postpone(consumer, j);
    else
        hand_put_back(&consumer->hand, j);
}

static void keep_all(worker *self, semel_status status, const semel_error *why)
{
    semel_consumer *consumer = self->consumer;
    pthread_mutex_lock(&consumer->lock);
    for (size_t i = 0; i < self->count; i++)
        keep(consumer, self->jobs[i], status);
    self->trouble = TROUBLE_STORE;
    crew_meet(consumer, self->trouble, why); /* before anybody else can take one of them */
    pthread_mutex_unlock(&consumer->lock);
}

semel_status worker_turn(worker *self, uint32_t wait_ms, size_t *acked, semel_error *err)
{
    semel_consumer *consumer = self->consumer;
    size_t count = 0;
    self->trouble = TROUBLE_NONE;
    pthread_mutex_lock(&consumer->lock);
    semel_status status = find_work(self, wait_ms, err);
    pthread_mutex_unlock(&consumer->lock);
    if (status || !self->count)
        return status;
    status = deal_with_jobs(self, err);
    if (status)
        keep_all(self, status, err);
    else if (!(status = settle_and_keep(self, &count, err)))
        *acked = count;
    return status;
}
