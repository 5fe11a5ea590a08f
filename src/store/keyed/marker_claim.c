/* claim: an attempt is counted and the key is taken, in one write that is made at once. finish and
 * renew: what the owner of a claim does with it, at commit.
 *
 * The write of a claim expects that there is no record; if it is refused, what is there decides,
 * and a free key is taken over expecting the version that was found: a renewal in between defeats
 * the take-over. If the process dies between this write and the commit of its unit, an attempt is
 * counted that was not made, and the key is free when the lease ends. A rollback brings back what
 * was there.
 *
 * A count without a lease holds nothing, so nobody needs to see it early: it is buffered. So is the
 * claim of a message that may be stale: if the process died before the core knows, the record would
 * be taken for a proof that the key was not forgotten. */
#include "store/keyed/hold.h"

#include <string.h>

static keyed_marker claimed_marker(const keyed_found *found, const semel_mark *mark)
{
    keyed_marker marker = {.state = KEYED_OPEN,
                           .attempts = mark->attempts + 1,
                           .fingerprint = mark->fingerprint,
                           .changed_ms = found->now_ms,
                           .first_ms = keyed_marker_first(found)};
    keyed_marker_details(&marker, mark);
    return marker;
}

/* In the unit's buffer: a count, a claim that is not sure, or one of a key that the unit has
 * changed before. */
static semel_status claim_at_commit(keyed_unit *unit, const keyed_found *found, semel_mark *mark,
                                    uint32_t lease_ms, semel_error *err)
{
    keyed_marker marker = claimed_marker(found, mark);
    keyed_change *change = keyed_marker_change(unit, found, mark, &marker);
    if (!change)
        return keyed_out_of_memory(err);
    mark->token = keyed_new_token(unit->store);
    mark->attempts++;
    if (lease_ms) {
        change->change.record.guard = mark->token;
        change->change.record.until_ms = found->now_ms + lease_ms;
    }
    return SEMEL_OK;
}

static semel_status claim_in_unit(keyed_unit *unit, semel_mark *mark, uint32_t lease_ms,
                                  semel_error *err)
{
    keyed_found found;
    semel_status status = keyed_marker_look(&found, unit, mark, err);
    if (status)
        return status;
    keyed_marker_report(mark, &found);
    return mark->state == SEMEL_MARK_TAKEN ? claim_at_commit(unit, &found, mark, lease_ms, err)
                                           : SEMEL_OK;
}

/* --- with a lease ----------------------------------------------------------------------------- */

/* One claim on its way to the database. */
typedef struct claiming {
    keyed_unit *unit;
    semel_mark *mark;
    uint32_t known_elsewhere; /* attempts */
    uint32_t lease_ms;
    keyed_found found;
    keyed_hold *hold;
    keyed_claim *claim; /* what the process will know of it */
} claiming;

static void describe_claim(claiming *c, const keyed_marker *marker)
{
    keyed_hold *hold = c->hold;
    hold->claimed = 1;
    hold->until_ms = c->found.now_ms + c->lease_ms;
    hold->expires_ms = keyed_marker_expires(c->unit->store, c->found.now_ms, c->mark->keep_ms);
    hold->was_there = c->found.there;
    hold->before = c->found.record;
    c->claim->token = hold->token;
    c->claim->until_ms = hold->until_ms;
    c->claim->was_fence = c->found.there && !c->found.known;
    c->claim->marker = *marker;
}

static semel_status plan_claim(semel_keyed_change *out, claiming *c, semel_error *err)
{
    keyed_marker marker = claimed_marker(&c->found, c->mark);
    marker.unproven = !c->found.known || c->found.marker.unproven;
    if (!keyed_marker_write(&c->hold->value, &c->unit->arena, &marker))
        return keyed_out_of_memory(err);
    describe_claim(c, &marker);
    semel_keyed_record now = {.space = c->hold->space,
                              .key = c->hold->key,
                              .guard = c->hold->token,
                              .until_ms = c->hold->until_ms,
                              .value = c->hold->value};
    *out = keyed_write_of(c->unit->store, c->found.there ? &c->found.record : NULL, &now, 0);
    out->expires_ms = c->hold->expires_ms;
    return SEMEL_OK;
}

static void keep_claim(claiming *c)
{
    c->mark->token = c->hold->token;
    c->mark->attempts++;
    keyed_hold_add(c->unit, c->hold);
    keyed_claim_add(c->unit->store, c->claim, c->found.now_ms);
    c->claim = NULL;
}

static semel_status see(claiming *c, const keyed_row *row, semel_error *err)
{
    semel_status status = keyed_now(c->unit->store, &c->found.now_ms, &c->found.error_ms, err);
    if (!status)
        status = keyed_marker_take(&c->found, row ? &row->record : NULL, err);
    if (status)
        return status;
    c->mark->attempts = c->known_elsewhere;
    keyed_marker_report(c->mark, &c->found);
    return SEMEL_OK;
}

