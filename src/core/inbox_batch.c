/* Many messages in one transaction.
 *
 *   1. Each message is identified. What cannot share a transaction is handled by itself, first:
 *      it is older, or it is trouble (redeliveries, which count their attempt before they start,
 *      so that a poisonous one does not take the others down with it; messages without a key).
 *   2. The keys of the others are sorted and marked in one go. In sorted order, two batches that
 *      share keys cannot deadlock. If a message turns out to be stale, the transaction begins
 *      anew without it, and the message is received by itself, which refuses it.
 *   3. The handlers run in the order given, each behind a savepoint. One that fails is undone,
 *      and its marker turned into a failed attempt inside the same transaction.
 *   4. One commit, or several where the store takes a limited number of changes at once. If it
 *      fails, every message of the transaction is undecided; but if it was a queued statement
 *      that failed, or if the connection was lost or the transaction ended when the work had
 *      begun, each message is received by itself, which shows whether it was the one.
 *
 * A message that comes twice in one batch is handled once: the second has the outcome that a
 * later copy would have had.
 *
 * A caller may give the handlers a time (unit_pace). When it is over, or the program stops, the
 * keys of the messages that are left become what they were, inside the transaction, and what was
 * handled is committed. So if the process dies on the way, all messages of the transaction are as
 * if it had not begun.
 *
 * A caller that owns rows which the messages come from may settle them in the same transaction,
 * after step 3 (batch_settler). Then nothing is received by itself here: what is not decided by
 * the transaction is left to the owner. If the process dies before the commit, the rows are what
 * they were; after it they are settled. */
#include "core/inbox_batch.h"

#include <stdlib.h>
#include <string.h>

/* --- 1. identify ------------------------------------------------------------------------------ */

/* With a settler that is the owner's to do. */
static semel_status batch_receive_alone(batch *b, size_t index)
{
    semel_error why;
    if (b->settler)
        return SEMEL_OK;
    semel_status status =
        inbox_receive(&b->out[index], b->buried ? &b->buried[index] : NULL, b->inbox,
                      b->messages[index], b->handler, b->context, b->terms, &why);
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
    if (again || !unit->item.mark.inbox) {
        b->alone[b->alone_count++] = index;
        return SEMEL_OK;
    }
    status = unit_add_details(unit, err);
    if (status)
        return status;
    batch_entry *e = &b->entries[b->count++];
    e->index = index;
    e->type = unit->item.mark.type;
    e->source = unit->item.mark.source;
    e->received_ms = unit->item.mark.received_ms;
    e->same = NULL;
    e->stale = 0;
    e->fingerprint = unit->item.mark.fingerprint;
    e->whole_key = unit->item.whole_key;
    e->key = unit->item.mark.key;
    return SEMEL_OK;
}

/* --- 2. sort and mark ------------------------------------------------------------------------- */

static int compare_keys(const batch_entry *a, const batch_entry *b)
{
    size_t shorter = a->key.len < b->key.len ? a->key.len : b->key.len;
    int order = memcmp(a->key.data, b->key.data, shorter);
    return order ? order : (a->key.len > b->key.len) - (a->key.len < b->key.len);
}

static int compare_entries(const void *left, const void *right)
{
    const batch_entry *a = *(batch_entry *const *)left, *b = *(batch_entry *const *)right;
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
    batch_entry *first = NULL;
    b->mark_count = 0;
    for (size_t i = 0; i < b->count; i++) {
        batch_entry *e = b->sorted[i];
        e->handler_ns = e->started_ns = 0;
        e->error = NULL;
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
                                .keep_ms = inbox_keep_ms(b->inbox),
                                .type = e->type,
                                .source = e->source,
                                .received_ms = e->received_ms};
    }
}

/* One look-up for all old messages whose keys were free. *stale is how many may have been
 * handled before. */
static semel_status find_stale(batch *b, size_t *stale, semel_error *err)
{
    uint64_t forgotten_ms = 0;
    int looked = 0;
    *stale = 0;
    for (size_t i = 0; i < b->count; i++) {
        batch_entry *e = &b->entries[i];
        if (!batch_is_ours(e) || (e->mark->attempts && !e->mark->unproven) ||
            !inbox_is_old(b->inbox, b->messages[e->index]))
            continue;
        semel_status status =
            looked ? SEMEL_OK : inbox_forgotten_age(&forgotten_ms, b->unit, b->inbox, err);
        if (status)
            return status;
        looked = 1;
        e->stale = inbox_is_forgotten(b->inbox, b->messages[e->index], forgotten_ms);
        *stale += (size_t)e->stale;
    }
    return SEMEL_OK;
}

/* --- 4. the transaction ----------------------------------------------------------------------- */

static int nothing_changed(const batch *b)
{
    for (size_t i = 0; i < b->mark_count; i++)
        if (b->marks[i].state == SEMEL_MARK_TAKEN)
            return 0;
    return 1;
}

