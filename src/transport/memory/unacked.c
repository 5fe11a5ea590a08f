/* What was delivered and not settled.
 *
 * All have the same time to be settled in, so the list in the order of delivery is the list in the
 * order in which they lapse. A delivery that lapses gives its message back to the queue, but not
 * its memory: the receiver may be reading it still, while another settles the next delivery of the
 * same message. It goes when its receiver settles it, too late. */
#include "transport/memory/unacked.h"

#include "base/mem.h"

int memory_unacked_make_room(memory_unacked *unacked, size_t room)
{
    return delivery_table_reserve(&unacked->table, room);
}

static memory_delivery *new_delivery(memory_unacked *unacked)
{
    delivery_node *node = unacked->spare;
    if (!node)
        return mem_alloc(sizeof(memory_delivery));
    unacked->spare = node->same_bucket;
    *memory_delivery_of(node) = (memory_delivery){0};
    return memory_delivery_of(node);
}

static void make_spare(memory_unacked *unacked, memory_delivery *delivery)
{
    delivery->queued = NULL;
    delivery->node.same_bucket = unacked->spare;
    unacked->spare = &delivery->node;
}

memory_delivery *memory_unacked_add(memory_unacked *unacked, memory_queued *queued,
                                    int64_t lapses_ms)
{
    memory_delivery *delivery = new_delivery(unacked);
    if (!delivery)
        return NULL;
    if (!delivery_table_add(&unacked->table, &delivery->node)) {
        make_spare(unacked, delivery);
        return NULL;
    }
    delivery->queued = queued;
    delivery->message = *queued->message;
    delivery->message.delivery = ++queued->deliveries;
    delivery->lapses_ms = lapses_ms;
    delivery_list_append(&unacked->list, &delivery->node);
    return delivery;
}

memory_delivery *memory_unacked_find(const memory_unacked *unacked, uint64_t tag)
{
    return memory_delivery_of(delivery_table_find(&unacked->table, tag));
}

memory_queued *memory_unacked_settle(memory_unacked *unacked, memory_delivery *delivery)
{
    memory_queued *queued = delivery->queued;
    int lapsed = delivery->lapsed;
    delivery_table_remove(&unacked->table, &delivery->node);
    if (!lapsed)
        delivery_list_remove(&unacked->list, &delivery->node);
    make_spare(unacked, delivery);
    if (!lapsed)
        return queued;
    unacked->lapsed--;
    memory_queued_release(queued);
    return NULL;
}

memory_queued *memory_unacked_lapse(memory_unacked *unacked, memory_delivery *delivery)
{
    delivery_list_remove(&unacked->list, &delivery->node);
    delivery->lapsed = 1;
    delivery->queued->references++;
    unacked->lapsed++;
    return delivery->queued;
}

void memory_unacked_free(memory_unacked *unacked)
{
    for (delivery_node *one = delivery_table_take_all(&unacked->table), *next; one; one = next) {
        next = one->same_bucket;
        memory_queued_release(memory_delivery_of(one)->queued);
        make_spare(unacked, memory_delivery_of(one));
    }
    for (delivery_node *one; (one = unacked->spare) != NULL;) {
        unacked->spare = one->same_bucket;
        mem_free(memory_delivery_of(one));
    }
    delivery_table_free(&unacked->table);
}
