/* Units: a buffer that is sent at commit. begin, savepoint, keep and undo cost no round trip. */
#include "store/keyed/buffer.h"
#include "store/keyed/commit.h"
#include "store/keyed/hold.h"

#include <string.h>

enum { SPARES_MAX = 8, SPARE_SIZE_MAX = 1 << 20 };

/* --- arenas ----------------------------------------------------------------------------------- */

/* Kept for the next unit, at the beginning of its own memory. */
struct keyed_spare {
    keyed_spare *next;
    mem_arena arena;
};

static void take_arena(keyed_unit *unit)
{
    keyed_store *store = unit->store;
    pthread_mutex_lock(&store->lock);
    keyed_spare *spare = store->spares;
    if (spare) {
        store->spares = spare->next;
        store->spare_count--;
        unit->arena = spare->arena;
    }
    pthread_mutex_unlock(&store->lock);
    arena_reset(&unit->arena);
}

static void give_arena(keyed_unit *unit)
{
    keyed_store *store = unit->store;
    int large = arena_size(&unit->arena) > SPARE_SIZE_MAX;
    arena_reset(&unit->arena);
    keyed_spare *spare =
        unit->arena.first && !large ? arena_alloc(&unit->arena, sizeof(keyed_spare)) : NULL;
    pthread_mutex_lock(&store->lock);
    int keeps = spare && store->spare_count < SPARES_MAX;
    if (keeps) {
        *spare = (keyed_spare){store->spares, unit->arena};
        store->spares = spare;
        store->spare_count++;
    }
    pthread_mutex_unlock(&store->lock);
    if (!keeps)
        arena_free(&unit->arena);
    unit->arena = (mem_arena){0};
}

void keyed_spares_free(keyed_store *store)
{
    while (store->spares) {
        mem_arena arena = store->spares->arena;
        store->spares = store->spares->next;
        arena_free(&arena);
    }
}

/* --- the life of a unit ----------------------------------------------------------------------- */

static semel_status keyed_begin(void *store, void *unit, semel_begin durability, uint32_t wait_ms,
                                semel_error *err)
{
    keyed_unit *self = unit;
    (void)wait_ms;
    semel_status status = keyed_check_process(store, err);
    if (status)
        return status;
    self->store = store;
    self->durability = durability;
    self->open = 1;
    take_arena(self);
    return SEMEL_OK;
}

static void end_unit(keyed_unit *unit)
{
    if (!unit->open)
        return;
    unit->open = 0;
    give_arena(unit);
}

static void give_back(keyed_unit *unit)
{
    keyed_leased_return(unit);
    keyed_holds_release(unit);
}

/* A commit that failed has changed nothing: what the unit holds is given back as by a rollback,
 * unless the database has not answered for a while. */
static semel_status keyed_commit(void *unit, semel_error *err)
{
    keyed_unit *self = unit;
    semel_status status = keyed_commit_changes(self, err);
    if (status && status != SEMEL_EUNKNOWN)
        give_back(self);
    else
        keyed_holds_end(self);
    end_unit(self);
    return status;
}

static void keyed_rollback(void *unit)
{
    keyed_unit *self = unit;
    if (!self->open)
        return;
    give_back(self);
    end_unit(self);
}

static semel_status keyed_savepoint(void *unit, semel_error *err)
{
    keyed_unit *self = unit;
    if (self->savepoint)
        return semel_fail(err, SEMEL_EMISUSE, "the unit has a savepoint: keep or undo it first");
    keyed_unit_save(self);
    return SEMEL_OK;
}

static semel_status check_savepoint(const keyed_unit *unit, semel_error *err)
{
    return unit->savepoint ? SEMEL_OK : semel_fail(err, SEMEL_EMISUSE, "the unit has no savepoint");
}

static semel_status keyed_keep(void *unit, semel_error *err)
{
    semel_status status = check_savepoint(unit, err);
    if (!status)
        keyed_unit_keep(unit);
    return status;
}

static semel_status keyed_undo_to(void *unit, semel_error *err)
{
    semel_status status = check_savepoint(unit, err);
    if (!status)
        keyed_unit_undo(unit);
    return status;
}

static int keyed_used(void *unit)
{
    const keyed_unit *self = unit;
    return self->count || self->first_step || self->holds || self->leased;
}

/* --- the application's own writes ------------------------------------------------------------- */

static int copy_value(semel_value *out, mem_arena *arena, const semel_value *value)
{
    *out = *value;
    if (value->kind != SEMEL_VALUE_TEXT && value->kind != SEMEL_VALUE_BYTES)
        return 1;
    out->bytes.data = arena_copy(arena, value->bytes.data, value->bytes.len);
    return out->bytes.data != NULL;
}

static semel_status add_statement(keyed_unit *unit, const char *statement,
                                  const semel_value values[], size_t count, semel_error *err)
{
    char *text = arena_copy(&unit->arena, statement, strlen(statement));
    semel_value *copies = arena_alloc(&unit->arena, (count + 1) * sizeof *copies);
    int copied = text && copies;
    for (size_t i = 0; copied && i < count; i++)
        copied = copy_value(&copies[i], &unit->arena, &values[i]);
    keyed_change *change = copied ? keyed_unit_append(unit) : NULL;
    if (!change)
        return keyed_out_of_memory(err);
    change->change.kind = SEMEL_KEYED_FOREIGN;
    change->change.statement = text;
    change->change.values = copies;
    change->change.count = count;
    return SEMEL_OK;
}

static semel_status keyed_queue(void *unit, const char *statement, const semel_value values[],
                                size_t count, semel_error *err)
{
    keyed_unit *self = unit;
    keyed_store *store = self->store;
    semel_status status = store->driver->queue(store->state, statement, values, count, err);
    return status ? status : add_statement(self, statement, values, count, err);
}

/* The driver is asked with values that any statement takes: empty texts. */
static semel_status keyed_check(void *unit, const char *statement, size_t count, size_t *position,
                                semel_error *err)
{
    keyed_unit *self = unit;
    (void)position;
    semel_value *values = arena_alloc(&self->arena, (count + 1) * sizeof *values);
    if (!values)
        return keyed_out_of_memory(err);
    for (size_t i = 0; i < count; i++)
        values[i] = semel_text("");
    return self->store->driver->queue(self->store->state, statement, values, count, err);
}

const semel_store_units keyed_units = {
    .begin = keyed_begin,
    .commit = keyed_commit,
    .rollback = keyed_rollback,
    .savepoint = keyed_savepoint,
    .keep = keyed_keep,
    .undo = keyed_undo_to,
    .used = keyed_used,
};

const semel_store_units keyed_units_native = {
    .begin = keyed_begin,
    .commit = keyed_commit,
    .rollback = keyed_rollback,
    .queue = keyed_queue,
    .check = keyed_check,
    .savepoint = keyed_savepoint,
    .keep = keyed_keep,
    .undo = keyed_undo_to,
    .used = keyed_used,
};