static semel_status batch_settle(batch *b, semel_error *err)
{
    const batch_settler *settler = b->settler;
    if (!settler)
        return SEMEL_OK;
    semel_status status = settler->settle(settler->context, b->unit, b->from, b->part_count, err);
    return status ? status : store_fault(b->unit->store, "batch.settled", err);
}

static semel_status batch_transact(batch *b, semel_error *err)
{
    semel_store *store = b->inbox->store;
    const semel_inbox_options *options = &b->inbox->options;
    uint32_t wait_ms = options->on_in_flight == SEMEL_IN_FLIGHT_WAIT ? options->wait_ms : 0;
    make_marks(b);
    b->stopped = 0;
    pace_restart(b->terms);
    b->unit->marks = b->mark_count;
    b->unit->full = 0;
    b->unit->operation = SEMEL_OPERATION_RECEIVE;
    semel_status status = unit_tx_begin(b->unit, SEMEL_BEGIN_DURABLE, err);
    if (!status)
        status =
            store->driver->markers->mark(b->unit->state, b->marks, b->mark_count, wait_ms, err);
    if (!status)
        status = store_fault(store, "batch.marked", err);
    if (!status)
        status = find_stale(b, &b->stale, err);
    if (!status && b->stale)
        return inbox_fail_stale(b->inbox, err);
    if (!status)
        status = batch_handle_all(b, err);
    if (status || (!b->settler && nothing_changed(b)))
        return status;
    status = batch_settle(b, err);
    if (!status)
        status = unit_flush_pending(b->unit, err);
    if (!status)
        status = unit_tx_commit(b->unit, err);
    if (!status)
        unit_count_captured(b->unit);
    return status ? status : store_fault(store, "batch.committed", err);
}

static void set_undecided(batch *b, size_t index)
{
    b->out[index] = SEMEL_UNDECIDED;
    if (b->buried)
        b->buried[index] = 0;
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
        unit_drop_captured(b->unit);
        unit_drop_pending(b->unit);
        if (!status)
            return SEMEL_OK;
        for (size_t i = 0; i < b->count; i++)
            set_undecided(b, b->entries[i].index);
    } while (store_retry_after_pause(b->inbox->store, status, &why, &tries));
    if (b->err && !b->stale) /* a stale message says so when it is received by itself */
        *b->err = why;
    return status;
}

/* 1 if one message of the batch may have made the whole batch fail: a queued statement that failed
 * at the commit, or work that ran into a limit of the server or into another unit's lock. */
static int may_be_one_message(const batch *b, semel_status status)
{
    return unit_blames_handler(status) ||
           (b->begun && (status == SEMEL_EUNAVAILABLE || status == SEMEL_EBUSY || b->undone));
}

/* The same for rows with an owner, who also waits out what is in the way of each; or one of them is
 * not the owner's any more. */
static int is_left_to_owner(const batch *b, semel_status status)
{
    return b->settler && (may_be_one_message(b, status) || status == SEMEL_ECONFLICT ||
                          status == SEMEL_EBUSY || status == SEMEL_ELOST);
}

/* By itself each message shows whether it was the one. A lock in the way of one is none in the way
 * of the others. */
static semel_status batch_receive_each(batch *b)
{
    semel_status status = SEMEL_OK, locked = SEMEL_OK;
    size_t count = b->count;
    b->count = 0; /* they are counted where they are received */
    pace_restart(b->terms);
    for (size_t i = 0; !status && i < count && !pace_is_over(b->terms); i++) {
        status = batch_receive_alone(b, b->entries[i].index);
        if (status == SEMEL_EBUSY) {
            locked = status;
            status = SEMEL_OK;
        }
    }
    return status ? status : locked;
}

/* Stale messages are received by themselves; the others stay in the batch. */
static semel_status set_stale_aside(batch *b)
{
    semel_status status = SEMEL_OK;
    size_t kept = 0;
    for (size_t i = 0; i < b->count; i++) {
        if (!b->entries[i].stale)
            b->entries[kept++] = b->entries[i];
        else if (!status)
            status = batch_receive_alone(b, b->entries[i].index);
    }
    b->count = kept;
    b->stale = 0;
    return status;
}

static semel_status batch_transact_without_stale(batch *b)
{
    for (;;) {
        sort_entries(b);
        semel_status status = batch_transact_retrying(b);
        if (!b->stale)
            return status;
        status = set_stale_aside(b);
        if (status || !b->count)
            return status;
    }
}

static semel_status batch_run(batch *b, size_t count)
{
    semel_error why;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count; i++)
        if ((status = batch_identify(b, i, &why)) && b->err)
            *b->err = why;
    for (size_t i = 0; !status && i < b->alone_count && !pace_is_over(b->terms); i++)
        status = batch_receive_alone(b, b->alone[i]);
    if (status || !b->count || pace_is_over(b->terms))
        return status;
    status = batch_transact_without_stale(b);
    if (is_left_to_owner(b, status))
        return SEMEL_OK;
    return may_be_one_message(b, status) ? batch_receive_each(b) : status;
}

