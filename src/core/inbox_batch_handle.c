/* Step 3 of inbox_batch.c: the handlers of a batch, inside of its transaction. One that fails or
 * stops is undone by its savepoint; what there is no time for is left, and its key is what it was.
 * Nothing here is committed: if the process dies, none of it has happened. */
#include "core/inbox_batch.h"

#include <string.h>

static int is_counted_by_owner(const batch *b)
{
    return b->settler && b->settler->counts;
}

/* The number of the attempt; and what the marker says if it fails. */
uint32_t batch_attempt_of(const batch *b, const batch_entry *e)
{
    return is_counted_by_owner(b) ? 1 : e->mark->attempts + 1;
}

static uint32_t attempts_after_failure(const batch *b, const batch_entry *e)
{
    return is_counted_by_owner(b) ? e->mark->attempts : e->mark->attempts + 1;
}

/* The unit speaks for this entry until the next one. */
static void batch_enter(batch *b, const batch_entry *e)
{
    work_unit *unit = b->unit;
    unit->item = (unit_item){.inbox = b->inbox,
                             .message = b->messages[e->index],
                             .mark = *e->mark,
                             .whole_key = e->whole_key,
                             .attempt = batch_attempt_of(b, e)};
}

static void tell_owner(batch *b, const batch_entry *e, const char *why)
{
    if (b->settler && b->settler->why)
        b->settler->why[b->from + e->index] =
            arena_copy(&b->unit->arena, why, strnlen(why, SETTLER_ERROR_MAX));
}

static semel_status undo_failed(batch *b, batch_entry *e, unit_bookmark before,
                                const semel_error *why, semel_error *err)
{
    work_unit *unit = b->unit;
    int dead = unit_gives_up(unit, why->status);
    semel_status status = b->inbox->store->driver->units->undo(unit->state, err);
    unit_bookmark_return(unit, before);
    if (!dead)
        unit->item.attempt = attempts_after_failure(b, e);
    if (!status)
        status = unit_note_failure(unit, dead, why->text, err);
    if (status)
        return status;
    tell_owner(b, e, why->text);
    b->out[e->index] = dead ? SEMEL_DEAD : SEMEL_FAILED;
    if (b->buried)
        b->buried[e->index] = dead;
    e->error = observe_text(unit->store, &unit->arena, why->text);
    e->letter = dead ? unit->item.letter : 0;
    if (!dead)
        batch_note_error(b, why);
    return SEMEL_OK;
}

/* As if the message had not been in the batch: its key is what it was before. */
static semel_status give_key_back(batch *b, const batch_entry *e, semel_error *err)
{
    b->unit->item.attempt = e->mark->attempts;
    b->out[e->index] = SEMEL_UNDECIDED;
    return unit_note_failure(b->unit, 0, "", err);
}

static semel_status undo_stopped(batch *b, const batch_entry *e, unit_bookmark before,
                                 const semel_error *why, semel_error *err)
{
    work_unit *unit = b->unit;
    semel_status status = b->inbox->store->driver->units->undo(unit->state, err);
    unit_bookmark_return(unit, before);
    if (!status)
        status = give_key_back(b, e, err);
    b->stopped = 1;
    if (!status && b->err)
        *b->err = *why; /* the call ends with it */
    return status;
}

static semel_status batch_handle(batch *b, batch_entry *e, semel_error *err)
{
    const semel_store_driver *driver = b->inbox->store->driver;
    work_unit *unit = b->unit;
    semel_error
        why; /* written by whatever fails, and half a kilobyte: not cleared for each message */
    unit_bookmark before = unit_bookmark_set(unit);
    batch_enter(b, e);
    semel_status status = driver->units->savepoint(unit->state, err);
    if (status)
        return status;
    b->begun = 1;
    semel_status handled = unit_run(unit, b->handler, unit->item.message, b->context, &why);
    e->handler_ns = unit->item.handler_ns;
    e->started_ns = unit->item.started_ns;
    if (!handled)
        handled = store_fault(unit->store, "batch.handled", &why);
    if (!handled && unit->item.result.data)
        handled =
            driver->markers->result_set(unit->state, &unit->item.mark, unit->item.result, &why);
    if (!handled)
        handled = driver->units->keep(unit->state, &why);
    if (handled && unit->full)
        return semel_fail(err, SEMEL_ELIMIT, "%s", why.text); /* by itself it may have room */
    if (handled == SEMEL_ECONFLICT)
        return semel_fail(err, handled, "%s", why.text); /* no message's fault: begun anew */
    status = handled ? unit_verify(unit, err) : SEMEL_OK;
    if (status)
        return status; /* the transaction is not what it was: all of it is to be looked at anew */
    if (handled)
        return handled == SEMEL_ESTOPPED ? undo_stopped(b, e, before, &why, err)
                                         : undo_failed(b, e, before, &why, err);
    b->out[e->index] = SEMEL_PROCESSED;
    e->captured = unit->captured - before.captured;
    return SEMEL_OK;
}

