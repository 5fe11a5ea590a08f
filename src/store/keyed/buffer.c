/* The buffer of a unit: its changes, at most one for each record, the steps that are built at
 * commit, and what a savepoint has to bring back.
 *
 * A savepoint remembers how many changes and steps there are. A change from before it that is
 * altered afterwards is copied first, once. Undo puts the copies back and drops the rest. */
#include "store/keyed/buffer.h"

#include <string.h>

enum { FIRST_CAPACITY = 16, INDEX_MIN = 64 };

typedef struct keyed_undo {
    struct keyed_undo *next;
    keyed_change *at;
    keyed_change before;
} keyed_undo;

/* --- the index -------------------------------------------------------------------------------- */

static size_t slot_of(const keyed_unit *unit, semel_bytes space, semel_bytes key)
{
    hash_state state;
    hash_begin(&state, unit->store->hash);
    hash_add(&state, space.data, space.len);
    hash_add(&state, key.data, key.len);
    return (size_t)hash_end(&state) & (unit->index_size - 1);
}

static int is_of(const keyed_change *change, semel_bytes space, semel_bytes key)
{
    const semel_keyed_record *record = &change->change.record;
    return keyed_same(record->key, key) && keyed_same(record->space, space);
}

/* The slot of the record, or the empty one where it belongs. */
static uint32_t *find_slot(const keyed_unit *unit, semel_bytes space, semel_bytes key)
{
    size_t slot = slot_of(unit, space, key);
    while (unit->index[slot] && !is_of(unit->changes[unit->index[slot] - 1], space, key))
        slot = (slot + 1) & (unit->index_size - 1);
    return &unit->index[slot];
}

/* Statements of the application are no records. */
static void fill_index(keyed_unit *unit)
{
    memset(unit->index, 0, unit->index_size * sizeof *unit->index);
    for (size_t i = 0; i < unit->count; i++) {
        const semel_keyed_record *record = &unit->changes[i]->change.record;
        if (record->space.len)
            *find_slot(unit, record->space, record->key) = (uint32_t)i + 1;
    }
}

static int make_index(keyed_unit *unit)
{
    if ((unit->count + 1) * 2 <= unit->index_size)
        return 1;
    size_t size = unit->index_size ? unit->index_size * 2 : INDEX_MIN;
    uint32_t *index = arena_alloc(&unit->arena, size * sizeof *index);
    if (!index)
        return 0;
    unit->index = index;
    unit->index_size = size;
    fill_index(unit);
    return 1;
}

const keyed_change *keyed_unit_find(const keyed_unit *unit, semel_bytes space, semel_bytes key)
{
    uint32_t at = unit->index ? *find_slot(unit, space, key) : 0;
    return at ? unit->changes[at - 1] : NULL;
}

/* --- changes ---------------------------------------------------------------------------------- */

static int make_room(keyed_unit *unit)
{
    if (unit->count < unit->capacity)
        return 1;
    size_t capacity = unit->capacity ? unit->capacity * 2 : FIRST_CAPACITY;
    keyed_change **changes = arena_alloc(&unit->arena, capacity * sizeof(keyed_change *));
    if (!changes)
        return 0;
    if (unit->count)
        memcpy(changes, unit->changes, unit->count * sizeof(keyed_change *));
    unit->changes = changes;
    unit->capacity = capacity;
    return 1;
}

keyed_change *keyed_unit_append(keyed_unit *unit)
{
    keyed_change *change = arena_alloc(&unit->arena, sizeof *change);
    if (!change || !make_room(unit) || !make_index(unit))
        return NULL;
    memset(change, 0, sizeof *change);
    change->saved = unit->savepoint;
    unit->changes[unit->count++] = change;
    return change;
}

static keyed_change *add_change(keyed_unit *unit, semel_bytes space, semel_bytes key)
{
    void *space_copy = arena_copy(&unit->arena, space.data, space.len);
    void *key_copy = arena_copy(&unit->arena, key.data, key.len);
    keyed_change *change = space_copy && key_copy ? keyed_unit_append(unit) : NULL;
    if (!change)
        return NULL;
    change->change.record.space = (semel_bytes){space_copy, space.len};
    change->change.record.key = (semel_bytes){key_copy, key.len};
    *find_slot(unit, space, key) = (uint32_t)unit->count;
    return change;
}

