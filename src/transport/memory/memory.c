/* The memory transport: one queue of messages, shared by all users of the handle.
 *
 *     memory:                      up to a million messages; what is not settled stays out for ever
 *     memory:?ack_ms=30000         an unsettled delivery comes back after this long
 *     memory:?messages_max=1000    a publish beyond it is refused
 *
 * A message is in one of three places. READY: it goes out in the order of publishing. UNACKED:
 * delivered, to be settled by its tag. LATER: on retry, until its delay is over; then READY again,
 * with its old place. So a message that comes back goes out before all that were published after it
 * and are still there; what went out while it was away has overtaken it, of its own group, too. A
 * consumer that needs strict order within a group takes one delivery at a time.
 *
 * Room in all three places is made when a message is published, so nothing that is settled or comes
 * back is lost for want of memory. Time is the seam's steady clock; only the waiting itself is
 * real. */
#include "transport/memory/memory.h"

#include "base/mem.h"
#include "base/seam.h"
#include "base/url.h"
#include "base/wait.h"
#include "transport/memory/unacked.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { MESSAGES_DEFAULT = 1000000, MESSAGES_LIMIT = 1000000000, ROOM_FIRST = 64 };

typedef struct memory_broker {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t waiting;
    const semel_seam *seam;
    uint32_t ack_ms; /* 0: never */
    uint32_t messages_max;
    size_t count; /* of messages, wherever they are */
    size_t room;  /* for so many there is room everywhere: a power of two */
    int64_t last_number;
    memory_heap ready;
    memory_unacked unacked;
    memory_heap later;
} memory_broker;

static int grow(memory_broker *self)
{
    size_t room = self->room ? self->room * 2 : ROOM_FIRST;
    if (!memory_heap_make_room(&self->ready, room) || !memory_heap_make_room(&self->later, room) ||
        !memory_unacked_make_room(&self->unacked, room))
        return 0;
    self->room = room;
    return 1;
}

/* --- opening ---------------------------------------------------------------------------------- */

static semel_status read_url(memory_broker *self, const char *text, semel_error *err)
{
    url parsed;
    semel_status status = url_parse(&parsed, text, err);
    if (!status && *parsed.rest)
        status = semel_fail(err, SEMEL_EINVAL, "URL: memory: takes no path, it has no address");
    if (!status)
        status = url_only(&parsed, "ack_ms,messages_max", err);
    if (!status)
        status = url_number(&self->ack_ms, &parsed, "ack_ms", 0, 0, UINT32_MAX, err);
    if (!status)
        status = url_number(&self->messages_max, &parsed, "messages_max", MESSAGES_DEFAULT, 1,
                            MESSAGES_LIMIT, err);
    return status;
}

static semel_status memory_check_url(const char *text, int receives, semel_error *err)
{
    memory_broker read = {.ack_ms = 0};
    (void)receives;
    return read_url(&read, text, err);
}

static semel_status memory_open(void *transport, const char *text,
                                const semel_transport_settings *settings, semel_error *err)
{
    memory_broker *self = transport;
    semel_status status = read_url(self, text, err);
    if (status)
        return status;
    self->seam = settings->seam;
    self->ready.order = memory_queued_number;
    self->later.order = memory_queued_due_ms;
    int error = pthread_mutex_init(&self->lock, NULL);
    if (!error && (error = wait_condition_init(&self->changed)) != 0)
        pthread_mutex_destroy(&self->lock);
    if (error)
        return semel_fail(err, SEMEL_ETRANSPORT, "no mutex for the memory transport: %s",
                          strerror(error));
    return SEMEL_OK;
}

static void memory_close(void *transport)
{
    memory_broker *self = transport;
    memory_heap_free(&self->ready);
    memory_heap_free(&self->later);
    memory_unacked_free(&self->unacked);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
}

static semel_durability memory_durability(const void *transport)
{
    (void)transport;
    return SEMEL_DURABLE_NOT;
}

/* --- publishing ------------------------------------------------------------------------------- */

static void wake_receivers(memory_broker *self)
{
    if (self->waiting)
        pthread_cond_broadcast(&self->changed);
}

