/* The journal of a unit: records in the order of the changes. The first few lie in the unit itself,
 * so that a message received, with what usually goes with it, allocates nothing. The store keeps
 * the journal of one large unit for the next: batches then allocate nothing either. */
#include "base/mem.h"
#include "store/memory/memory_internal.h"

#include <string.h>

enum { CAPACITY_LARGE = 64, SPARE_CAPACITY_MAX = 65536 };

static memory_record *take_spare(memory_store *store, uint32_t *capacity)
{
    memory_record *records = store->spare_records;
    *capacity = store->spare_record_capacity;
    store->spare_records = NULL;
    return records;
}

static int leave_inline(memory_unit *unit)
{
    uint32_t capacity = CAPACITY_LARGE;
    memory_record *records = unit->store->spare_records
                                 ? take_spare(unit->store, &capacity)
                                 : mem_resize(NULL, capacity * sizeof(memory_record));
    if (!records)
        return 0;
    memcpy(records, unit->first, sizeof unit->first);
    unit->records = records;
    unit->capacity = capacity;
    return 1;
}

static int grow(memory_unit *unit)
{
    if (unit->records == unit->first)
        return leave_inline(unit);
    uint32_t capacity = unit->capacity * 2;
    memory_record *records = mem_resize(unit->records, capacity * sizeof(memory_record));
    if (!records)
        return 0;
    unit->records = records;
    unit->capacity = capacity;
    return 1;
}

memory_record *memory_journal_next(memory_unit *unit)
{
    if (unit->count == unit->capacity && !grow(unit))
        return NULL;
    return &unit->records[unit->count];
}

void memory_journal_undo(memory_unit *unit, uint32_t down_to)
{
    while (unit->count > down_to) {
        const memory_record *record = &unit->records[--unit->count];
        record->change->undo(unit, record);
    }
}

void memory_journal_commit(memory_unit *unit, int64_t now_ms)
{
    for (uint32_t i = 0; i < unit->count; i++)
        unit->records[i].change->commit(unit, &unit->records[i], now_ms);
    unit->count = 0;
}

void memory_journal_free(memory_unit *unit)
{
    memory_store *store = unit->store;
    if (unit->records == unit->first)
        return;
    pthread_mutex_lock(&store->lock);
    memory_record *unwanted = unit->records;
    if (!store->spare_records && unit->capacity <= SPARE_CAPACITY_MAX) {
        store->spare_records = unit->records;
        store->spare_record_capacity = unit->capacity;
        unwanted = NULL;
    }
    pthread_mutex_unlock(&store->lock);
    mem_free(unwanted);
}
