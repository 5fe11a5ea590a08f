/* mark: keys become this unit's, in one apply() for all of them.
 *
 * Most keys are new, so the first try expects that none of them is there; what is refused comes
 * back with its record and is decided by it. All keys that are free are taken together or not at
 * all: while the call waits for keys that others hold, it holds none itself, and two batches that
 * share keys cannot wait for each other.
 *
 * The handler runs between this write and the commit. The hold keeps other copies away meanwhile;
 * the buffered change to "done" expects the hold's token. If the process dies before the commit,
 * the hold ends, and what is left is the record that was there before, or one that means the same
 * as none (KEYED_HELD_NEW). */
#include "store/keyed/apply.h"
#include "store/keyed/hold.h"

#include <string.h>

enum { POLL_FIRST_MS = 2, POLL_MAX_MS = 50 };

/* One key of the call. */
typedef struct taking {
    semel_mark *mark;
    uint32_t known_elsewhere; /* attempts */
    keyed_found found;        /* as far as it is known; at first: nothing is there */
    int decided;              /* nothing is to be written for it */
    int held;
    keyed_hold *hold;
} taking;

typedef struct marking {
    keyed_unit *unit;
    taking *all;
    size_t count;
    semel_keyed_change *writes;
    taking **written; /* the key of each */
    size_t write_count;
} marking;

static void decide(taking *t)
{
    t->mark->attempts = t->known_elsewhere;
    keyed_marker_report(t->mark, &t->found);
    t->held = t->mark->state == SEMEL_MARK_HELD;
    t->decided = t->mark->state == SEMEL_MARK_DONE || t->mark->state == SEMEL_MARK_DEAD;
}

static semel_status see(marking *m, taking *t, const keyed_row *row, semel_error *err)
{
    semel_status status = keyed_now(m->unit->store, &t->found.now_ms, &t->found.error_ms, err);
    if (!status)
        status = keyed_marker_take(&t->found, row ? &row->record : NULL, err);
    if (!status)
        decide(t);
    return status;
}

/* --- the hold --------------------------------------------------------------------------------- */

static semel_status make_hold(marking *m, taking *t, semel_error *err)
{
    keyed_unit *unit = m->unit;
    keyed_marker marker = t->found.known ? t->found.marker : (keyed_marker){.state = KEYED_OPEN};
    marker.held = t->found.known ? KEYED_HELD_OPEN : KEYED_HELD_NEW;
    if (!t->found.known)
        marker.changed_ms = t->found.now_ms;
    if (!t->hold)
        t->hold = keyed_hold_new(unit, keyed_space_bytes(&t->found.space), t->mark->key);
    if (!t->hold || !keyed_marker_write(&t->hold->value, &unit->arena, &marker))
        return keyed_out_of_memory(err);
    if (!t->hold->token)
        t->hold->token = keyed_new_token(unit->store);
    t->hold->until_ms = t->found.now_ms + keyed_hold_ms;
    t->hold->expires_ms = keyed_marker_expires(unit->store, t->found.now_ms, t->mark->keep_ms);
    t->hold->was_there = t->found.there;
    t->hold->before = t->found.record;
    return SEMEL_OK;
}

static semel_keyed_change hold_write(keyed_store *store, const taking *t)
{
    semel_keyed_record now = {.space = t->hold->space,
                              .key = t->hold->key,
                              .guard = t->hold->token,
                              .until_ms = t->hold->until_ms,
                              .value = t->hold->value};
    semel_keyed_change change =
        keyed_write_of(store, t->found.there ? &t->found.record : NULL, &now, 1);
    if (!t->found.there)
        change.keep_body = 0;
    change.expires_ms = t->hold->expires_ms;
    return change;
}

static semel_status plan_holds(marking *m, semel_error *err)
{
    semel_status status = SEMEL_OK;
    m->write_count = 0;
    for (size_t i = 0; i < m->count && !status; i++) {
        taking *t = &m->all[i];
        if (t->decided || t->held)
            continue;
        status = make_hold(m, t, err);
        if (status)
            break;
        m->written[m->write_count] = t;
        m->writes[m->write_count++] = hold_write(m->unit->store, t);
    }
    return status;
}

