/* Many messages in one transaction.
 *
 *   1. Each message is identified. What cannot share a transaction is handled by itself, first: it is
 *      older, or it is trouble (redeliveries, which count their attempt before they start, so that a
 *      poisonous one does not take the others down with it; messages without a key; stale ones).
 *   2. The keys of the others are sorted and marked in one go. In sorted order, two batches that share
 *      keys cannot deadlock.
 *   3. The handlers run in the order given, each behind a savepoint. One that fails is undone, and its
 *      marker turned into a failed attempt inside the same transaction.
 *   4. One commit, or several where the store takes a limited number of changes at once. If it fails, every message
 *      of the transaction is undecided; but if it was a queued statement that failed, or if the connection was lost
 *      or the transaction ended when the work had begun, each message is received by itself, which shows whether it
 *      was the one.
 *
 * A message that comes twice in one batch is handled once: the second has the outcome that a later copy
 * would have had. */
#include "core/unit.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    size_t index;       /* into the caller's arrays */
    struct entry *same; /* the first one in the batch with the same key, or NULL */
    semel_mark *mark;   /* shared with `same` */
    uint64_t fingerprint;
    semel_bytes key;
    semel_bytes whole_key;
} entry;

typedef struct batch {
    semel_outcome *out;
    semel_inbox *inbox;
    const semel_message *const *messages;
    semel_handler *handler;
    void *context;
    semel_error *err; /* of the first message that failed */
    int failed;       /* is there one? */
    work_unit *unit;
    entry *entries; /* in the order given */
    size_t count;
    size_t *alone; /* indices of those that are handled by themselves */
    size_t alone_count;
    entry **sorted;
    semel_mark *marks;
    size_t mark_count;
    int begun;  /* a handler has been called */
    int undone; /* a handler ended the transaction, and nothing of it is committed */
} batch;

static void batch_note_error(batch *b, const semel_error *why)
{
    if (!b->failed && b->err)
        *b->err = *why;
    b->failed = 1;
}

/* --- 1. identify ---------------------------------------------------------------------------------------- */

/* Of a message that is not a redelivery, when its key is known. */
static int goes_alone(const batch *b, const semel_message *message)
{
    return !b->unit->item.mark.inbox || inbox_is_stale(b->inbox, message);
}

static semel_status batch_receive_alone(batch *b, size_t index)
{
    semel_error why;
    semel_status status = semel_inbox_receive(&b->out[index], b->inbox, b->messages[index],
                                              b->handler, b->context, &why);
    if (status)
        batch_note_error(b, &why);
    if (b->out[index] == SEMEL_UNDECIDED && b->err)
        *b->err = why; /* the call ends with it, so it says more than a handler's failure before */
    return inbox_status_among_others(&b->out[index], status);
}

static semel_status batch_identify(batch *b, size_t index, semel_error *err)
{
    int missing;
    work_unit *unit = b->unit;
    const semel_message *message = b->messages[index];
    int again = message->delivery >= 2; /* receiving it by itself will identify it */
    semel_status status = again ? SEMEL_OK : unit_identify(&missing, unit, b->inbox, message, err);
    if (status)
        return status;
    if (again || goes_alone(b, message)) {
        b->alone[b->alone_count++] = index;
        return SEMEL_OK;
    }
    entry *e = &b->entries[b->count++];
    e->index = index;
    e->same = NULL;
    e->fingerprint = unit->item.mark.fingerprint;
    e->whole_key = unit->item.whole_key;
    e->key = unit->item.mark.key;
    return SEMEL_OK;
}

/* --- 2. sort and mark ------------------------------------------------------------------------------------- */

