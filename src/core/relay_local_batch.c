/* Local hand-off of what was leased: first attempts together, the others one by one.
 *
 * The lease is committed before anything starts, and counts the attempts. Then
 *   1. the first attempts go in waves. Each is one transaction: keys, handlers, each behind a
 *      savepoint, and their rows leaving the outbox (a failed one goes back, with its backoff).
 *      Before the commit nothing has happened; after it all are both sent and received. A wave is
 *      as large as the time of the last one allows, so that no transaction is open for long.
 *   2. What those transactions did not decide goes by itself (relay_local.c): what the inbox
 *      refuses, what has no key, and everything of a transaction that failed as a whole, since one
 *      message may have been the cause.
 *   3. What was leased before and never settled may have killed its process. It goes last and with
 *      nothing else leased: the others go back first, uncounted, or they would be blamed with it
 *      and become dead letters. One in each pass; if there are more, the next passes are small.
 *
 * Within a group the order is kept: a message is passed over, and goes back, unless the one before
 * it has left the outbox. A lease that another relay has taken over undoes the transaction that
 * would have settled it; the others are begun anew without it. */
#include "core/relay.h"

enum {
    WAVE_FIRST = 10, /* messages in the first transaction */
    WAVE_MS = 100    /* what a transaction should take, at most */
};

/* --- the wave: first attempts in one transaction ---------------------------------------------- */

static int is_open(const relay_item *item)
{
    return !item->verdict && !item->lost;
}

/* It may have killed the process that had it. */
static int is_suspect(const relay_item *item)
{
    return item->attempts > 1;
}

static int is_over(semel_relay *relay)
{
    return relay->cut_short || relay_is_late(relay, relay->now);
}

static const relay_item *item_before(const relay_batch *batch, const relay_item *item)
{
    return item->before ? &batch->items[item->before - 1] : NULL;
}

static int is_in_wave(const semel_relay *relay, const relay_item *item)
{
    return item->wave == relay->wave_number;
}

/* What has to come after something that is not in the wave is not in it, either. What was in a wave
 * and is undecided is in no other. */
static size_t choose_wave(semel_relay *relay)
{
    relay_batch *batch = relay->now;
    size_t count = 0;
    relay->wave_number++;
    for (size_t i = 0; i < batch->count && count < relay->wave_max; i++) {
        relay_item *item = &batch->items[i];
        const relay_item *before = item_before(batch, item);
        int behind = before && !is_in_wave(relay, before) && before->verdict != SEMEL_VERDICT_ACK;
        if (!is_open(item) || item->tried || is_suspect(item) || behind)
            continue;
        item->tried = 1;
        item->wave = relay->wave_number;
        item->place = count;
        relay->wave[count] = item->message;
        relay->wave_index[count++] = i;
    }
    return count;
}

static relay_item *wave_item(const semel_relay *relay, size_t index)
{
    return &relay->now->items[relay->wave_index[index]];
}

static int may_start(void *context, size_t index)
{
    semel_relay *relay = context;
    const relay_item *before = item_before(relay->now, wave_item(relay, index));
    if (relay_is_late(relay, relay->now))
        return 0;
    return !before || before->verdict == SEMEL_VERDICT_ACK ||
           (is_in_wave(relay, before) && semel_outcome_settled(relay->outcomes[before->place]));
}

/* What an outcome means for the row; no verdict: the message is still to be received, by itself. */
static semel_item_settlement settlement_of(const semel_relay *relay, size_t index)
{
    const relay_item *item = wave_item(relay, index);
    semel_outcome outcome = relay->outcomes[index];
    semel_item_settlement as = {.seq = item->seq, .token = item->token};
    if (semel_outcome_settled(outcome)) {
        as.verdict = SEMEL_VERDICT_ACK;
        as.sent = relay->options.keep_sent_ms && !relay->buried[index];
    } else if (outcome == SEMEL_FAILED || outcome == SEMEL_IN_PROGRESS) {
        as.verdict = SEMEL_VERDICT_RETRY;
        as.delay_ms = relay_backoff_ms(relay, item->attempts);
        as.error = outcome == SEMEL_FAILED ? relay->whys[index] : NULL;
    }
    return as;
}

