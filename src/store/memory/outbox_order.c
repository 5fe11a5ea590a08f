/* The order in which messages may be taken.
 *
 * A group is a line of rows, and only its head can be taken: a row that fails, is delayed or leased, or is in
 * the hands of an open unit holds up its own line and no other. A row without a group is a line of its own.
 * The lines stand in a heap by the time at which their head may be taken (due, or end of its lease), and
 * by its seq among equals. So a take looks at what it takes and at nothing else, however much is waiting
 * or stuck. */
#include "store/memory/outbox_order.h"

#include "base/mem.h"

enum { LINES_FIRST = 64 };

/* --- the heap ------------------------------------------------------------------------------------ */

static int64_t seq_of(const memory_line *line)
{
    return line->head ? line->head->seq : INT64_MAX;
}

static int wakes_before(const memory_line *a, const memory_line *b)
{
    if (a->wake_ms != b->wake_ms)
        return a->wake_ms < b->wake_ms;
    return seq_of(a) < seq_of(b);
}

static void set_at(memory_queue *queue, size_t index, memory_line *line)
{
    queue->lines[index] = line;
    line->queued_at = index + 1;
}

static size_t rise(memory_queue *queue, size_t index, const memory_line *line)
{
    while (index && wakes_before(line, queue->lines[(index - 1) / 2])) {
        set_at(queue, index, queue->lines[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    return index;
}

static size_t sink(memory_queue *queue, size_t index, const memory_line *line)
{
    for (size_t child; (child = 2 * index + 1) < queue->count; index = child) {
        if (child + 1 < queue->count && wakes_before(queue->lines[child + 1], queue->lines[child]))
            child++;
        if (!wakes_before(queue->lines[child], line))
            break;
        set_at(queue, index, queue->lines[child]);
    }
    return index;
}

static void settle_at(memory_queue *queue, size_t index, memory_line *line)
{
    set_at(queue, sink(queue, rise(queue, index, line), line), line);
}

static void enqueue(memory_queue *queue, memory_line *line)
{
    settle_at(queue, queue->count++, line);
}

static void dequeue(memory_queue *queue, memory_line *line)
{
    size_t index = line->queued_at - 1;
    memory_line *last = queue->lines[--queue->count];
    line->queued_at = 0;
    if (last != line)
        settle_at(queue, index, last);
}

int memory_queue_reserve(memory_queue *queue, size_t count)
{
    if (count <= queue->capacity)
        return 1;
    size_t capacity = queue->capacity ? queue->capacity * 2 : LINES_FIRST;
    memory_line **lines = mem_resize(queue->lines, capacity * sizeof(memory_line *));
    if (!lines)
        return 0;
    queue->lines = lines;
    queue->capacity = capacity;
    return 1;
}

memory_line *memory_queue_first(const memory_queue *queue, int64_t now_ms)
{
    return queue->count && queue->lines[0]->wake_ms <= now_ms ? queue->lines[0] : NULL;
}

/* --- lines --------------------------------------------------------------------------------------- */

static int64_t wake_of(const memory_row *row)
{
    if (!row || row->state.owner)
        return INT64_MAX; /* until its unit ends */
    return row->state.token ? row->state.lease_end_ms : row->state.due_ms;
}

void memory_line_update(memory_queue *queue, memory_line *line)
{
    line->wake_ms = wake_of(line->head);
    settle_at(queue, line->queued_at - 1, line);
}

void memory_line_join(memory_queue *queue, memory_line *line, memory_row *row)
{
    row->line = line;
    row->before = line->last;
    row->behind = NULL;
    *(row->before ? &row->before->behind : &line->first) = row;
    line->last = row;
    line->head = line->first;
    line->wake_ms = wake_of(line->head);
    if (line->queued_at)
        memory_line_update(queue, line);
    else
        enqueue(queue, line);
}

void memory_line_leave(memory_queue *queue, memory_row *row)
{
    memory_line *line = row->line;
    *(row->before ? &row->before->behind : &line->first) = row->behind;
    *(row->behind ? &row->behind->before : &line->last) = row->before;
    row->before = row->behind = NULL;
    row->line = NULL;
    line->head = line->first;
    if (line->head)
        memory_line_update(queue, line);
    else
        dequeue(queue, line);
}