/* 1 in *again: something else was there than expected, and is known now. */
static semel_status write_claim(claiming *c, int *again, semel_error *err)
{
    semel_keyed_change change;
    keyed_rows there = {.arena = &c->unit->arena};
    *again = 0;
    semel_status status = plan_claim(&change, c, err);
    if (status)
        return status;
    status = keyed_apply_now(c->unit->store, &change, 1, c->unit->durability, &there, err);
    if (status == SEMEL_EUNKNOWN)
        return semel_fail(err, SEMEL_EUNAVAILABLE,
                          "the answer of the store was lost while a key was claimed; if it was, it "
                          "is free again in %u ms",
                          (unsigned)c->lease_ms);
    if (!status)
        keep_claim(c);
    *again = status == SEMEL_ECONFLICT && change.refused;
    return *again ? see(c, there.first, err) : status;
}

static semel_status claim_at_once(claiming *c, semel_error *err)
{
    keyed_store *store = c->unit->store;
    int again = 1;
    c->hold = keyed_hold_new(c->unit, keyed_space_bytes(&c->found.space), c->mark->key);
    c->claim = keyed_claim_new(c->mark, &c->found.marker);
    if (!c->hold || !c->claim)
        return keyed_out_of_memory(err);
    c->hold->token = keyed_new_token(store);
    semel_status status = see(c, NULL, err);
    while (again && !status && c->mark->state == SEMEL_MARK_TAKEN)
        status = write_claim(c, &again, err);
    return status;
}

semel_status keyed_claim_key(void *unit, semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    keyed_unit *self = unit;
    claiming c = {.unit = self,
                  .mark = mark,
                  .known_elsewhere = mark->attempts,
                  .lease_ms = lease_ms,
                  .found = {.space = keyed_space_of('m', mark->inbox)}};
    semel_bytes space = keyed_space_bytes(&c.found.space);
    if (mark->key.len == 0 || mark->key.len > SEMEL_KEY_MAX)
        return semel_fail(err, SEMEL_EINVAL, "a key of %zu bytes: it must have 1 to %zu",
                          mark->key.len, SEMEL_KEY_MAX);
    if (!lease_ms || mark->unsure || keyed_unit_find(self, space, mark->key) ||
        keyed_hold_find(self, space, mark->key))
        return claim_in_unit(self, mark, lease_ms, err);
    semel_status status = claim_at_once(&c, err);
    mem_free(c.claim);
    return status;
}

/* --- what the owner may do -------------------------------------------------------------------- */

static semel_status fail_lost(semel_error *err)
{
    return semel_fail(err, SEMEL_ELOST, "the key is no longer this claim's: nothing was changed");
}

/* As the process knows it, without asking the database. */
static void take_known(keyed_found *out, const keyed_claim *claim, const semel_mark *mark)
{
    out->there = out->known = 1;
    out->marker = claim->marker;
    out->was_fence = claim->was_fence;
    out->record = (semel_keyed_record){.space = keyed_space_bytes(&out->space),
                                       .key = mark->key,
                                       .guard = claim->token,
                                       .until_ms = claim->until_ms};
}

static int is_ours(const keyed_found *found, const semel_mark *mark)
{
    return found->there && found->marker.state == KEYED_OPEN &&
           found->record.guard == mark->token &&
           found->record.until_ms > found->now_ms + (int64_t)found->error_ms;
}

semel_status keyed_marker_owned(keyed_found *out, keyed_unit *unit, const semel_mark *mark,
                                semel_error *err)
{
    keyed_claim claim;
    *out = (keyed_found){.space = keyed_space_of('m', mark->inbox)};
    semel_bytes space = keyed_space_bytes(&out->space);
    semel_status status = keyed_now(unit->store, &out->now_ms, &out->error_ms, err);
    if (status)
        return status;
    if (!keyed_unit_find(unit, space, mark->key) && !keyed_hold_find(unit, space, mark->key) &&
        keyed_claim_find(&claim, unit->store, mark))
        take_known(out, &claim, mark);
    else
        status = keyed_marker_look(out, unit, mark, err);
    if (status)
        return status;
    return is_ours(out, mark) ? SEMEL_OK : fail_lost(err);
}

keyed_change *keyed_marker_owned_change(keyed_unit *unit, const keyed_found *found,
                                        const semel_mark *mark, const keyed_marker *marker)
{
    const keyed_change *before = found->change;
    keyed_change *change = keyed_marker_change(unit, found, mark, marker);
    if (!change || before)
        return change;
    change->role = KEYED_OWNED;
    change->change.expect = SEMEL_EXPECT_GUARD;
    change->change.expected_guard = mark->token;
    change->change.live_at_ms = found->now_ms + (int64_t)found->error_ms;
    return change;
}

semel_status keyed_finish(void *unit, const semel_mark *mark, semel_error *err)
{
    keyed_found found;
    semel_status status = keyed_marker_owned(&found, unit, mark, err);
    if (status)
        return status;
    keyed_marker marker = found.marker;
    marker.state = KEYED_DONE;
    marker.why = (semel_bytes){NULL, 0};
    keyed_marker_details(&marker, mark);
    return keyed_marker_owned_change(unit, &found, mark, &marker) ? SEMEL_OK
                                                                  : keyed_out_of_memory(err);
}

semel_status keyed_renew(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    keyed_found found;
    semel_status status = keyed_marker_owned(&found, unit, mark, err);
    if (status)
        return status;
    keyed_change *change = keyed_marker_owned_change(unit, &found, mark, &found.marker);
    if (!change)
        return keyed_out_of_memory(err);
    change->change.record.guard = mark->token;
    change->change.record.until_ms = found.now_ms + lease_ms;
    return SEMEL_OK;
}
