/* Records that a unit writes, and lists of records: see set.h.
 *
 * A list is read by pages into an arena, and visited when a page is complete: the driver's sink
 * must not use the store, and some visitors do. A page is small when bodies are read with it. */
#include "store/keyed/set.h"

#include <string.h>

enum { PAGE = 256, PAGE_OF_BODIES = 16 };

/* --- writing ---------------------------------------------------------------------------------- */

static void expect_first(keyed_change *change, const semel_keyed_record *found)
{
    change->role = KEYED_FIXED;
    change->change.expect = found ? SEMEL_EXPECT_VERSION : SEMEL_EXPECT_ABSENT;
    if (found)
        memcpy(change->change.expected_version, found->version, sizeof found->version);
}

semel_status keyed_set(keyed_unit *unit, const semel_keyed_record *found,
                       const semel_keyed_record *now, int keep_body, semel_error *err)
{
    keyed_change *change = keyed_unit_change(unit, now->space, now->key);
    if (!change)
        return keyed_out_of_memory(err);
    semel_keyed_record before = change->change.record;
    int has_own_body = change->change.kind == SEMEL_KEYED_WRITE && !change->change.keep_body;
    if (!change->change.kind)
        expect_first(change, found);
    change->change.kind = SEMEL_KEYED_WRITE;
    change->change.record = *now;
    change->change.record.space = before.space;
    change->change.record.key = before.key;
    change->change.keep_body = keep_body && !has_own_body;
    if (keep_body)
        change->change.record.body = has_own_body ? before.body : (semel_bytes){NULL, 0};
    keyed_new_version(unit->store, change->change.record.version);
    return SEMEL_OK;
}

semel_status keyed_unset(keyed_unit *unit, const semel_keyed_record *found, semel_error *err)
{
    keyed_change *change = keyed_unit_change(unit, found->space, found->key);
    if (!change)
        return keyed_out_of_memory(err);
    if (!change->change.kind)
        expect_first(change, found);
    change->change.kind =
        change->change.expect == SEMEL_EXPECT_ABSENT ? SEMEL_KEYED_CHECK : SEMEL_KEYED_REMOVE;
    change->change.keep_body = 0;
    return SEMEL_OK;
}

/* Numbers of two processes may be in the wrong order within a millisecond. Where people see them,
 * the last one is read. */
semel_status keyed_next_number(keyed_store *store, char space, int64_t *out, semel_error *err)
{
    keyed_space in = keyed_space_plain(space);
    mem_arena arena = {NULL, NULL};
    keyed_rows rows = {.arena = &arena};
    semel_keyed_range range = {.space = keyed_space_bytes(&in), .limit = 1, .descending = 1};
    semel_status status = keyed_scan(&rows, store, &range, err);
    int64_t least = 0;
    if (!status && rows.first && rows.first->record.key.len == KEYED_NUMBER_LEN)
        least = keyed_number_read(rows.first->record.key.data);
    if (!status)
        status = keyed_number(store, least < INT64_MAX ? least + 1 : 0, out, err);
    arena_free(&arena);
    return status;
}

/* --- lists ------------------------------------------------------------------------------------ */

