/* What was delivered and not settled.
 *
 * All have the same time to be settled in, so the list in the order of delivery is the list in the order
 * in which they lapse. A delivery that lapses gives its message back to the queue, but not its memory:
 * the receiver may be reading it still, while another settles the next delivery of the same
 * message. It goes when its receiver settles it, too late. */
#include "transport/memory/unacked.h"

#include "base/mem.h"

static memory_delivery **bucket_of(const memory_unacked *unacked, uint64_t tag)
{
    return &unacked->buckets[tag & (unacked->bucket_count - 1)];
}

static void put_in_bucket(memory_unacked *unacked, memory_delivery *delivery)
{
    memory_delivery **bucket = bucket_of(unacked, delivery->tag);
    delivery->same_bucket = *bucket;
    *bucket = delivery;
}

int memory_unacked_make_room(memory_unacked *unacked, size_t room)
{
    memory_unacked old = *unacked;
    memory_delivery **buckets = mem_alloc(room * sizeof(memory_delivery *));
    if (!buckets)
        return 0;
    unacked->buckets = buckets;
    unacked->bucket_count = room;
    for (size_t i = 0; i < old.bucket_count; i++)
        for (memory_delivery *one = old.buckets[i], *next; one; one = next) {
            next = one->same_bucket;
            put_in_bucket(unacked, one);
        }
    mem_free(old.buckets);
    return 1;
}

static memory_delivery *new_delivery(memory_unacked *unacked)
{
    memory_delivery *delivery = unacked->spare;
    if (!delivery)
        return mem_alloc(sizeof *delivery);
    unacked->spare = delivery->same_bucket;
    *delivery = (memory_delivery){0};
    return delivery;
}

memory_delivery *memory_unacked_add(memory_unacked *unacked, memory_queued *queued,
                                    int64_t lapses_ms)
{
    memory_delivery *delivery = new_delivery(unacked);
    if (!delivery)
        return NULL;
    delivery->queued = queued;
    delivery->message = *queued->message;
    delivery->message.delivery = ++queued->deliveries;
    delivery->tag = ++unacked->last_tag;
    delivery->lapses_ms = lapses_ms;
    put_in_bucket(unacked, delivery);
    delivery->before = unacked->last;
    *(delivery->before ? &delivery->before->behind : &unacked->first) = delivery;
    unacked->last = delivery;
    return delivery;
}

memory_delivery *memory_unacked_find(const memory_unacked *unacked, uint64_t tag)
{
    memory_delivery *delivery = unacked->buckets ? *bucket_of(unacked, tag) : NULL;
    while (delivery && delivery->tag != tag)
        delivery = delivery->same_bucket;
    return delivery;
}

static void leave_list(memory_unacked *unacked, memory_delivery *delivery)
{
    *(delivery->before ? &delivery->before->behind : &unacked->first) = delivery->behind;
    *(delivery->behind ? &delivery->behind->before : &unacked->last) = delivery->before;
}

memory_queued *memory_unacked_settle(memory_unacked *unacked, memory_delivery *delivery)
{
    memory_queued *queued = delivery->queued;
    memory_delivery **at = bucket_of(unacked, delivery->tag);
    while (*at != delivery)
        at = &(*at)->same_bucket;
    *at = delivery->same_bucket;
    delivery->same_bucket = unacked->spare;
    delivery->queued = NULL;
    unacked->spare = delivery;
    if (!delivery->lapsed) {
        leave_list(unacked, delivery);
        return queued;
    }
    unacked->lapsed--;
    memory_queued_release(queued);
    return NULL;
}

memory_queued *memory_unacked_lapse(memory_unacked *unacked, memory_delivery *delivery)
{
    leave_list(unacked, delivery);
    delivery->lapsed = 1;
    delivery->queued->references++;
    unacked->lapsed++;
    return delivery->queued;
}

static void free_chain(memory_delivery *delivery)
{
    while (delivery) {
        memory_delivery *next = delivery->same_bucket;
        if (delivery->queued)
            memory_queued_release(delivery->queued);
        mem_free(delivery);
        delivery = next;
    }
}

void memory_unacked_free(memory_unacked *unacked)
{
    for (size_t i = 0; i < unacked->bucket_count; i++)
        free_chain(unacked->buckets[i]);
    free_chain(unacked->spare);
    mem_free(unacked->buckets);
}
