/* Retention: a bounded walk over the markers of one inbox, in the order in which they came.
 *
 * A call holds the lock for as long as it takes to look at `rows` markers and some holes between
 * them, so others wait that long at most. What an open unit or a live claim holds stays. */
#include "store/memory/memory_internal.h"

#include <string.h>

enum { HOLES_MAX = 4096 }; /* stepped over by one call, besides the rows it looks at */

_Static_assert(sizeof(memory_place) <= SEMEL_KEY_MAX, "a place is kept in a sweep position");

static memory_place place_of(const semel_sweep_position *position)
{
    memory_place place = {0, 0};
    if (position->len == sizeof place)
        memcpy(&place, position->key, sizeof place);
    return place;
}

static void keep_place(semel_sweep_position *position, const memory_place *place)
{
    position->len = sizeof *place;
    memcpy(position->key, place, sizeof *place);
}

/* A dead marker stays as long as its letter. */
static int has_letter(const memory_marker *marker)
{
    return marker->state == MARKER_DEAD && !(marker->extra && marker->extra->letter_gone);
}

static int has_expired(memory_store *store, const memory_marker *marker, int64_t cutoff_ms)
{
    return !marker->held && marker->since.changed_ms < cutoff_ms &&
           !memory_marker_leased(store, marker) && !has_letter(marker);
}

/* The inbox must not forget a key without knowing that it did. */
static void note_forgotten(memory_inbox *inbox, int64_t changed_ms)
{
    memory_note *forgotten = &inbox->notes[SEMEL_NOTE_FORGOTTEN];
    if (changed_ms > forgotten->number)
        forgotten->number = changed_ms;
}

static size_t sweep_some(memory_store *store, memory_inbox *inbox, int64_t cutoff_ms, uint32_t rows,
                         memory_place *place, int *at_end)
{
    memory_table *table = &inbox->table;
    uint64_t steps = (uint64_t)rows + HOLES_MAX;
    size_t swept = 0;
    memory_table_resume(table, place);
    for (uint32_t i = 0; i < rows && steps; i++) {
        memory_marker *marker = memory_table_walk(table, place, cutoff_ms, &steps);
        if (!marker)
            break;
        if (has_expired(store, marker, cutoff_ms)) {
            note_forgotten(inbox, marker->since.changed_ms);
            memory_marker_drop(store, table, marker);
            swept++;
        }
    }
    *at_end = memory_table_ends(table, place, cutoff_ms);
    return swept;
}

semel_status memory_sweep(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                          semel_sweep_position *position, size_t *swept, semel_error *err)
{
    memory_store *self = store;
    memory_place place = place_of(position);
    int at_end = 0;
    pthread_mutex_lock(&self->lock);
    memory_inbox *found = memory_inbox_get(self, inbox, err);
    if (found)
        *swept = sweep_some(self, found, cutoff_ms, rows, &place, &at_end);
    pthread_mutex_unlock(&self->lock);
    if (!found)
        return SEMEL_EINVAL;
    if (at_end)
        memset(position, 0, sizeof *position);
    else
        keep_place(position, &place);
    return SEMEL_OK;
}
