/* Retention: a page of markers in the order of their keys, and the removal of those that are over.
 *
 * Markers are removed together with the rise of SEMEL_NOTE_FORGOTTEN, a few in each apply(), each
 * expected as it was read: one that was changed in between stays. Where apply() takes one change,
 * the note is raised first, then the markers go one by one: if the process dies in between, the
 * inbox believes that it has forgotten more than it has, which is harmless.
 *
 * What a dead process has left of a hold over nothing is removed, too, but not before FENCE_MS: it
 * may keep a commit from taking effect whose answer was lost (settle.c). No key is forgotten by
 * that. */
#include "store/keyed/apply.h"
#include "store/keyed/marker.h"

#include <string.h>

enum { REMOVED_AT_ONCE = 100 };
#define FENCE_MS ((int64_t)3600 * 1000)

/* One page on its way. */
typedef struct sweeping {
    keyed_store *store;
    int64_t inbox;
    int64_t cutoff_ms;
    int64_t now_ms;
    uint32_t error_ms;
    mem_arena arena;
    keyed_space notes;
    unsigned char note_key;
    keyed_row *note; /* FORGOTTEN as it is now; NULL: none */
    size_t swept;
    semel_keyed_change changes[REMOVED_AT_ONCE]; /* the first is the note's */
    int64_t changed_ms[REMOVED_AT_ONCE];         /* of the marker that each one removes; 0: none */
    size_t count;
} sweeping;

/* --- what is over ----------------------------------------------------------------------------- */

static int is_over(const sweeping *s, const semel_keyed_record *record, keyed_marker *marker)
{
    if (!keyed_marker_read(marker, record->value))
        return 0; /* damaged: for a person to see */
    if (record->guard && !keyed_is_over(record->until_ms, s->now_ms, s->error_ms))
        return 0;
    if (marker->held == KEYED_HELD_NEW)
        return marker->changed_ms < s->cutoff_ms && marker->changed_ms < s->now_ms - FENCE_MS;
    return marker->changed_ms < s->cutoff_ms &&
           (marker->state != KEYED_DEAD || marker->letter_gone);
}

/* --- removing --------------------------------------------------------------------------------- */

static semel_status read_note(sweeping *s, semel_error *err)
{
    return keyed_get(&s->note, s->store, &s->arena, keyed_space_bytes(&s->notes),
                     (semel_bytes){&s->note_key, 1}, 0, err);
}

static int64_t newest(const sweeping *s)
{
    int64_t newest_ms = 0;
    for (size_t i = 1; i < s->count; i++)
        if (s->changed_ms[i] > newest_ms)
            newest_ms = s->changed_ms[i];
    return newest_ms;
}

/* 1 if the note has to rise; changes[0] is its write then. */
static semel_status plan_note(sweeping *s, int *rises, semel_error *err)
{
    int64_t newest_ms = newest(s);
    semel_keyed_record now = {.space = keyed_space_bytes(&s->notes), .key = {&s->note_key, 1}};
    *rises = newest_ms > (s->note ? keyed_note_number(&s->note->record) : 0);
    if (!*rises)
        return SEMEL_OK;
    if (!keyed_note_encode(&now.value, &s->arena, newest_ms, ""))
        return keyed_out_of_memory(err);
    s->changes[0] = keyed_write_of(s->store, s->note ? &s->note->record : NULL, &now, 0);
    return SEMEL_OK;
}

static void drop_refused(sweeping *s)
{
    size_t kept = 1;
    for (size_t i = 1; i < s->count; i++) {
        if (s->changes[i].refused)
            continue;
        s->changed_ms[kept] = s->changed_ms[i];
        s->changes[kept++] = s->changes[i];
    }
    s->count = kept;
}

/* Together with the note, if it has to rise. */
static semel_status remove_together(sweeping *s, semel_error *err)
{
    keyed_patience patience = {0};
    int rises = 0;
    semel_status status = SEMEL_OK;
    while (s->count > 1) {
        status = plan_note(s, &rises, err);
        if (status)
            return status;
        s->changes[0].refused = 0;
        size_t from = rises ? 0 : 1;
        status = keyed_apply_now(s->store, s->changes + from, s->count - from, SEMEL_BEGIN_DURABLE,
                                 NULL, err);
        if (!status)
            s->swept += s->count - 1;
        if (status != SEMEL_ECONFLICT ||
            !keyed_try_again(&patience, s->store, s->store->settings->busy_ms))
            return status;
        if (rises && s->changes[0].refused)
            status = read_note(s, err);
        if (status && status != SEMEL_ECONFLICT)
            return status;
        drop_refused(s);
    }
    return SEMEL_OK;
}