static int compare_keys(const entry *a, const entry *b)
{
    size_t shorter = a->key.len < b->key.len ? a->key.len : b->key.len;
    int order = memcmp(a->key.data, b->key.data, shorter);
    return order ? order : (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

static int compare_entries(const void *left, const void *right)
{
    const entry *a = *(entry *const *)left, *b = *(entry *const *)right;
    int order = compare_keys(a, b);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

/* Keys in time order come sorted, and most keys do. */
static void sort_entries(batch *b)
{
    int sorted = 1;
    for (size_t i = 0; i < b->count; i++) {
        b->sorted[i] = &b->entries[i];
        sorted = sorted && (i == 0 || compare_keys(&b->entries[i - 1], &b->entries[i]) <= 0);
    }
    if (!sorted)
        qsort(b->sorted, b->count, sizeof *b->sorted, compare_entries);
}

static void make_marks(batch *b)
{
    entry *first = NULL;
    b->mark_count = 0;
    for (size_t i = 0; i < b->count; i++) {
        entry *e = b->sorted[i];
        if (first && compare_keys(first, e) == 0) {
            e->same = first;
            e->mark = first->mark;
            continue;
        }
        first = e;
        e->same = NULL;
        e->mark = &b->marks[b->mark_count++];
        *e->mark = (semel_mark){.inbox = b->inbox->scope,
                                .key = e->key,
                                .fingerprint = e->fingerprint,
                                .keep_ms = inbox_keep_ms(b->inbox)};
    }
}

/* --- 3. handle -------------------------------------------------------------------------------------------- */

/* The unit speaks for this entry until the next one. */
static void batch_enter(batch *b, const entry *e)
{
    work_unit *unit = b->unit;
    unit->item = (unit_item){.inbox = b->inbox,
                             .message = b->messages[e->index],
                             .mark = *e->mark,
                             .whole_key = e->whole_key,
                             .attempt = e->mark->attempts + 1};
}

static semel_status undo_failed(batch *b, const entry *e, unit_bookmark before,
                                const semel_error *why, semel_error *err)
{
    work_unit *unit = b->unit;
    int dead = inbox_gives_up(b->inbox, unit->item.attempt, why->status);
    semel_status status = b->inbox->store->driver->units->undo(unit->state, err);
    unit_bookmark_return(unit, before);
    if (!status)
        status = unit_note_failure(unit, dead, why->text, err);
    if (status)
        return status;
    b->out[e->index] = dead ? SEMEL_DEAD : SEMEL_FAILED;
    if (!dead)
        batch_note_error(b, why);
    return SEMEL_OK;
}

static semel_status batch_handle(batch *b, const entry *e, semel_error *err)
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
        return semel_fail(err, handled, "%s", why.text); /* nobody's fault: begun anew */
    status = handled ? unit_verify(unit, err) : SEMEL_OK;
    if (status)
        return status; /* the transaction is not what it was: all of it is to be looked at anew */
    if (handled)
        return undo_failed(b, e, before, &why, err);
    b->out[e->index] = SEMEL_PROCESSED;
    return SEMEL_OK;
}

/* A key that is not ours, or that an earlier message of this batch has claimed. */
static semel_status decide_known(batch *b, const entry *e, semel_error *err)
{
    semel_mark mark = *e->mark;
    semel_error why;
    mark.fingerprint = e->fingerprint;
    if (mark.state == SEMEL_MARK_TAKEN) {
        semel_outcome first = b->out[e->same->index];
        if (first != SEMEL_PROCESSED && first != SEMEL_DEAD) {
            b->out[e->index] = first;
            return SEMEL_OK;
        }
        mark.state = first == SEMEL_DEAD ? SEMEL_MARK_DEAD : SEMEL_MARK_DONE;
        mark.known_fingerprint = e->same->fingerprint;
    }
    semel_status status = inbox_decide(&b->out[e->index], b->inbox, &mark, &why);
    if (status)
        batch_note_error(b, &why);
    return b->out[e->index] == SEMEL_UNDECIDED ? semel_fail(err, status, "%s", why.text) : SEMEL_OK;
}

static semel_status batch_handle_all(batch *b, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < b->count; i++) {
        const entry *e = &b->entries[i];
        int ours = e->mark->state == SEMEL_MARK_TAKEN && !e->same;
        status = ours ? batch_handle(b, e, err) : decide_known(b, e, err);
    }
    return status;
}

/* --- 4. the transaction -------------------------------------------------------------------------------------- */

static int nothing_changed(const batch *b)
{
    for (size_t i = 0; i < b->mark_count; i++)
        if (b->marks[i].state == SEMEL_MARK_TAKEN)
            return 0;
    return 1;
}

static semel_status batch_transact(batch *b, semel_error *err)
{
    semel_store *store = b->inbox->store;
    const semel_inbox_options *options = &b->inbox->options;
    uint32_t wait_ms = options->on_in_flight == SEMEL_IN_FLIGHT_WAIT ? options->wait_ms : 0;
    make_marks(b);
    b->unit->marks = b->mark_count;
    b->unit->full = 0;
    semel_status status = unit_tx_begin(b->unit, SEMEL_BEGIN_DURABLE, err);
    if (!status)
        status =
            store->driver->markers->mark(b->unit->state, b->marks, b->mark_count, wait_ms, err);
    if (!status)
        status = store_fault(store, "batch.marked", err);
    if (!status)
        status = batch_handle_all(b, err);
    if (status || nothing_changed(b))
        return status;
    status = unit_flush_pending(b->unit, err);
    if (!status)
        status = unit_tx_commit(b->unit, err);
    if (!status && b->unit->captured) {
        store_count(store, TALLY_CAPTURED, b->unit->captured);
        store_wake(store);
    }
    return status ? status : store_fault(store, "batch.committed", err);
}

static semel_status batch_transact_retrying(batch *b)
{
    semel_status status;
    semel_error why;
    uint32_t tries = 0;
    do {
        status = batch_transact(b, &why);
        b->undone = status == SEMEL_EMISUSE && why.retryable;
        unit_tx_rollback(b->unit);
        b->unit->captured = 0;
        unit_drop_pending(b->unit);
        if (!status)
            return SEMEL_OK;
        for (size_t i = 0; i < b->count; i++)
            b->out[b->entries[i].index] = SEMEL_UNDECIDED;
    } while (store_retry_after_pause(b->inbox->store, status, &why, &tries));
    if (b->err)
        *b->err = why;
    return status;
}

/* Has one of them taken all down with it? A queued statement that failed at the commit, work that ran into a limit
 * of the server or into somebody's lock. */
static int may_be_one_message(const batch *b, semel_status status)
{
    return unit_blames_handler(status) ||
           (b->begun && (status == SEMEL_EUNAVAILABLE || status == SEMEL_EBUSY || b->undone));
}

/* By itself each message shows whether it was the one. A lock in the way of one is none in the way of the others. */
static semel_status batch_receive_each(batch *b)
{
    semel_status status = SEMEL_OK, locked = SEMEL_OK;
    size_t count = b->count;
    b->count = 0; /* they are counted where they are received */
    for (size_t i = 0; !status && i < count; i++) {
        status = batch_receive_alone(b, b->entries[i].index);
        if (status == SEMEL_EBUSY) {
            locked = status;
            status = SEMEL_OK;
        }
    }
    return status ? status : locked;
}

static semel_status batch_run(batch *b, size_t count)
{
    semel_error why;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++)
        if ((status = batch_identify(b, i, &why)) && b->err)
            *b->err = why;
    for (size_t i = 0; !status && i < b->alone_count; i++)
        status = batch_receive_alone(b, b->alone[i]);
    if (status || !b->count)
        return status;
    sort_entries(b);
    status = batch_transact_retrying(b);
    return may_be_one_message(b, status) ? batch_receive_each(b) : status;
}

