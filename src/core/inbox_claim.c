/* Claiming a key: the decision that everything else rests on.
 *
 * Transaction mode inserts the marker first, inside the transaction that the work goes into. A first
 * delivery costs nothing more. A redelivery (message.delivery of 2 or more) may follow a crash, so its
 * attempt is counted in a transaction of its own *before* the work starts: a handler that kills its
 * process is found out from the second delivery on, and becomes a dead letter at the limit.
 *
 * Claim mode stores a claim with lease and token, and counts the attempt with it.
 *
 * If the process dies after a count or a claim was committed, the count stays (that is its purpose) and
 * the claim ends with its lease. */
#include "base/message.h"
#include "base/uuid.h"
#include "core/unit.h"

#include <string.h>

enum { WAIT_FIRST_MS = 1, WAIT_MAX_MS = 50 };

/* --- who is it? -------------------------------------------------------------------------------------- */

static semel_status replace_missing_key(semel_bytes *key, int *missing, work_unit *unit,
                                        const semel_inbox *inbox, const semel_message *message,
                                        semel_error *err)
{
    if (inbox->options.on_missing_key == SEMEL_MISSING_KEY_DIGEST)
        return key_digest(key, &unit->arena, message, err);
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
    semel_status status = key_compute(&key, &unit->arena, &inbox->plan, message, err);
    if (!status && !key.len)
        status = replace_missing_key(&key, missing, unit, inbox, message, err);
    if (status || !key.len)
        return status;
    status = key_stored(&unit->item.mark.key, &unit->arena, key, err);
    if (status)
        return status;
    unit->item.whole_key = key;
    unit->item.mark.inbox = inbox->scope;
    unit->item.mark.keep_ms = inbox_keep_ms(inbox);
    if (inbox->options.on_mismatch == SEMEL_MISMATCH_REJECT)
        unit->item.mark.fingerprint = key_fingerprint(message);
    return SEMEL_OK;
}

/* A key that cannot be computed (a key function that fails) is a missing key: if it were an error of the
 * call, the message would be redelivered for ever. */
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

static int64_t made_at_ms(const semel_message *message, semel_age age)
{
    int64_t time = message->time_ms;
    if (!time)
        time = uuid_v7_time(message->id.data, message->id.len);
    if (!time && age == SEMEL_AGE_ULID)
        time = ulid_time(message->id.data, message->id.len);
    return time;
}

int inbox_is_stale(const semel_inbox *inbox, const semel_message *message)
{
    const semel_inbox_options *options = &inbox->options;
    if (options->on_stale == SEMEL_STALE_PROCESS || options->age == SEMEL_AGE_IGNORE ||
        options->retention_ms == SEMEL_RETENTION_FOREVER)
        return 0;
    int64_t made = made_at_ms(message, options->age);
    if (made <= 0)
        return 0;
    int64_t now =
        seam_wall_ms(&inbox->store->seam); /* the kind of clock that `made` was read from */
    uint64_t window = options->retention_ms == SEMEL_RETENTION_NONE ? 0 : options->retention_ms;
    return now > made && (uint64_t)(now - made) > window;
}

/* --- what is known of it? ------------------------------------------------------------------------------ */

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

/* --- attempts -------------------------------------------------------------------------------------------- */

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
    return semel_fail(err, SEMEL_EBUSY, "inbox \"%s\": another copy is being handled meanwhile",
                      unit->item.inbox->name);
}

/* Stores a claim (or, with lease_ms 0, only the count) and commits it. */
static semel_status store_claim(work_unit *unit, uint32_t lease_ms, semel_error *err)
{
    semel_store *store = unit->store;
    const char *stored = lease_ms ? "claim.stored" : "count.stored";
    const char *committed = lease_ms ? "claim.committed" : "count.committed";
    semel_status status = unit_tx_begin(unit, SEMEL_BEGIN_RELAXED, err);
    if (!status)
        status = store->driver->markers->claim(unit->state, &unit->item.mark, lease_ms, err);
    if (!status)
        status = store_fault(store, stored, err);
    if (status || unit->item.mark.state != SEMEL_MARK_TAKEN)
        return status;
    status = unit_tx_commit(unit, err);
    return status ? status : store_fault(store, committed, err);
}

