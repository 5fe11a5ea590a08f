/* How work ends badly, and what people do to markers: fail, unmark, bury, forget, letter_gone; and
 * the result that is kept with a done marker, as the record's body.
 *
 * All of them are buffered. With a token the change expects it, and the commit tells if the claim
 * was lost. Without one it expects what was found. */
#include "store/keyed/hold.h"

#include <string.h>

/* Without a token: the key as this unit made it, or one that is free. */
static semel_status look_unclaimed(keyed_found *out, keyed_unit *unit, const semel_mark *mark,
                                   semel_error *err)
{
    semel_status status = keyed_marker_look(out, unit, mark, err);
    if (status || out->change || out->hold)
        return status;
    if (keyed_marker_state_of(out) == SEMEL_MARK_TAKEN)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ELOST,
                      "another copy has got further with this key: nothing was changed");
}

static semel_status end_badly(keyed_unit *unit, const semel_mark *mark, const char *why,
                              keyed_marker_state state, semel_error *err)
{
    keyed_found found;
    semel_status status = mark->token ? keyed_marker_owned(&found, unit, mark, err)
                                      : look_unclaimed(&found, unit, mark, err);
    if (status)
        return status;
    keyed_marker marker = {.state = state,
                           .attempts = mark->attempts,
                           .fingerprint =
                               mark->token ? found.marker.fingerprint : mark->fingerprint,
                           .first_ms = keyed_marker_first(&found),
                           .why = semel_str(why ? why : "")};
    keyed_marker_details(&marker, mark);
    keyed_change *change = mark->token ? keyed_marker_owned_change(unit, &found, mark, &marker)
                                       : keyed_marker_change(unit, &found, mark, &marker);
    if (!change)
        return keyed_out_of_memory(err);
    return state == KEYED_OPEN && !mark->attempts ? keyed_marker_remove(unit, &found, mark, err)
                                                  : SEMEL_OK;
}

semel_status keyed_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    return end_badly(unit, mark, why, KEYED_OPEN, err);
}

semel_status keyed_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    return end_badly(unit, mark, why, KEYED_DEAD, err);
}

semel_status keyed_unmark(void *unit, const semel_mark marks[], size_t count, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; i < count && !status; i++) {
        keyed_found found;
        status = keyed_marker_look(&found, unit, &marks[i], err);
        if (!status)
            status = keyed_marker_remove(unit, &found, &marks[i], err);
    }
    return status;
}

semel_status keyed_forget(void *unit, const semel_mark *mark, semel_error *err)
{
    keyed_found found;
    semel_status status = keyed_marker_look(&found, unit, mark, err);
    if (status)
        return status;
    if (keyed_marker_state_of(&found) == SEMEL_MARK_HELD)
        return semel_fail(err, SEMEL_EBUSY,
                          "the key is in use by a unit or claim that has not ended");
    if (!found.known || (mark->state == SEMEL_MARK_DEAD && found.marker.state != KEYED_DEAD))
        return semel_fail(err, SEMEL_ENOTFOUND, "the inbox does not know this key");
    return keyed_marker_remove(unit, &found, mark, err);
}

semel_status keyed_letter_gone(void *unit, const semel_mark *mark, semel_error *err)
{
    keyed_found found;
    semel_status status = keyed_marker_look(&found, unit, mark, err);
    if (status)
        return status;
    if (!found.known || found.marker.state != KEYED_DEAD)
        return semel_fail(err, SEMEL_ENOTFOUND, "the inbox knows no dead message with this key");
    keyed_marker marker = found.marker;
    marker.letter_gone = 1;
    marker.first_ms = keyed_marker_first(&found);
    return keyed_marker_change(unit, &found, mark, &marker) ? SEMEL_OK : keyed_out_of_memory(err);
}

/* --- results ---------------------------------------------------------------------------------- */

semel_status keyed_result_set(void *unit, const semel_mark *mark, semel_bytes result,
                              semel_error *err)
{
    keyed_unit *self = unit;
    keyed_found found;
    semel_status status = keyed_marker_look(&found, self, mark, err);
    if (status)
        return status;
    if (!found.known || found.marker.state != KEYED_DONE)
        return semel_fail(err, SEMEL_ELOST, "there is no handled message with this key");
    keyed_marker marker = found.marker;
    marker.has_result = 1;
    void *copy = arena_copy(&self->arena, result.data, result.len);
    keyed_change *change = copy ? keyed_marker_change(self, &found, mark, &marker) : NULL;
    if (!change)
        return keyed_out_of_memory(err);
    change->change.record.body = (semel_bytes){copy, result.len};
    return SEMEL_OK;
}

static semel_status copy_result(void **out, size_t *len, semel_bytes result, semel_error *err)
{
    void *copy = mem_alloc(result.len);
    if (!copy)
        return keyed_out_of_memory(err);
    if (result.len)
        memcpy(copy, result.data, result.len);
    *out = copy;
    *len = result.len;
    return SEMEL_OK;
}

semel_status keyed_result_get(void *unit, const semel_mark *mark, void **out, size_t *len,
                              semel_error *err)
{
    keyed_unit *self = unit;
    keyed_found found = {.space = keyed_space_of('m', mark->inbox)};
    keyed_row *row = NULL;
    semel_status status =
        keyed_unit_get(&row, self, keyed_space_bytes(&found.space), mark->key, 1, err);
    const keyed_change *change = keyed_unit_find(self, keyed_space_bytes(&found.space), mark->key);
    if (!status && !change)
        status = keyed_marker_take(&found, row ? &row->record : NULL, err);
    if (status)
        return status;
    if (change && row)
        found.marker = *change->marker;
    if (row && found.marker.state == KEYED_DONE && found.marker.has_result)
        return copy_result(out, len, row->record.body, err);
    *out = NULL;
    *len = 0;
    return SEMEL_OK;
}
