/* The commit of a unit: all that it has buffered, in one apply().
 *
 * Before: nothing but holds and claims has been written. After: everything, or nothing. If the
 * process dies during the call, it is one of the two, as the database decides. Changes that depend
 * on what is there (KEYED_LATE) are built right before, and built anew if they are refused. A
 * change of another role that is refused ends the unit. */
#include "store/keyed/commit.h"

#include "store/keyed/buffer.h"
#include "store/keyed/hold.h"

#include <string.h>

/* --- what is sent ----------------------------------------------------------------------------- */

/* Values of markers, with the time of their last change. Once: a repetition sends the same. */
static semel_status encode_markers(keyed_unit *unit, semel_error *err)
{
    int64_t now_ms;
    semel_status status = unit->count ? keyed_now(unit->store, &now_ms, NULL, err) : SEMEL_OK;
    for (size_t i = 0; i < unit->count && !status; i++) {
        keyed_change *change = unit->changes[i];
        if (!change->marker || change->change.kind != SEMEL_KEYED_WRITE)
            continue;
        keyed_marker marker = *change->marker;
        marker.changed_ms = now_ms;
        if (!keyed_marker_write(&change->change.record.value, &unit->arena, &marker))
            status = keyed_out_of_memory(err);
    }
    return status;
}

static semel_status build_steps(keyed_unit *unit, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (const keyed_step *step = unit->first_step; step && !status; step = step->next)
        status = step->build(unit, step->context, err);
    return status;
}

/* Keys that the unit holds, and after an undo has no change for. */
static semel_status build_returns(keyed_unit *unit, semel_error *err)
{
    for (keyed_hold *hold = unit->holds; hold; hold = hold->next_of_unit) {
        if (hold->claimed || hold->returned || keyed_unit_find(unit, hold->space, hold->key))
            continue;
        semel_keyed_change restore = keyed_hold_restore(unit->store, hold);
        keyed_change *change = keyed_unit_change(unit, hold->space, hold->key);
        if (!change)
            return keyed_out_of_memory(err);
        change->change = restore;
        change->role = KEYED_LATE;
        change->hold = hold;
    }
    return SEMEL_OK;
}

static semel_status gather(keyed_sending *sending, semel_error *err)
{
    keyed_unit *unit = sending->unit;
    sending->count = unit->count;
    sending->from = unit->changes;
    sending->changes = arena_alloc(&unit->arena, (unit->count + 1) * sizeof *sending->changes);
    if (!sending->changes)
        return keyed_out_of_memory(err);
    for (size_t i = 0; i < unit->count; i++)
        sending->changes[i] = unit->changes[i]->change;
    return SEMEL_OK;
}

static int writes_something(const keyed_sending *sending)
{
    for (size_t i = 0; i < sending->count; i++)
        if (sending->changes[i].kind != SEMEL_KEYED_CHECK)
            return 1;
    return 0;
}

/* --- limits ----------------------------------------------------------------------------------- */

static uint64_t size_of(const semel_keyed_change *change)
{
    const semel_keyed_record *record = &change->record;
    return (uint64_t)record->space.len + record->key.len + record->value.len + record->body.len;
}

static semel_status check_limits(const keyed_sending *sending, semel_error *err)
{
    const semel_keyed_driver *driver = sending->unit->store->driver;
    const semel_keyed_limits *limits = &driver->limits;
    uint64_t all = 0;
    if (limits->changes_max && sending->count > limits->changes_max)
        return semel_fail(err, SEMEL_ELIMIT,
                          "a unit with %zu changes of records: a %s: store takes %u at once. Send "
                          "or write less in one unit",
                          sending->count, driver->scheme, (unsigned)limits->changes_max);
    for (size_t i = 0; i < sending->count; i++) {
        uint64_t size = size_of(&sending->changes[i]);
        all += size;
        if (limits->record_max && size > limits->record_max)
            return semel_fail(err, SEMEL_ELIMIT,
                              "a record of %llu bytes: a %s: store takes %llu. It holds one "
                              "message, with headers and body, or the result of one",
                              (unsigned long long)size, driver->scheme,
                              (unsigned long long)limits->record_max);
    }
    if (limits->apply_max && all > limits->apply_max)
        return semel_fail(
            err, SEMEL_ELIMIT, "a unit with %llu bytes: a %s: store takes %llu at once",
            (unsigned long long)all, driver->scheme, (unsigned long long)limits->apply_max);
    return SEMEL_OK;
}

