/* Settling: the verdicts of one call in one unit, its own or one that the caller commits; what is
 * rejected becomes a dead letter in the same one. Extending and giving back are units of their own.
 *
 * A delivery whose lease has ended and that another receiver has received since is lost to this
 * one: its verdict changes nothing, and is refused as that of an unknown tag. */
#include "transport/store/queue.h"

#include <stdio.h>
#include <string.h>

/* The deliveries that one call is about, and what the store is told of them, side by side. */
typedef struct queue_settling {
    store_queue *queue;
    queue_delivery **deliveries;
    semel_item_settlement *items;
    int *rejected;
    size_t count;
    size_t from, some; /* the part that the unit is about */
} queue_settling;

static semel_status settling_init(queue_settling *s, store_queue *queue, size_t count,
                                  semel_error *err)
{
    s->queue = queue;
    s->deliveries = mem_alloc(count * sizeof *s->deliveries);
    s->items = mem_alloc(count * sizeof *s->items);
    s->rejected = mem_alloc(count * sizeof *s->rejected);
    return s->deliveries && s->items && s->rejected
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ENOMEM, "out of memory settling %zu deliveries", count);
}

static void settling_free(queue_settling *s)
{
    mem_free(s->deliveries);
    mem_free(s->items);
    mem_free(s->rejected);
}

static void settling_add(queue_settling *s, queue_delivery *delivery, semel_verdict verdict,
                         uint32_t delay_ms)
{
    int rejected = verdict == SEMEL_VERDICT_REJECT;
    s->deliveries[s->count] = delivery;
    s->rejected[s->count] = rejected;
    s->items[s->count++] =
        (semel_item_settlement){.seq = delivery->seq,
                                .token = delivery->token,
                                .verdict = rejected ? SEMEL_VERDICT_ACK : verdict,
                                .delay_ms = delay_ms};
}

/* In as many units as the store's limit asks for, as a rule in one. */
static semel_status settling_run(queue_settling *s, const queue_step *step, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (s->from = 0; !status && s->from < s->count; s->from += s->some) {
        s->some = store_batch(s->queue->store, (uint32_t)(s->count - s->from));
        status = queue_transact(s->queue, step, s, err);
    }
    return queue_outage(status, err);
}

/* --- verdicts --------------------------------------------------------------------------------- */

/* One letter per message: see letter_key() in core/relay_lease.c. */
static semel_status keep_dead_letter(store_queue *queue, work_unit *unit,
                                     const queue_delivery *delivery, semel_error *err)
{
    enum { NUMBERS_TEXT = 48 };
    char key[SEMEL_TEXT_MAX + NUMBERS_TEXT];
    semel_bytes id = delivery->message->id;
    memcpy(key, id.data, id.len);
    int len = snprintf(key + id.len, NUMBERS_TEXT, "#%lld-%016llx", (long long)delivery->seq,
                       (unsigned long long)delivery->token);
    semel_dead dead = {.size = sizeof dead,
                       .origin = SEMEL_DEAD_QUEUE,
                       .name = queue->name,
                       .key = {key, id.len + (size_t)len},
                       .message = delivery->message,
                       .attempts = delivery->attempts,
                       .error = "rejected by a consumer"};
    return unit_put_letter(unit, &dead, err);
}

static semel_status settle_rows(store_queue *queue, work_unit *unit, void *context,
                                semel_error *err)
{
    const queue_settling *s = context;
    semel_item_settlement *items = s->items + s->from;
    semel_status status =
        queue->store->driver->outbox->settle(unit->state, queue->scope, items, s->some, err);
    for (size_t i = 0; !status && i < s->some; i++)
        if (s->rejected[s->from + i] && !items[i].lost)
            status = keep_dead_letter(queue, unit, s->deliveries[s->from + i], err);
    return status;
}

static const queue_step settle_step = {settle_rows, SEMEL_BEGIN_RELAXED, "settle.stored",
                                       "settle.committed"};