/* What was refused is known now. */
static semel_status see_refused(marking *m, const keyed_rows *there, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < m->write_count && !status; i++)
        if (m->writes[i].refused)
            status = see(m, m->written[i],
                         keyed_rows_find(there, m->writes[i].record.space, m->writes[i].record.key),
                         err);
    return status;
}

/* 1 in *again: something was refused, and nothing was written. A hold whose answer was lost ends by
 * itself, if it was written at all. */
static semel_status write_holds(marking *m, int *again, semel_error *err)
{
    keyed_rows there = {.arena = &m->unit->arena};
    *again = 0;
    semel_status status = plan_holds(m, err);
    if (status || !m->write_count)
        return status;
    status = keyed_apply_now(m->unit->store, m->writes, m->write_count, SEMEL_BEGIN_RELAXED, &there,
                             err);
    if (status == SEMEL_EUNKNOWN)
        return semel_fail(err, SEMEL_EUNAVAILABLE,
                          "the answer of the store was lost while keys were taken; if they were, "
                          "they are free again in %u s",
                          keyed_hold_ms / 1000);
    *again = status == SEMEL_ECONFLICT && keyed_refused(m->writes, m->write_count) > 0;
    return *again ? see_refused(m, &there, err) : status;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static int any_held(const marking *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->all[i].held)
            return 1;
    return 0;
}

static semel_status look_again(marking *m, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < m->count && !status; i++) {
        taking *t = &m->all[i];
        keyed_row *row = NULL;
        if (!t->held)
            continue;
        status = keyed_get(&row, m->unit->store, &m->unit->arena,
                           keyed_space_bytes(&t->found.space), t->mark->key, 0, err);
        if (!status)
            status = see(m, t, row, err);
    }
    return status;
}

static semel_status wait_for_held(marking *m, int64_t end_ms, semel_error *err)
{
    semel_status status = SEMEL_OK;
    int64_t pause_ms = POLL_FIRST_MS;
    while (!status && any_held(m)) {
        int64_t left_ms = end_ms - keyed_wait_clock_ms(m->unit->store);
        if (left_ms <= 0)
            break;
        keyed_wait_for_holds(m->unit->store, (uint32_t)(left_ms < pause_ms ? left_ms : pause_ms));
        status = look_again(m, err);
        pause_ms = pause_ms * 2 < POLL_MAX_MS ? pause_ms * 2 : POLL_MAX_MS;
    }
    return status;
}

static semel_status take_all(marking *m, uint32_t wait_ms, semel_error *err)
{
    int again = 1;
    semel_status status = SEMEL_OK;
    int64_t end_ms = wait_ms ? keyed_wait_clock_ms(m->unit->store) + wait_ms : 0;
    while (again && !status) {
        if (wait_ms)
            status = wait_for_held(m, end_ms, err);
        if (!status)
            status = write_holds(m, &again, err);
    }
    return status;
}

/* --- the call --------------------------------------------------------------------------------- */

static semel_status plan_done(marking *m, taking *t, semel_error *err)
{
    keyed_marker marker = {.state = KEYED_DONE,
                           .attempts = t->mark->attempts,
                           .fingerprint = t->mark->fingerprint,
                           .first_ms = keyed_marker_first(&t->found)};
    keyed_marker_details(&marker, t->mark);
    return keyed_marker_change(m->unit, &t->found, t->mark, &marker) ? SEMEL_OK
                                                                     : keyed_out_of_memory(err);
}