/* As a single receive would say of a duplicate: replayed, if a result is stored with its key. */
static semel_status look_for_result(batch *b, const batch_entry *e, semel_error *err)
{
    semel_outcome *outcome = &b->out[e->index];
    void *result = NULL;
    size_t len;
    if (*outcome != SEMEL_DUPLICATE || b->inbox->options.on_duplicate != SEMEL_DUPLICATE_REPLAY)
        return SEMEL_OK;
    semel_status status =
        b->unit->store->driver->markers->result_get(b->unit->state, e->mark, &result, &len, err);
    if (!status && result)
        *outcome = SEMEL_REPLAYED;
    mem_free(result);
    return status;
}

/* A key that is not ours, or that an earlier message of this batch has claimed. */
static semel_status decide_known(batch *b, batch_entry *e, semel_error *err)
{
    semel_mark mark = *e->mark;
    semel_error why;
    mark.fingerprint = e->fingerprint;
    if (mark.state == SEMEL_MARK_TAKEN) {
        semel_outcome first = b->out[e->same->index];
        if (first != SEMEL_PROCESSED && first != SEMEL_DEAD) {
            b->out[e->index] = is_counted_by_owner(b) ? SEMEL_UNDECIDED : first;
            e->error = e->same->error;
            return SEMEL_OK;
        }
        mark.state = first == SEMEL_DEAD ? SEMEL_MARK_DEAD : SEMEL_MARK_DONE;
        mark.known_fingerprint = e->same->fingerprint;
    }
    semel_status status = inbox_decide(&b->out[e->index], b->inbox, &mark, &why);
    if (status) {
        e->error = observe_text(b->inbox->store, &b->unit->arena, why.text);
        batch_note_error(b, &why);
    }
    if (b->out[e->index] == SEMEL_UNDECIDED)
        return semel_fail(err, status, "%s", why.text);
    return look_for_result(b, e, err);
}

static int may_start(const batch *b, const batch_entry *e)
{
    const batch_settler *settler = b->settler;
    if (!settler)
        return 1;
    return !b->stopped &&
           (!settler->may_start || settler->may_start(settler->context, b->from + e->index));
}

static semel_status pass_over(batch *b, const batch_entry *e, semel_error *err)
{
    b->out[e->index] = SEMEL_UNDECIDED;
    if (!batch_is_ours(e))
        return SEMEL_OK;
    batch_enter(b, e);
    return give_key_back(b, e, err);
}

/* Keys that were new become free together, if the store can do that. */
static semel_status unmark_new(batch *b, const semel_mark marks[], size_t count, semel_error *err)
{
    const semel_store_markers *markers = b->inbox->store->driver->markers;
    semel_status status = SEMEL_OK;
    if (markers->unmark)
        return count ? markers->unmark(b->unit->state, marks, count, err) : SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = markers->fail(b->unit->state, &marks[i], "", err);
    return status;
}

/* The entries from `from` on are as if they had not been in the batch. A key that had failed before
 * gets its attempts back. */
static semel_status batch_leave(batch *b, size_t from, semel_error *err)
{
    semel_status status = SEMEL_OK;
    size_t count = 0;
    semel_mark *marks = arena_alloc(&b->unit->arena, (b->count - from) * sizeof *marks);
    if (!marks)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a batch of %zu", b->count);
    for (size_t i = from; !status && i < b->count; i++) {
        batch_entry *e = &b->entries[i];
        if (!batch_is_ours(e))
            continue;
        if (e->mark->attempts)
            status = pass_over(b, e, err);
        else
            marks[count++] = *e->mark;
        e->mark->state = SEMEL_MARK_FREE;
    }
    if (!status)
        status = unmark_new(b, marks, count, err);
    return status ? status : store_fault(b->inbox->store, "batch.left", err);
}

static semel_status batch_handle_next(batch *b, batch_entry *e, semel_error *err)
{
    if (!may_start(b, e))
        return pass_over(b, e, err);
    return batch_is_ours(e) ? batch_handle(b, e, err) : decide_known(b, e, err);
}

semel_status batch_handle_all(batch *b, semel_error *err)
{
    for (size_t i = 0; i < b->count; i++) {
        semel_status status = batch_handle_next(b, &b->entries[i], err);
        if (status)
            return status;
        if (i + 1 < b->count && pace_is_over(b->terms))
            return batch_leave(b, i + 1, err);
    }
    return SEMEL_OK;
}
