/* What was delivered and not settled.
 *
 * All have the same time to be settled in, so the list in the order of delivery is the list in the order
 * in which they lapse. A delivery that lapses gives its parcel back to the queue, but not its memory:
 * whoever received it may be reading it still, while another settles the next delivery of the same
 * message. It goes when its receiver settles it, too late. */
#include "transport/memory/unacked.h"

#include "base/mem.h"

static memory_delivery **bucket_of(const memory_out *out, uint64_t tag)
{
    return &out->buckets[tag & (out->bucket_count - 1)];
}

static void put_in_bucket(memory_out *out, memory_delivery *delivery)
{
    memory_delivery **bucket = bucket_of(out, delivery->tag);
    delivery->same_bucket = *bucket;
    *bucket = delivery;
}

int memory_out_make_room(memory_out *out, size_t room)
{
    memory_out old = *out;
    memory_delivery **buckets = mem_alloc(room * sizeof(memory_delivery *));
    if (!buckets)
        return 0;
    out->buckets = buckets;
    out->bucket_count = room;
    for (size_t i = 0; i < old.bucket_count; i++)
        for (memory_delivery *one = old.buckets[i], *next; one; one = next) {
            next = one->same_bucket;
            put_in_bucket(out, one);
        }
    mem_free(old.buckets);
    return 1;
}

static memory_delivery *new_delivery(memory_out *out)
{
    memory_delivery *delivery = out->spare;
    if (!delivery)
        return mem_alloc(sizeof *delivery);
    out->spare = delivery->same_bucket;
    *delivery = (memory_delivery){0};
    return delivery;
}

memory_delivery *memory_out_send(memory_out *out, memory_parcel *parcel, int64_t lapses_ms)
{
    memory_delivery *delivery = new_delivery(out);
    if (!delivery)
        return NULL;
    delivery->parcel = parcel;
    delivery->message = *parcel->message;
    delivery->message.delivery = ++parcel->deliveries;
    delivery->tag = ++out->last_tag;
    delivery->lapses_ms = lapses_ms;
    put_in_bucket(out, delivery);
    delivery->before = out->last;
    *(delivery->before ? &delivery->before->behind : &out->first) = delivery;
    out->last = delivery;
    return delivery;
}

memory_delivery *memory_out_find(const memory_out *out, uint64_t tag)
{
    memory_delivery *delivery = out->buckets ? *bucket_of(out, tag) : NULL;
    while (delivery && delivery->tag != tag)
        delivery = delivery->same_bucket;
    return delivery;
}

static void leave_list(memory_out *out, memory_delivery *delivery)
{
    *(delivery->before ? &delivery->before->behind : &out->first) = delivery->behind;
    *(delivery->behind ? &delivery->behind->before : &out->last) = delivery->before;
}

memory_parcel *memory_out_settle(memory_out *out, memory_delivery *delivery)
{
    memory_parcel *parcel = delivery->parcel;
    memory_delivery **at = bucket_of(out, delivery->tag);
    while (*at != delivery)
        at = &(*at)->same_bucket;
    *at = delivery->same_bucket;
    delivery->same_bucket = out->spare;
    delivery->parcel = NULL;
    out->spare = delivery;
    if (!delivery->lapsed) {
        leave_list(out, delivery);
        return parcel;
    }
    out->lapsed--;
    memory_parcel_release(parcel);
    return NULL;
}

memory_parcel *memory_out_lapse(memory_out *out, memory_delivery *delivery)
{
    leave_list(out, delivery);
    delivery->lapsed = 1;
    delivery->parcel->references++;
    out->lapsed++;
    return delivery->parcel;
}

static void free_chain(memory_delivery *delivery)
{
    while (delivery) {
        memory_delivery *next = delivery->same_bucket;
        if (delivery->parcel)
            memory_parcel_release(delivery->parcel);
        mem_free(delivery);
        delivery = next;
    }
}

void memory_out_free(memory_out *out)
{
    for (size_t i = 0; i < out->bucket_count; i++)
        free_chain(out->buckets[i]);
    free_chain(out->spare);
    mem_free(out->buckets);
}