/* What the unit itself knows of the key; else it is assumed to be new. */
static semel_status prepare(marking *m, taking *t, semel_mark *mark, semel_error *err)
{
    *t = (taking){.mark = mark, .known_elsewhere = mark->attempts};
    keyed_space space = keyed_space_of('m', mark->inbox);
    if (mark->key.len == 0 || mark->key.len > SEMEL_KEY_MAX)
        return semel_fail(err, SEMEL_EINVAL, "a key of %zu bytes: it must have 1 to %zu",
                          mark->key.len, SEMEL_KEY_MAX);
    t->hold = keyed_hold_find(m->unit, keyed_space_bytes(&space), mark->key);
    if (!t->hold && !keyed_unit_find(m->unit, keyed_space_bytes(&space), mark->key)) {
        t->found.space = space;
        return see(m, t, NULL, err);
    }
    semel_status status = keyed_marker_look(&t->found, m->unit, mark, err);
    if (status)
        return status;
    decide(t);
    if (mark->state == SEMEL_MARK_TAKEN)
        status = plan_done(m, t, err);
    t->held = 0; /* by this unit's own claim: it is not waited for */
    t->decided = 1;
    return status;
}

static semel_status begin_marking(marking *m, semel_mark marks[], semel_error *err)
{
    mem_arena *arena = &m->unit->arena;
    semel_status status = keyed_keeper_start(m->unit->store, err);
    m->all = arena_alloc(arena, m->count * sizeof *m->all);
    m->writes = arena_alloc(arena, m->count * sizeof *m->writes);
    m->written = arena_alloc(arena, m->count * sizeof(taking *));
    if (!status && (!m->all || !m->writes || !m->written))
        status = keyed_out_of_memory(err);
    for (size_t i = 0; i < m->count && !status; i++)
        status = prepare(m, &m->all[i], &marks[i], err);
    return status;
}

/* All that was written is the unit's before anything else can fail: a rollback gives it back. */
static semel_status take_prepared(marking *m, uint32_t wait_ms, semel_error *err)
{
    semel_status status = take_all(m, wait_ms, err);
    if (status)
        return status;
    for (size_t i = 0; i < m->write_count; i++) {
        m->written[i]->found.hold = m->written[i]->hold;
        keyed_hold_add(m->unit, m->written[i]->hold);
    }
    for (size_t i = 0; i < m->write_count && !status; i++)
        status = plan_done(m, m->written[i], err);
    return status;
}

semel_status keyed_mark(void *unit, semel_mark marks[], size_t count, uint32_t wait_ms,
                        semel_error *err)
{
    keyed_unit *self = unit;
    uint32_t most = self->store->driver->limits.changes_max;
    marking m = {.unit = self, .count = count};
    if (!count)
        return SEMEL_OK;
    if (most && count > most)
        return semel_fail(err, SEMEL_ELIMIT, "%zu keys at once: a %s: store takes %u changes",
                          count, self->store->driver->scheme, (unsigned)most);
    semel_status status = begin_marking(&m, marks, err);
    return status ? status : take_prepared(&m, wait_ms, err);
}

/* --- assume ----------------------------------------------------------------------------------- */

/* Nothing is asked: the commit tells. */
semel_status keyed_assume(void *unit, semel_mark *mark, uint32_t wait_ms, semel_error *err)
{
    keyed_unit *self = unit;
    keyed_found found = {.space = keyed_space_of('m', mark->inbox)};
    (void)wait_ms;
    if (keyed_unit_find(self, keyed_space_bytes(&found.space), mark->key))
        return semel_fail(err, SEMEL_EMISUSE, "a key is assumed to be free that this unit has");
    semel_status status = keyed_now(self->store, &found.now_ms, &found.error_ms, err);
    if (status)
        return status;
    keyed_marker marker = {
        .state = KEYED_DONE, .attempts = mark->attempts, .fingerprint = mark->fingerprint};
    keyed_marker_details(&marker, mark);
    keyed_change *change = keyed_marker_change(self, &found, mark, &marker);
    if (!change)
        return keyed_out_of_memory(err);
    mark->state = SEMEL_MARK_FREE;
    change->role = KEYED_ASSUMED;
    change->assumed = mark;
    change->wait_ms = wait_ms;
    return SEMEL_OK;
}
