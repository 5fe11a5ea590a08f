/* Deliveries that are out, by tag: a hash table that grows if it can, and has longer chains if it cannot. */
#include "transport/store/queue.h"

enum { BUCKETS_FIRST = 64 };

int queue_deliveries_init(queue_deliveries *out)
{
    out->buckets = mem_alloc(BUCKETS_FIRST * sizeof *out->buckets);
    out->bucket_count = out->buckets ? BUCKETS_FIRST : 0;
    return out->buckets != NULL;
}

void queue_deliveries_free(queue_deliveries *out)
{
    for (size_t i = 0; i < out->bucket_count; i++)
        for (queue_delivery *one = out->buckets[i], *next; one; one = next) {
            next = one->next;
            queue_delivery_free(one);
        }
    mem_free(out->buckets);
}

semel_status queue_delivery_new(queue_delivery **out, const semel_item *item, semel_error *err)
{
    queue_delivery *delivery = mem_alloc(sizeof *delivery);
    if (!delivery)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a delivery");
    semel_status status = semel_message_copy(&delivery->message, item->message, err);
    if (status) {
        mem_free(delivery);
        return status;
    }
    delivery->seq = item->seq;
    delivery->token = item->token;
    delivery->attempts = item->attempts;
    delivery->message->delivery = item->attempts;
    *out = delivery;
    return SEMEL_OK;
}

void queue_delivery_free(queue_delivery *delivery)
{
    semel_message_free(delivery->message);
    mem_free(delivery);
}

static queue_delivery **bucket_of(const queue_deliveries *out, uint64_t tag)
{
    return &out->buckets[tag & (out->bucket_count - 1)];
}

static void put_in_bucket(queue_deliveries *out, queue_delivery *delivery)
{
    queue_delivery **bucket = bucket_of(out, delivery->tag);
    delivery->next = *bucket;
    *bucket = delivery;
}

static void grow(queue_deliveries *out)
{
    queue_deliveries old = *out;
    queue_delivery **buckets = mem_alloc(old.bucket_count * 2 * sizeof *buckets);
    if (!buckets)
        return;
    out->buckets = buckets;
    out->bucket_count = old.bucket_count * 2;
    for (size_t i = 0; i < old.bucket_count; i++)
        for (queue_delivery *one = old.buckets[i], *next; one; one = next) {
            next = one->next;
            put_in_bucket(out, one);
        }
    mem_free(old.buckets);
}

void queue_deliveries_add(queue_deliveries *out, queue_delivery *delivery)
{
    if (out->count == out->bucket_count)
        grow(out);
    delivery->tag = ++out->last_tag;
    put_in_bucket(out, delivery);
    out->count++;
}

queue_delivery *queue_deliveries_find(const queue_deliveries *out, uint64_t tag)
{
    queue_delivery *one = *bucket_of(out, tag);
    while (one && one->tag != tag)
        one = one->next;
    return one;
}

queue_delivery *queue_deliveries_remove(queue_deliveries *out, uint64_t tag)
{
    queue_delivery **at = bucket_of(out, tag);
    while (*at && (*at)->tag != tag)
        at = &(*at)->next;
    queue_delivery *found = *at;
    if (!found)
        return NULL;
    *at = found->next;
    out->count--;
    return found;
}
