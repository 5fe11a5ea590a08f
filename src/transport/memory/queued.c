/* A parcel is a message and its history. The heaps are plain binary heaps; room in them is made when a
 * message is published, so pushing cannot fail. */
#include "transport/memory/queued.h"

#include "base/mem.h"

semel_status memory_parcel_new(memory_parcel **out, const semel_message *message, semel_error *err)
{
    memory_parcel *parcel = mem_alloc(sizeof *parcel);
    if (!parcel)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message to publish");
    semel_status status = semel_message_copy(&parcel->message, message, err);
    if (status) {
        mem_free(parcel);
        return status;
    }
    parcel->references = 1;
    *out = parcel;
    return SEMEL_OK;
}

void memory_parcel_release(memory_parcel *parcel)
{
    if (--parcel->references)
        return;
    semel_message_free(parcel->message);
    mem_free(parcel);
}

int64_t memory_parcel_number(const memory_parcel *parcel)
{
    return parcel->number;
}

int64_t memory_parcel_due_ms(const memory_parcel *parcel)
{
    return parcel->due_ms;
}

/* Among equals the one that was published first. */
static int goes_before(const memory_heap *heap, const memory_parcel *a, const memory_parcel *b)
{
    int64_t left = heap->order(a);
    int64_t right = heap->order(b);
    return left != right ? left < right : a->number < b->number;
}

int memory_heap_make_room(memory_heap *heap, size_t room)
{
    memory_parcel **parcels = mem_resize(heap->parcels, room * sizeof(memory_parcel *));
    if (parcels)
        heap->parcels = parcels;
    return parcels != NULL;
}

void memory_heap_push(memory_heap *heap, memory_parcel *parcel)
{
    size_t at = heap->count++;
    while (at && goes_before(heap, parcel, heap->parcels[(at - 1) / 2])) {
        heap->parcels[at] = heap->parcels[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->parcels[at] = parcel;
}

memory_parcel *memory_heap_pop(memory_heap *heap)
{
    memory_parcel *first = heap->parcels[0];
    memory_parcel *last = heap->parcels[--heap->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count &&
            goes_before(heap, heap->parcels[child + 1], heap->parcels[child]))
            child++;
        if (!goes_before(heap, heap->parcels[child], last))
            break;
        heap->parcels[at] = heap->parcels[child];
    }
    heap->parcels[at] = last;
    return first;
}

void memory_heap_free(memory_heap *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        memory_parcel_release(heap->parcels[i]);
    mem_free(heap->parcels);
}