/* What was given back is settled already, as the consumer will have it. The number of tags that
 * are not out. */
static size_t take_deliveries(queue_settling *s, const semel_delivery_settlement settles[],
                              size_t count)
{
    size_t unknown = 0;
    pthread_mutex_lock(&s->queue->lock);
    for (size_t i = 0; i < count; i++) {
        queue_delivery *one = queue_deliveries_remove(&s->queue->out, settles[i].tag);
        unknown += !one;
        if (one && one->released)
            queue_delivery_free(one);
        else if (one)
            settling_add(s, one, settles[i].verdict, settles[i].delay_ms);
    }
    pthread_mutex_unlock(&s->queue->lock);
    return unknown;
}

/* The next of its group, or the message itself, may be had by another thread now. */
static int delivery_frees_others(const queue_delivery *delivery, semel_verdict verdict)
{
    const char *group = delivery->message->group;
    return verdict == SEMEL_VERDICT_RETRY || verdict == SEMEL_VERDICT_RELEASE || (group && *group);
}

static int frees_others(const queue_settling *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (delivery_frees_others(s->deliveries[i], s->items[i].verdict))
            return 1;
    return 0;
}

static semel_status check_verdicts(const semel_delivery_settlement settles[], size_t count,
                                   semel_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (settles[i].verdict != SEMEL_VERDICT_ACK && settles[i].verdict != SEMEL_VERDICT_RETRY &&
            settles[i].verdict != SEMEL_VERDICT_REJECT)
            return semel_fail(err, SEMEL_EINVAL, "there is no verdict %d for a delivery",
                              (int)settles[i].verdict);
    return SEMEL_OK;
}

static semel_status settle_taken(queue_settling *s, size_t *unknown, semel_error *err)
{
    semel_status status = settling_run(s, &settle_step, err);
    if (!status && frees_others(s))
        store_wake_scope(s->queue->store, s->queue->scope);
    for (size_t i = 0; i < s->count; i++) {
        *unknown += s->items[i].lost != 0;
        if (!status && s->rejected[i] && !s->items[i].lost)
            store_count(s->queue->store, TALLY_DEAD, 1);
        queue_delivery_free(s->deliveries[i]);
    }
    return status;
}

semel_status queue_settle(void *transport, const semel_delivery_settlement settles[], size_t count,
                          semel_error *err)
{
    queue_settling s = {0};
    if (!count)
        return SEMEL_OK;
    semel_status status = check_verdicts(settles, count, err);
    if (!status)
        status = settling_init(&s, transport, count, err);
    if (!status) {
        size_t unknown = take_deliveries(&s, settles, count);
        status = settle_taken(&s, &unknown, err);
        if (!status && unknown)
            status =
                semel_fail(err, SEMEL_EINVAL,
                           "%zu of %zu deliveries are not out (any more): settled before, or "
                           "their lease has ended and another has them; the others are settled",
                           unknown, count);
    }
    settling_free(&s);
    return status;
}

/* --- in a unit of the caller's ---------------------------------------------------------------- */

static semel_status fail_lost(size_t lost, size_t count, semel_error *err)
{
    return semel_fail(err, SEMEL_ELOST, "%zu of %zu deliveries are not out any more", lost, count);
}

/* The deliveries stay where they are: the unit may come to nothing. */
static size_t find_settled(queue_settling *s, const semel_delivery_settlement settles[],
                           size_t count)
{
    size_t lost = 0;
    pthread_mutex_lock(&s->queue->lock);
    for (size_t i = 0; i < count; i++) {
        queue_delivery *one = queue_deliveries_find(&s->queue->out, settles[i].tag);
        if (one && !one->released)
            settling_add(s, one, settles[i].verdict, settles[i].delay_ms);
        else
            lost++;
    }
    pthread_mutex_unlock(&s->queue->lock);
    return lost;
}

