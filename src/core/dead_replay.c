/* Replaying dead letters: one, or all that a filter names.
 *
 * A replay runs in the transaction that also drops the letter and turns its dead marker into a done
 * one, so it takes effect once, however often it is asked for and whenever the process dies: before
 * the commit nothing has happened, after it the letter is gone. Claim mode needs several
 * transactions, and so does a letter that an inbox of another store handles; see there. */
#include "core/dead.h"

#include "base/due.h"
#include "base/message.h"

#include <string.h>

/* --- into an inbox ---------------------------------------------------------------------------- */

static semel_status restart_count(work_unit *unit, semel_error *err)
{
    unit->item.mark.attempts = 0;
    return unit->store->driver->markers->fail(unit->state, &unit->item.mark, "replayed", err);
}

static int same_bytes(semel_bytes a, semel_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* A letter that was refused has an identity of its own. The dead key belongs to another letter,
 * whose message it would replace. */
static semel_status refuse_other_letter(const letter *found, semel_error *err)
{
    return semel_fail(err, SEMEL_EREJECTED,
                      "the key of dead letter %lld is dead because of another message: replay or "
                      "discard that one first",
                      (long long)found->id);
}

/* The marker of a dead key is removed, so that the key is free to be claimed. If another replay is
 * faster, the claim will tell. */
static semel_status free_dead_key(work_unit *unit, semel_inbox *inbox, const letter *found,
                                  const semel_message *message, semel_error *err)
{
    int missing;
    semel_status status = unit_identify(&missing, unit, inbox, message, err);
    if (status || !unit->item.mark.inbox)
        return status;
    const semel_store_markers *markers = unit->store->driver->markers;
    status = markers->look(unit->state, &unit->item.mark, err);
    if (status)
        return status;
    if (unit->item.mark.state == SEMEL_MARK_DEAD && !same_bytes(found->key, unit->item.mark.key))
        return refuse_other_letter(found, err);
    if (unit->item.mark.state == SEMEL_MARK_DEAD)
        status = markers->forget(unit->state, &unit->item.mark, err);
    else if (unit->item.mark.state == SEMEL_MARK_FREE && unit->item.mark.attempts)
        status = restart_count(unit, err);
    return status == SEMEL_ENOTFOUND || status == SEMEL_ELOST ? SEMEL_OK : status;
}

/* To reject a duplicate is an answer to its sender, and a letter has none: it is a duplicate, and
 * goes. A key that became dead again was replayed by another process meanwhile, without success:
 * this letter is what is left of the message, and must stay. (The letter of another store may go:
 * there is one in the store of the inbox.) */
static semel_status claim_replayed(semel_outcome *out, work_unit *unit, const replay *r,
                                   const semel_message *message, semel_error *err)
{
    semel_status status = unit_claim_key(out, unit, r->inbox, message, err);
    if (!status && *out == SEMEL_DEAD && !r->foreign) {
        *out = SEMEL_IN_PROGRESS;
        return semel_fail(err, SEMEL_EBUSY,
                          "dead letter %lld was replayed by another process meanwhile, which "
                          "failed: try again",
                          (long long)r->id);
    }
    return status == SEMEL_EREJECTED && *out == SEMEL_DUPLICATE ? SEMEL_OK : status;
}

/* The letter is in the same store, so its end is part of the transaction. */
static int drops_in_unit(const replay *r)
{
    return !r->keep && r->store == r->inbox->store;
}

static semel_status replay_transaction(semel_outcome *out, work_unit *unit, const replay *r,
                                       const semel_message *message, semel_error *err)
{
    semel_status status = claim_replayed(out, unit, r, message, err);
    int run = !status && *out == SEMEL_CLAIMED;
    if (run)
        status = unit_run(unit, r->handler, message, r->context, err);
    if (run && status)
        *out = SEMEL_FAILED;
    if (status || !(run || semel_outcome_settled(*out)))
        return status;
    if (drops_in_unit(r))
        status = unit->store->driver->dead->drop(unit->state, r->id, err);
    if (!status)
        status = unit_complete(unit, err);
    *out = status ? SEMEL_UNDECIDED : run ? SEMEL_PROCESSED : *out;
    return status ? status : store_fault(unit->store, "replay.committed", err);
}

/* Dead it was and dead it is, under one letter: a refused one had an identity of its own, and
 * goes. The error is the new one, without more words, so that it has the cause that such errors
 * have; a handler that was stopped has not failed, and leaves the old one. The attempts are those
 * of the letter; the claim has begun at 1. */
static semel_status bury_again(semel_outcome *out, work_unit *unit, const replay *r,
                               const letter *before, semel_status failure, const semel_error *why,
                               semel_error *err)
{
    semel_error again;
    semel_fail(&again, SEMEL_EGIVEUP, "%s", failure == SEMEL_ESTOPPED ? before->error : why->text);
    unit->item.attempt = before->attempts ? before->attempts : 1;
    semel_status status = unit_record_failure(out, unit, &again, err);
    if (!status && *out == SEMEL_DEAD && !r->foreign &&
        !same_bytes(before->key, unit->item.mark.key)) /* or there are two to look at */
        (void)dead_drop(r->store, before->id, &again);
    *out = SEMEL_FAILED;
    return semel_fail(err, failure, "%s", why->text);
}

/* Claim mode: the key is made free, claimed, completed, and then the letter dropped. A crash before
 * the last step leaves a letter whose next replay is a duplicate, and which then goes. */
static semel_status replay_claim(semel_outcome *out, work_unit *unit, const replay *r,
                                 const letter *found, const semel_message *message,
                                 semel_error *err)
{
    semel_error why = {0};
    semel_status status = unit_tx_commit(unit, err); /* the revival is stored before the claim */
    if (!status)
        status = claim_replayed(out, unit, r, message, err);
    if (!status && *out == SEMEL_CLAIMED) {
        status = unit_run(unit, r->handler, message, r->context, &why);
        if (status)
            return bury_again(out, unit, r, found, status, &why, err);
        status = unit_complete(unit, err);
        *out = status ? SEMEL_UNDECIDED : SEMEL_PROCESSED;
    }
    unit_tx_rollback(unit);
    return status;
}

/* Inside the open transaction of the unit, in the store of the inbox. */
static semel_status replay_found(semel_outcome *out, work_unit *unit, const replay *r,
                                 const letter *found, semel_error *err)
{
    semel_message *message = arena_copy(&unit->arena, found->message, sizeof *message);
    if (!message)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a dead letter");
    message->delivery = 0;
    message->delay_ms = 0;
    if (r->inbox->positions) /* its position is not in the message */
        unit->item.whole_key = letter_key(found->key, found->message);
    semel_status status =
        r->foreign ? SEMEL_OK : free_dead_key(unit, r->inbox, found, message, err);
    if (!status)
        status = store_fault(unit->store, "replay.begun", err);
    if (status)
        return status;
    return r->inbox->options.mode == SEMEL_CLAIM ? replay_claim(out, unit, r, found, message, err)
                                                 : replay_transaction(out, unit, r, message, err);
}

typedef struct letter_read {
    letter *out;
    const replay *r;
    work_unit *into;
} letter_read;

static semel_status read_elsewhere(work_unit *reader, void *context, semel_error *err)
{
    const letter_read *l = context;
    letter found;
    semel_status status = letter_find(&found, reader, SEMEL_DEAD_INBOX, l->r->name, l->r->id, err);
    if (status)
        return status;
    mem_arena *arena = &l->into->arena;
    *l->out = (letter){.unit = l->into,
                       .id = found.id,
                       .key = {arena_copy(arena, found.key.data, found.key.len), found.key.len},
                       .message = message_copy_into(arena, found.message),
                       .attempts = found.attempts,
                       .error = arena_copy(arena, found.error, strlen(found.error) + 1)};
    return l->out->key.data && l->out->message && l->out->error
               ? SEMEL_OK
               : semel_fail(err, SEMEL_ENOMEM, "out of memory for a dead letter");
}

/* Reads the letter: in the transaction of the work, if both are in one store. */
static semel_status begin_replay(letter *out, work_unit *unit, const replay *r, semel_error *err)
{
    letter_read elsewhere = {out, r, unit};
    int here = r->store == r->inbox->store;
    semel_status status =
        here ? SEMEL_OK
             : store_transact(r->store, SEMEL_BEGIN_RELAXED, read_elsewhere, &elsewhere, err);
    if (!status)
        status = unit_tx_begin(unit, SEMEL_BEGIN_DURABLE, err);
    if (!status && here)
        status = letter_find(out, unit, SEMEL_DEAD_INBOX, r->name, r->id, err);
    return status ? status : letter_check_body(out, err);
}

/* Where the letter could not be dropped with the work. */
static semel_status drop_after(const replay *r, semel_error *err)
{
    int dropped = drops_in_unit(r) && r->inbox->options.mode != SEMEL_CLAIM;
    return r->keep || dropped ? SEMEL_OK : dead_drop(r->store, r->id, err);
}

semel_status dead_replay(semel_outcome *out, const replay *r, semel_error *err)
{
    letter found = {0};
    work_unit *unit = NULL;
    semel_error local, *why = err ? err : &local;
    *out = SEMEL_UNDECIDED;
    semel_status status = store_can_keep_dead(r->store, why);
    if (!status)
        status = unit_new(&unit, r->inbox->store, why);
    if (status)
        return status;
    unit->item.replaying = 1;
    status = begin_replay(&found, unit, r, why);
    if (!status)
        status = replay_found(out, unit, r, &found, why);
    unit_tx_rollback(unit);
    unit_report(unit, r->inbox, *out, status ? why : NULL);
    unit_free(unit);
    return status || !semel_outcome_settled(*out) ? status : drop_after(r, err);
}

semel_status semel_inbox_replay(semel_outcome *out, semel_inbox *inbox, int64_t id,
                                semel_handler *handler, void *context, semel_error *err)
{
    replay r = {.inbox = inbox,
                .handler = handler,
                .context = context,
                .store = inbox->store,
                .name = inbox->name,
                .id = id};
    return dead_replay(out, &r, err);
}

/* --- into an outbox --------------------------------------------------------------------------- */

/* The age of the message counts from now on: an inbox may have forgotten keys from the time when
 * it was first sent. */
static semel_status send_again(work_unit *unit, semel_outbox *outbox, const semel_message *message,
                               semel_error *err)
{
    semel_message fresh = *message;
    semel_status status =
        due_set_if_room(&fresh, &unit->arena, seam_wall_ms(&unit->store->seam), err);
    return status ? status : unit_send(unit, outbox, &fresh, err);
}

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
        status = letter_find(&found, unit, SEMEL_DEAD_OUTBOX, outbox->name, id, err);
    if (!status)
        status = send_again(unit, outbox, found.message, err);
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

/* --- many ------------------------------------------------------------------------------------- */

enum { PAGE = 100 };

typedef struct page {
    int64_t ids[PAGE];
    int damaged[PAGE];
    size_t count;
    semel_error why; /* of the last damaged one */
} page;

static semel_status note_letter(const semel_dead *dead, void *context, semel_error *err)
{
    page *p = context;
    (void)err;
    if (p->count == PAGE)
        return SEMEL_OK;
    p->damaged[p->count] = !dead->message;
    p->ids[p->count++] = dead->id;
    if (!dead->message)
        semel_fail(&p->why, SEMEL_ESTORE, "dead letter %lld is damaged: %s", (long long)dead->id,
                   dead->error);
    return SEMEL_OK;
}

static semel_status read_page(page *p, semel_store *store, semel_dead_filter *filter,
                              int64_t after_id, uint32_t limit, semel_error *err)
{
    p->count = 0;
    filter->after_id = after_id;
    filter->limit = limit;
    return semel_dead_list(store, filter, note_letter, p, err);
}

/* The last letter that there is now, so that the call ends, whatever it buries anew and others add.
 * The steps become longer while there is a letter behind them, and shorter when there is none. */
static semel_status find_last(int64_t *last, semel_store *store, semel_dead_filter *filter, page *p,
                              semel_error *err)
{
    int64_t known = filter->after_id > 0 ? filter->after_id : 0, beyond = INT64_MAX, step = 1;
    semel_status status = SEMEL_OK;
    while (!status && known < beyond) {
        int64_t half = (beyond - known) / 2, probe = known + (step < half ? step : half);
        status = read_page(p, store, filter, probe, 1, err);
        if (status || !p->count) {
            beyond = probe;
        } else {
            known = p->ids[0];
            step = step < INT64_MAX / 2 ? step * 2 : step;
        }
    }
    *last = known;
    return status;
}

static void count_failure(replay_counts *counts, const semel_error *why)
{
    if (!counts->failed++ && counts->err)
        *counts->err = *why;
}

/* Nothing was decided: by the letter's fault, or by the store's? */
static int blames_letter(semel_status status)
{
    return status == SEMEL_EREJECTED || status == SEMEL_EBUSY || status == SEMEL_ELIMIT ||
           status == SEMEL_EINVAL;
}

/* Trouble of the store's ends the call; all else is a matter of this letter. */
static semel_status replay_counted(replay_counts *counts, int64_t id, replay_one *one,
                                   void *context, semel_error *err)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_error why = {0};
    semel_status status = one(&outcome, id, context, &why);
    if (!status || status == SEMEL_ENOTFOUND) {
        counts->replayed += !status;
        return SEMEL_OK;
    }
    if (outcome == SEMEL_UNDECIDED && !blames_letter(status)) {
        if (err)
            *err = why;
        return status;
    }
    count_failure(counts, &why);
    return SEMEL_OK;
}

