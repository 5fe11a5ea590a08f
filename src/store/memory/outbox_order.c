/* The order in which messages may be leased.
 *
 * A group is a chain of rows, and only its head can be leased: a row that fails, is delayed or
 * leased, or belongs to an open unit holds up its own chain and no other. A row without a group is
 * a chain of its own. The chains stand in a heap by the time at which their head may be leased
 * (due, or end of its lease), and by its seq among equals. So leasing looks at the rows that it
 * leases and at nothing else, however much is waiting or stuck. */
#include "store/memory/outbox_order.h"

#include "base/mem.h"

enum { CHAINS_FIRST = 64 };

/* --- the heap --------------------------------------------------------------------------------- */

static int64_t seq_of(const memory_chain *chain)
{
    return chain->head ? chain->head->seq : INT64_MAX;
}

static int wakes_before(const memory_chain *a, const memory_chain *b)
{
    if (a->wake_ms != b->wake_ms)
        return a->wake_ms < b->wake_ms;
    return seq_of(a) < seq_of(b);
}

static void set_at(memory_due_queue *queue, size_t index, memory_chain *chain)
{
    queue->chains[index] = chain;
    chain->queued_at = index + 1;
}

static size_t rise_from(memory_due_queue *queue, size_t index, const memory_chain *chain)
{
    while (index && wakes_before(chain, queue->chains[(index - 1) / 2])) {
        set_at(queue, index, queue->chains[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    return index;
}

static size_t sink_from(memory_due_queue *queue, size_t index, const memory_chain *chain)
{
    for (size_t child; (child = 2 * index + 1) < queue->count; index = child) {
        if (child + 1 < queue->count &&
            wakes_before(queue->chains[child + 1], queue->chains[child]))
            child++;
        if (!wakes_before(queue->chains[child], chain))
            break;
        set_at(queue, index, queue->chains[child]);
    }
    return index;
}

static void place_at(memory_due_queue *queue, size_t index, memory_chain *chain)
{
    set_at(queue, sink_from(queue, rise_from(queue, index, chain), chain), chain);
}

static void enqueue(memory_due_queue *queue, memory_chain *chain)
{
    place_at(queue, queue->count++, chain);
}

static void dequeue(memory_due_queue *queue, memory_chain *chain)
{
    size_t index = chain->queued_at - 1;
    memory_chain *last = queue->chains[--queue->count];
    chain->queued_at = 0;
    if (last != chain)
        place_at(queue, index, last);
}

int memory_due_queue_reserve(memory_due_queue *queue, size_t count)
{
    if (count <= queue->capacity)
        return 1;
    size_t capacity = queue->capacity ? queue->capacity * 2 : CHAINS_FIRST;
    memory_chain **chains = mem_resize(queue->chains, capacity * sizeof(memory_chain *));
    if (!chains)
        return 0;
    queue->chains = chains;
    queue->capacity = capacity;
    return 1;
}

memory_chain *memory_due_queue_first(const memory_due_queue *queue, int64_t now_ms)
{
    return queue->count && queue->chains[0]->wake_ms <= now_ms ? queue->chains[0] : NULL;
}

/* --- chains ----------------------------------------------------------------------------------- */

static int64_t wake_of(const memory_row *row)
{
    if (!row || row->state.owner)
        return INT64_MAX; /* until its unit ends */
    return row->state.token ? row->state.lease_end_ms : row->state.due_ms;
}

void memory_chain_update(memory_due_queue *queue, memory_chain *chain)
{
    chain->wake_ms = wake_of(chain->head);
    place_at(queue, chain->queued_at - 1, chain);
}

void memory_chain_append(memory_due_queue *queue, memory_chain *chain, memory_row *row)
{
    row->chain = chain;
    row->before = chain->last;
    row->behind = NULL;
    *(row->before ? &row->before->behind : &chain->first) = row;
    chain->last = row;
    chain->head = chain->first;
    chain->wake_ms = wake_of(chain->head);
    if (chain->queued_at)
        memory_chain_update(queue, chain);
    else
        enqueue(queue, chain);
}

void memory_chain_remove(memory_due_queue *queue, memory_row *row)
{
    memory_chain *chain = row->chain;
    *(row->before ? &row->before->behind : &chain->first) = row->behind;
    *(row->behind ? &row->behind->before : &chain->last) = row->before;
    row->before = row->behind = NULL;
    row->chain = NULL;
    chain->head = chain->first;
    if (chain->head)
        memory_chain_update(queue, chain);
    else
        dequeue(queue, chain);
}
