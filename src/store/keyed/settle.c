/* What an answer that was lost means.
 *
 * The request may have been applied, or may be applied at any time from now on, or never. Looking
 * does not tell: the request may arrive after the look. So the same changes are sent again, with
 * the same new versions (commit.c). The database takes only one of the two requests, as long as the
 * first one, if it was applied, has made an expectation of the second untrue for ever: an expected
 * version, which is replaced, or a guard, which is taken away. Versions and tokens are never used
 * twice.
 *
 * If the second request fails for a reason of its own, the first is fenced: the unit's own marker
 * is written, expecting what the lost request expects. A key that was assumed to be new gets a
 * record that means the same as none, and that no sweep removes for an hour.
 *
 * A unit that has only added records has nothing that would make a repetition fail: a relay may
 * have sent and removed a message before the repetition comes. There a record with our version
 * proves that the unit was applied; without one nobody knows, and the commit says so (EUNKNOWN). */
#include "store/keyed/commit.h"
#include "store/keyed/hold.h"

#include <string.h>

/* 1 if applying this change makes its own expectation untrue for ever. */
static int ends_itself(const semel_keyed_change *change)
{
    int writes = change->kind == SEMEL_KEYED_WRITE, removes = change->kind == SEMEL_KEYED_REMOVE;
    if (change->expect == SEMEL_EXPECT_VERSION)
        return writes || removes;
    return change->expect == SEMEL_EXPECT_GUARD &&
           (removes || (writes && change->record.guard != change->expected_guard));
}

int keyed_can_repeat(const keyed_sending *sending)
{
    for (size_t i = 0; i < sending->count; i++)
        if (ends_itself(&sending->changes[i]) || sending->from[i]->role == KEYED_ASSUMED)
            return 1;
    return 0;
}

/* What the unit wanted to remove is gone, and it wanted nothing that cannot be seen. */
static int looks_applied(const keyed_sending *sending)
{
    int removed = 0;
    for (size_t i = 0; i < sending->count; i++) {
        const semel_keyed_change *change = &sending->changes[i];
        if (change->kind == SEMEL_KEYED_FOREIGN)
            return 0;
        if (change->kind != SEMEL_KEYED_REMOVE)
            continue;
        if (!change->refused ||
            keyed_rows_find(&sending->there, change->record.space, change->record.key))
            return 0;
        removed = 1;
    }
    return removed;
}

keyed_verdict keyed_judge(const keyed_sending *sending)
{
    if (keyed_was_applied(sending->changes, sending->count, &sending->there))
        return KEYED_WAS_APPLIED;
    for (size_t i = 0; i < sending->count; i++)
        if (ends_itself(&sending->changes[i]) && !sending->changes[i].refused)
            return KEYED_NOT_APPLIED;
    for (size_t i = 0; i < sending->count; i++)
        if (sending->changes[i].refused &&
            (sending->from[i]->role == KEYED_ASSUMED || sending->from[i]->role == KEYED_OWNED))
            return KEYED_NOT_APPLIED; /* or overtaken: the next look at the key tells */
    return looks_applied(sending) ? KEYED_WAS_APPLIED : KEYED_CANNOT_TELL;
}

/* --- the fence -------------------------------------------------------------------------------- */

static semel_status cannot_tell(semel_error *err)
{
    return semel_fail(err, SEMEL_EUNKNOWN,
                      "the answer to a commit was lost, and the store cannot tell what became of "
                      "it");
}

/* The change by which the lost request can be kept away; NULL: none. */
static const keyed_change *find_own(const keyed_sending *sending)
{
    for (size_t i = 0; i < sending->count; i++)
        if (sending->from[i]->marker &&
            (sending->from[i]->role == KEYED_OWNED || sending->from[i]->role == KEYED_ASSUMED))
            return sending->from[i];
    return NULL;
}

/* The marker as it is without the unit: free, with the attempts that were counted. */
static semel_status make_fence(semel_keyed_change *out, const keyed_sending *sending,
                               const keyed_change *own, semel_error *err)
{
    keyed_store *store = sending->unit->store;
    if (own->hold && !own->hold->claimed && own->hold->was_there) {
        *out = keyed_hold_restore(store, own->hold);
        return SEMEL_OK;
    }
    keyed_marker marker = {.state = KEYED_OPEN, .held = KEYED_HELD_NEW};
    if (own->role == KEYED_OWNED && !(own->hold && !own->hold->claimed)) {
        marker = *own->marker;
        marker.state = KEYED_OPEN;
        marker.has_result = 0;
    }
    *out = own->change;
    out->kind = SEMEL_KEYED_WRITE;
    out->keep_body = 0;
    out->live_at_ms = 0;
    out->record.guard = 0;
    out->record.until_ms = 0;
    out->record.body = (semel_bytes){NULL, 0};
    keyed_new_version(store, out->record.version);
    semel_status status = keyed_now(store, &marker.changed_ms, NULL, err);
    if (status)
        return status;
    return keyed_marker_write(&out->record.value, &sending->unit->arena, &marker)
               ? SEMEL_OK
               : keyed_out_of_memory(err);
}

static int is_ours(const keyed_sending *sending, const keyed_change *own)
{
    const semel_keyed_record *record = &own->change.record;
    const keyed_row *row = keyed_rows_find(&sending->there, record->space, record->key);
    return row && memcmp(row->record.version, record->version, sizeof record->version) == 0;
}

/* Refused: either our commit is there, or somebody else has the key: both keep the lost request
 * away. */
semel_status keyed_fence(keyed_sending *sending, semel_status why, semel_error *err)
{
    semel_error local;
    semel_keyed_change fence;
    keyed_store *store = sending->unit->store;
    const keyed_change *own = find_own(sending);
    if (!own || make_fence(&fence, sending, own, &local))
        return cannot_tell(err);
    semel_status status =
        keyed_apply_now(store, &fence, 1, sending->unit->durability, &sending->there, &local);
    if (status && !(status == SEMEL_ECONFLICT && fence.refused))
        return cannot_tell(err);
    if (status && is_ours(sending, own))
        return SEMEL_OK;
    if (own->hold)
        own->hold->returned = 1;
    return why;
}

/* --- without a marker ------------------------------------------------------------------------- */

semel_status keyed_look_for(keyed_sending *sending, semel_error *err)
{
    for (size_t i = 0; i < sending->count; i++) {
        keyed_row *row = NULL;
        const semel_keyed_change *change = &sending->changes[i];
        if (change->kind != SEMEL_KEYED_WRITE)
            continue;
        if (keyed_get(&row, sending->unit->store, &sending->unit->arena, change->record.space,
                      change->record.key, 0, err))
            break;
        if (row &&
            memcmp(row->record.version, change->record.version, sizeof change->record.version) == 0)
            return SEMEL_OK;
    }
    return cannot_tell(err);
}
