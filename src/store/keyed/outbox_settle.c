/* Settling, extending, waking and removing: messages are read, judged, and changed at commit.
 *
 * A token that does not match any more is reported at once. If it is lost between the reading and
 * the commit, the commit returns ECONFLICT, and the core, which does the unit again, hears of it
 * then.
 *
 * A message that this unit has changed before is judged as the unit has left it. */
#include "store/keyed/outbox.h"

#include <string.h>

/* --- what is there ---------------------------------------------------------------------------- */

typedef struct settle_run {
    keyed_unit *unit;
    int64_t scope;
    outbox_items found;
    int64_t now_ms;
    uint32_t error_ms;
} settle_run;

static semel_status begin_run(settle_run *run, keyed_unit *unit, int64_t scope,
                              const int64_t numbers[], size_t count, semel_error *err)
{
    *run = (settle_run){.unit = unit, .scope = scope};
    semel_status status = keyed_now(unit->store, &run->now_ms, &run->error_ms, err);
    return status
               ? status
               : outbox_get(&run->found, unit->store, scope, numbers, count, 0, &unit->arena, err);
}

/* The message as the unit has it, in an intent that changes nothing yet. 0: it is not there, or is
 * damaged, so the driver cannot tell what belongs to it. */
static int find_message(outbox_intent *out, const settle_run *run, int64_t number)
{
    const outbox_intent *before = outbox_intended(run->unit, run->scope, number);
    const keyed_item *found = outbox_items_find(&run->found, number);
    if (before && before->act == OUTBOX_REMOVE)
        return 0;
    if (before)
        *out = *before;
    else if (found && !found->damaged)
        *out = (outbox_intent){.act = OUTBOX_WRITE, .before = *found, .after = *found};
    return before || (found && !found->damaged);
}

static int64_t *seqs_of(keyed_unit *unit, const semel_item_settlement settlements[], size_t count)
{
    int64_t *numbers = arena_alloc(&unit->arena, (count + 1) * sizeof *numbers);
    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = settlements[i].seq;
    return numbers;
}

/* 1 if the token is that of the message's lease. The lease of the message as it was found is what
 * the database compares. */
static int find_leased(outbox_intent *out, const settle_run *run,
                       const semel_item_settlement *settlement)
{
    if (!settlement->token || !find_message(out, run, settlement->seq) ||
        out->after.token != settlement->token)
        return 0;
    if (out->before.token == settlement->token)
        out->token = settlement->token;
    return 1;
}

/* --- settle ----------------------------------------------------------------------------------- */

/* One that is released without a delay keeps its due time, and with it its place. */
static void apply_verdict(outbox_intent *intent, const semel_item_settlement *settlement,
                          int64_t now_ms)
{
    keyed_item *after = &intent->after;
    if (settlement->verdict == SEMEL_VERDICT_ACK) {
        intent->act = OUTBOX_REMOVE;
        intent->keeps_sent = settlement->sent;
        return;
    }
    after->token = 0;
    after->until_ms = 0;
    if (settlement->verdict == SEMEL_VERDICT_RETRY) {
        after->due_ms = now_ms + settlement->delay_ms;
        after->refusals += settlement->refused != 0;
        return;
    }
    after->attempts -= after->attempts > 0;
    if (settlement->delay_ms)
        after->due_ms = now_ms + settlement->delay_ms;
}

static semel_status settle_one(settle_run *run, semel_item_settlement *settlement, semel_error *err)
{
    outbox_intent intent;
    settlement->lost = !find_leased(&intent, run, settlement);
    if (settlement->lost)
        return SEMEL_OK;
    apply_verdict(&intent, settlement, run->now_ms);
    if (settlement->verdict == SEMEL_VERDICT_RETRY && settlement->error) {
        intent.after.error =
            arena_copy(&run->unit->arena, settlement->error, strlen(settlement->error));
        if (!intent.after.error)
            return keyed_out_of_memory(err);
    }
    return outbox_intend(run->unit, &intent, err);
}

semel_status keyed_outbox_settle(void *unit, int64_t outbox, semel_item_settlement settlements[],
                                 size_t count, semel_error *err)
{
    settle_run run;
    const int64_t *numbers = seqs_of(unit, settlements, count);
    if (!numbers)
        return keyed_out_of_memory(err);
    semel_status status = begin_run(&run, unit, outbox, numbers, count, err);
    for (size_t i = 0; i < count && !status; i++)
        status = settle_one(&run, &settlements[i], err);
    return status;
}

/* --- extend ----------------------------------------------------------------------------------- */

semel_status keyed_outbox_extend(void *unit, int64_t outbox, semel_item_settlement leases[],
                                 size_t count, uint32_t lease_ms, semel_error *err)
{
    settle_run run;
    const int64_t *numbers = seqs_of(unit, leases, count);
    if (!numbers)
        return keyed_out_of_memory(err);
    semel_status status = begin_run(&run, unit, outbox, numbers, count, err);
    for (size_t i = 0; i < count && !status; i++) {
        outbox_intent intent;
        leases[i].lost = !find_leased(&intent, &run, &leases[i]);
        if (leases[i].lost)
            continue;
        intent.after.until_ms = run.now_ms + lease_ms;
        status = outbox_intend(unit, &intent, err);
    }
    return status;
}

/* --- wake, remove ----------------------------------------------------------------------------- */

/* Nothing is changed of a message whose lease is over: it is due. */
static semel_status wake_message(settle_run *run, outbox_intent *intent, semel_error *err)
{
    if (intent->after.token || intent->after.due_ms <= run->now_ms)
        return SEMEL_OK;
    intent->after.due_ms = run->now_ms;
    return outbox_intend(run->unit, intent, err);
}

static semel_status remove_message(settle_run *run, outbox_intent *intent, semel_error *err)
{
    intent->act = OUTBOX_REMOVE;
    return outbox_intend(run->unit, intent, err);
}

static semel_status change_messages(keyed_unit *unit, int64_t outbox, const int64_t seqs[],
                                    size_t count, size_t *changed,
                                    semel_status (*change)(settle_run *run, outbox_intent *intent,
                                                           semel_error *err),
                                    semel_error *err)
{
    settle_run run;
    size_t sum = 0;
    semel_status status = begin_run(&run, unit, outbox, seqs, count, err);
    for (size_t i = 0; i < count && !status; i++) {
        outbox_intent intent;
        if (!find_message(&intent, &run, seqs[i]) ||
            keyed_item_is_leased(&intent.after, run.now_ms, run.error_ms))
            continue;
        status = change(&run, &intent, err);
        sum++;
    }
    if (!status)
        *changed = sum;
    return status;
}

semel_status keyed_outbox_wake(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                               size_t *changed, semel_error *err)
{
    return change_messages(unit, outbox, seqs, count, changed, wake_message, err);
}

semel_status keyed_outbox_remove(void *unit, int64_t outbox, const int64_t seqs[], size_t count,
                                 size_t *changed, semel_error *err)
{
    return change_messages(unit, outbox, seqs, count, changed, remove_message, err);
}