/* One allocation for the whole batch, kept in the unit's arena: none in the steady state. */
static semel_status batch_alloc(batch *b, size_t count, semel_error *err)
{
    mem_arena *arena = &b->unit->arena;
    b->entries = arena_alloc(arena, count * sizeof *b->entries);
    b->alone = arena_alloc(arena, count * sizeof *b->alone);
    b->sorted = arena_alloc(arena, count * sizeof(batch_entry *));
    b->marks = arena_alloc(arena, count * sizeof *b->marks);
    if (b->entries && b->alone && b->sorted && b->marks)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a batch of %zu", count);
}

static void batch_report(const batch *b, const batch_entry *e)
{
    if (b->out[e->index] == SEMEL_UNDECIDED)
        return;
    inbox_report(b->inbox,
                 &(semel_event){
                     .message = b->messages[e->index],
                     .key = e->whole_key,
                     .outcome = b->out[e->index],
                     .attempt = e->handler_ns ? batch_attempt_of(b, e) : 0,
                     .handler_ns = e->handler_ns,
                     .error = e->error,
                     .retry_ms = terms_retry_ms(b->terms, b->out[e->index], b->messages[e->index]),
                     .letter = b->out[e->index] == SEMEL_DEAD ? e->letter : 0,
                     .started_ns = e->started_ns,
                     .captured = b->out[e->index] == SEMEL_PROCESSED ? (uint32_t)e->captured : 0});
}

static semel_status receive_together(batch *b, size_t count)
{
    semel_status status = unit_new(&b->unit, b->inbox->store, b->err);
    if (status)
        return status;
    if (b->terms)
        b->unit->terms = *b->terms;
    status = batch_alloc(b, count, b->err);
    if (!status)
        status = batch_run(b, count);
    if (!status && b->stopped)
        status = SEMEL_ESTOPPED;
    for (size_t i = 0; i < b->count; i++)
        batch_report(b, &b->entries[i]);
    unit_free(b->unit);
    return status;
}

/* How many keys one transaction takes: for each there is room for a dead letter and for
 * messages. */
static size_t keys_together(const semel_store *store, size_t count)
{
    size_t most = store->driver->changes_max / 4;
    return !store->driver->changes_max || count <= most ? count : most ? most : 1;
}

static semel_status receive_in_parts(batch *b, size_t count)
{
    semel_status status = SEMEL_OK;
    batch part = *b;
    for (size_t at = 0, some; !status && at < count && !pace_is_over(b->terms); at += some) {
        some = keys_together(b->inbox->store, count - at);
        part = (batch){.out = b->out + at,
                       .buried = b->buried ? b->buried + at : NULL,
                       .inbox = b->inbox,
                       .messages = b->messages + at,
                       .handler = b->handler,
                       .context = b->context,
                       .terms = b->terms,
                       .settler = b->settler,
                       .from = at,
                       .part_count = some,
                       .err = b->err,
                       .failed = part.failed};
        status = receive_together(&part, some);
    }
    return status;
}

static semel_status receive_one_by_one(batch *b, size_t count)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < count && !pace_is_over(b->terms); i++)
        status = batch_receive_alone(b, i);
    return status;
}

semel_status inbox_receive_batch(semel_outcome out[], int buried[], semel_inbox *inbox,
                                 const semel_message *const messages[], size_t count,
                                 semel_handler *handler, void *context, const unit_terms *terms,
                                 semel_error *err)
{
    batch b = {.out = out,
               .buried = buried,
               .inbox = inbox,
               .messages = messages,
               .handler = handler,
               .context = context,
               .terms = terms,
               .settler = terms ? terms->settler : NULL,
               .err = err};
    if (count > SEMEL_BATCH_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "a batch of %zu; SEMEL_BATCH_MAX is %zu", count,
                          SEMEL_BATCH_MAX);
    for (size_t i = 0; i < count; i++)
        set_undecided(&b, i);
    pace_restart(b.terms);
    int alone =
        inbox->options.mode == SEMEL_CLAIM || count == 1 || !inbox->store->driver->units->savepoint;
    return alone ? receive_one_by_one(&b, count) : receive_in_parts(&b, count);
}

semel_status semel_inbox_receive_batch(semel_outcome out[], semel_inbox *inbox,
                                       const semel_message *const messages[], size_t count,
                                       semel_handler *handler, void *context, semel_error *err)
{
    semel_status status = inbox_takes_keys(inbox, err);
    for (size_t i = 0; status && i < count; i++)
        out[i] = SEMEL_UNDECIDED;
    return status ? status
                  : inbox_receive_batch(out, NULL, inbox, messages, count, handler, context, NULL,
                                        err);
}