/* --- what a refusal means --------------------------------------------------------------------- */

/* A key that was assumed to be new: what is it? One that is held is waited for by `mark`, if the
 * inbox waits. */
static semel_status tell_assumed(const keyed_sending *sending, const keyed_change *change,
                                 semel_error *err)
{
    keyed_found found = {0};
    semel_error ignored;
    semel_mark *mark = change->assumed;
    const keyed_row *row =
        keyed_rows_find(&sending->there, change->change.record.space, change->change.record.key);
    mark->state = SEMEL_MARK_FREE;
    if (!keyed_now(sending->unit->store, &found.now_ms, &found.error_ms, &ignored) &&
        !keyed_marker_take(&found, row ? &row->record : NULL, &ignored)) {
        uint32_t attempts = mark->attempts;
        keyed_marker_report(mark, &found);
        if (mark->state == SEMEL_MARK_TAKEN ||
            (mark->state == SEMEL_MARK_HELD && change->wait_ms)) {
            mark->state = SEMEL_MARK_FREE;
            mark->attempts = attempts;
        }
    }
    return semel_fail(err, SEMEL_EREJECTED, "the key is not new: nothing was changed");
}

static semel_status tell_lost(const keyed_change *change, semel_error *err)
{
    if (change->hold && !change->hold->claimed)
        return semel_fail(err, SEMEL_ECONFLICT,
                          "the key was lost while the message was handled: nothing was changed");
    return semel_fail(err, SEMEL_ELOST, "the key is no longer this claim's: nothing was changed");
}

/* The first refused change of this role; NULL: none. */
static const keyed_change *find_refused(const keyed_sending *sending, keyed_role role)
{
    for (size_t i = 0; i < sending->count; i++)
        if (sending->changes[i].refused && sending->from[i]->role == role)
            return sending->from[i];
    return NULL;
}

/* OK: only what was built late was refused, and may be built anew. */
static semel_status tell_refused(const keyed_sending *sending, semel_error *err)
{
    const keyed_change *change = find_refused(sending, KEYED_ASSUMED);
    if (change)
        return tell_assumed(sending, change, err);
    change = find_refused(sending, KEYED_OWNED);
    if (change)
        return tell_lost(change, err);
    if (find_refused(sending, KEYED_FIXED))
        return semel_fail(err, SEMEL_ECONFLICT, "another unit has changed the same record");
    return SEMEL_OK;
}

/* Holds that cannot be given back, being somebody else's. */
static void drop_returns(const keyed_sending *sending)
{
    for (size_t i = 0; i < sending->count; i++)
        if (sending->changes[i].refused && sending->from[i]->role == KEYED_LATE &&
            sending->from[i]->hold)
            sending->from[i]->hold->returned = 1;
}

/* The keys that were refused and are not among the records have none. */
int keyed_unit_refused(const keyed_row **out, const keyed_unit *unit, semel_bytes space,
                       semel_bytes key)
{
    const keyed_sending *last = unit->sending;
    for (size_t i = 0; last && i < last->count; i++) {
        const semel_keyed_record *record = &last->changes[i].record;
        if (!last->changes[i].refused || !keyed_same(record->key, key) ||
            !keyed_same(record->space, space))
            continue;
        *out = keyed_rows_find(&last->there, space, key);
        return 1;
    }
    return 0;
}

/* --- sending ---------------------------------------------------------------------------------- */

static int is_passing(semel_status status)
{
    return status == SEMEL_EUNKNOWN || status == SEMEL_EUNAVAILABLE || status == SEMEL_EBUSY;
}

/* Until the database has answered. ECONFLICT: with refused changes, or it kept giving up. */
static semel_status send(keyed_sending *sending, semel_error *err)
{
    keyed_store *store = sending->unit->store;
    for (;;) {
        semel_status status = keyed_apply_once(store, sending->changes, sending->count,
                                               sending->unit->durability, &sending->there, err);
        if (status == SEMEL_ECONFLICT && !keyed_refused(sending->changes, sending->count) &&
            keyed_try_again(&sending->for_others, store, store->settings->busy_ms))
            continue;
        sending->lost |= status == SEMEL_EUNKNOWN;
        if (!sending->lost || !is_passing(status))
            return status;
        if (!keyed_can_repeat(sending))
            return keyed_look_for(sending, err);
        if (!keyed_try_again(&sending->for_answer, store, store->settings->answer_ms))
            return semel_fail(err, SEMEL_EUNKNOWN,
                              "the answer to a commit was lost, and the store did not answer again "
                              "within %u ms",
                              (unsigned)store->settings->answer_ms);
    }
}

