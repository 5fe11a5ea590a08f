/* Two lists for the order, a table for finding, and spare ones so that a steady flow of messages
 * needs no memory. */
#include "transport/rabbitmq/deliveries.h"

int rabbit_deliveries_init(rabbit_deliveries *table, size_t count)
{
    return delivery_table_reserve(&table->received, count);
}

/* --- coming ----------------------------------------------------------------------------------- */

rabbit_delivery *rabbit_deliveries_new(rabbit_deliveries *table)
{
    delivery_node *one = table->spare;
    if (!one)
        return mem_alloc(sizeof(rabbit_delivery));
    table->spare = one->same_bucket;
    one->same_bucket = NULL;
    return rabbit_delivery_of(one);
}

void rabbit_deliveries_put(rabbit_deliveries *table, rabbit_delivery *delivery)
{
    delivery_list_append(&table->ready, &delivery->node);
}

rabbit_delivery *rabbit_deliveries_receive(rabbit_deliveries *table)
{
    delivery_node *one = table->ready.first;
    if (!one)
        return NULL;
    delivery_list_remove(&table->ready, one);
    delivery_list_append(&table->unsettled, one);
    (void)delivery_table_add(&table->received, one); /* there is room since the beginning */
    return rabbit_delivery_of(one);
}

rabbit_delivery *rabbit_deliveries_find(const rabbit_deliveries *table, uint64_t tag)
{
    return rabbit_delivery_of(delivery_table_find(&table->received, tag));
}

/* --- going ------------------------------------------------------------------------------------ */

void rabbit_deliveries_discard(rabbit_deliveries *table, rabbit_delivery *delivery)
{
    if (delivery->large)
        arena_free(&delivery->arena);
    else
        arena_reset(&delivery->arena);
    *delivery = (rabbit_delivery){.arena = delivery->arena, .node.same_bucket = table->spare};
    table->spare = &delivery->node;
}

void rabbit_deliveries_settle(rabbit_deliveries *table, rabbit_delivery *delivery)
{
    delivery_table_remove(&table->received, &delivery->node);
    if (delivery->broker_tag)
        delivery_list_remove(&table->unsettled, &delivery->node);
    rabbit_deliveries_discard(table, delivery);
}

void rabbit_deliveries_orphan(rabbit_deliveries *table)
{
    for (rabbit_delivery *one; (one = rabbit_delivery_of(table->ready.first)) != NULL;) {
        delivery_list_remove(&table->ready, &one->node);
        rabbit_deliveries_discard(table, one);
    }
    for (rabbit_delivery *one; (one = rabbit_delivery_of(table->unsettled.first)) != NULL;) {
        if (one->acked) { /* its receiver is done with it */
            rabbit_deliveries_settle(table, one);
            continue;
        }
        delivery_list_remove(&table->unsettled, &one->node);
        one->broker_tag = 0;
    }
}

void rabbit_deliveries_free(rabbit_deliveries *table)
{
    rabbit_deliveries_orphan(table);
    for (delivery_node *one = delivery_table_take_all(&table->received), *next; one; one = next) {
        next = one->same_bucket;
        rabbit_deliveries_discard(table, rabbit_delivery_of(one));
    }
    for (rabbit_delivery *one; (one = rabbit_delivery_of(table->spare)) != NULL;) {
        table->spare = one->node.same_bucket;
        arena_free(&one->arena);
        mem_free(one);
    }
    delivery_table_free(&table->received);
}
