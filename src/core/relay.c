/* The relay's pass: lease, send, settle.
 *
 * Leasing and settling (relay_lease.c) are two short transactions; the broker is talked to in
 * between, with none open. If the process dies
 *   - before the lease is committed: nothing happened;
 *   - before the broker has it: the lease ends and another relay sends it;
 *   - after the broker has it, before it is settled: the lease ends and it is sent again, under the
 *     same id, which the receiving inbox knows. That is the one way to a second copy, besides lost
 *     answers.
 *
 * A step does the three one after the other. A run that finds a full batch does not leave the store
 * idle while the broker works, nor the broker while the store does: while a batch is under way, the
 * one before it is settled and the one after it is leased. Order within a group is safe: a group of
 * which something is leased is passed over by every lease, our own as well. Three batches take
 * part, and each is at all times exactly one of: last (answered, to be settled), now (being sent),
 * next (leased, untried).
 *
 * The lease is longer than the work: what is not started by half of it is given back untried. A
 * relay that was stopped and comes back late finds its tokens outdated and changes nothing.
 *
 * Between two steps a run with a local hand-off does a step of retention for its inbox, if it is
 * time (retention.c), but not in an outage. */
#include "core/relay.h"

#include "base/wait.h"

/* The numbers of <semel/relay.h>, in the order that they have there. */
#define PRESET(batch_, lease, poll, attempts, backoff, backoff_max)                            \
    {                                                                                          \
        .batch = (batch_), .lease_ms = (lease), .poll_ms = (poll), .attempts_max = (attempts), \
        .backoff_ms = (backoff), .backoff_max_ms = (backoff_max)                               \
    }

static const semel_relay_options presets[] = {
    [SEMEL_RELAY_BALANCED] = PRESET(100, 30000, 1000, 10, 200, 60000),
    [SEMEL_RELAY_THROUGHPUT] = PRESET(1000, 60000, 200, 10, 100, 30000),
    [SEMEL_RELAY_CAREFUL] = PRESET(10, 30000, 2000, 25, 1000, 600000)};

/* A local hand-off pays for a lease without a broker to wait for, so it takes more at once. */
static const uint32_t local_batches[] = {
    [SEMEL_RELAY_BALANCED] = 500, [SEMEL_RELAY_THROUGHPUT] = 1000, [SEMEL_RELAY_CAREFUL] = 10};

static void fill_default(uint32_t *value, uint32_t preset)
{
    if (!*value)
        *value = preset;
}

static semel_status relay_read_options(semel_relay_options *out, const semel_relay_options *given,
                                       int local, semel_error *err)
{
    semel_status status = options_read(out, sizeof *out, given, "semel_relay_options", err);
    if (status)
        return status;
    if ((unsigned)out->preset > SEMEL_RELAY_CAREFUL)
        return semel_fail(err, SEMEL_EINVAL, "semel_relay_options.preset: there is no choice %d",
                          (int)out->preset);
    if ((unsigned)out->on_unroutable > SEMEL_UNROUTABLE_DEAD)
        return semel_fail(err, SEMEL_EINVAL,
                          "semel_relay_options.on_unroutable: there is no choice %d",
                          (int)out->on_unroutable);
    if (out->batch > SEMEL_BATCH_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "semel_relay_options.batch is %u; SEMEL_BATCH_MAX is %zu", out->batch,
                          SEMEL_BATCH_MAX);
    const semel_relay_options *preset = &presets[out->preset];
    fill_default(&out->batch, local ? local_batches[out->preset] : preset->batch);
    fill_default(&out->lease_ms, preset->lease_ms);
    fill_default(&out->poll_ms, preset->poll_ms);
    fill_default(&out->attempts_max, preset->attempts_max);
    fill_default(&out->backoff_ms, preset->backoff_ms);
    fill_default(&out->backoff_max_ms, preset->backoff_max_ms);
    return SEMEL_OK;
}

static int relay_alloc_batch(relay_batch *batch, size_t items, size_t buckets)
{
    batch->items = mem_alloc(items * sizeof *batch->items);
    batch->buckets = mem_alloc(buckets * sizeof *batch->buckets);
    return batch->items && batch->buckets;
}

static semel_status relay_alloc(semel_relay *relay, semel_error *err)
{
    size_t batch = relay->options.batch;
    int all = 1;
    for (relay->bucket_count = 1; relay->bucket_count < batch; relay->bucket_count *= 2)
        continue;
    for (size_t i = 0; i < RELAY_BATCHES; i++)
        all &= relay_alloc_batch(&relay->batches[i], batch, relay->bucket_count);
    relay->wave = mem_alloc(batch * sizeof *relay->wave);
    relay->wave_index = mem_alloc(batch * sizeof *relay->wave_index);
    relay->results = mem_alloc(batch * sizeof *relay->results);
    relay->settlements = mem_alloc(batch * sizeof *relay->settlements);
    relay->outcomes = mem_alloc(batch * sizeof *relay->outcomes);
    relay->buried = mem_alloc(batch * sizeof *relay->buried);
    relay->whys = mem_alloc(batch * sizeof *relay->whys);
    relay->wave_rows = mem_alloc(batch * sizeof *relay->wave_rows);
    if (all && relay->wave && relay->wave_index && relay->results && relay->settlements &&
        relay->outcomes && relay->buried && relay->whys && relay->wave_rows)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a relay with a batch of %zu", batch);
}

