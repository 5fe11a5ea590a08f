/* Dead letters: listing, discarding, replaying.
 *
 * A replay runs in the transaction that also drops the letter and turns its dead marker into a done one,
 * so it takes effect once, however often it is asked for and whenever the process dies: before the commit
 * nothing has happened, after it the letter is gone. Claim mode needs several transactions; see there. */
#include "core/unit.h"

#include "base/message.h"

#include <string.h>

static semel_status read_filter(semel_dead_filter *out, const semel_dead_filter *given,
                                semel_error *err)
{
    semel_status status = options_read(out, sizeof *out, given, "semel_dead_filter", err);
    if (!out->limit)
        out->limit = 100;
    return status;
}

typedef struct listing {
    semel_dead_filter filter;
    semel_dead_visitor *visitor;
    void *context;
} listing;

static semel_status list_letters(work_unit *unit, void *context, semel_error *err)
{
    const listing *l = context;
    return unit->store->driver->dead->list(unit->state, &l->filter, l->visitor, l->context, err);
}

semel_status semel_dead_list(semel_store *store, const semel_dead_filter *filter,
                             semel_dead_visitor *visitor, void *context, semel_error *err)
{
    listing l = {.visitor = visitor, .context = context};
    semel_status status = read_filter(&l.filter, filter, err);
    if (!status)
        status = store_can_keep_dead(store, err);
    return status ? status : store_transact(store, SEMEL_BEGIN_RELAXED, list_letters, &l, err);
}

static semel_status drop_letter(work_unit *unit, void *context, semel_error *err)
{
    const int64_t *id = context;
    return unit->store->driver->dead->drop(unit->state, *id, err);
}

semel_status semel_dead_discard(semel_store *store, int64_t id, semel_error *err)
{
    semel_status status = store_can_keep_dead(store, err);
    return status ? status : store_transact(store, SEMEL_BEGIN_DURABLE, drop_letter, &id, err);
}

/* --- finding one ------------------------------------------------------------------------------------ */

typedef struct letter {
    work_unit *unit; /* whose arena the message goes to */
    int64_t id;
    semel_bytes key;
    const semel_message *message;
} letter;

static semel_status keep_letter(const semel_dead *dead, void *context, semel_error *err)
{
    letter *found = context;
    if (dead->id != found->id)
        return SEMEL_OK;
    if (!dead->message)
        return semel_fail(err, SEMEL_ESTORE, "dead letter %lld is damaged: %s", (long long)dead->id,
                          dead->error);
    found->key = (semel_bytes){arena_copy(&found->unit->arena, dead->key.data, dead->key.len),
                               dead->key.len};
    found->message = message_copy_into(&found->unit->arena, dead->message);
    return found->message && found->key.data
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ENOMEM, "out of memory for a dead letter");
}

/* Reads the letter into the unit's arena, inside its open transaction. */
static semel_status find_letter(letter *out, work_unit *unit, semel_dead_origin origin,
                                const char *name, int64_t id, semel_error *err)
{
    letter found = {.unit = unit, .id = id};
    semel_dead_filter filter = {.size = sizeof filter,
                                .origin = origin,
                                .name = name,
                                .after_id = id > 0 ? id - 1 : 0,
                                .limit = 1};
    semel_status status =
        unit->store->driver->dead->list(unit->state, &filter, keep_letter, &found, err);
    if (!status && !found.message)
        status = semel_fail(err, SEMEL_ENOTFOUND, "\"%s\" has no dead letter %lld (any more)", name,
                            (long long)id);
    if (!status)
        *out = found;
    return status;
}

/* --- replaying into an inbox --------------------------------------------------------------------------- */

static semel_status restart_count(work_unit *unit, semel_error *err)
{
    unit->item.mark.attempts = 0;
    return unit->store->driver->markers->fail(unit->state, &unit->item.mark, "replayed", err);
}

/* The marker of a dead key is removed, so that the key is free to be claimed. If another replay is faster, the claim
 * will tell. */
static semel_status free_dead_key(work_unit *unit, semel_inbox *inbox, const semel_message *message,
                                  semel_error *err)
{
    int missing;
    semel_status status = unit_identify(&missing, unit, inbox, message, err);
    if (status || !unit->item.mark.inbox)
        return status;
    const semel_store_markers *markers = unit->store->driver->markers;
    status = markers->look(unit->state, &unit->item.mark, err);
    if (status)
        return status;
    if (unit->item.mark.state == SEMEL_MARK_DEAD)
        status = markers->forget(unit->state, &unit->item.mark, err);
    else if (unit->item.mark.state == SEMEL_MARK_FREE && unit->item.mark.attempts)
        status = restart_count(unit, err);
    return status == SEMEL_ENOTFOUND || status == SEMEL_ELOST ? SEMEL_OK : status;
}

/* To reject a duplicate is an answer to its sender, and a letter has none: it is a duplicate, and goes. */
static semel_status claim_replayed(semel_outcome *out, work_unit *unit, semel_inbox *inbox,
                                   const semel_message *message, semel_error *err)
{
    semel_status status = unit_claim_key(out, unit, inbox, message, err);
    return status == SEMEL_EREJECTED && *out == SEMEL_DUPLICATE ? SEMEL_OK : status;
}