static int save(keyed_unit *unit, keyed_change *change)
{
    if (!unit->savepoint || change->saved == unit->savepoint)
        return 1;
    keyed_undo *undo = arena_alloc(&unit->arena, sizeof *undo);
    if (!undo)
        return 0;
    *undo = (keyed_undo){unit->undo, change, *change};
    unit->undo = undo;
    change->saved = unit->savepoint;
    return 1;
}

keyed_change *keyed_unit_change(keyed_unit *unit, semel_bytes space, semel_bytes key)
{
    uint32_t at = unit->index ? *find_slot(unit, space, key) : 0;
    if (!at)
        return add_change(unit, space, key);
    keyed_change *change = unit->changes[at - 1];
    return save(unit, change) ? change : NULL;
}

static void expect_found(semel_keyed_change *change, const semel_keyed_record *found)
{
    change->expect = found ? SEMEL_EXPECT_VERSION : SEMEL_EXPECT_ABSENT;
    if (found)
        memcpy(change->expected_version, found->version, sizeof found->version);
}

semel_keyed_change keyed_write_of(keyed_store *store, const semel_keyed_record *found,
                                  const semel_keyed_record *now, int keep_body)
{
    semel_keyed_change change = {.kind = SEMEL_KEYED_WRITE, .record = *now, .keep_body = keep_body};
    expect_found(&change, found);
    keyed_new_version(store, change.record.version);
    return change;
}

semel_keyed_change keyed_remove_of(const semel_keyed_record *found)
{
    semel_keyed_change change = {.kind = SEMEL_KEYED_REMOVE,
                                 .record = {.space = found->space, .key = found->key}};
    expect_found(&change, found);
    return change;
}

/* Space and key stay the buffer's own copies. */
static semel_status put_change(keyed_unit *unit, keyed_role role, semel_keyed_change what,
                               semel_error *err)
{
    keyed_change *change = keyed_unit_change(unit, what.record.space, what.record.key);
    if (!change)
        return keyed_out_of_memory(err);
    what.record.space = change->change.record.space;
    what.record.key = change->change.record.key;
    if (!change->change.kind)
        change->role = role;
    change->change = what;
    return SEMEL_OK;
}

semel_status keyed_unit_write(keyed_unit *unit, keyed_role role, const semel_keyed_record *found,
                              const semel_keyed_record *now, int keep_body, semel_error *err)
{
    return put_change(unit, role, keyed_write_of(unit->store, found, now, keep_body), err);
}

semel_status keyed_unit_step(keyed_unit *unit, keyed_build *build, void *context, semel_error *err)
{
    keyed_step *step = arena_alloc(&unit->arena, sizeof *step);
    if (!step)
        return keyed_out_of_memory(err);
    *step = (keyed_step){.build = build, .context = context};
    if (unit->last_step)
        unit->last_step->next = step;
    else
        unit->first_step = step;
    unit->last_step = step;
    return SEMEL_OK;
}

/* --- savepoints ------------------------------------------------------------------------------- */

void keyed_unit_save(keyed_unit *unit)
{
    unit->savepoint = ++unit->savepoints;
    unit->savepoint_count = unit->count;
    unit->savepoint_step = unit->last_step;
    unit->undo = NULL;
}

void keyed_unit_keep(keyed_unit *unit)
{
    unit->savepoint = 0;
    unit->undo = NULL;
}

static void drop_steps(keyed_unit *unit)
{
    unit->last_step = unit->savepoint_step;
    if (unit->last_step)
        unit->last_step->next = NULL;
    else
        unit->first_step = NULL;
}

void keyed_unit_undo(keyed_unit *unit)
{
    for (const keyed_undo *undo = unit->undo; undo; undo = undo->next)
        *undo->at = undo->before;
    drop_steps(unit);
    if (unit->count != unit->savepoint_count) {
        unit->count = unit->savepoint_count;
        fill_index(unit);
    }
    keyed_unit_keep(unit);
}
