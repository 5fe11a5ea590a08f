/* Settling deliveries by the commit of their work, where the queue is in the store of the inbox.
 *
 * One transaction marks the keys of a batch, holds what the handlers wrote and removes the messages
 * from the queue (settle_in of the transport table). It is for messages that exactly one group of
 * routes takes: one that several take is settled when the last of them is done. What the
 * transaction does not decide is received in the ordinary way, and settled after it: redeliveries,
 * which count their attempts, messages without a key, and all of a batch that failed as a whole. So
 * are failures, refusals, and all that is to come again.
 *
 * If the process dies before the commit, all of it comes again when the leases end; after it, it is
 * handled and gone. If the end of a commit is not known, the jobs stay in flight: what is handled
 * is a duplicate then, and its delivery unknown to the queue. */
#include "core/consumer.h"

static int has_one_group(const semel_consumer *consumer, const semel_message *message)
{
    size_t fitting = 0;
    for (size_t i = 0; i < consumer->group_count; i++)
        fitting += (size_t)group_fits(&consumer->groups[i], message);
    return fitting == 1;
}

int can_settle_in_unit(const worker *self, const route_group *group, size_t chosen)
{
    const semel_consumer *consumer = self->consumer;
    const semel_inbox *inbox = group->inbox;
    if (chosen < 2 || group->unkeyed || inbox->positions || inbox->options.mode == SEMEL_CLAIM ||
        !transport_is_in(consumer->transport, inbox->store))
        return 0;
    for (size_t i = 0; consumer->group_count > 1 && i < chosen; i++)
        if (!has_one_group(consumer, self->chosen[i]))
            return 0;
    return 1;
}

static job *chosen_job(const worker *self, size_t index)
{
    return self->jobs[self->chosen_index[index]];
}

/* 0: it is settled in the ordinary way. A dead letter is rejected, too, if that is wanted. */
static semel_verdict verdict_in_unit(const worker *self, size_t index)
{
    semel_outcome outcome = self->outcomes[index];
    if (!semel_outcome_settled(outcome))
        return (semel_verdict)0;
    int dead =
        outcome == SEMEL_DEAD && (self->buried[index] || chosen_job(self, index)->redelivered);
    return dead && self->consumer->options.reject_dead ? SEMEL_VERDICT_REJECT : SEMEL_VERDICT_ACK;
}

static semel_status settle_chosen(void *context, work_unit *unit, size_t from, size_t count,
                                  semel_error *err)
{
    worker *self = context;
    const semel_transport *transport = self->consumer->transport;
    size_t chosen = 0;
    for (size_t i = from; i < from + count; i++) {
        semel_verdict verdict = verdict_in_unit(self, i);
        if (verdict)
            self->settles[chosen++] =
                (semel_delivery_settlement){.tag = chosen_job(self, i)->tag, .verdict = verdict};
    }
    return chosen ? transport->driver->settle_in(transport->state, unit_handle(unit), self->settles,
                                                 chosen, err)
                  : SEMEL_OK;
}

static void swap_chosen(worker *self, size_t a, size_t b)
{
    const semel_message *message = self->chosen[a];
    size_t index = self->chosen_index[a];
    semel_outcome outcome = self->outcomes[a];
    int buried = self->buried[a];
    self->chosen[a] = self->chosen[b];
    self->chosen_index[a] = self->chosen_index[b];
    self->outcomes[a] = self->outcomes[b];
    self->buried[a] = self->buried[b];
    self->chosen[b] = message;
    self->chosen_index[b] = index;
    self->outcomes[b] = outcome;
    self->buried[b] = buried;
}

semel_status receive_settling(worker *self, const route_group *group, size_t chosen,
                              size_t *decided, semel_error *err)
{
    const batch_settler settler = {.context = self, .settle = settle_chosen};
    unit_terms terms = self->terms;
    terms.settler = &settler;
    semel_status status =
        inbox_receive_batch(self->outcomes, self->buried, group->inbox, self->chosen, chosen,
                            group->handler, group->context, &terms, err);
    *decided = 0;
    for (size_t i = 0; i < chosen; i++) {
        if (self->outcomes[i] == SEMEL_UNDECIDED)
            continue;
        chosen_job(self, i)->settled = verdict_in_unit(self, i);
        swap_chosen(self, (*decided)++, i);
    }
    return status;
}

size_t worker_end_settled(worker *self)
{
    semel_consumer *consumer = self->consumer;
    const semel_transport *transport = consumer->transport;
    size_t ended = 0, kept = 0, acked = 0;
    for (size_t i = 0; i < self->count; i++) {
        job *j = self->jobs[i];
        if (!j->settled) {
            self->jobs[kept++] = j;
            continue;
        }
        acked += j->settled == SEMEL_VERDICT_ACK;
        self->settles[ended] = (semel_delivery_settlement){.tag = j->tag, .verdict = j->settled};
        self->settled[ended++] = j;
    }
    if (!ended)
        return 0;
    self->count = kept;
    transport->driver->settled(transport->state, self->settles, ended);
    pthread_mutex_lock(&consumer->lock);
    for (size_t i = 0; i < ended; i++)
        inflight_remove(&consumer->inflight, self->settled[i]);
    pthread_mutex_unlock(&consumer->lock);
    return acked;
}
