/* Messages of an outbox that an operator wants to be sent now, or not at all.
 *
 * A message that is skipped leaves the outbox and becomes a dead letter in one transaction: if the
 * process dies before the commit it is in the outbox, after it it is a letter. The message is read
 * in that transaction, because its number may be given to another message as soon as it has left;
 * where a store never does that, it is read before. For the same reason a caller that has seen the
 * message earlier says its id: another message with that number is not the one. */
#include "base/message.h"
#include "core/dead.h"
#include "core/operate.h"

#include <stdio.h>
#include <string.h>

/* One message of an outbox, as it was read. */
typedef struct waiting {
    semel_outbox *outbox;
    int64_t seq;
    semel_bytes id; /* empty: any */
    mem_arena arena;
    int found;
    const semel_message *message; /* NULL: it was found, and is damaged */
    uint32_t attempts;
    int unchanged; /* the store did not change it: it has left, or a relay has it */
    semel_error why;
    int64_t letter;
} waiting;

static semel_status refuse_missing(const waiting *w, semel_error *err)
{
    return semel_fail(err, SEMEL_ENOTFOUND, "outbox \"%s\" has no message %lld (any more)",
                      w->outbox->name, (long long)w->seq);
}

static semel_status refuse_leased(const waiting *w, semel_error *err)
{
    return semel_fail(err, SEMEL_EBUSY,
                      "outbox \"%s\": a relay has message %lld right now; try again when its "
                      "attempt has ended",
                      w->outbox->name, (long long)w->seq);
}

/* --- reading one ------------------------------------------------------------------------------ */

static int has_id(const waiting *w, const semel_message *message)
{
    return !w->id.len || (message && message->id.len == w->id.len &&
                          memcmp(message->id.data, w->id.data, w->id.len) == 0);
}

static semel_status keep_waiting(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    waiting *w = context;
    if (outgoing->seq != w->seq)
        return SEMEL_OK;
    if (!outgoing->message)
        return semel_fail(err, SEMEL_ESTORE, "message %lld of outbox \"%s\" is damaged: %s",
                          (long long)w->seq, w->outbox->name, outgoing->error);
    if (!has_id(w, outgoing->message))
        return SEMEL_OK;
    w->found = 1;
    w->attempts = outgoing->attempts;
    w->message = message_copy_into(&w->arena, outgoing->message);
    return w->message ? SEMEL_OK : semel_fail(err, SEMEL_ENOMEM, "out of memory for a message");
}

static semel_status read_committed(waiting *w, semel_outgoing_visitor *visitor, int contents,
                                   semel_error *err)
{
    semel_outgoing_filter filter = {
        .size = sizeof filter, .after_seq = w->seq - 1, .limit = 1, .contents = contents};
    w->found = 0;
    const semel_store *store = w->outbox->store;
    return store->driver->lists->outgoing(store->state, w->outbox->scope, &filter, visitor, w, err);
}

static semel_status read_in_unit(waiting *w, work_unit *unit, semel_outgoing_visitor *visitor,
                                 semel_error *err)
{
    const semel_store_operation *operation = store_operation(unit->store);
    if (!operation->outgoing)
        return SEMEL_OK; /* it was read before */
    arena_reset(&w->arena);
    w->found = 0;
    return operation->outgoing(unit->state, w->outbox->scope, w->seq, visitor, w, err);
}

static semel_status see_waiting(const semel_outgoing *outgoing, void *context, semel_error *err)
{
    waiting *w = context;
    (void)err;
    w->found = outgoing->seq == w->seq && has_id(w, outgoing->message);
    return SEMEL_OK;
}

/* The transaction has ended with this status. */
static semel_status explain(waiting *w, semel_status ended, semel_error *err)
{
    if (!w->unchanged)
        return ended;
    semel_status status = read_committed(w, see_waiting, 0, err);
    return status ? status : w->found ? refuse_leased(w, err) : refuse_missing(w, err);
}

static int can_read(const semel_store *store)
{
    return store->driver->lists && store->driver->lists->outgoing;
}

/* --- now -------------------------------------------------------------------------------------- */

static semel_status wake_row(work_unit *unit, void *context, semel_error *err)
{
    waiting *w = context;
    size_t changed = 0;
    semel_status status = w->id.len ? read_in_unit(w, unit, see_waiting, err) : SEMEL_OK;
    if (!status && w->id.len && !w->found)
        status = refuse_missing(w, err);
    if (!status)
        status = store_operation(unit->store)
                     ->wake(unit->state, w->outbox->scope, &w->seq, 1, &changed, err);
    w->unchanged = !status && !changed;
    if (w->unchanged)
        status = refuse_leased(w, err);
    return status ? status : store_fault(unit->store, "wake.stored", err);
}

