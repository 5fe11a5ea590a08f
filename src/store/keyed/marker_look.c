/* A key as a unit sees it, and the unit's change of it.
 *
 * A marker's change is kept decoded until the commit, which gives it the time of its last change.
 * What the change expects is decided when the unit first changes the key, and stays: the version
 * that was found, or the token of the unit's own hold or claim. */
#include "store/keyed/hold.h"

#include <string.h>

#define EXTRA_MS    ((int64_t)7 * 24 * 3600 * 1000)
#define KEEP_MAX_MS ((uint64_t)100 * 366 * 24 * 3600 * 1000)

semel_status keyed_marker_take(keyed_found *out, const semel_keyed_record *record, semel_error *err)
{
    out->there = record != NULL;
    out->known = out->was_fence = 0;
    out->marker = (keyed_marker){.state = KEYED_OPEN};
    if (!record)
        return SEMEL_OK;
    out->record = *record;
    if (!keyed_marker_read(&out->marker, record->value))
        return semel_fail(err, SEMEL_ESTORE, "a marker is damaged, or of a newer version of semel");
    out->known = out->marker.held != KEYED_HELD_NEW;
    out->was_fence = !out->known;
    return SEMEL_OK;
}

static void take_change(keyed_found *out, const keyed_change *change)
{
    out->change = change;
    out->there = out->known = change->change.kind == SEMEL_KEYED_WRITE;
    out->record = change->change.record;
    if (!out->known)
        return;
    out->marker = *change->marker;
    out->known = out->marker.held != KEYED_HELD_NEW;
    out->was_fence = !out->known;
    out->marker.changed_ms = out->now_ms;
}

/* A claim is seen as it was written; a hold, whose change was undone, as what it was written
 * over. */
static semel_status take_hold(keyed_found *out, keyed_hold *hold, semel_error *err)
{
    if (!hold->claimed)
        return keyed_marker_take(out, hold->was_there ? &hold->before : NULL, err);
    semel_keyed_record record = {.space = hold->space,
                                 .key = hold->key,
                                 .guard = hold->token,
                                 .until_ms = hold->until_ms,
                                 .value = hold->value};
    return keyed_marker_take(out, &record, err);
}

static semel_status take_stored(keyed_found *out, keyed_unit *unit, semel_bytes key,
                                semel_error *err)
{
    keyed_row *row = NULL;
    semel_status status =
        keyed_get(&row, unit->store, &unit->arena, keyed_space_bytes(&out->space), key, 0, err);
    return status ? status : keyed_marker_take(out, row ? &row->record : NULL, err);
}

semel_status keyed_marker_look(keyed_found *out, keyed_unit *unit, const semel_mark *mark,
                               semel_error *err)
{
    *out = (keyed_found){.space = keyed_space_of('m', mark->inbox)};
    if (mark->key.len == 0 || mark->key.len > SEMEL_KEY_MAX)
        return semel_fail(err, SEMEL_EINVAL, "a key of %zu bytes: it must have 1 to %zu",
                          mark->key.len, SEMEL_KEY_MAX);
    semel_status status = keyed_now(unit->store, &out->now_ms, &out->error_ms, err);
    if (status)
        return status;
    const keyed_change *change = keyed_unit_find(unit, keyed_space_bytes(&out->space), mark->key);
    out->hold = keyed_hold_find(unit, keyed_space_bytes(&out->space), mark->key);
    if (change) {
        take_change(out, change);
        return SEMEL_OK;
    }
    return out->hold ? take_hold(out, out->hold, err) : take_stored(out, unit, mark->key, err);
}

/* --- what is told of it ----------------------------------------------------------------------- */

static int is_held(const keyed_found *found)
{
    return found->there && found->marker.state == KEYED_OPEN && found->record.guard &&
           !keyed_is_over(found->record.until_ms, found->now_ms, found->error_ms);
}

semel_mark_state keyed_marker_state_of(const keyed_found *found)
{
    if (is_held(found))
        return SEMEL_MARK_HELD;
    if (!found->known || found->marker.state == KEYED_OPEN)
        return SEMEL_MARK_TAKEN;
    return found->marker.state == KEYED_DONE ? SEMEL_MARK_DONE : SEMEL_MARK_DEAD;
}

/* Of a key that an open unit holds nothing is told but that. */
void keyed_marker_report(semel_mark *mark, const keyed_found *found)
{
    uint32_t known_elsewhere = mark->attempts;
    mark->known_fingerprint = 0;
    mark->held_until_ms = 0;
    mark->unproven = found->known && found->marker.unproven;
    mark->state = keyed_marker_state_of(found);
    if (mark->state == SEMEL_MARK_HELD)
        mark->held_until_ms = found->record.until_ms;
    if (!found->known)
        return;
    mark->known_fingerprint = found->marker.fingerprint;
    mark->attempts = found->marker.attempts;
    mark->changed_ms = found->marker.changed_ms;
    mark->first_ms = found->marker.first_ms ? found->marker.first_ms : found->marker.changed_ms;
    if (mark->state == SEMEL_MARK_TAKEN && mark->attempts < known_elsewhere)
        mark->attempts = known_elsewhere;
}