static semel_status settle_found(queue_settling *s, work_unit *unit, semel_error *err)
{
    size_t lost = 0;
    s->from = 0;
    s->some = s->count;
    semel_status status = settle_rows(s->queue, unit, s, err);
    for (size_t i = 0; !status && i < s->count; i++)
        lost += s->items[i].lost != 0;
    return lost ? fail_lost(lost, s->count, err) : status;
}

semel_status queue_settle_in(void *transport, semel_unit *handle,
                             const semel_delivery_settlement settles[], size_t count,
                             semel_error *err)
{
    queue_settling s = {0};
    semel_status status = check_verdicts(settles, count, err);
    if (!status)
        status = settling_init(&s, transport, count, err);
    if (!status) {
        size_t lost = find_settled(&s, settles, count);
        status = lost ? fail_lost(lost, count, err) : settle_found(&s, handle->of, err);
    }
    settling_free(&s);
    return status;
}

void queue_settled(void *transport, const semel_delivery_settlement settles[], size_t count)
{
    store_queue *queue = transport;
    int frees = 0;
    pthread_mutex_lock(&queue->lock);
    for (size_t i = 0; i < count; i++) {
        queue_delivery *one = queue_deliveries_remove(&queue->out, settles[i].tag);
        if (!one)
            continue;
        frees |= delivery_frees_others(one, settles[i].verdict);
        store_count(queue->store, TALLY_DEAD, settles[i].verdict == SEMEL_VERDICT_REJECT);
        queue_delivery_free(one);
    }
    pthread_mutex_unlock(&queue->lock);
    if (frees)
        store_wake_scope(queue->store, queue->scope);
}

/* --- extending -------------------------------------------------------------------------------- */

static semel_status extend_rows(store_queue *queue, work_unit *unit, void *context,
                                semel_error *err)
{
    const queue_settling *s = context;
    return queue->store->driver->outbox->extend(unit->state, queue->scope, s->items + s->from,
                                                s->some, queue->lease_ms, err);
}

static const queue_step extend_step = {extend_rows, SEMEL_BEGIN_RELAXED, "extend.stored",
                                       "extend.committed"};

static void find_deliveries(queue_settling *s, const uint64_t tags[], size_t count)
{
    pthread_mutex_lock(&s->queue->lock);
    for (size_t i = 0; i < count; i++) {
        queue_delivery *one = queue_deliveries_find(&s->queue->out, tags[i]);
        if (one && !one->released)
            settling_add(s, one, SEMEL_VERDICT_RETRY, 0);
    }
    pthread_mutex_unlock(&s->queue->lock);
}

/* The deliveries may be settled by other threads meanwhile: only their items are looked at. */
semel_status queue_extend(void *transport, const uint64_t tags[], size_t count, uint32_t *hold_ms,
                          semel_error *err)
{
    store_queue *queue = transport;
    queue_settling s = {0};
    semel_status status = count ? settling_init(&s, queue, count, err) : SEMEL_OK;
    if (!status && count) {
        find_deliveries(&s, tags, count);
        status = settling_run(&s, &extend_step, err);
    }
    settling_free(&s);
    if (!status)
        *hold_ms = queue->lease_ms;
    return status;
}

/* --- giving back ------------------------------------------------------------------------------ */

static void release_all(queue_settling *s)
{
    for (delivery_node *node = s->queue->out.list.first; node; node = node->behind) {
        queue_delivery *one = (queue_delivery *)node;
        if (!one->released) {
            one->released = 1;
            settling_add(s, one, SEMEL_VERDICT_RELEASE, 0);
        }
    }
}

/* If it fails, the leases end by themselves. */
void queue_give_back(void *transport)
{
    store_queue *queue = transport;
    queue_settling s = {0};
    pthread_mutex_lock(&queue->lock);
    semel_status status = settling_init(&s, queue, queue->out.table.count + 1, NULL);
    if (!status)
        release_all(&s);
    pthread_mutex_unlock(&queue->lock);
    if (!status && s.count && !settling_run(&s, &settle_step, NULL))
        store_wake_scope(queue->store, queue->scope);
    settling_free(&s);
}