/* One allocation for the whole batch, kept in the unit's arena: none in the steady state. */
static semel_status batch_alloc(batch *b, size_t count, semel_error *err)
{
    mem_arena *arena = &b->unit->arena;
    b->entries = arena_alloc(arena, count * sizeof *b->entries);
    b->alone = arena_alloc(arena, count * sizeof *b->alone);
    b->sorted = arena_alloc(arena, count * sizeof(entry *));
    b->marks = arena_alloc(arena, count * sizeof *b->marks);
    if (b->entries && b->alone && b->sorted && b->marks)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a batch of %zu", count);
}

static semel_status receive_together(batch *b, size_t count)
{
    semel_status status = unit_new(&b->unit, b->inbox->store, b->err);
    if (status)
        return status;
    status = batch_alloc(b, count, b->err);
    if (!status)
        status = batch_run(b, count);
    for (size_t i = 0; i < b->count; i++)
        inbox_count(b->inbox, b->out[b->entries[i].index]);
    unit_free(b->unit);
    return status;
}

/* How many keys one transaction takes: for each there is room for a dead letter and for messages. */
static size_t keys_together(const semel_store *store, size_t count)
{
    size_t most = store->driver->changes_max / 4;
    return !store->driver->changes_max || count <= most ? count : most ? most : 1;
}

static semel_status receive_in_parts(batch *b, size_t count)
{
    semel_status status = SEMEL_OK;
    batch part = *b;
    for (size_t at = 0, some; !status && at < count; at += some) {
        some = keys_together(b->inbox->store, count - at);
        part = (batch){.out = b->out + at,
                       .inbox = b->inbox,
                       .messages = b->messages + at,
                       .handler = b->handler,
                       .context = b->context,
                       .err = b->err,
                       .failed = part.failed};
        status = receive_together(&part, some);
    }
    return status;
}

static semel_status receive_one_by_one(batch *b, size_t count)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = batch_receive_alone(b, i);
    return status;
}

semel_status semel_inbox_receive_batch(semel_outcome out[], semel_inbox *inbox,
                                       const semel_message *const messages[], size_t count,
                                       semel_handler *handler, void *context, semel_error *err)
{
    batch b = {.out = out,
               .inbox = inbox,
               .messages = messages,
               .handler = handler,
               .context = context,
               .err = err};
    if (count > SEMEL_BATCH_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "a batch of %zu; SEMEL_BATCH_MAX is %zu", count,
                          SEMEL_BATCH_MAX);
    for (size_t i = 0; i < count; i++)
        out[i] = SEMEL_UNDECIDED;
    int alone =
        inbox->options.mode == SEMEL_CLAIM || count == 1 || !inbox->store->driver->units->savepoint;
    return alone ? receive_one_by_one(&b, count) : receive_in_parts(&b, count);
}
