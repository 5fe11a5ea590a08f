/* A queued message is a message and its history. The heaps are plain binary heaps; room in them is
 * made when a message is published, so pushing cannot fail. */
#include "transport/memory/queued.h"

#include "base/mem.h"

semel_status memory_queued_new(memory_queued **out, const semel_message *message, semel_error *err)
{
    memory_queued *queued = mem_alloc(sizeof *queued);
    if (!queued)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message to publish");
    semel_status status = semel_message_copy(&queued->message, message, err);
    if (status) {
        mem_free(queued);
        return status;
    }
    queued->references = 1;
    *out = queued;
    return SEMEL_OK;
}

void memory_queued_release(memory_queued *queued)
{
    if (--queued->references)
        return;
    semel_message_free(queued->message);
    mem_free(queued);
}

int64_t memory_queued_number(const memory_queued *queued)
{
    return queued->number;
}

int64_t memory_queued_due_ms(const memory_queued *queued)
{
    return queued->due_ms;
}

/* Among equals the one that was published first. */
static int goes_before(const memory_heap *heap, const memory_queued *a, const memory_queued *b)
{
    int64_t left = heap->order(a);
    int64_t right = heap->order(b);
    return left != right ? left < right : a->number < b->number;
}

int memory_heap_make_room(memory_heap *heap, size_t room)
{
    memory_queued **items = mem_resize(heap->items, room * sizeof(memory_queued *));
    if (items)
        heap->items = items;
    return items != NULL;
}

void memory_heap_push(memory_heap *heap, memory_queued *queued)
{
    size_t at = heap->count++;
    while (at && goes_before(heap, queued, heap->items[(at - 1) / 2])) {
        heap->items[at] = heap->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->items[at] = queued;
}

memory_queued *memory_heap_pop(memory_heap *heap)
{
    memory_queued *first = heap->items[0];
    memory_queued *last = heap->items[--heap->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count &&
            goes_before(heap, heap->items[child + 1], heap->items[child]))
            child++;
        if (!goes_before(heap, heap->items[child], last))
            break;
        heap->items[at] = heap->items[child];
    }
    heap->items[at] = last;
    return first;
}

void memory_heap_free(memory_heap *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        memory_queued_release(heap->items[i]);
    mem_free(heap->items);
}