static void relay_free(semel_relay *relay)
{
    for (size_t i = 0; i < RELAY_BATCHES; i++) {
        mem_free(relay->batches[i].items);
        mem_free(relay->batches[i].buckets);
        arena_free(&relay->batches[i].arena);
    }
    mem_free(relay->wave);
    mem_free(relay->wave_index);
    mem_free(relay->results);
    mem_free(relay->settlements);
    mem_free(relay->outcomes);
    mem_free(relay->buried);
    mem_free(relay->whys);
    mem_free(relay->wave_rows);
    retention_close(&relay->retention);
    mem_free(relay);
}

void relay_notify(const semel_relay *relay, const semel_error *outage)
{
    if (relay->options.notice)
        relay->options.notice(relay->options.notice_context, outage);
}

static void report_retention(void *context, const semel_error *trouble)
{
    relay_notify(context, trouble);
}

static semel_status open_retention(semel_relay *relay, semel_error *err)
{
    semel_status status =
        retention_open(&relay->retention, 1, &relay->store->seam, report_retention, relay, err);
    if (!status && relay->inbox)
        retention_add(&relay->retention, relay->inbox);
    return status;
}

static semel_status relay_new(semel_relay **out, semel_outbox *outbox, semel_inbox *inbox,
                              const semel_relay_options *options, semel_error *err)
{
    semel_relay *relay = mem_alloc(sizeof *relay);
    if (!relay)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a relay");
    relay->outbox = outbox;
    relay->store = outbox->store;
    relay->inbox = inbox;
    relay->last = &relay->batches[0];
    relay->now = &relay->batches[1];
    relay->next = &relay->batches[2];
    semel_status status = relay_read_options(&relay->options, options, inbox != NULL, err);
    if (!status)
        status = relay_can_keep_sent(relay, err);
    if (!status)
        status = relay_alloc(relay, err);
    if (!status)
        status = open_retention(relay, err);
    if (!status)
        status = store_watch(relay->store, &relay->watcher, outbox->scope, err);
    if (status) {
        relay_free(relay);
        return status;
    }
    health_init(&relay->health);
    relay->limit = relay->options.batch = store_batch(relay->store, relay->options.batch);
    *out = relay;
    return SEMEL_OK;
}

semel_status semel_relay_open(semel_relay **out, semel_outbox *outbox, semel_transport *transport,
                              const semel_relay_options *options, semel_error *err)
{
    semel_relay *relay;
    semel_status status = relay_new(&relay, outbox, NULL, options, err);
    if (status)
        return status;
    relay->transport = transport;
    *out = relay;
    return SEMEL_OK;
}

semel_status semel_relay_open_local(semel_relay **out, semel_outbox *outbox, semel_inbox *inbox,
                                    semel_handler *handler, void *context,
                                    const semel_relay_options *options, semel_error *err)
{
    semel_relay *relay;
    if (inbox->store != outbox->store)
        return semel_fail(
            err, SEMEL_EINVAL,
            "a local hand-off needs inbox \"%s\" and outbox \"%s\" in one store; use a "
            "transport between two",
            inbox->name, outbox->name);
    if (inbox_takes_keys(inbox, err))
        return SEMEL_EMISUSE;
    if (inbox->options.mode == SEMEL_CLAIM)
        return semel_fail(
            err, SEMEL_EINVAL,
            "a local hand-off is one transaction: inbox \"%s\" must be in transaction mode",
            inbox->name);
    semel_status status = relay_new(&relay, outbox, inbox, options, err);
    if (status)
        return status;
    relay->handler = handler;
    relay->context = context;
    if (relay->options.attempts_max == 1) /* no second attempt would tell which message killed it */
        relay->options.batch = relay->limit = 1;
    *out = relay;
    return SEMEL_OK;
}

void semel_relay_close(semel_relay *relay)
{
    if (!relay)
        return;
    store_unwatch(relay->store, &relay->watcher);
    health_destroy(&relay->health);
    relay_free(relay);
}

/* --- the pass --------------------------------------------------------------------------------- */

uint32_t relay_backoff_ms(const semel_relay *relay, uint32_t attempts)
{
    return seam_backoff_ms(&relay->store->seam, relay->options.backoff_ms,
                           relay->options.backoff_max_ms, attempts);
}