/* Adds the messages in their order, as many as the limit and the memory allow; the rest is not
 * added, so nothing of a group comes in after one of its messages was refused. */
static size_t push_ready(memory_broker *self, memory_queued *const items[], size_t count, int *full)
{
    size_t pushed = 0;
    *full = 0;
    for (; pushed < count; pushed++) {
        *full = self->count >= self->messages_max;
        if (*full || (self->count == self->room && !grow(self)))
            break;
        items[pushed]->number = ++self->last_number;
        memory_heap_push(&self->ready, items[pushed]);
        self->count++;
    }
    return pushed;
}

static semel_status publish_all(memory_broker *self, semel_publish_result results[],
                                memory_queued *const items[], size_t count, semel_error *err)
{
    int full;
    pthread_mutex_lock(&self->lock);
    size_t pushed = push_ready(self, items, count, &full);
    wake_receivers(self);
    pthread_mutex_unlock(&self->lock);
    for (size_t i = 0; i < count; i++)
        results[i] = i < pushed ? SEMEL_PUBLISH_CONFIRMED
                     : full     ? SEMEL_PUBLISH_REFUSED
                                : SEMEL_PUBLISH_UNKNOWN;
    for (size_t i = pushed; i < count; i++)
        memory_queued_release(items[i]);
    if (pushed < count && !full)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory: %zu of %zu messages were published",
                          pushed, count);
    return SEMEL_OK;
}

/* The copies are made before the lock is taken, and before anything is published. */
static semel_status memory_publish(void *transport, semel_publish_result results[],
                                   const semel_message *const messages[], size_t count,
                                   uint32_t wait_ms, semel_error *err)
{
    size_t made = 0;
    semel_status status = SEMEL_OK;
    (void)wait_ms;
    for (size_t i = 0; i < count; i++)
        results[i] = SEMEL_PUBLISH_UNKNOWN;
    memory_queued **items = mem_alloc(count * sizeof(memory_queued *));
    if (!items)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu messages to publish", count);
    while (!status && made < count)
        if (!(status = memory_queued_new(&items[made], messages[made], err)))
            made++;
    if (!status)
        status = publish_all(transport, results, items, count, err);
    else
        while (made)
            memory_queued_release(items[--made]);
    mem_free(items);
    return status;
}

/* --- receiving -------------------------------------------------------------------------------- */

/* Those whose delay is over, and those that were not settled in time. */
static void collect_due(memory_broker *self, int64_t now_ms)
{
    while (self->later.count && self->later.items[0]->due_ms <= now_ms)
        memory_heap_push(&self->ready, memory_heap_pop(&self->later));
    for (memory_delivery *one;
         (one = memory_unacked_first(&self->unacked)) && one->lapses_ms <= now_ms;)
        memory_heap_push(&self->ready, memory_unacked_lapse(&self->unacked, one));
}

/* A receiver that never settles anything keeps memory with each delivery: up to the limit. */
static int may_deliver(const memory_broker *self)
{
    return self->ready.count && self->unacked.lapsed < self->messages_max;
}

static semel_status deliver_ready(memory_broker *self, semel_delivery deliveries[], size_t max,
                                  size_t *count, semel_error *err)
{
    int64_t now_ms = seam_steady_ms(self->seam);
    int64_t lapses_ms = self->ack_ms ? now_ms + self->ack_ms : INT64_MAX;
    collect_due(self, now_ms);
    for (*count = 0; *count < max && may_deliver(self); ++*count) {
        memory_delivery *one = memory_unacked_add(&self->unacked, self->ready.items[0], lapses_ms);
        if (!one)
            return *count ? SEMEL_OK
                          : semel_fail(err, SEMEL_ENOMEM, "out of memory to deliver a message");
        memory_heap_pop(&self->ready);
        deliveries[*count] =
            (semel_delivery){.tag = one->node.tag, .message = &one->message, .position = -1};
    }
    return SEMEL_OK;
}

