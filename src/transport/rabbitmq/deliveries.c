/* A hash table with chains for finding, a list for the order, and spare ones so that a steady flow of messages needs
 * no memory. */
#include "transport/rabbitmq/deliveries.h"

int rabbit_deliveries_init(rabbit_deliveries *table, size_t count)
{
    for (table->bucket_count = 16; table->bucket_count < count; table->bucket_count *= 2)
        continue;
    table->buckets = mem_alloc(table->bucket_count * sizeof *table->buckets);
    return table->buckets != NULL;
}

/* --- lists ------------------------------------------------------------------------------------------------- */

static void append_to(rabbit_list *list, rabbit_delivery *one)
{
    one->before = list->last;
    one->after = NULL;
    *(list->last ? &list->last->after : &list->first) = one;
    list->last = one;
}

static void remove_from(rabbit_list *list, rabbit_delivery *one)
{
    *(one->before ? &one->before->after : &list->first) = one->after;
    *(one->after ? &one->after->before : &list->last) = one->before;
    one->before = one->after = NULL;
}

static rabbit_delivery **bucket_of(const rabbit_deliveries *table, uint64_t tag)
{
    return &table->buckets[tag & (table->bucket_count - 1)];
}

/* --- coming ------------------------------------------------------------------------------------------------ */

rabbit_delivery *rabbit_deliveries_new(rabbit_deliveries *table)
{
    rabbit_delivery *one = table->spare;
    if (!one)
        return mem_alloc(sizeof *one);
    table->spare = one->chain;
    one->chain = NULL;
    return one;
}

void rabbit_deliveries_put(rabbit_deliveries *table, rabbit_delivery *delivery)
{
    append_to(&table->ready, delivery);
}

rabbit_delivery *rabbit_deliveries_receive(rabbit_deliveries *table)
{
    rabbit_delivery *one = table->ready.first;
    if (!one)
        return NULL;
    remove_from(&table->ready, one);
    append_to(&table->unsettled, one);
    one->tag = ++table->last_tag;
    rabbit_delivery **bucket = bucket_of(table, one->tag);
    one->chain = *bucket;
    *bucket = one;
    return one;
}

rabbit_delivery *rabbit_deliveries_find(const rabbit_deliveries *table, uint64_t tag)
{
    rabbit_delivery *one = *bucket_of(table, tag);
    while (one && one->tag != tag)
        one = one->chain;
    return one;
}

/* --- going ------------------------------------------------------------------------------------------------- */

void rabbit_deliveries_discard(rabbit_deliveries *table, rabbit_delivery *delivery)
{
    if (delivery->large)
        arena_free(&delivery->arena);
    else
        arena_reset(&delivery->arena);
    *delivery = (rabbit_delivery){.arena = delivery->arena, .chain = table->spare};
    table->spare = delivery;
}

void rabbit_deliveries_settle(rabbit_deliveries *table, rabbit_delivery *delivery)
{
    rabbit_delivery **link = bucket_of(table, delivery->tag);
    while (*link != delivery)
        link = &(*link)->chain;
    *link = delivery->chain;
    if (delivery->broker_tag)
        remove_from(&table->unsettled, delivery);
    rabbit_deliveries_discard(table, delivery);
}

void rabbit_deliveries_orphan(rabbit_deliveries *table)
{
    while (table->ready.first) {
        rabbit_delivery *one = table->ready.first;
        remove_from(&table->ready, one);
        rabbit_deliveries_discard(table, one);
    }
    while (table->unsettled.first) {
        rabbit_delivery *one = table->unsettled.first;
        if (one->acked) { /* its receiver is done with it */
            rabbit_deliveries_settle(table, one);
            continue;
        }
        remove_from(&table->unsettled, one);
        one->broker_tag = 0;
    }
}

void rabbit_deliveries_free(rabbit_deliveries *table)
{
    rabbit_deliveries_orphan(table);
    for (size_t i = 0; table->buckets && i < table->bucket_count; i++)
        while (table->buckets[i])
            rabbit_deliveries_settle(table, table->buckets[i]);
    while (table->spare) {
        rabbit_delivery *one = table->spare;
        table->spare = one->chain;
        arena_free(&one->arena);
        mem_free(one);
    }
    mem_free(table->buckets);
}