uint32_t relay_retry_ms(void *relay_, const semel_message *message)
{
    const semel_relay *relay = relay_;
    const semel_relay_options *options = &relay->options;
    for (size_t i = 0; i < relay->now->count; i++)
        if (relay->now->items[i].message == message)
            return seam_backoff_most_ms(options->backoff_ms, options->backoff_max_ms,
                                        relay->now->items[i].attempts);
    return 0;
}

/* After an outage one message at a time, so that a bad one is found and does not take others down;
 * then twice as many each time it goes well. */
static void adapt_limit(semel_relay *relay, semel_status status)
{
    if (status)
        relay->limit = 1;
    else if (relay->limit < relay->options.batch)
        relay->limit =
            relay->limit * 2 < relay->options.batch ? relay->limit * 2 : relay->options.batch;
}

static int relay_is_stopped(semel_relay *relay)
{
    return atomic_load(&relay->stopped);
}

/* What comes first is what is told. */
static semel_status first_of(semel_status first, semel_status second, semel_error *err,
                             const semel_error *why)
{
    if (!first && second && err)
        *err = *why;
    return first ? first : second;
}

/* What is left of the pass, and of what was leased ahead: settled or given back. `status` is what
 * `err` tells of already. */
static semel_status settle_all(semel_relay *relay, semel_status status, semel_error *err)
{
    relay_batch *const batches[] = {relay->last, relay->now, relay->next};
    for (size_t i = 0; i < RELAY_BATCHES; i++) {
        semel_error why;
        semel_status settled = relay_settle(relay, batches[i], &relay->sent, &why);
        status = first_of(status, settled, err, &why);
    }
    return status;
}

/* The leases end by themselves. */
static void forget_all(semel_relay *relay)
{
    for (size_t i = 0; i < RELAY_BATCHES; i++)
        relay->batches[i].count = 0;
}

/* While the broker has `now`. */
static void settle_and_lease(void *context)
{
    semel_relay *relay = context;
    relay->ahead = relay_settle(relay, relay->last, &relay->sent, &relay->ahead_why);
    if (!relay->ahead && !relay_is_stopped(relay))
        relay->ahead = relay_lease(relay, relay->next, &relay->ahead_why);
}

/* With a batch that is not full there is hardly a next one; and an outage is met in small steps. */
static int may_lease_ahead(const semel_relay *relay)
{
    return relay->now->count == relay->options.batch;
}

static void rotate_batches(semel_relay *relay)
{
    relay_batch *settled = relay->last;
    relay->last = relay->now;
    relay->now = relay->next;
    relay->next = settled;
}

/* `now` has its answers. If the next one is there it is settled while that is sent, unless it
 * should be settled soon. */
static semel_status relay_send_batch(semel_relay *relay, int ahead, semel_error *err)
{
    semel_error why;
    relay->ahead = SEMEL_OK;
    semel_status status =
        relay_publish(relay, ahead && may_lease_ahead(relay) ? settle_and_lease : NULL, err);
    adapt_limit(relay, status);
    if (status)
        relay->outage = RELAY_OUTAGE_BROKER;
    status = first_of(status, relay->ahead, err, &relay->ahead_why);
    semel_status fault = store_fault(relay->store, "relay.published", &why);
    if (fault) {
        forget_all(relay);
        return first_of(status, fault, err, &why);
    }
    if (status || !relay->next->count || relay_is_late(relay, relay->now))
        return settle_all(relay, status, err);
    rotate_batches(relay);
    return SEMEL_OK;
}

static semel_status relay_pass(semel_relay *relay, int ahead, semel_error *err)
{
    semel_status status = SEMEL_OK;
    relay->outage = RELAY_OUTAGE_STORE;
    relay->confirmed = 0;
    relay->settled = 0;
    if (!relay->now->count)
        status = relay_lease(relay, relay->now, err);
    relay->leased = relay->now->count;
    if (status || !relay->leased)
        return status;
    if (relay->transport)
        return relay_send_batch(relay, ahead, err);
    status = relay_receive_local(relay, &relay->sent, err);
    relay->now->count = 0;
    adapt_limit(relay, status);
    return status;
}

/* Waits until woken, until it is time to look again, or until `left_ms` is over. A unit that
 * commits right after the one that woke the relay may not wake it again: so the relay looks once
 * more a moment later. */
static void wait_for_work(semel_relay *relay, int64_t left_ms)
{
    enum { ECHO_MS = 60 };
    int64_t pause = relay->woken ? ECHO_MS : relay->options.poll_ms;
    relay->woken = store_wait(relay->store, &relay->watcher, left_ms < pause ? left_ms : pause);
}

