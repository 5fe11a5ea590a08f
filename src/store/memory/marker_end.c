/* What becomes of a marker after it was taken: finished, renewed, failed, buried, forgotten; and
 * the result that is kept with a done one. Built as marker.c says. */
#include "base/mem.h"
#include "store/memory/marker.h"

#include <string.h>

static semel_status look_up_as_a_lock(memory_found *out, memory_unit *unit, const semel_mark *mark,
                                      semel_error *err)
{
    memory_wait wait = {.wait_ms = unit->store->busy_ms};
    return memory_look_up(out, unit, mark, &wait, err);
}

/* --- what the owner of a claim may do --------------------------------------------------------- */

static semel_status fail_lost(semel_error *err)
{
    return semel_fail(err, SEMEL_ELOST, "the key is no longer this claim's: nothing was changed");
}

static semel_status fail_busy(semel_error *err)
{
    return semel_fail(err, SEMEL_EBUSY, "the key is in use by a unit or claim that has not ended");
}

/* The marker, if the token proves that it is ours. */
static semel_status look_up_owned(memory_found *at, memory_unit *unit, const semel_mark *mark,
                                  semel_error *err)
{
    semel_status status = look_up_as_a_lock(at, unit, mark, err);
    if (status)
        return status;
    if (at->others)
        return fail_busy(err);
    if (!memory_is_there(at) || !memory_marker_leased(unit->store, at->marker) ||
        at->marker->extra->token != mark->token)
        return fail_lost(err);
    return SEMEL_OK;
}

