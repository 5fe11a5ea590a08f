/* Claiming a key: the decision that everything else rests on.
 *
 * Transaction mode inserts the marker first, inside the transaction that the work goes into. A
 * first delivery costs nothing more. A redelivery (message.delivery of 2 or more) may follow a
 * crash, so its attempt is counted in a transaction of its own *before* the work starts: a handler
 * that kills its process is found out from the second delivery on, and becomes a dead letter at the
 * limit.
 *
 * Claim mode stores a claim with lease and token, and counts the attempt with it.
 *
 * If the process dies after a count or a claim was committed, the count stays (that is its purpose)
 * and the claim ends with its lease. */
#include "base/message.h"
#include "core/unit.h"

#include <string.h>

enum { WAIT_FIRST_MS = 1, WAIT_MAX_MS = 50 };

/* --- identity of the message ------------------------------------------------------------------ */

static semel_status missing_key(int *missing, const semel_inbox *inbox, semel_error *err)
{
    *missing = inbox->options.on_missing_key == SEMEL_MISSING_KEY_REJECT;
    if (*missing)
        semel_fail(err, SEMEL_EREJECTED,
                   "the key expression finds nothing in the message, and on_missing_key is reject");
    return SEMEL_OK;
}

static semel_status compute_key(int *missing, work_unit *unit, semel_inbox *inbox,
                                const semel_message *message, semel_error *err)
{
    semel_bytes key = {NULL, 0};
    semel_mark *mark = &unit->item.mark;
    semel_status status = inbox_compute_key(&key, &unit->arena, inbox, message, err);
    if (status)
        return status;
    if (!key.len)
        return missing_key(missing, inbox, err);
    status = key_stored(&mark->key, &unit->arena, key, err);
    if (!status && inbox->options.on_mismatch == SEMEL_MISMATCH_REJECT)
        status = fingerprint_compute(&mark->fingerprint, &unit->arena, &inbox->fingerprint, message,
                                     err);
    if (status)
        return status;
    unit->item.whole_key = key;
    mark->inbox = inbox->scope;
    mark->keep_ms = inbox_keep_ms(inbox);
    return SEMEL_OK;
}

/* A key that cannot be computed (a key function that fails) is a missing key: if it were an error
 * of the call, the message would be redelivered for ever. */
semel_status unit_identify(int *missing, work_unit *unit, semel_inbox *inbox,
                           const semel_message *message, semel_error *err)
{
    *missing = 0;
    unit->item.inbox = inbox;
    unit->item.message = message;
    unit->item.mark = (semel_mark){0};
    semel_status status = message_check(message, err);
    if (status)
        return status;
    status = compute_key(missing, unit, inbox, message, err);
    if (!status || status == SEMEL_ENOMEM)
        return status;
    *missing = 1;
    return SEMEL_OK;
}

/* --- what is known of it? --------------------------------------------------------------------- */

semel_status inbox_decide(semel_outcome *out, const semel_inbox *inbox, const semel_mark *mark,
                          semel_error *err)
{
    int differs = mark->fingerprint && mark->known_fingerprint &&
                  mark->fingerprint != mark->known_fingerprint;
    *out = SEMEL_UNDECIDED;
    switch (mark->state) {
    case SEMEL_MARK_FREE: /* only `look` says so */
        break;
    case SEMEL_MARK_TAKEN:
        *out = SEMEL_CLAIMED;
        return SEMEL_OK;
    case SEMEL_MARK_DEAD:
        *out = differs ? SEMEL_MISMATCH : SEMEL_DEAD;
        if (differs)
            return semel_fail(
                err, SEMEL_EREJECTED,
                "inbox \"%s\": a message with this key but other content is a dead letter",
                inbox->name);
        return SEMEL_OK;
    case SEMEL_MARK_HELD:
        *out = SEMEL_IN_PROGRESS;
        return semel_fail(
            err, SEMEL_EBUSY,
            "inbox \"%s\": another copy of this message is being handled; try again later",
            inbox->name);
    case SEMEL_MARK_DONE:
        *out = differs ? SEMEL_MISMATCH : SEMEL_DUPLICATE;
        if (differs)
            return semel_fail(
                err, SEMEL_EREJECTED,
                "inbox \"%s\": a message with this key but other content was handled before",
                inbox->name);
        if (inbox->options.on_duplicate == SEMEL_DUPLICATE_REJECT)
            return semel_fail(err, SEMEL_EREJECTED, "inbox \"%s\": this message was handled before",
                              inbox->name);
        return SEMEL_OK;
    }
    return semel_fail(err, SEMEL_ESTORE, "inbox \"%s\": the store knows no such state: %d",
                      inbox->name, (int)mark->state);
}