/* Passes, until one had something to do. */
static semel_status relay_step(semel_relay *relay, int ahead, uint32_t wait_ms, semel_error *err)
{
    int64_t deadline = wait_clock_ms() + wait_ms;
    relay_forget_sent(relay);
    for (;;) {
        semel_status status = relay_pass(relay, ahead, err);
        if (status)
            return status;
        int64_t left = deadline - wait_clock_ms();
        if (relay->leased || left <= 0 || relay_is_stopped(relay))
            return SEMEL_OK;
        wait_for_work(relay, left);
    }
}

semel_status semel_relay_step(size_t *sent, semel_relay *relay, uint32_t wait_ms, semel_error *err)
{
    relay->sent = 0;
    semel_status status = relay_step(relay, 0, wait_ms, err);
    if (!status)
        *sent = relay->sent;
    return status;
}

/* --- the run ---------------------------------------------------------------------------------- */

/* Said once when it begins and once when it is over, however often it is met in between. */
static void relay_outage_begin(semel_relay *relay, const semel_error *why)
{
    if (!relay->in_outage) {
        health_enter(&relay->health, &relay->store->seam, SEMEL_HEALTH_WAITING, why);
        relay_notify(relay, why);
    }
    relay->in_outage |= relay->outage;
}

/* The broker is back when it has taken something, and the store when it has marked that. */
static void pass_succeeded(semel_relay *relay)
{
    int before = relay->in_outage;
    if (relay->settled || !relay->last->count) {
        relay->failures = 0;
        relay->in_outage &= ~RELAY_OUTAGE_STORE;
    }
    if (relay->confirmed)
        relay->in_outage &= ~RELAY_OUTAGE_BROKER;
    if (before && !relay->in_outage) {
        health_enter(&relay->health, &relay->store->seam, SEMEL_HEALTH_OK, NULL);
        relay_notify(relay, NULL);
    }
}

/* Sleeps in pieces, so that stopping does not wait for the whole of it. */
static void back_off(semel_relay *relay)
{
    enum { PIECE_MS = 50 };
    relay->failures++;
    uint32_t left = relay_backoff_ms(relay, relay->failures);
    while (left && !relay_is_stopped(relay)) {
        uint32_t piece = left < PIECE_MS ? left : PIECE_MS;
        seam_sleep_ms(&relay->store->seam, piece);
        left -= piece;
    }
}

static semel_status relay_loop(semel_relay *relay, semel_error *err)
{
    while (!relay_is_stopped(relay)) {
        semel_error why;
        if (!relay->in_outage)
            retention_step(&relay->retention);
        uint32_t wait_ms = retention_wait_ms(&relay->retention, relay->options.poll_ms);
        semel_status status = relay_step(relay, 1, wait_ms, &why);
        if (!status) {
            pass_succeeded(relay);
            continue;
        }
        if (!why.retryable) {
            if (err)
                *err = why;
            return status;
        }
        relay_outage_begin(relay, &why);
        back_off(relay);
    }
    return SEMEL_OK;
}

/* What cannot be settled at the end is sent again when its lease is over. */
static semel_status relay_end_run(semel_relay *relay, semel_status status, semel_error *err)
{
    semel_error why;
    semel_status settled = settle_all(relay, SEMEL_OK, &why);
    if (!settled)
        return status;
    if (!why.retryable)
        return first_of(status, settled, err, &why);
    relay->outage = RELAY_OUTAGE_STORE;
    relay_outage_begin(relay, &why);
    return status;
}

semel_status semel_relay_run(semel_relay *relay, semel_error *err)
{
    semel_error local, *why = err ? err : &local;
    relay->failures = 0;
    relay->in_outage = 0;
    retention_start(&relay->retention);
    health_enter(&relay->health, &relay->store->seam, SEMEL_HEALTH_OK, NULL);
    semel_status status = relay_end_run(relay, relay_loop(relay, why), why);
    health_enter(&relay->health, &relay->store->seam,
                 status ? SEMEL_HEALTH_FAILED : SEMEL_HEALTH_STOPPED, status ? why : NULL);
    return status;
}

void semel_relay_stop(semel_relay *relay)
{
    atomic_store(&relay->stopped, 1);
    watcher_wake(&relay->watcher);
}

/* --- health ----------------------------------------------------------------------------------- */

semel_outbox *relay_outbox(const semel_relay *relay)
{
    return relay->outbox;
}

/* What has been due for a while by the store's clock has been due since then by this host's. */
semel_health_part relay_health(semel_relay *relay, const semel_stats *stats,
                               uint32_t stalled_after_ms)
{
    int64_t for_ms = stats->at_ms - stats->oldest_due_ms;
    int64_t busy_since = stats->due ? wait_clock_ms() - (for_ms > 0 ? for_ms : 0) : 0;
    return health_read(&relay->health, stats->due, busy_since, stalled_after_ms);
}