static semel_status raise_note(sweeping *s, semel_error *err)
{
    keyed_patience patience = {0};
    for (;;) {
        int rises = 0;
        semel_status status = plan_note(s, &rises, err);
        if (status || !rises)
            return status;
        status = keyed_apply_now(s->store, s->changes, 1, SEMEL_BEGIN_DURABLE, NULL, err);
        if (status != SEMEL_ECONFLICT ||
            !keyed_try_again(&patience, s->store, s->store->settings->busy_ms))
            return status;
        status = read_note(s, err);
        if (status)
            return status;
    }
}

static semel_status remove_one_by_one(sweeping *s, semel_error *err)
{
    semel_status status = raise_note(s, err);
    for (size_t i = 1; i < s->count && !status; i++) {
        status = keyed_apply_now(s->store, &s->changes[i], 1, SEMEL_BEGIN_DURABLE, NULL, err);
        s->swept += !status;
        if (status == SEMEL_ECONFLICT && s->changes[i].refused)
            status = SEMEL_OK;
    }
    return status;
}

/* EUNKNOWN: removed or not, the next round finds out. */
static semel_status remove_some(sweeping *s, semel_error *err)
{
    semel_status status = SEMEL_OK;
    int some = s->count > 1;
    if (some)
        status = seam_fault(s->store->seam, "sweep.removed", err);
    if (some && !status)
        status = s->store->driver->abilities & SEMEL_KEYED_MANY ? remove_together(s, err)
                                                                : remove_one_by_one(s, err);
    if (some && !status)
        status = seam_fault(s->store->seam, "sweep.committed", err);
    s->count = 1;
    return status == SEMEL_EUNKNOWN
               ? semel_fail(err, SEMEL_EUNAVAILABLE, "the answer to a sweep was lost")
               : status;
}

/* --- a page ----------------------------------------------------------------------------------- */

static size_t most_at_once(const keyed_store *store)
{
    uint32_t most = store->driver->limits.changes_max;
    return most >= 2 && most < REMOVED_AT_ONCE ? most : REMOVED_AT_ONCE;
}

static semel_status sweep_rows(sweeping *s, const keyed_rows *rows, semel_error *err)
{
    keyed_marker marker;
    size_t most = most_at_once(s->store);
    semel_status status = SEMEL_OK;
    s->count = 1;
    for (const keyed_row *row = rows->first; row && !status; row = row->next) {
        if (!is_over(s, &row->record, &marker))
            continue;
        s->changed_ms[s->count] = marker.held == KEYED_HELD_NEW ? 0 : marker.changed_ms;
        s->changes[s->count++] = keyed_remove_of(&row->record);
        if (s->count == most) {
            status = remove_some(s, err);
            if (!status)
                status = read_note(s, err);
        }
    }
    return status ? status : remove_some(s, err);
}

static void move(semel_sweep_position *position, const keyed_rows *rows, uint32_t asked)
{
    int beside = position->beside;
    if (rows->count < asked || !rows->last) {
        memset(position, 0, sizeof *position);
    } else {
        position->len = rows->last->record.key.len;
        memcpy(position->key, rows->last->record.key.data, position->len);
    }
    position->beside = beside;
}

static semel_status sweep_page(sweeping *s, uint32_t rows, semel_sweep_position *position,
                               semel_error *err)
{
    keyed_space space = keyed_space_of('m', s->inbox);
    keyed_rows found = {.arena = &s->arena};
    semel_keyed_range range = {
        .space = keyed_space_bytes(&space), .after = {position->key, position->len}, .limit = rows};
    semel_status status = keyed_now(s->store, &s->now_ms, &s->error_ms, err);
    if (!status)
        status = keyed_scan(&found, s->store, &range, err);
    if (!status)
        status = read_note(s, err);
    if (!status)
        status = seam_fault(s->store->seam, "sweep.looked", err);
    if (!status)
        status = sweep_rows(s, &found, err);
    if (!status)
        move(position, &found, rows);
    return status;
}

semel_status keyed_sweep(void *store, int64_t inbox, int64_t cutoff_ms, uint32_t rows,
                         semel_sweep_position *position, size_t *swept, semel_error *err)
{
    semel_status status = keyed_check_process(store, err);
    sweeping *s = status ? NULL : mem_alloc(sizeof *s);
    if (!s)
        return status ? status : keyed_out_of_memory(err);
    s->store = store;
    s->inbox = inbox;
    s->cutoff_ms = cutoff_ms;
    s->notes = keyed_space_of('t', inbox);
    s->note_key = SEMEL_NOTE_FORGOTTEN;
    status = sweep_page(s, rows, position, err);
    if (!status)
        *swept = s->swept;
    arena_free(&s->arena);
    mem_free(s);
    return status;
}