semel_status memory_finish(void *unit, const semel_mark *mark, semel_error *err)
{
    memory_unit *self = unit;
    memory_found at;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = look_up_owned(&at, self, mark, err);
    int64_t first_ms = status ? 0 : at.marker->extra->first_ms;
    if (!status)
        status = memory_hold(&at, self, mark, err);
    if (!status) {
        at.marker->state = MARKER_DONE;
        status = memory_keep_details(&at, self, mark, first_ms, err);
    }
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

/* What a new extra takes over from the one that it replaces. */
static void keep_times(memory_extra *extra, const memory_extra *before)
{
    if (!before)
        return;
    extra->first_ms = before->first_ms;
    extra->type = before->type;
    extra->source = before->source;
    extra->received_ms = before->received_ms;
}

static semel_status replace_extra(memory_found *at, memory_unit *unit, const semel_mark *mark,
                                  memory_extra *extra, semel_error *err)
{
    if (!extra)
        return memory_out_of_memory(err);
    keep_times(extra, at->marker->extra);
    semel_status status = memory_hold(at, unit, mark, err);
    if (status)
        memory_extra_free(unit->store, extra);
    else
        at->marker->extra = extra;
    return status;
}

semel_status memory_renew(void *unit, const semel_mark *mark, uint32_t lease_ms, semel_error *err)
{
    memory_unit *self = unit;
    memory_store *store = self->store;
    memory_found at;
    pthread_mutex_lock(&store->lock);
    semel_status status = look_up_owned(&at, self, mark, err);
    if (!status) {
        memory_extra *lease = memory_extra_new(store, (semel_bytes){0}, (semel_bytes){0});
        status = replace_extra(&at, self, mark, lease, err);
    }
    if (!status) {
        at.marker->extra->token = mark->token;
        at.marker->extra->lease_end_ms = memory_now_ms(store) + lease_ms;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* --- how work ends badly ---------------------------------------------------------------------- */

/* Without a token: the marker as this unit made it, or one that no unit holds. */
static semel_status look_up_unclaimed(memory_found *at, memory_unit *unit, const semel_mark *mark,
                                      semel_error *err)
{
    semel_status status = memory_look_up_at_once(at, unit, mark, err);
    if (status)
        return status;
    if (at->others)
        return fail_lost(err);
    if (!memory_is_there(at) || at->marker->held)
        return SEMEL_OK;
    return memory_state_of(unit->store, at->marker) == SEMEL_MARK_TAKEN ? SEMEL_OK : fail_lost(err);
}

static semel_status set_back(memory_found *at, memory_unit *unit, const semel_mark *mark,
                             const char *why, semel_error *err)
{
    memory_extra *reason = NULL;
    if (why && *why && !(reason = memory_extra_new(unit->store, (semel_bytes){0}, semel_str(why))))
        return memory_out_of_memory(err);
    int64_t first_ms = memory_first_ms(unit->store, at);
    semel_status status = memory_hold(at, unit, mark, err);
    if (status) {
        memory_extra_free(unit->store, reason);
        return status;
    }
    at->marker->extra = reason;
    memory_set_attempts(at->marker, mark->attempts);
    if (!mark->token)
        at->marker->fingerprint = mark->fingerprint;
    return memory_keep_details(at, unit, mark, first_ms, err);
}

static semel_status end_badly(memory_unit *unit, const semel_mark *mark, const char *why,
                              memory_marker_state state, semel_error *err)
{
    memory_found at;
    pthread_mutex_lock(&unit->store->lock);
    semel_status status =
        mark->token ? look_up_owned(&at, unit, mark, err) : look_up_unclaimed(&at, unit, mark, err);
    if (!status)
        status = set_back(&at, unit, mark, why, err);
    if (!status)
        at.marker->state = state & 3;
    pthread_mutex_unlock(&unit->store->lock);
    return status;
}

semel_status memory_fail(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    return end_badly(unit, mark, why, mark->attempts ? MARKER_OPEN : MARKER_GONE, err);
}

semel_status memory_bury(void *unit, const semel_mark *mark, const char *why, semel_error *err)
{
    return end_badly(unit, mark, why, MARKER_DEAD, err);
}

static semel_status forget_found(memory_found *at, memory_unit *unit, const semel_mark *mark,
                                 semel_error *err)
{
    if (at->others)
        return fail_busy(err);
    if (!memory_is_there(at) ||
        (mark->state == SEMEL_MARK_DEAD && at->marker->state != MARKER_DEAD))
        return semel_fail(err, SEMEL_ENOTFOUND, "the inbox does not know this key");
    if (memory_marker_leased(unit->store, at->marker))
        return fail_busy(err);
    semel_status status = memory_hold(at, unit, mark, err);
    if (!status)
        at->marker->state = MARKER_GONE;
    return status;
}

semel_status memory_forget(void *unit, const semel_mark *mark, semel_error *err)
{
    memory_unit *self = unit;
    memory_found at;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = memory_look_up_at_once(&at, self, mark, err);
    if (!status)
        status = forget_found(&at, self, mark, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

static semel_status mark_letter_gone(memory_found *at, memory_unit *unit, const semel_mark *mark,
                                     semel_error *err)
{
    const memory_extra *before = at->marker->extra;
    semel_bytes why = {0};
    int64_t first_ms = memory_first_ms(unit->store, at);
    if (before)
        why = (semel_bytes){before->bytes + before->result_len, before->why_len};
    memory_extra *extra = memory_extra_new(unit->store, (semel_bytes){0}, why);
    if (!extra)
        return memory_out_of_memory(err);
    keep_times(extra, before);
    extra->letter_gone = 1;
    extra->first_ms = first_ms;
    semel_status status = memory_hold(at, unit, mark, err);
    if (status)
        memory_extra_free(unit->store, extra);
    else
        at->marker->extra = extra;
    return status;
}

semel_status memory_letter_gone(void *unit, const semel_mark *mark, semel_error *err)
{
    memory_unit *self = unit;
    memory_found at;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = look_up_as_a_lock(&at, self, mark, err);
    if (!status && at.others)
        status = fail_busy(err);
    if (!status && (!memory_is_there(&at) || at.marker->state != MARKER_DEAD))
        status = semel_fail(err, SEMEL_ENOTFOUND, "the inbox knows no dead message with this key");
    if (!status)
        status = mark_letter_gone(&at, self, mark, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

/* --- results ---------------------------------------------------------------------------------- */

static semel_status look_up_done(memory_found *at, memory_unit *unit, const semel_mark *mark,
                                 semel_error *err)
{
    semel_status status = look_up_as_a_lock(at, unit, mark, err);
    if (status)
        return status;
    if (at->others)
        return fail_busy(err);
    return memory_is_there(at) && at->marker->state == MARKER_DONE ? SEMEL_OK : fail_lost(err);
}

semel_status memory_result_set(void *unit, const semel_mark *mark, semel_bytes result,
                               semel_error *err)
{
    memory_unit *self = unit;
    memory_found at;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = look_up_done(&at, self, mark, err);
    if (!status) {
        memory_extra *extra = memory_extra_new(self->store, result, (semel_bytes){0});
        status = replace_extra(&at, self, mark, extra, err);
    }
    if (!status)
        at.marker->extra->has_result = 1;
    pthread_mutex_unlock(&self->store->lock);
    return status;
}

static semel_status copy_result(void **out, size_t *len, const memory_extra *extra,
                                semel_error *err)
{
    void *copy = NULL;
    if (extra && extra->has_result) {
        copy = mem_alloc(extra->result_len);
        if (!copy)
            return memory_out_of_memory(err);
        memcpy(copy, extra->bytes, extra->result_len);
    }
    *out = copy;
    *len = copy ? extra->result_len : 0;
    return SEMEL_OK;
}

semel_status memory_result_get(void *unit, const semel_mark *mark, void **out, size_t *len,
                               semel_error *err)
{
    memory_unit *self = unit;
    memory_found at;
    pthread_mutex_lock(&self->store->lock);
    semel_status status = look_up_done(&at, self, mark, err);
    if (!status)
        status = copy_result(out, len, at.marker->extra, err);
    else if (status == SEMEL_ELOST)
        status = copy_result(out, len, NULL, err);
    pthread_mutex_unlock(&self->store->lock);
    return status;
}