/* What is refused is kept as a letter, which has a transaction of its own. */
static size_t choose_settlements(semel_relay *relay, size_t from, size_t count)
{
    size_t chosen = 0;
    for (size_t i = from; i < from + count; i++) {
        relay->settlements[chosen] = settlement_of(relay, i);
        if (relay->settlements[chosen].verdict)
            relay->wave_rows[chosen++] = i;
        else
            relay->outcomes[i] = SEMEL_UNDECIDED;
    }
    return chosen;
}

static semel_status settle_wave(void *context, work_unit *unit, size_t from, size_t count,
                                semel_error *err)
{
    semel_relay *relay = context;
    size_t lost = 0, chosen = choose_settlements(relay, from, count);
    semel_status status =
        chosen ? relay->store->driver->outbox->settle(unit->state, relay->outbox->scope,
                                                      relay->settlements, chosen, err)
               : SEMEL_OK;
    for (size_t i = 0; !status && i < chosen; i++) {
        wave_item(relay, relay->wave_rows[i])->lost = relay->settlements[i].lost;
        lost += relay->settlements[i].lost != 0;
    }
    relay->wave_lost += lost;
    return lost
               ? semel_fail(err, SEMEL_ELOST,
                            "the leases on %zu outgoing messages ended before their work did", lost)
               : status;
}

static void item_left(semel_relay *relay, const relay_item *item, size_t *done)
{
    relay_count_sent(relay, item);
    health_moved(&relay->health, &relay->store->seam);
    ++*done;
}

/* What was decided is committed. If the end of the commit is not known, the leases end by
 * themselves, and the attempts stay counted: one of the messages may be the cause. */
static void end_wave(semel_relay *relay, size_t count, semel_status status, size_t *done)
{
    for (size_t i = 0; i < count; i++) {
        relay_item *item = wave_item(relay, i);
        item->lost |= status == SEMEL_EUNKNOWN && relay->outcomes[i] == SEMEL_UNDECIDED;
        if (relay->outcomes[i] == SEMEL_UNDECIDED)
            continue;
        item->verdict =
            semel_outcome_settled(relay->outcomes[i]) ? SEMEL_VERDICT_ACK : SEMEL_VERDICT_RETRY;
        if (item->verdict == SEMEL_VERDICT_ACK)
            item_left(relay, item, done);
    }
}

static semel_status receive_wave(semel_relay *relay, size_t count, size_t *done, semel_error *err)
{
    const batch_settler settler = {.context = relay,
                                   .counts = 1,
                                   .why = relay->whys,
                                   .may_start = may_start,
                                   .settle = settle_wave};
    const unit_terms terms = {.stopped = &relay->stopped,
                              .endless = 1,
                              .settler = &settler,
                              .retry_ms = relay_retry_ms,
                              .retry_context = relay};
    semel_error why;
    semel_status status =
        inbox_receive_batch(relay->outcomes, relay->buried, relay->inbox, relay->wave, count,
                            relay->handler, relay->context, &terms, &why);
    end_wave(relay, count, status, done);
    relay->cut_short |= status == SEMEL_ESTOPPED;
    if (status == SEMEL_ESTOPPED)
        return SEMEL_OK;
    if (status && err)
        *err = why;
    return status;
}

/* A lease that was lost has undone the work of all: the others are begun anew. */
static void repeat_wave(const semel_relay *relay, size_t count)
{
    for (size_t i = 0; relay->wave_lost && i < count; i++)
        wave_item(relay, i)->tried = 0;
}

/* Quick handlers share a transaction with many, slow ones with few or none. */
static void adapt_wave(semel_relay *relay, size_t count, int64_t took_ms)
{
    if (took_ms > WAVE_MS)
        relay->wave_max = count * WAVE_MS / (size_t)took_ms;
    else if (count == relay->wave_max && 2 * took_ms <= WAVE_MS)
        relay->wave_max = 2 * count;
    if (!relay->wave_max)
        relay->wave_max = 1;
}

static semel_status receive_alone(semel_relay *relay, relay_item *item, size_t *done,
                                  semel_error *err)
{
    semel_status status = relay_receive_item(relay, item, err);
    item->lost |= status == SEMEL_ELOST || status == SEMEL_EUNKNOWN;
    if (status && !item->lost)
        item->verdict = (semel_verdict)0; /* it goes back with the others */
    if (!status && item->verdict == SEMEL_VERDICT_ACK)
        item_left(relay, item, done);
    return status == SEMEL_ELOST ? SEMEL_OK : status;
}

