/* Deliveries that are out, each with a copy of its message. */
#include "transport/store/queue.h"

enum { ROOM_FIRST = 64 };

int queue_deliveries_init(queue_deliveries *out)
{
    return delivery_table_reserve(&out->table, ROOM_FIRST);
}

void queue_deliveries_free(queue_deliveries *out)
{
    for (delivery_node *one = delivery_table_take_all(&out->table), *next; one; one = next) {
        next = one->same_bucket;
        queue_delivery_free((queue_delivery *)one);
    }
    delivery_table_free(&out->table);
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

/* There is room since the beginning: a table that cannot grow has longer chains. */
void queue_deliveries_add(queue_deliveries *out, queue_delivery *delivery)
{
    (void)delivery_table_add(&out->table, &delivery->node);
    delivery_list_append(&out->list, &delivery->node);
}

queue_delivery *queue_deliveries_find(const queue_deliveries *out, uint64_t tag)
{
    return (queue_delivery *)delivery_table_find(&out->table, tag); /* its first member */
}

queue_delivery *queue_deliveries_remove(queue_deliveries *out, uint64_t tag)
{
    delivery_node *found = delivery_table_find(&out->table, tag);
    if (!found)
        return NULL;
    delivery_table_remove(&out->table, found);
    delivery_list_remove(&out->list, found);
    return (queue_delivery *)found;
}
