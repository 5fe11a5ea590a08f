/* What may get lost, and by which setting: said of what the URL uses and of nothing else.
 *
 * Not among it is whatever the broker tells the publisher, such as a message that no queue takes:
 * it comes back, and counts as a failure. */
#include "transport/common/losses.h"
#include "transport/rabbitmq/address.h"

#include <inttypes.h>

/* Since RabbitMQ 4.0 a quorum queue without a configured limit has this one. */
enum { LIMIT_SINCE = 4, LIMIT_USUAL = 20 };

static void write_limit_loss(losses *out, const rabbit_address *a, unsigned broker_major)
{
    int64_t limit = a->delivery_limit;
    if (limit == RABBIT_LIMIT_UNSET && broker_major >= LIMIT_SINCE)
        losses_add(
            out,
            "queue %s: a broker of this version drops a message that came back more than %d times; "
            "name an exchange with dead_letter=, or declare the queue with delivery_limit=-1",
            a->queue, LIMIT_USUAL);
    else if (limit >= 0)
        losses_add(out,
                   "queue %s: delivery_limit=%" PRId64
                   ": it drops a message that came back more often; name "
                   "an exchange with dead_letter=, or set delivery_limit=-1",
                   a->queue, limit);
}

static void write_queue_losses(losses *out, const rabbit_address *a, unsigned broker_major)
{
    if (!a->durable)
        losses_add(out, "queue %s: durable=no: its messages are gone when the broker restarts",
                   a->queue);
    if (a->quorum && !a->has_dead_letter)
        write_limit_loss(out, a, broker_major);
    if (!a->quorum && a->has_dead_letter)
        losses_add(
            out,
            "queue %s: dead_letter=%s: a classic queue republishes dead letters without confirms, "
            "and "
            "forgets them if that fails; type=quorum does not",
            a->queue, a->dead_letter);
    if (a->declare == RABBIT_TRUST)
        losses_add(
            out,
            "queue %s: declare=no: whether it is durable, and when it drops messages, was not "
            "checked",
            a->queue);
}

void rabbit_address_losses(char *out, size_t room, const rabbit_address *address,
                           unsigned broker_major)
{
    losses sentences = losses_begin(out, room);
    if (address->queue[0])
        write_queue_losses(&sentences, address, broker_major);
    if (!address->persistent)
        losses_add(&sentences, "persistent=no: what is published is gone when the broker restarts");
}