static semel_status receive_firsts(semel_relay *relay, size_t *done, semel_error *err)
{
    const semel_seam *seam = &relay->store->seam;
    semel_status status = SEMEL_OK;
    if (!relay->wave_max)
        relay->wave_max = WAVE_FIRST;
    while (!status) {
        int64_t started_ms = seam_steady_ms(seam);
        size_t count = is_over(relay) ? 0 : choose_wave(relay);
        if (!count)
            break;
        relay->wave_lost = 0;
        status = count == 1 ? receive_alone(relay, wave_item(relay, 0), done, err)
                            : receive_wave(relay, count, done, err);
        repeat_wave(relay, count);
        adapt_wave(relay, count, seam_steady_ms(seam) - started_ms);
    }
    return status;
}

/* --- one by one ------------------------------------------------------------------------------- */

static semel_status receive_undecided(semel_relay *relay, size_t *done, semel_error *err)
{
    relay_batch *batch = relay->now;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < batch->count && !is_over(relay); i++) {
        relay_item *item = &batch->items[i];
        if (is_open(item) && !is_suspect(item) && !relay_is_blocked(batch, item))
            status = receive_alone(relay, item, done, err);
    }
    return status;
}

/* --- giving back ------------------------------------------------------------------------------ */

typedef struct release {
    semel_relay *relay;
    size_t count;
} release;

static semel_status settle_released(work_unit *unit, void *context, semel_error *err)
{
    const release *r = context;
    unit->operation = SEMEL_OPERATION_RELAY;
    return r->relay->store->driver->outbox->settle(unit->state, r->relay->outbox->scope,
                                                   r->relay->settlements, r->count, err);
}

/* What is still open goes back at once and uncounted, in one transaction, but for `kept`. */
static semel_status release_open(semel_relay *relay, const relay_item *kept, semel_error *err)
{
    release r = {.relay = relay};
    relay_batch *batch = relay->now;
    semel_status status = SEMEL_OK;
    uint32_t tries = 0;
    for (size_t i = 0; i < batch->count; i++) {
        relay_item *item = &batch->items[i];
        if (item == kept || !is_open(item))
            continue;
        relay->settlements[r.count++] = (semel_item_settlement){
            .seq = item->seq, .token = item->token, .verdict = SEMEL_VERDICT_RELEASE};
        item->verdict = SEMEL_VERDICT_RELEASE; /* or its lease ends */
    }
    do
        status = r.count
                     ? store_transact(relay->store, SEMEL_BEGIN_RELAXED, settle_released, &r, err)
                     : SEMEL_OK;
    while (store_retry_after_pause(relay->store, status, NULL, &tries));
    return status;
}

/* --- what was leased before ------------------------------------------------------------------- */

static relay_item *next_suspect(semel_relay *relay, size_t *others)
{
    relay_batch *batch = relay->now;
    relay_item *next = NULL;
    *others = 0;
    for (size_t i = 0; i < batch->count && !is_over(relay); i++) {
        relay_item *item = &batch->items[i];
        if (!is_open(item) || !is_suspect(item))
            continue;
        if (!next && !relay_is_blocked(batch, item))
            next = item;
        else
            ++*others;
    }
    return next;
}

static semel_status receive_suspect(semel_relay *relay, size_t *done, semel_error *err)
{
    size_t others;
    relay_item *suspect = next_suspect(relay, &others);
    semel_status status = release_open(relay, suspect, err);
    if (status || !suspect)
        return status;
    if (others)
        relay->limit = 1;
    return receive_alone(relay, suspect, done, err);
}

/* If the store is in trouble, what was not ended goes back, as far as that can be done. */
semel_status relay_receive_local(semel_relay *relay, size_t *done, semel_error *err)
{
    semel_error ignored;
    relay->cut_short = 0;
    semel_status status = receive_firsts(relay, done, err);
    if (!status)
        status = receive_undecided(relay, done, err);
    if (!status)
        status = receive_suspect(relay, done, err);
    if (status)
        (void)release_open(relay, NULL, &ignored);
    return status;
}