/* How long until something is due by itself; INT64_MAX: nothing will be. */
static int64_t due_in_ms(const memory_broker *self)
{
    int64_t due = self->later.count ? self->later.items[0]->due_ms : INT64_MAX;
    const memory_delivery *first = memory_unacked_first(&self->unacked);
    if (first && first->lapses_ms < due)
        due = first->lapses_ms;
    if (due == INT64_MAX)
        return due;
    int64_t left = due - seam_steady_ms(self->seam);
    return left > 1 ? left : 1;
}

/* Until something changed or is due, or the end has come; 0 in the last case. */
static int wait_for_change(memory_broker *self, int64_t end_ms)
{
    int64_t now = wait_clock_ms();
    int64_t due_in = due_in_ms(self);
    if (now >= end_ms)
        return 0;
    struct timespec until = wait_until(due_in < end_ms - now ? now + due_in : end_ms);
    self->waiting++;
    pthread_cond_timedwait(&self->changed, &self->lock, &until);
    self->waiting--;
    return 1;
}

static semel_status memory_receive(void *transport, semel_delivery deliveries[], size_t max,
                                   size_t *count, uint32_t wait_ms, semel_error *err)
{
    memory_broker *self = transport;
    int64_t end_ms = wait_clock_ms() + wait_ms;
    semel_status status;
    size_t found;
    pthread_mutex_lock(&self->lock);
    do
        status = deliver_ready(self, deliveries, max, &found, err);
    while (!status && !found && wait_ms && wait_for_change(self, end_ms));
    pthread_mutex_unlock(&self->lock);
    if (!status)
        *count = found;
    return status;
}

/* --- settling --------------------------------------------------------------------------------- */

static void requeue(memory_broker *self, memory_queued *queued, uint32_t delay_ms)
{
    queued->due_ms = seam_steady_ms(self->seam) + delay_ms;
    memory_heap_push(delay_ms ? &self->later : &self->ready, queued);
    wake_receivers(self);
}

/* 0: there is no such delivery, or no longer. */
static int settle_one(memory_broker *self, const semel_delivery_settlement *settle)
{
    memory_delivery *delivery = memory_unacked_find(&self->unacked, settle->tag);
    memory_queued *queued = delivery ? memory_unacked_settle(&self->unacked, delivery) : NULL;
    if (!queued)
        return 0;
    if (settle->verdict == SEMEL_VERDICT_RETRY) {
        requeue(self, queued, settle->delay_ms);
        return 1;
    }
    self->count--;
    memory_queued_release(queued);
    return 1;
}

static semel_status memory_settle(void *transport, const semel_delivery_settlement settles[],
                                  size_t count, semel_error *err)
{
    memory_broker *self = transport;
    size_t unknown = 0;
    uint64_t tag = 0;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < count; i++)
        if (!settle_one(self, &settles[i]) && !unknown++)
            tag = settles[i].tag;
    pthread_mutex_unlock(&self->lock);
    if (unknown)
        return semel_fail(err, SEMEL_EINVAL,
                          "%zu of %zu deliveries are not out (any more), the first has tag %llu; "
                          "the others are settled",
                          unknown, count, (unsigned long long)tag);
    return SEMEL_OK;
}

/* --- counting --------------------------------------------------------------------------------- */

static semel_status memory_depth(void *transport, uint64_t *ready, semel_error *err)
{
    memory_broker *self = transport;
    (void)err;
    pthread_mutex_lock(&self->lock);
    collect_due(self, seam_steady_ms(self->seam));
    *ready = self->ready.count;
    pthread_mutex_unlock(&self->lock);
    return SEMEL_OK;
}

const semel_transport_driver memory_transport_driver = {
    .version = SEMEL_TRANSPORT_DRIVER_VERSION,
    .abilities = SEMEL_TRANSPORT_SHARED | SEMEL_TRANSPORT_ORDERED | SEMEL_TRANSPORT_COUNTS |
                 SEMEL_TRANSPORT_DELAYS,
    .scheme = "memory",
    .transport_size = sizeof(memory_broker),
    .open = memory_open,
    .close = memory_close,
    .durability = memory_durability,
    .publish = memory_publish,
    .receive = memory_receive,
    .settle = memory_settle,
    .depth = memory_depth,
    .check_url = memory_check_url,
};
