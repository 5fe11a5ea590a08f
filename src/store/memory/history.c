/* The history of deliveries: a list in the order of the ids, which are given at the commit.
 *
 * Trimming decides in the call and removes at the commit: a unit that is rolled back has removed
 * nothing. Rows that another unit has removed meanwhile are not there to be removed twice. */
#include "base/mem.h"
#include "base/message.h"
#include "store/memory/memory_internal.h"

#include <string.h>

struct memory_delivery {
    memory_delivery *older, *newer;
    mem_arena arena; /* of the texts */
    semel_history row;
};

static void free_chain(memory_delivery *first)
{
    for (memory_delivery *next; first; first = next) {
        next = first->newer;
        arena_free(&first->arena);
        mem_free(first);
    }
}

void memory_history_free(memory_store *store)
{
    free_chain(store->first_delivery);
}

/* --- adding ----------------------------------------------------------------------------------- */

static int copy_text(const char **text, mem_arena *arena)
{
    return (*text = arena_copy(arena, *text, strlen(*text))) != NULL;
}

static int copy_row(memory_delivery *to, const semel_history *row)
{
    to->row = *row;
    if (row->key.data)
        to->row.key.data = arena_copy(&to->arena, row->key.data, row->key.len);
    to->row.message = message_copy_into(&to->arena, row->message);
    return (to->row.key.data || !row->key.data) && to->row.message &&
           copy_text(&to->row.name, &to->arena) && copy_text(&to->row.process, &to->arena) &&
           copy_text(&to->row.error, &to->arena);
}

static memory_delivery *new_delivery(const semel_history *row)
{
    memory_delivery *delivery = mem_alloc(sizeof *delivery);
    if (delivery && copy_row(delivery, row))
        return delivery;
    free_chain(delivery);
    return NULL;
}

static void undo_put(memory_unit *unit, const memory_record *record)
{
    (void)unit;
    free_chain(record->history.first);
}

static void commit_put(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    memory_store *store = unit->store;
    memory_delivery *first = record->history.first; /* there is one: the core puts no empty list */
    (void)now_ms;
    first->older = store->last_delivery;
    for (memory_delivery *at = first; at; at = at->newer)
        at->row.id = ++store->last_delivery_id;
    *(store->last_delivery ? &store->last_delivery->newer : &store->first_delivery) = first;
    store->last_delivery = record->history.last;
}

static const memory_change put_change = {undo_put, commit_put};

static int make_chain(memory_record *record, const semel_history rows[], size_t count)
{
    memory_delivery *first = NULL, *last = NULL;
    for (size_t i = 0; i < count; i++) {
        memory_delivery *delivery = new_delivery(&rows[i]);
        if (!delivery) {
            free_chain(first);
            return 0;
        }
        delivery->older = last;
        *(last ? &last->newer : &first) = delivery;
        last = delivery;
    }
    record->history.first = first;
    record->history.last = last;
    return 1;
}

static semel_status memory_history_put(void *unit_state, const semel_history rows[], size_t count,
                                       semel_error *err)
{
    memory_unit *unit = unit_state;
    pthread_mutex_lock(&unit->store->lock);
    memory_record *record = memory_journal_next(unit);
    int made = record && make_chain(record, rows, count);
    if (made) {
        record->change = &put_change;
        unit->count++;
    }
    pthread_mutex_unlock(&unit->store->lock);
    return made ? SEMEL_OK : memory_out_of_memory(err);
}

/* --- listing ---------------------------------------------------------------------------------- */

static int is_same_key(semel_bytes a, semel_bytes b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static int is_wanted(const semel_history *row, const semel_history_filter *f)
{
    const char *type = row->message->type ? row->message->type : "";
    return row->id < f->before_id && (!f->kind || row->kind == f->kind) &&
           (!f->outcome || row->outcome == f->outcome) && row->at_ms >= f->since_ms &&
           (!f->until_ms || row->at_ms < f->until_ms) &&
           (!f->name || strcmp(row->name, f->name) == 0) &&
           (!f->key.len || is_same_key(row->key, f->key)) &&
           (!f->type || strcmp(type, f->type) == 0);
}

static semel_status memory_history_list(void *state, const semel_history_filter *filter,
                                        semel_history_visitor *visitor, void *context,
                                        semel_error *err)
{
    memory_store *store = state;
    semel_status status = SEMEL_OK;
    uint32_t left = filter->limit;
    pthread_mutex_lock(&store->lock);
    for (const memory_delivery *at = store->last_delivery; !status && at && left; at = at->older) {
        if (!is_wanted(&at->row, filter))
            continue;
        status = visitor(&at->row, context, err);
        left--;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* --- trimming --------------------------------------------------------------------------------- */

static int is_old(const memory_delivery *delivery, int64_t old_id, int64_t cutoff_ms)
{
    return delivery->row.id <= old_id || delivery->row.at_ms < cutoff_ms;
}

static void remove_delivery(memory_store *store, memory_delivery *at)
{
    *(at->older ? &at->older->newer : &store->first_delivery) = at->newer;
    *(at->newer ? &at->newer->older : &store->last_delivery) = at->older;
    at->newer = NULL;
    free_chain(at);
}

static void undo_trim(memory_unit *unit, const memory_record *record)
{
    (void)unit;
    (void)record;
}

static void commit_trim(memory_unit *unit, const memory_record *record, int64_t now_ms)
{
    memory_store *store = unit->store;
    (void)now_ms;
    for (memory_delivery *at = store->first_delivery, *next; at; at = next) {
        next = at->newer;
        if (at->row.id > record->history.last_id)
            return;
        if (is_old(at, record->history.old_id, record->history.cutoff_ms))
            remove_delivery(store, at);
    }
}

static const memory_change trim_change = {undo_trim, commit_trim};

static semel_status memory_history_trim(void *unit_state, uint64_t rows_kept, int64_t cutoff_ms,
                                        uint32_t limit, size_t *removed, semel_error *err)
{
    memory_unit *unit = unit_state;
    size_t old = 0;
    pthread_mutex_lock(&unit->store->lock);
    memory_record *record = memory_journal_next(unit);
    if (record) {
        int64_t last_id = unit->store->last_delivery_id;
        *record = (memory_record){.change = &trim_change};
        record->history.cutoff_ms = cutoff_ms;
        record->history.old_id = rows_kept ? last_id - (int64_t)rows_kept : 0;
        for (const memory_delivery *at = unit->store->first_delivery; at && limit--;
             at = at->newer) {
            record->history.last_id = at->row.id;
            old += (size_t)is_old(at, record->history.old_id, cutoff_ms);
        }
        unit->count++;
    }
    pthread_mutex_unlock(&unit->store->lock);
    if (record)
        *removed = old;
    return record ? SEMEL_OK : memory_out_of_memory(err);
}

static semel_status memory_history_bounds(void *state, int64_t *first_id, int64_t *last_id,
                                          int64_t *first_ms, semel_error *err)
{
    memory_store *store = state;
    (void)err;
    pthread_mutex_lock(&store->lock);
    const memory_delivery *first = store->first_delivery, *last = store->last_delivery;
    *first_id = first ? first->row.id : 0;
    *first_ms = first ? first->row.at_ms : 0;
    *last_id = last ? last->row.id : 0;
    pthread_mutex_unlock(&store->lock);
    return SEMEL_OK;
}

const semel_store_history memory_history = {
    .put = memory_history_put,
    .list = memory_history_list,
    .trim = memory_history_trim,
    .bounds = memory_history_bounds,
};