static semel_status replay_transaction(semel_outcome *out, work_unit *unit, semel_inbox *inbox,
                                       int64_t id, const semel_message *message,
                                       semel_handler *handler, void *context, semel_error *err)
{
    semel_status status = claim_replayed(out, unit, inbox, message, err);
    int run = !status && *out == SEMEL_CLAIMED;
    if (run)
        status = unit_run(unit, handler, message, context, err);
    if (run && status)
        *out = SEMEL_FAILED;
    if (status || !(run || semel_outcome_settled(*out)))
        return status;
    status = unit->store->driver->dead->drop(unit->state, id, err);
    if (!status)
        status = unit_complete(unit, err);
    *out = status ? SEMEL_UNDECIDED : run ? SEMEL_PROCESSED : *out;
    return status ? status : store_fault(unit->store, "replay.committed", err);
}

static int same_bytes(semel_bytes a, semel_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Dead it was and dead it is, under one letter: a refused one had an identity of its own, and goes. */
static semel_status bury_again(semel_outcome *out, work_unit *unit, const letter *before,
                               semel_status failure, const semel_error *why, semel_error *err)
{
    semel_error again;
    semel_fail(&again, SEMEL_EGIVEUP, "failed again when replayed: %s", why->text);
    semel_status status = unit_record_failure(out, unit, &again, err);
    if (!status && *out == SEMEL_DEAD && !same_bytes(before->key, unit->item.mark.key))
        (void)semel_dead_discard(unit->store, before->id, &again); /* or there are two to look at */
    *out = SEMEL_FAILED;
    return semel_fail(err, failure, "%s", why->text);
}

/* Claim mode: the key is made free, claimed, completed, and then the letter dropped. A crash before the
 * last step leaves a letter whose next replay is a duplicate, and which then goes. */
static semel_status replay_claim(semel_outcome *out, work_unit *unit, semel_inbox *inbox,
                                 const letter *found, const semel_message *message,
                                 semel_handler *handler, void *context, semel_error *err)
{
    semel_error why = {0};
    semel_status status = unit_tx_commit(unit, err); /* the revival is stored before the claim */
    if (!status)
        status = claim_replayed(out, unit, inbox, message, err);
    if (status)
        return status;
    if (*out == SEMEL_CLAIMED) {
        status = unit_run(unit, handler, message, context, &why);
        if (status)
            return bury_again(out, unit, found, status, &why, err);
        status = unit_complete(unit, err);
        *out = status ? SEMEL_UNDECIDED : SEMEL_PROCESSED;
    }
    unit_tx_rollback(unit);
    return status || !semel_outcome_settled(*out)
               ? status
               : semel_dead_discard(inbox->store, found->id, err);
}

/* See record_failure() in inbox_failure.c: a handler would take the empty body for the message's own. */
static int is_bodiless(const semel_message *message)
{
    return !message->body.len && message->header_count &&
           strcmp(message->headers[0].name, LETTER_BODILESS) == 0;
}

static semel_status replay_letter(semel_outcome *out, work_unit *unit, semel_inbox *inbox,
                                  int64_t id, semel_handler *handler, void *context,
                                  semel_error *err)
{
    letter found = {0};
    semel_status status = unit_tx_begin(unit, SEMEL_BEGIN_DURABLE, err);
    if (!status)
        status = find_letter(&found, unit, SEMEL_DEAD_INBOX, inbox->name, id, err);
    if (status)
        return status;
    if (is_bodiless(found.message))
        return semel_fail(err, SEMEL_EREJECTED,
                          "dead letter %lld was kept without its body, which was more than the "
                          "store takes: there is nothing to handle",
                          (long long)id);
    semel_message message = *found.message;
    message.delivery = 0;
    message.delay_ms = 0;
    status = free_dead_key(unit, inbox, &message, err);
    if (!status)
        status = store_fault(inbox->store, "replay.begun", err);
    if (status)
        return status;
    return inbox->options.mode == SEMEL_CLAIM
               ? replay_claim(out, unit, inbox, &found, &message, handler, context, err)
               : replay_transaction(out, unit, inbox, id, &message, handler, context, err);
}

semel_status semel_inbox_replay(semel_outcome *out, semel_inbox *inbox, int64_t id,
                                semel_handler *handler, void *context, semel_error *err)
{
    work_unit *unit = NULL;
    *out = SEMEL_UNDECIDED;
    semel_status status = store_can_keep_dead(inbox->store, err);
    if (!status)
        status = unit_new(&unit, inbox->store, err);
    if (status)
        return status;
    unit->item.replaying = 1;
    status = replay_letter(out, unit, inbox, id, handler, context, err);
    unit_tx_rollback(unit);
    unit_free(unit);
    inbox_count(inbox, *out);
    return status;
}

/* --- replaying into an outbox ---------------------------------------------------------------------------- */

semel_status semel_outbox_replay(semel_outbox *outbox, int64_t id, semel_error *err)
{
    letter found = {0};
    semel_store *store = outbox->store;
    work_unit *unit = NULL;
    semel_status status = unit_new(&unit, store, err);
    if (status)
        return status;
    status = unit_tx_begin(unit, SEMEL_BEGIN_DURABLE, err);
    if (!status)
        status = find_letter(&found, unit, SEMEL_DEAD_OUTBOX, outbox->name, id, err);
    if (!status)
        status = unit_send(unit, outbox, found.message, err);
    if (!status)
        status = store->driver->dead->drop(unit->state, id, err);
    if (!status)
        status = store_fault(store, "replay.begun", err);
    if (!status)
        status = unit_complete(unit, err);
    unit_tx_rollback(unit);
    unit_free(unit);
    return status ? status : store_fault(store, "replay.committed", err);
}