/* A duplicate whose stored result is wanted: fetched while the transaction is open. */
static semel_status fetch_replay(semel_outcome *out, work_unit *unit, semel_error *err)
{
    if (*out != SEMEL_DUPLICATE || unit->item.inbox->options.on_duplicate != SEMEL_DUPLICATE_REPLAY)
        return SEMEL_OK;
    semel_status status = unit->store->driver->markers->result_get(
        unit->state, &unit->item.mark, &unit->item.replay, &unit->item.replay_len, err);
    if (status)
        *out = SEMEL_UNDECIDED;
    else if (unit->item.replay)
        *out = SEMEL_REPLAYED;
    return status;
}

static semel_status decide_claim(semel_outcome *out, work_unit *unit, semel_error *err)
{
    semel_status status = inbox_decide(out, unit->item.inbox, &unit->item.mark, err);
    return status ? status : fetch_replay(out, unit, err);
}

/* --- attempts --------------------------------------------------------------------------------- */

/* A replay is an attempt that the caller has asked for, whatever became of those before it. */
static int is_over_limit(const work_unit *unit)
{
    return !unit->terms.endless && !unit->item.replaying &&
           unit->item.attempt > unit->item.inbox->options.attempts_max;
}

/* Too many starts already, the last of which did not even come back: give up without another. */
static semel_status claim_give_up(semel_outcome *out, work_unit *unit, semel_error *err)
{
    semel_error why;
    /* This one was counted, and is not made; nor were those before it that could not be buried. */
    unit->item.attempt = unit->item.inbox->options.attempts_max;
    semel_fail(&why, SEMEL_EGIVEUP,
               "gave up after %u attempts that were started and never ended: the process was "
               "killed or crashed",
               unit->item.attempt);
    semel_status status = unit_record_failure(out, unit, &why, err);
    unit_tx_rollback(unit);
    if (status)
        *out = SEMEL_UNDECIDED; /* trouble of the store's: no handler has failed */
    if (status || *out == SEMEL_DEAD)
        return status;
    *out = SEMEL_IN_PROGRESS;
    unit->item.failure = NULL;
    return semel_fail(err, SEMEL_EBUSY, "inbox \"%s\": another copy is being handled meanwhile",
                      unit->item.inbox->name);
}

static int is_old(const work_unit *unit)
{
    return !unit->item.replaying && inbox_is_old(unit->item.inbox, unit->item.message);
}

/* After an old message has claimed its key, in the same transaction. A row that was there before
 * proves that the inbox has not forgotten the key. See inbox_stale.c. */
static semel_status check_stale(work_unit *unit, int row_was_there, semel_error *err)
{
    uint64_t forgotten_ms;
    const semel_inbox *inbox = unit->item.inbox;
    if (unit->item.mark.state != SEMEL_MARK_TAKEN || !is_old(unit) ||
        (row_was_there && !unit->item.mark.unproven))
        return SEMEL_OK;
    semel_status status = inbox_forgotten_age(&forgotten_ms, unit, inbox, err);
    if (status)
        return status;
    unit->item.stale = inbox_is_forgotten(inbox, unit->item.message, forgotten_ms);
    return unit->item.stale ? inbox_fail_stale(inbox, err) : SEMEL_OK;
}

/* The claim of a message that was young before it. */
static semel_status check_became_old(const work_unit *unit, semel_error *err)
{
    if (unit->item.mark.state != SEMEL_MARK_TAKEN || !is_old(unit))
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ECONFLICT,
                      "inbox \"%s\": the message became old while its key was claimed",
                      unit->item.inbox->name);
}

/* Claims the key, or counts an attempt at it, starting from `attempts` that are known from
 * elsewhere. The count of an old message starts from 0, so that it shows whether there was a
 * row. */
static semel_status claim_key(work_unit *unit, uint32_t lease_ms, semel_error *err)
{
    const semel_store_markers *markers = unit->store->driver->markers;
    semel_mark *mark = &unit->item.mark;
    uint32_t attempts = mark->attempts;
    int old = is_old(unit);
    if (old)
        mark->attempts = 0;
    mark->unsure = old;
    semel_status status = markers->claim(unit->state, mark, lease_ms, err);
    if (!status)
        status = old ? check_stale(unit, mark->attempts > 1, err) : check_became_old(unit, err);
    if (!status && mark->state == SEMEL_MARK_TAKEN && mark->attempts <= attempts)
        status = markers->claim(unit->state, mark, lease_ms, err);
    return status;
}