static int compare(semel_bytes a, semel_bytes b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

typedef struct list_run {
    keyed_store *store;
    const keyed_unit *unit;
    const semel_keyed_range *range;
    keyed_visit *visit;
    void *context;
    uint32_t left;
    semel_bytes after; /* of the unit's own records, which were visited up to here */
    unsigned char room[SEMEL_KEYED_KEY_MAX]; /* for it */
} list_run;

static int is_new_in_range(const list_run *run, const semel_keyed_change *change, semel_bytes until)
{
    return change->kind == SEMEL_KEYED_WRITE && change->expect == SEMEL_EXPECT_ABSENT &&
           keyed_same(change->record.space, run->range->space) &&
           (!run->after.len || compare(change->record.key, run->after) > 0) &&
           (!until.len || compare(change->record.key, until) < 0);
}

/* The first record behind run->after that only this unit knows. */
static const semel_keyed_record *next_own(const list_run *run, semel_bytes until)
{
    const semel_keyed_record *next = NULL;
    for (size_t i = 0; run->unit && i < run->unit->count; i++) {
        const semel_keyed_change *change = &run->unit->changes[i]->change;
        if (is_new_in_range(run, change, until) &&
            (!next || compare(change->record.key, next->key) < 0))
            next = &change->record;
    }
    return next;
}

static semel_status visit_own(list_run *run, semel_bytes until, semel_error *err)
{
    const semel_keyed_record *own;
    semel_status status = SEMEL_OK;
    while (!status && run->left && (own = next_own(run, until)) != NULL) {
        run->after = own->key;
        status = run->visit(own, run->context, &run->left, err);
    }
    return status;
}

static semel_status visit_row(list_run *run, const keyed_row *row, semel_error *err)
{
    const keyed_change *change =
        run->unit ? keyed_unit_find(run->unit, row->record.space, row->record.key) : NULL;
    semel_status status = run->unit ? visit_own(run, row->record.key, err) : SEMEL_OK;
    if (status || !run->left)
        return status;
    run->after = row->record.key;
    if (!change)
        return run->visit(&row->record, run->context, &run->left, err);
    if (change->change.kind != SEMEL_KEYED_WRITE)
        return SEMEL_OK;
    semel_keyed_record now = change->change.record;
    if (change->change.keep_body)
        now.body = row->record.body;
    return run->visit(&now, run->context, &run->left, err);
}

static int keep_key(semel_bytes *out, unsigned char room[SEMEL_KEYED_KEY_MAX], semel_bytes key)
{
    if (key.len > SEMEL_KEYED_KEY_MAX)
        return 0;
    memcpy(room, key.data, key.len);
    *out = (semel_bytes){room, key.len};
    return 1;
}

static semel_status list_pages(list_run *run, mem_arena *arena, semel_error *err)
{
    semel_keyed_range page = *run->range;
    keyed_rows rows;
    semel_status status;
    uint32_t most = page.bodies ? PAGE_OF_BODIES : PAGE;
    page.limit = run->left < most ? run->left : most;
    for (;; page.limit = most) { /* a visitor that has not counted them all is choosy */
        rows = (keyed_rows){.arena = arena};
        arena_reset(arena);
        status = keyed_scan(&rows, run->store, &page, err);
        for (const keyed_row *row = rows.first; row && run->left && !status; row = row->next)
            status = visit_row(run, row, err);
        if (!status && rows.last && !keep_key(&page.after, run->room, rows.last->record.key))
            status = semel_fail(err, SEMEL_ESTORE,
                                "a key in the database is longer than any of "
                                "semel's");
        run->after = page.after;
        if (status || !run->left || rows.count < page.limit)
            break;
    }
    return status || !run->left ? status : visit_own(run, run->range->until, err);
}

semel_status keyed_list(keyed_store *store, const keyed_unit *unit, const semel_keyed_range *range,
                        keyed_visit *visit, void *context, semel_error *err)
{
    mem_arena arena = {NULL, NULL};
    list_run run = {.store = store,
                    .unit = unit,
                    .range = range,
                    .visit = visit,
                    .context = context,
                    .left = range->limit,
                    .after = range->after};
    semel_status status = list_pages(&run, &arena, err);
    arena_free(&arena);
    return status;
}

static semel_status count_one(const semel_keyed_record *record, void *context, uint32_t *left,
                              semel_error *err)
{
    (void)record, (void)left, (void)err;
    ++*(uint64_t *)context;
    return SEMEL_OK;
}

semel_status keyed_count(keyed_store *store, semel_bytes space, uint64_t *out, semel_error *err)
{
    const semel_keyed_range all = {.space = space, .limit = PAGE};
    *out = 0;
    return store->driver->count ? store->driver->count(store->state, space, out, err)
                                : keyed_list(store, NULL, &all, count_one, out, err);
}
