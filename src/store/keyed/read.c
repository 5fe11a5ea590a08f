/* Records, read into an arena. */
#include "store/keyed/keyed.h"

#include <string.h>

enum { KEYS_AT_ONCE = 100 }; /* of one get: what every database takes */

static int copy_bytes(semel_bytes *out, mem_arena *arena, semel_bytes from)
{
    *out = (semel_bytes){NULL, 0};
    if (!from.data)
        return 1;
    void *copy = arena_copy(arena, from.data, from.len);
    *out = (semel_bytes){copy, copy ? from.len : 0};
    return copy != NULL;
}

static keyed_row *copy_row(mem_arena *arena, const semel_keyed_record *record, int body)
{
    keyed_row *row = arena_alloc(arena, sizeof *row);
    if (!row)
        return NULL;
    row->next = NULL;
    row->record = *record;
    return copy_bytes(&row->record.space, arena, record->space) &&
                   copy_bytes(&row->record.key, arena, record->key) &&
                   copy_bytes(&row->record.value, arena, record->value) &&
                   copy_bytes(&row->record.body, arena,
                              body ? record->body : (semel_bytes){NULL, 0})
               ? row
               : NULL;
}

semel_status keyed_keep_row(const semel_keyed_record *record, void *rows, semel_error *err)
{
    keyed_rows *to = rows;
    keyed_row *row = copy_row(to->arena, record, !to->without_bodies);
    if (!row)
        return keyed_out_of_memory(err);
    if (to->last)
        to->last->next = row;
    else
        to->first = row;
    to->last = row;
    to->count++;
    return SEMEL_OK;
}

const keyed_row *keyed_rows_find(const keyed_rows *rows, semel_bytes space, semel_bytes key)
{
    const keyed_row *row = rows->first;
    while (row && !(keyed_same(row->record.key, key) && keyed_same(row->record.space, space)))
        row = row->next;
    return row;
}

semel_status keyed_get_many(keyed_rows *out, keyed_store *store, semel_bytes space,
                            const semel_bytes keys[], size_t count, int bodies, semel_error *err)
{
    semel_status status = SEMEL_OK;
    out->without_bodies = !bodies;
    for (size_t at = 0; at < count && !status; at += KEYS_AT_ONCE) {
        size_t some = count - at < KEYS_AT_ONCE ? count - at : KEYS_AT_ONCE;
        status = store->driver->get(store->state, space, keys + at, some, bodies, keyed_keep_row,
                                    out, err);
    }
    return status;
}

semel_status keyed_get(keyed_row **out, keyed_store *store, mem_arena *arena, semel_bytes space,
                       semel_bytes key, int body, semel_error *err)
{
    keyed_rows rows = {.arena = arena};
    semel_status status = keyed_get_many(&rows, store, space, &key, 1, body, err);
    if (!status)
        *out = rows.first;
    return status;
}

semel_status keyed_scan(keyed_rows *out, keyed_store *store, const semel_keyed_range *range,
                        semel_error *err)
{
    out->without_bodies = !range->bodies;
    return store->driver->scan(store->state, range, keyed_keep_row, out, err);
}

static keyed_row *row_of_change(keyed_unit *unit, const keyed_change *change)
{
    keyed_row *row = arena_alloc(&unit->arena, sizeof *row);
    if (row)
        *row = (keyed_row){.record = change->change.record};
    return row;
}

/* A body that the change keeps is the database's. */
static semel_status get_kept_body(keyed_row *row, keyed_unit *unit, semel_error *err)
{
    keyed_row *there = NULL;
    semel_status status =
        keyed_get(&there, unit->store, &unit->arena, row->record.space, row->record.key, 1, err);
    if (!status && there)
        row->record.body = there->record.body;
    return status;
}

semel_status keyed_unit_get(keyed_row **out, keyed_unit *unit, semel_bytes space, semel_bytes key,
                            int body, semel_error *err)
{
    const keyed_change *change = keyed_unit_find(unit, space, key);
    if (!change || change->change.kind == SEMEL_KEYED_CHECK)
        return keyed_get(out, unit->store, &unit->arena, space, key, body, err);
    *out = NULL;
    if (change->change.kind != SEMEL_KEYED_WRITE)
        return SEMEL_OK;
    keyed_row *row = row_of_change(unit, change);
    if (!row)
        return keyed_out_of_memory(err);
    semel_status status =
        body && change->change.keep_body ? get_kept_body(row, unit, err) : SEMEL_OK;
    if (!status)
        *out = row;
    return status;
}