/* Stores a claim (or, with lease_ms 0, only the count) and commits it. */
static semel_status store_claim(work_unit *unit, uint32_t lease_ms, semel_error *err)
{
    semel_store *store = unit->store;
    const char *stored = lease_ms ? "claim.stored" : "count.stored";
    const char *committed = lease_ms ? "claim.committed" : "count.committed";
    semel_begin durability = lease_ms && unit->item.inbox->options.durable_claims
                                 ? SEMEL_BEGIN_DURABLE
                                 : SEMEL_BEGIN_RELAXED;
    semel_status status = unit_tx_begin(unit, durability, err);
    if (!status)
        status = claim_key(unit, lease_ms, err);
    if (!status)
        status = store_fault(store, stored, err);
    if (status || unit->item.mark.state != SEMEL_MARK_TAKEN)
        return status;
    status = unit_tx_commit(unit, err);
    return status ? status : store_fault(store, committed, err);
}

/* Waits for a live claim to end: until it should, until the deadline, or a little longer each
 * time. */
static int wait_for_claim(const work_unit *unit, uint32_t *pause_ms, int64_t deadline_ms)
{
    const semel_seam *seam = &unit->store->seam;
    int64_t left = deadline_ms - seam_steady_ms(seam);
    if (unit->item.inbox->options.on_in_flight == SEMEL_IN_FLIGHT_REPORT || left <= 0)
        return 0;
    seam_sleep_ms(seam, left < *pause_ms ? (uint32_t)left : *pause_ms);
    *pause_ms = *pause_ms * 2 < WAIT_MAX_MS ? *pause_ms * 2 : WAIT_MAX_MS;
    return 1;
}

/* Stores the claim as soon as no other unit has the key; HELD if that takes too long. */
static semel_status store_claim_when_free(work_unit *unit, uint32_t lease_ms, semel_error *err)
{
    int64_t deadline = seam_steady_ms(&unit->store->seam) + unit->item.inbox->options.wait_ms;
    uint32_t pause = WAIT_FIRST_MS, attempts = unit->item.mark.attempts;
    for (;;) {
        semel_status status = store_claim(unit, lease_ms, err);
        if (status || unit->item.mark.state != SEMEL_MARK_HELD)
            return status;
        unit_tx_rollback(unit);
        if (!wait_for_claim(unit, &pause, deadline))
            return SEMEL_OK;
        unit->item.mark.attempts =
            attempts; /* what is known from elsewhere, not what HELD reported */
    }
}

static int is_redelivery(const semel_message *message)
{
    return message->delivery >= 2;
}

/* Without a key only the transport knows how often it came. */
static void claim_without_key(semel_outcome *out, work_unit *unit)
{
    unit->item.attempt = unit->item.message->delivery ? unit->item.message->delivery : 1;
    *out = SEMEL_CLAIMED;
}

/* --- transaction mode ------------------------------------------------------------------------- */

static semel_status mark_in_transaction(semel_outcome *out, work_unit *unit, semel_error *err)
{
    semel_inbox *inbox = unit->item.inbox;
    int counted = unit->item.attempt > 0;
    uint32_t wait_ms =
        inbox->options.on_in_flight == SEMEL_IN_FLIGHT_WAIT ? inbox->options.wait_ms : 0;
    semel_status status =
        unit->phase == UNIT_OPEN ? SEMEL_OK : unit_tx_begin(unit, SEMEL_BEGIN_DURABLE, err);
    if (!status)
        status = store_fault(unit->store, "receive.begun", err);
    /* Attempts are those of the row, so that they show whether there is one: since this delivery
     * was counted, the message may have been handled elsewhere and forgotten. */
    unit->item.mark.attempts = 0;
    if (!status && unit->item.mark.inbox)
        status = unit->store->driver->markers->mark(unit->state, &unit->item.mark, 1, wait_ms, err);
    if (!status && unit->item.mark.inbox)
        status = check_stale(unit, unit->item.mark.attempts > 0, err);
    if (!status)
        status = store_fault(unit->store, "receive.marked", err);
    if (status)
        return status;
    if (!unit->item.mark.inbox) {
        claim_without_key(out, unit);
        return SEMEL_OK;
    }
    if (unit->item.mark.state == SEMEL_MARK_TAKEN && !counted)
        unit->item.attempt = unit->item.mark.attempts + 1;
    return decide_claim(out, unit, err);
}

/* Counting, and claiming, need a transaction of their own: that of the unit is ended first. */
static semel_status start_over(work_unit *unit, semel_error *err)
{
    if (unit->phase == UNIT_OPEN && store_unit_used(unit->store, unit->state))
        return semel_fail(err, SEMEL_EMISUSE,
                          "claim first: the work that this unit has done already would be undone");
    unit_tx_rollback(unit);
    return SEMEL_OK;
}