/* 1 in *again: the unit is built and sent once more. */
static semel_status settle(keyed_sending *sending, semel_status status, int *again,
                           semel_error *err)
{
    *again = 0;
    if (!status || status == SEMEL_EUNKNOWN)
        return status;
    if (status != SEMEL_ECONFLICT || !keyed_refused(sending->changes, sending->count))
        return sending->lost ? keyed_fence(sending, status, err) : status;
    if (sending->lost) {
        keyed_verdict verdict = keyed_judge(sending);
        if (verdict == KEYED_WAS_APPLIED)
            return SEMEL_OK;
        if (verdict == KEYED_CANNOT_TELL)
            return semel_fail(err, SEMEL_EUNKNOWN,
                              "the answer to a commit was lost, and others have changed the same "
                              "records since");
    }
    status = tell_refused(sending, err);
    drop_returns(sending);
    *again = !status;
    return status;
}

static semel_status build_and_send(keyed_sending *sending, int *again, semel_error *err)
{
    keyed_unit *unit = sending->unit;
    *again = 0;
    semel_status status = build_steps(unit, err);
    if (!status)
        status = build_returns(unit, err);
    if (!status)
        status = gather(sending, err);
    if (!status)
        status = check_limits(sending, err);
    if (status)
        return sending->lost ? keyed_fence(sending, status, err) : status;
    if (!writes_something(sending))
        return SEMEL_OK;
    status = send(sending, err);
    return settle(sending, status, again, err);
}

/* Where apply() takes one change, only notes are several: each stands for itself. */
static semel_status send_one_by_one(keyed_unit *unit, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < unit->count && !status; i++) {
        keyed_sending one = {.unit = unit,
                             .from = &unit->changes[i],
                             .changes = &unit->changes[i]->change,
                             .count = 1,
                             .there = {.arena = &unit->arena}};
        int again;
        status = check_limits(&one, err);
        if (!status && writes_something(&one)) {
            status = send(&one, err);
            status = settle(&one, status, &again, err);
        }
    }
    return status;
}

/* What this process knows of its claims. */
static void note_claims(keyed_unit *unit)
{
    for (size_t i = 0; i < unit->count; i++) {
        const keyed_change *change = unit->changes[i];
        const semel_keyed_change *sent = &change->change;
        int held = change->hold && !change->hold->claimed;
        if (change->role == KEYED_OWNED && !held && sent->expect == SEMEL_EXPECT_GUARD)
            keyed_claim_update(unit->store, sent->expected_guard,
                               sent->record.guard == sent->expected_guard ? sent->record.until_ms
                                                                          : 0);
    }
}

static semel_status send_until_decided(keyed_unit *unit, keyed_sending *sending, semel_error *err)
{
    keyed_patience collisions = {0};
    semel_status status = SEMEL_OK;
    int again = 1;
    for (int tries = 0; !status && again; tries++) {
        keyed_unit_save(unit);
        status = build_and_send(sending, &again, err);
        unit->sending = sending;
        if (!again)
            break;
        keyed_unit_undo(unit);
        if (tries >= KEYED_COMMIT_TRIES)
            status = semel_fail(err, SEMEL_ECONFLICT,
                                "other units change the same group again and again");
        else if (tries > 1)
            (void)keyed_try_again(&collisions, unit->store, unit->store->settings->busy_ms);
    }
    unit->sending = NULL;
    return status;
}

semel_status keyed_commit_changes(keyed_unit *unit, semel_error *err)
{
    keyed_sending sending = {.unit = unit, .there = {.arena = &unit->arena}};
    semel_status status = encode_markers(unit, err);
    if (!status && unit->count > 1 && !(unit->store->driver->abilities & SEMEL_KEYED_MANY))
        return send_one_by_one(unit, err);
    if (!status)
        status = send_until_decided(unit, &sending, err);
    if (!status)
        note_claims(unit);
    return status;
}
