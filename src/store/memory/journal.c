/* The journal of a unit: records in the order of the changes. The first few lie in the unit itself, so
 * that a message received, with what usually goes with it, allocates nothing. */
#include "base/mem.h"
#include "store/memory/parts.h"

#include <string.h>

static int grow(memory_unit *unit)
{
    int inside = unit->records == unit->first;
    uint32_t capacity = unit->capacity * 4;
    memory_record *records =
        mem_resize(inside ? NULL : unit->records, capacity * sizeof(memory_record));
    if (!records)
        return 0;
    if (inside)
        memcpy(records, unit->first, sizeof unit->first);
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
    if (unit->records != unit->first)
        mem_free(unit->records);
}