semel_status semel_outbox_wake(semel_outbox *outbox, int64_t seq, semel_bytes id, semel_error *err)
{
    semel_store *store = outbox->store;
    waiting w = {.outbox = outbox, .seq = seq, .id = id};
    semel_status status = SEMEL_OK;
    if (!store_operation(store)->wake || !can_read(store))
        return operate_refuse(store, "wake messages", err);
    if (id.len && !store_operation(store)->outgoing)
        status = read_committed(&w, see_waiting, 0, err);
    if (!status)
        status = operate_change(store, SEMEL_BEGIN_DURABLE, wake_row, &w, err);
    if (status)
        return explain(&w, status, err);
    store_wake_scope(store, outbox->scope);
    return store_fault(store, "wake.committed", err);
}

/* --- not at all ------------------------------------------------------------------------------- */

static semel_status find_letter(const semel_dead *dead, void *context, semel_error *err)
{
    (void)err;
    *(int64_t *)context = dead->id;
    return SEMEL_OK;
}

/* The key is this letter's alone: see letter_key() in relay_lease.c. */
static semel_status put_letter(waiting *w, work_unit *unit, semel_error *err)
{
    enum { NUMBERS_TEXT = 48 };
    char key[SEMEL_TEXT_MAX + NUMBERS_TEXT];
    semel_bytes id = w->message->id;
    memcpy(key, id.data, id.len);
    int len = snprintf(key + id.len, NUMBERS_TEXT, "#%lld-%016llx", (long long)w->seq,
                       (unsigned long long)seam_random(&unit->store->seam));
    semel_dead dead = {.size = sizeof dead,
                       .origin = SEMEL_DEAD_OUTBOX,
                       .name = w->outbox->name,
                       .key = {key, id.len + (size_t)len},
                       .message = w->message,
                       .attempts = w->attempts,
                       .error = w->why.text};
    semel_dead_filter filter = {.size = sizeof filter,
                                .origin = dead.origin,
                                .name = dead.name,
                                .key = dead.key,
                                .limit = 1,
                                .brief = 1};
    semel_status status = unit_put_letter(unit, &dead, err);
    return status ? status
                  : unit->store->driver->dead->list(unit->state, &filter, find_letter, &w->letter,
                                                    err);
}

static semel_status skip_row(work_unit *unit, void *context, semel_error *err)
{
    waiting *w = context;
    size_t changed = 0;
    semel_status status = read_in_unit(w, unit, keep_waiting, err);
    if (!status && !w->found)
        status = refuse_missing(w, err);
    if (!status)
        status = store_operation(unit->store)
                     ->remove(unit->state, w->outbox->scope, &w->seq, 1, &changed, err);
    w->unchanged = !status && !changed;
    if (w->unchanged)
        status = refuse_leased(w, err);
    if (!status)
        status = put_letter(w, unit, err);
    return status ? status : store_fault(unit->store, "skip.stored", err);
}

static semel_status skip(waiting *w, semel_error *err)
{
    semel_store *store = w->outbox->store;
    semel_status status =
        store_operation(store)->outgoing ? SEMEL_OK : read_committed(w, keep_waiting, 1, err);
    if (!status)
        status = operate_change(store, SEMEL_BEGIN_DURABLE, skip_row, w, err);
    if (status)
        return explain(w, status, err);
    store_wake_scope(store, w->outbox->scope); /* the next one of its group may be sent */
    return store_fault(store, "skip.committed", err);
}

semel_status semel_outbox_skip(int64_t *letter_id, semel_outbox *outbox, int64_t seq,
                               semel_bytes id, const char *why, semel_error *err)
{
    semel_store *store = outbox->store;
    waiting w = {.outbox = outbox, .seq = seq, .id = id};
    semel_status status = store_can_keep_dead(store, err);
    if (!status && (!store_operation(store)->remove || !can_read(store)))
        status = operate_refuse(store, "remove messages", err);
    if (status)
        return status;
    semel_fail(&w.why, SEMEL_EGIVEUP, "%s", why && *why ? why : "skipped by an operator");
    status = skip(&w, err);
    if (!status && letter_id)
        *letter_id = w.letter;
    arena_free(&w.arena);
    return status;
}