semel_status dead_replay_each(replay_counts *counts, semel_store *store,
                              const semel_dead_filter *filter, replay_one *one, void *context,
                              semel_error *err)
{
    semel_dead_filter wanted = *filter;
    int64_t at = wanted.after_id, last = 0;
    wanted.brief = 0; /* damage may be in the headers */
    page *p = mem_alloc(sizeof *p);
    if (!p)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for replaying letters");
    semel_status status = find_last(&last, store, &wanted, p, err);
    while (!status && at < last) {
        status = read_page(p, store, &wanted, at, PAGE, err);
        if (status || !p->count)
            break;
        for (size_t i = 0; !status && i < p->count && (at = p->ids[i]) <= last; i++)
            if (p->damaged[i])
                count_failure(counts, &p->why);
            else
                status = replay_counted(counts, at, one, context, err);
    }
    mem_free(p);
    return status;
}

static semel_status replay_named(size_t *replayed, size_t *failed, semel_store *store,
                                 const semel_dead_filter *filter, semel_dead_origin origin,
                                 const char *name, replay_one *one, void *context, semel_error *err)
{
    replay_counts counts = {.err = err};
    semel_dead_filter wanted;
    *replayed = *failed = 0;
    semel_status status = dead_filter_read(&wanted, filter, err);
    if (status)
        return status;
    wanted.origin = origin;
    wanted.name = name;
    status = dead_replay_each(&counts, store, &wanted, one, context, err);
    *replayed = counts.replayed;
    *failed = counts.failed;
    return status;
}

static semel_status replay_from_inbox(semel_outcome *out, int64_t id, void *context,
                                      semel_error *err)
{
    replay r = *(const replay *)context;
    r.id = id;
    return dead_replay(out, &r, err);
}

semel_status semel_inbox_replay_all(size_t *replayed, size_t *failed, semel_inbox *inbox,
                                    const semel_dead_filter *filter, semel_handler *handler,
                                    void *context, semel_error *err)
{
    replay r = {.inbox = inbox,
                .handler = handler,
                .context = context,
                .store = inbox->store,
                .name = inbox->name};
    return replay_named(replayed, failed, inbox->store, filter, SEMEL_DEAD_INBOX, inbox->name,
                        replay_from_inbox, &r, err);
}

static semel_status replay_from_outbox(semel_outcome *out, int64_t id, void *context,
                                       semel_error *err)
{
    (void)out;
    return semel_outbox_replay(context, id, err);
}

semel_status semel_outbox_replay_all(size_t *replayed, size_t *failed, semel_outbox *outbox,
                                     const semel_dead_filter *filter, semel_error *err)
{
    return replay_named(replayed, failed, outbox->store, filter, SEMEL_DEAD_OUTBOX, outbox->name,
                        replay_from_outbox, outbox, err);
}
