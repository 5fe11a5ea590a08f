/* The number of messages that are ready, by a connection of its own that is closed at once.
 *
 * The links of the transport are not used: on one that consumes, the answer would have to be told
 * from deliveries, with the lock held all the while; and if the queue is gone, the broker closes
 * the channel that asked. */
#include "transport/rabbitmq/depth.h"

#include "transport/rabbitmq/topology.h"

static semel_status ask(void *owner, rabbit_link *link, semel_error *err)
{
    return rabbit_topology_depth(link, owner, err);
}

/* Nothing is consumed, so no frame comes that was not asked for. */
static void ignore_frame(void *owner, rabbit_link *link, const amqp_frame_t *frame)
{
    (void)owner, (void)link, (void)frame;
}

static int keep_nothing(const void *owner)
{
    (void)owner;
    return 0;
}

static void lose_nothing(void *owner)
{
    (void)owner;
}

semel_status rabbit_depth(const rabbit_address *address, const semel_seam *seam, uint64_t *ready,
                          semel_error *err)
{
    static const rabbit_owner calls = {ask, ignore_frame, keep_nothing, lose_nothing};
    rabbit_link link = {.up = 0};
    uint64_t found = 0;
    if (!address->queue[0])
        return semel_fail(err, SEMEL_EMISUSE,
                          "this URL names no queue=, so there is none to count");
    semel_status status = rabbit_link_init(&link, address, seam, &calls, &found, err);
    if (status)
        return status;
    pthread_mutex_lock(&link.lock);
    status = rabbit_link_need(&link, 0, err);
    pthread_mutex_unlock(&link.lock);
    rabbit_link_close(&link);
    if (!status)
        *ready = found;
    return status;
}
