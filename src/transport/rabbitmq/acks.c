/* Each delivery by its own verdict. Acknowledgements are one frame for many only where that says
 * nothing about others: up to the first delivery of the channel that is not settled yet. If the
 * process dies before a verdict has reached the broker, or the connection is lost, the delivery
 * comes again. */
#include "base/wait.h"
#include "transport/rabbitmq/receiver.h"

enum { WRITE_MS = 10000 };

typedef struct tally {
    size_t unknown; /* tags that are not unsettled */
    size_t gone;    /* of a connection that is */
    uint64_t first_unknown;
} tally;

static void send_ack(rabbit_link *link, uint64_t broker_tag, int multiple)
{
    int code = amqp_basic_ack(link->connection, RABBIT_CHANNEL, broker_tag, multiple);
    if (code != AMQP_STATUS_OK)
        rabbit_link_broke(link, code, "acknowledging");
}

static void send_nack(rabbit_link *link, uint64_t broker_tag, int requeue)
{
    int code = amqp_basic_nack(link->connection, RABBIT_CHANNEL, broker_tag, 0, requeue);
    if (code != AMQP_STATUS_OK)
        rabbit_link_broke(link, code, "giving a message back");
}

/* Marks those to be acknowledged; sends the other verdicts. */
static void settle_one(rabbit_receiver *self, const semel_delivery_settlement *settle, tally *count)
{
    rabbit_delivery *one = rabbit_deliveries_find(&self->deliveries, settle->tag);
    if (!one || one->acked) {
        if (!count->unknown++)
            count->first_unknown = settle->tag;
        return;
    }
    if (one->broker_tag && settle->verdict == SEMEL_VERDICT_ACK) {
        one->acked = 1;
        self->pending++;
        self->hurry |= one->message->delivery > 1;
        return;
    }
    if (one->broker_tag)
        send_nack(&self->link, one->broker_tag, settle->verdict == SEMEL_VERDICT_RETRY);
    count->gone += !one->broker_tag; /* perhaps just now */
    rabbit_deliveries_settle(&self->deliveries, one);
}

/* Everything before the first that is not settled, in one frame. */
static void ack_finished(rabbit_receiver *self)
{
    uint64_t last = 0;
    size_t count = 0;
    for (rabbit_delivery *one;
         (one = rabbit_delivery_of(self->deliveries.unsettled.first)) != NULL && one->acked;
         count++) {
        last = one->broker_tag;
        rabbit_deliveries_settle(&self->deliveries, one);
    }
    if (count)
        send_ack(&self->link, last, count > 1);
}

/* What is left, behind something unfinished, one by one. */
static void ack_scattered(rabbit_receiver *self)
{
    for (rabbit_delivery *one = rabbit_delivery_of(self->deliveries.unsettled.first), *next; one;
         one = next) {
        next = rabbit_delivery_of(one->node.behind);
        if (!one->acked)
            continue;
        uint64_t broker_tag = one->broker_tag;
        rabbit_deliveries_settle(&self->deliveries, one);
        send_ack(&self->link, broker_tag, 0);
        if (!self->link.up)
            return; /* and the list has gone with it */
    }
}

void rabbit_receiver_flush(rabbit_receiver *self)
{
    if (!self->pending)
        return;
    self->pending = 0;
    self->hurry = 0;
    rabbit_link_write_begin(&self->link, wait_clock_ms() + WRITE_MS);
    ack_finished(self);
    if (self->link.up)
        ack_scattered(self);
    rabbit_link_write_end(&self->link);
}

static semel_status report_settled(const rabbit_link *link, const tally *count, size_t all,
                                   semel_error *err)
{
    if (count->unknown)
        return semel_fail(err, SEMEL_EINVAL,
                          "%zu of %zu deliveries are not out (any more), the first has tag %llu; "
                          "the others are settled",
                          count->unknown, all, (unsigned long long)count->first_unknown);
    if (count->gone || !link->up)
        return semel_fail(
            err, SEMEL_EUNAVAILABLE,
            "%zu of %zu deliveries came by a connection that is gone, and come again; %s",
            count->gone, all, link->trouble.text);
    return SEMEL_OK;
}

/* Acknowledgements wait for each other, while there is work: a broker writes each of them to its
 * disk. They go out when there are enough of them, before the consumer waits for more messages, and
 * twice a second. But acknowledgements of redelivered messages go out at once: where one message
 * kills process after process, the others must not come back with it each time and so reach their
 * delivery limit. */
semel_status rabbit_receiver_settle(rabbit_receiver *receiver,
                                    const semel_delivery_settlement settles[], size_t count,
                                    semel_error *err)
{
    tally seen = {0};
    pthread_mutex_lock(&receiver->link.lock);
    rabbit_link_write_begin(&receiver->link, wait_clock_ms() + WRITE_MS);
    for (size_t i = 0; i < count; i++)
        settle_one(receiver, &settles[i], &seen);
    rabbit_link_write_end(&receiver->link);
    if (receiver->hurry || receiver->pending >= receiver->pending_max)
        rabbit_receiver_flush(receiver);
    semel_status status = report_settled(&receiver->link, &seen, count, err);
    pthread_mutex_unlock(&receiver->link.lock);
    return status;
}

/* What does not go out comes again. */
static void flush_if_there_is_room(rabbit_receiver *receiver)
{
    if (receiver->link.up && rabbit_link_has_room(&receiver->link))
        rabbit_receiver_flush(receiver);
}

/* The thread that does this is the one that cuts what hangs: it must not hang itself. */
void rabbit_receiver_tend(rabbit_receiver *receiver)
{
    rabbit_link_tend(&receiver->link);
    if (pthread_mutex_trylock(&receiver->link.lock) != 0)
        return;
    flush_if_there_is_room(receiver);
    pthread_mutex_unlock(&receiver->link.lock);
}

void rabbit_receiver_finish(rabbit_receiver *receiver)
{
    pthread_mutex_lock(&receiver->link.lock);
    flush_if_there_is_room(receiver);
    pthread_mutex_unlock(&receiver->link.lock);
}

/* Nacks would come back behind the deliveries that are ready, and those that the broker sends
 * meanwhile. With the connection goes all that came by it, to its old place. */
void rabbit_receiver_give_back(rabbit_receiver *receiver)
{
    pthread_mutex_lock(&receiver->link.lock);
    rabbit_receiver_flush(receiver);
    rabbit_link_leave(&receiver->link, "everything was given back to the broker");
    receiver->wanted = 0;
    pthread_mutex_unlock(&receiver->link.lock);
}