static semel_status claim_in_transaction(semel_outcome *out, work_unit *unit, semel_error *err)
{
    if (is_redelivery(unit->item.message) && unit->item.mark.inbox && !unit->joined) {
        semel_status status = start_over(unit, err);
        /* The first delivery was not counted. It may never have begun, and a message with a single
         * attempt must get it. */
        unit->item.mark.attempts = unit->item.inbox->options.attempts_max > 1;
        if (!status)
            status = store_claim_when_free(unit, 0, err);
        if (status)
            return status;
        if (unit->item.mark.state != SEMEL_MARK_TAKEN)
            return decide_claim(out, unit, err);
        unit->item.attempt = unit->item.mark.attempts;
        unit->item.mark.token = 0;
        if (is_over_limit(unit))
            return claim_give_up(out, unit, err);
        unit->item.counted = 1;
    }
    semel_status status = mark_in_transaction(out, unit, err);
    if (*out != SEMEL_CLAIMED)
        unit_uncount(unit);
    return status;
}

/* --- claim mode ------------------------------------------------------------------------------- */

static semel_status claim_with_lease(semel_outcome *out, work_unit *unit, semel_error *err)
{
    const semel_inbox_options *options = &unit->item.inbox->options;
    semel_status status = start_over(unit, err);
    if (status)
        return status;
    if (!unit->item.mark.inbox) {
        unit->phase = UNIT_CLAIMING;
        claim_without_key(out, unit);
        return SEMEL_OK;
    }
    status = store_claim_when_free(unit, options->lease_ms, err);
    if (status)
        return status;
    if (unit->item.mark.state != SEMEL_MARK_TAKEN)
        return decide_claim(out, unit, err);
    unit->phase = UNIT_CLAIMING;
    unit->item.attempt = unit->item.mark.attempts;
    if (is_over_limit(unit))
        return claim_give_up(out, unit, err);
    *out = SEMEL_CLAIMED;
    return SEMEL_OK;
}

/* --- both ------------------------------------------------------------------------------------- */

static semel_status claim_by_mode(semel_outcome *out, work_unit *unit, semel_error *err)
{
    return unit->item.inbox->options.mode == SEMEL_CLAIM ? claim_with_lease(out, unit, err)
                                                         : claim_in_transaction(out, unit, err);
}

static semel_status claim_identified(semel_outcome *out, work_unit *unit, semel_error *err)
{
    semel_status status = unit_add_details(unit, err);
    if (!status)
        status = claim_by_mode(out, unit, err);
    if (unit->item.stale) {
        unit_tx_rollback(unit);
        *out = SEMEL_STALE;
    }
    return status;
}

semel_status unit_claim_key(semel_outcome *out, work_unit *unit, semel_inbox *inbox,
                            const semel_message *message, semel_error *err)
{
    int missing;
    semel_error why;
    *out = SEMEL_UNDECIDED;
    semel_status status = unit_identify(&missing, unit, inbox, message, &why);
    if (status)
        return semel_fail(err, status, "%s", why.text);
    if (missing) {
        *out = SEMEL_MISSING_KEY;
        return semel_fail(err, SEMEL_EREJECTED, "inbox \"%s\": %s", inbox->name, why.text);
    }
    return claim_identified(out, unit, err);
}

semel_status unit_claim(semel_outcome *out, work_unit *unit, semel_inbox *inbox,
                        const semel_message *message, semel_error *err)
{
    if (unit->item.inbox)
        return semel_fail(err, SEMEL_EMISUSE, "a unit takes one key, and this one has taken one");
    if (inbox->store != unit->store)
        return semel_fail(err, SEMEL_EINVAL, "inbox \"%s\" is in another store than the unit",
                          inbox->name);
    if (inbox_takes_keys(inbox, err))
        return SEMEL_EMISUSE;
    if (unit->joined && inbox->options.mode == SEMEL_CLAIM)
        return semel_fail(
            err, SEMEL_EINVAL,
            "inbox \"%s\" is in claim mode: it cannot take part in a joined transaction",
            inbox->name);
    semel_error local, *why = err ? err : &local;
    semel_status status = unit_claim_key(out, unit, inbox, message, why);
    unit->item.claimed = *out == SEMEL_CLAIMED;
    if (!unit->item.claimed)
        unit->item.known = *out; /* the transaction is still open */
    if (unit->item.known && status)
        unit->item.failure = observe_text(unit->store, &unit->arena, why->text);
    return status;
}
