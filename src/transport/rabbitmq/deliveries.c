/* A hash table with chains for finding, a list for the order, and spare ones so that a steady flow of messages needs
 * no memory. */
#include "transport/rabbitmq/deliveries.h"

int rabbit_shelf_init(rabbit_shelf *shelf, size_t deliveries)
{
    for (shelf->bucket_count = 16; shelf->bucket_count < deliveries; shelf->bucket_count *= 2)
        continue;
    shelf->buckets = mem_alloc(shelf->bucket_count * sizeof *shelf->buckets);
    return shelf->buckets != NULL;
}

/* --- lists ------------------------------------------------------------------------------------------------- */

static void append(rabbit_list *list, rabbit_delivery *one)
{
    one->before = list->last;
    one->after = NULL;
    *(list->last ? &list->last->after : &list->first) = one;
    list->last = one;
}

static void take_out(rabbit_list *list, rabbit_delivery *one)
{
    *(one->before ? &one->before->after : &list->first) = one->after;
    *(one->after ? &one->after->before : &list->last) = one->before;
    one->before = one->after = NULL;
}

static rabbit_delivery **bucket_of(const rabbit_shelf *shelf, uint64_t tag)
{
    return &shelf->buckets[tag & (shelf->bucket_count - 1)];
}

/* --- coming ------------------------------------------------------------------------------------------------ */

rabbit_delivery *rabbit_shelf_new(rabbit_shelf *shelf)
{
    rabbit_delivery *one = shelf->spare;
    if (!one)
        return mem_alloc(sizeof *one);
    shelf->spare = one->chain;
    one->chain = NULL;
    return one;
}

void rabbit_shelf_put(rabbit_shelf *shelf, rabbit_delivery *delivery)
{
    append(&shelf->ready, delivery);
}

rabbit_delivery *rabbit_shelf_take(rabbit_shelf *shelf)
{
    rabbit_delivery *one = shelf->ready.first;
    if (!one)
        return NULL;
    take_out(&shelf->ready, one);
    append(&shelf->out, one);
    one->tag = ++shelf->last_tag;
    rabbit_delivery **bucket = bucket_of(shelf, one->tag);
    one->chain = *bucket;
    *bucket = one;
    return one;
}

rabbit_delivery *rabbit_shelf_find(const rabbit_shelf *shelf, uint64_t tag)
{
    rabbit_delivery *one = *bucket_of(shelf, tag);
    while (one && one->tag != tag)
        one = one->chain;
    return one;
}

/* --- going ------------------------------------------------------------------------------------------------- */

void rabbit_shelf_discard(rabbit_shelf *shelf, rabbit_delivery *delivery)
{
    if (delivery->large)
        arena_free(&delivery->arena);
    else
        arena_reset(&delivery->arena);
    *delivery = (rabbit_delivery){.arena = delivery->arena, .chain = shelf->spare};
    shelf->spare = delivery;
}

void rabbit_shelf_settle(rabbit_shelf *shelf, rabbit_delivery *delivery)
{
    rabbit_delivery **link = bucket_of(shelf, delivery->tag);
    while (*link != delivery)
        link = &(*link)->chain;
    *link = delivery->chain;
    if (delivery->broker_tag)
        take_out(&shelf->out, delivery);
    rabbit_shelf_discard(shelf, delivery);
}

void rabbit_shelf_orphan(rabbit_shelf *shelf)
{
    while (shelf->ready.first) {
        rabbit_delivery *one = shelf->ready.first;
        take_out(&shelf->ready, one);
        rabbit_shelf_discard(shelf, one);
    }
    while (shelf->out.first) {
        rabbit_delivery *one = shelf->out.first;
        if (one->acked) { /* its taker is done with it */
            rabbit_shelf_settle(shelf, one);
            continue;
        }
        take_out(&shelf->out, one);
        one->broker_tag = 0;
    }
}

void rabbit_shelf_free(rabbit_shelf *shelf)
{
    rabbit_shelf_orphan(shelf);
    for (size_t i = 0; shelf->buckets && i < shelf->bucket_count; i++)
        while (shelf->buckets[i])
            rabbit_shelf_settle(shelf, shelf->buckets[i]);
    while (shelf->spare) {
        rabbit_delivery *one = shelf->spare;
        shelf->spare = one->chain;
        arena_free(&one->arena);
        mem_free(one);
    }
    mem_free(shelf->buckets);
}