int64_t keyed_marker_first(const keyed_found *found)
{
    if (!found->known)
        return 0;
    if (found->marker.first_ms || found->marker.state == KEYED_DONE)
        return found->marker.first_ms;
    return found->marker.changed_ms;
}

semel_status keyed_look(void *unit, semel_mark *mark, semel_error *err)
{
    keyed_found found;
    semel_status status = keyed_marker_look(&found, unit, mark, err);
    if (status)
        return status;
    mark->attempts = 0;
    keyed_marker_report(mark, &found);
    if (mark->state == SEMEL_MARK_TAKEN)
        mark->state = SEMEL_MARK_FREE;
    return SEMEL_OK;
}

/* --- the unit's change ------------------------------------------------------------------------ */

void keyed_marker_details(keyed_marker *marker, const semel_mark *mark)
{
    marker->type = mark->type;
    marker->source = mark->source;
    marker->received_ms = mark->received_ms;
}

/* A safety net only: sweeps come first, and note what they remove. */
int64_t keyed_marker_expires(const keyed_store *store, int64_t now_ms, uint64_t keep_ms)
{
    if (!(store->driver->abilities & SEMEL_KEYED_EXPIRES) || keep_ms == 0 || keep_ms > KEEP_MAX_MS)
        return 0;
    return now_ms + (int64_t)keep_ms + EXTRA_MS;
}

static void expect_hold(keyed_change *change, keyed_hold *hold)
{
    change->role = KEYED_OWNED;
    change->hold = hold;
    change->change.expect = SEMEL_EXPECT_GUARD;
    change->change.expected_guard = hold->token;
}

static void expect_found(keyed_change *change, const keyed_found *found)
{
    change->change.expect = found->there ? SEMEL_EXPECT_VERSION : SEMEL_EXPECT_ABSENT;
    memcpy(change->change.expected_version, found->record.version, sizeof found->record.version);
}

/* The unit's change of the key; a new one expects what was found. */
static keyed_change *own_change(keyed_unit *unit, const keyed_found *found, semel_bytes key)
{
    keyed_change *change = keyed_unit_change(unit, keyed_space_bytes(&found->space), key);
    if (!change || change->change.kind)
        return change;
    if (found->hold)
        expect_hold(change, found->hold);
    else
        expect_found(change, found);
    keyed_new_version(unit->store, change->change.record.version);
    return change;
}

keyed_change *keyed_marker_change(keyed_unit *unit, const keyed_found *found,
                                  const semel_mark *mark, const keyed_marker *marker)
{
    keyed_marker *copy = arena_copy(&unit->arena, marker, sizeof *marker);
    void *why = arena_copy(&unit->arena, marker->why.data, marker->why.len);
    keyed_change *change = copy && why ? own_change(unit, found, mark->key) : NULL;
    if (!change)
        return NULL;
    copy->why.data = why;
    copy->held = marker->held == KEYED_HELD_NEW ? KEYED_HELD_NEW : KEYED_NOT_HELD;
    copy->unproven = 0; /* the commit proves it */
    change->marker = copy;
    change->change.kind = SEMEL_KEYED_WRITE;
    change->change.keep_body = 0;
    change->change.expires_ms = keyed_marker_expires(unit->store, found->now_ms, mark->keep_ms);
    change->change.record.guard = 0;
    change->change.record.until_ms = 0;
    change->change.record.body = (semel_bytes){NULL, 0};
    return change;
}

/* Where there was a hold that had ended, it comes back: it may fence a commit that is still on its
 * way (settle.c). What is to be absent and was absent is left alone, but still expected. */
semel_status keyed_marker_remove(keyed_unit *unit, const keyed_found *found, const semel_mark *mark,
                                 semel_error *err)
{
    const keyed_hold *hold = found->hold;
    if (found->was_fence || (hold && hold->was_there && !keyed_marker_known(&hold->before))) {
        static const keyed_marker fence = {.state = KEYED_OPEN, .held = KEYED_HELD_NEW};
        return keyed_marker_change(unit, found, mark, &fence) ? SEMEL_OK : keyed_out_of_memory(err);
    }
    keyed_change *change = own_change(unit, found, mark->key);
    if (!change)
        return keyed_out_of_memory(err);
    change->marker = NULL;
    change->change.record.guard = 0;
    change->change.record.until_ms = 0;
    change->change.kind =
        change->change.expect == SEMEL_EXPECT_ABSENT ? SEMEL_KEYED_CHECK : SEMEL_KEYED_REMOVE;
    return SEMEL_OK;
}