/* Waits for a live claim to end: until it should, until the deadline, or a little longer each time. */
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

/* Stores it as soon as nobody else has the key; HELD if that lasts too long. */
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

/* --- transaction mode -------------------------------------------------------------------------------------- */

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
    if (!status && unit->item.mark.inbox)
        status = unit->store->driver->markers->mark(unit->state, &unit->item.mark, 1, wait_ms, err);
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
        /* The first delivery was not counted; but perhaps it never began, and who has one attempt must get it. */
        unit->item.mark.attempts = unit->item.inbox->options.attempts_max > 1;
        if (!status)
            status = store_claim_when_free(unit, 0, err);
        if (status)
            return status;
        if (unit->item.mark.state != SEMEL_MARK_TAKEN)
            return decide_claim(out, unit, err);
        unit->item.attempt = unit->item.mark.attempts;
        unit->item.mark.token = 0;
        if (unit->item.attempt > unit->item.inbox->options.attempts_max)
            return claim_give_up(out, unit, err);
        unit->item.counted = 1;
    }
    semel_status status = mark_in_transaction(out, unit, err);
    if (*out != SEMEL_CLAIMED)
        unit_uncount(unit);
    return status;
}

/* --- claim mode ---------------------------------------------------------------------------------------------- */

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
    if (unit->item.attempt > options->attempts_max)
        return claim_give_up(out, unit, err);
    *out = SEMEL_CLAIMED;
    return SEMEL_OK;
}

/* --- both ------------------------------------------------------------------------------------------------------ */

static semel_status claim_by_mode(semel_outcome *out, work_unit *unit, semel_error *err)
{
    return unit->item.inbox->options.mode == SEMEL_CLAIM ? claim_with_lease(out, unit, err)
                                                         : claim_in_transaction(out, unit, err);
}

static semel_status look(work_unit *unit, semel_error *err)
{
    int was_open = unit->phase == UNIT_OPEN;
    semel_status status = was_open ? SEMEL_OK : unit_tx_begin(unit, SEMEL_BEGIN_RELAXED, err);
    if (!status)
        status = unit->store->driver->markers->look(unit->state, &unit->item.mark, err);
    if (!was_open)
        unit_tx_rollback(unit);
    return status;
}

/* Older than the retention: if its marker is still there, that decides; so does a failed attempt that is on record,
 * which says that it was not handled, however old it is. Else it cannot be told, and the message is stale. */
static semel_status claim_stale(semel_outcome *out, work_unit *unit, semel_error *err)
{
    semel_status status = look(unit, err);
    if (status)
        return status;
    if (unit->item.mark.state != SEMEL_MARK_FREE || unit->item.mark.attempts) {
        unit->item.mark.attempts = 0; /* what the row knows is told again */
        return claim_by_mode(out, unit, err);
    }
    *out = SEMEL_STALE;
    return semel_fail(
        err, SEMEL_EREJECTED,
        "inbox \"%s\": the message is older than the retention of %llu ms, so it cannot be "
        "told whether it was handled",
        unit->item.inbox->name, (unsigned long long)unit->item.inbox->options.retention_ms);
}

static semel_status claim_identified(semel_outcome *out, work_unit *unit, semel_error *err)
{
    int stale = unit->item.mark.inbox && !unit->item.replaying &&
                inbox_is_stale(unit->item.inbox, unit->item.message);
    return stale ? claim_stale(out, unit, err) : claim_by_mode(out, unit, err);
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
    if (unit->joined && inbox->options.mode == SEMEL_CLAIM)
        return semel_fail(
            err, SEMEL_EINVAL,
            "inbox \"%s\" is in claim mode: it cannot take part in a joined transaction",
            inbox->name);
    semel_status status = unit_claim_key(out, unit, inbox, message, err);
    unit->item.claimed = *out == SEMEL_CLAIMED;
    if (!unit->item.claimed)
        inbox_count(inbox, *out);
    return status;
}
