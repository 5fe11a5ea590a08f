/* Receiving: a lease in a short unit, repeated until it finds something or the time is over.
 *
 * A thread that waits is woken by what is published to this queue in this process, by what is
 * published in others where the store can tell, and by verdicts in this process, which may make
 * the next message of a group ready. For all else (a delay that ends, a verdict of another
 * process) it looks again every poll_ms. It listens before it looks, so no news is missed. */
#include "transport/store/queue.h"

#include "base/wait.h"

/* --- leasing ---------------------------------------------------------------------------------- */

typedef struct queue_lease {
    uint32_t limit;
    queue_delivery *first, **end;
} queue_lease;

static void lease_drop(queue_lease *lease)
{
    for (queue_delivery *one = lease->first, *next; one; one = next) {
        next = one->next;
        queue_delivery_free(one);
    }
    lease->first = NULL;
    lease->end = &lease->first;
}

static semel_status lease_add(const semel_item *item, void *context, semel_error *err)
{
    queue_lease *lease = context;
    semel_status status = queue_delivery_new(lease->end, item, err);
    if (!status)
        lease->end = &(*lease->end)->next;
    return status;
}

static semel_status lease_rows(store_queue *queue, work_unit *unit, void *context, semel_error *err)
{
    queue_lease *lease = context;
    lease_drop(lease); /* of a try that ended in a conflict */
    semel_status status = queue->store->driver->outbox->lease(
        unit->state, queue->scope, lease->limit, queue->lease_ms, lease_add, lease, err);
    if (!status && !lease->first && !store_unit_used(queue->store, unit->state))
        unit_tx_rollback(unit);
    return status;
}

static size_t hand_out(store_queue *queue, queue_lease *lease, semel_delivery deliveries[])
{
    size_t count = 0;
    pthread_mutex_lock(&queue->lock);
    for (queue_delivery *one = lease->first, *next; one; one = next) {
        next = one->next;
        queue_deliveries_add(&queue->out, one);
        deliveries[count++] =
            (semel_delivery){.tag = one->node.tag, .message = one->message, .position = -1};
    }
    pthread_mutex_unlock(&queue->lock);
    return count;
}

static semel_status receive_ready(store_queue *queue, semel_delivery deliveries[], size_t max,
                                  size_t *count, semel_error *err)
{
    static const queue_step step = {lease_rows, SEMEL_BEGIN_RELAXED, "deliver.stored",
                                    "deliver.committed"};
    queue_lease lease = {
        .limit = store_batch(queue->store, max < UINT32_MAX ? (uint32_t)max : UINT32_MAX)};
    lease.end = &lease.first;
    semel_status status = queue_transact(queue, &step, &lease, err);
    if (status)
        lease_drop(&lease);
    *count = status ? 0 : hand_out(queue, &lease, deliveries);
    return queue_outage(status, err);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static queue_waiter *idle_waiter(store_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue_waiter *one = queue->waiters;
    while (one && one->in_use)
        one = one->next;
    if (one)
        one->in_use = 1;
    pthread_mutex_unlock(&queue->lock);
    return one;
}

static semel_status waiter_enter(queue_waiter **out, store_queue *queue, semel_error *err)
{
    queue_waiter *waiter = idle_waiter(queue);
    if (!waiter) {
        waiter = mem_alloc(sizeof *waiter);
        semel_status status = waiter
                                  ? store_watch(queue->store, &waiter->watcher, queue->scope, err)
                                  : semel_fail(err, SEMEL_ENOMEM, "out of memory to wait");
        if (status) {
            mem_free(waiter);
            return status;
        }
        waiter->in_use = 1;
        pthread_mutex_lock(&queue->lock);
        waiter->next = queue->waiters;
        queue->waiters = waiter;
        pthread_mutex_unlock(&queue->lock);
    }
    *out = waiter;
    return SEMEL_OK;
}

static void waiter_leave(store_queue *queue, queue_waiter *waiter)
{
    pthread_mutex_lock(&queue->lock);
    waiter->in_use = 0;
    pthread_mutex_unlock(&queue->lock);
}

/* Until there may be something, or until it is time to look again; 0 when the time is over. */
static int wait_for_more(store_queue *queue, queue_waiter *waiter, int64_t end_ms)
{
    int64_t left = end_ms - wait_clock_ms();
    if (left <= 0)
        return 0;
    (void)store_wait(queue->store, &waiter->watcher, left < queue->poll_ms ? left : queue->poll_ms);
    return 1;
}

semel_status queue_receive(void *transport, semel_delivery deliveries[], size_t max, size_t *count,
                           uint32_t wait_ms, semel_error *err)
{
    store_queue *queue = transport;
    int64_t end_ms = wait_clock_ms() + wait_ms;
    queue_waiter *waiter = NULL;
    size_t found = 0;
    semel_status status = wait_ms ? waiter_enter(&waiter, queue, err) : SEMEL_OK;
    if (status)
        return status;
    do
        status = receive_ready(queue, deliveries, max, &found, err);
    while (!status && !found && waiter && wait_for_more(queue, waiter, end_ms));
    if (waiter)
        waiter_leave(queue, waiter);
    if (!status)
        *count = found;
    return status;
}
