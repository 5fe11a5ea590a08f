/* The relay's turn: lease, send, settle.
 *
 * Leasing and settling are two short transactions; the broker is talked to in between, with none open. If
 * the process dies
 *   - before the lease is committed: nothing happened;
 *   - before the broker has it: the lease ends and another relay sends it;
 *   - after the broker has it, before it is settled: the lease ends and it is sent again, under the same
 *     id, which the receiving inbox knows. That is the one way to a second copy, besides lost answers.
 * Leases and settlements need not survive power loss (BEGIN_RELAXED): losing one means sending again.
 *
 * The lease is longer than the work: what is not started by half of it is given back untried. A relay that
 * was stopped and comes back late finds its tokens outdated and changes nothing. */
#include "core/relay.h"

#include "base/hash.h"
#include "base/message.h"
#include "base/wait.h"

#include <stdio.h>
#include <string.h>

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

static void fill(uint32_t *value, uint32_t preset)
{
    if (!*value)
        *value = preset;
}

static semel_status read_options(semel_relay_options *out, const semel_relay_options *given,
                                 semel_error *err)
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
    fill(&out->batch, preset->batch);
    fill(&out->lease_ms, preset->lease_ms);
    fill(&out->poll_ms, preset->poll_ms);
    fill(&out->attempts_max, preset->attempts_max);
    fill(&out->backoff_ms, preset->backoff_ms);
    fill(&out->backoff_max_ms, preset->backoff_max_ms);
    return SEMEL_OK;
}

static semel_status make_room(semel_relay *relay, semel_error *err)
{
    size_t batch = relay->options.batch;
    for (relay->bucket_count = 1; relay->bucket_count < batch; relay->bucket_count *= 2)
        continue;
    relay->buckets = mem_alloc(relay->bucket_count * sizeof *relay->buckets);
    relay->items = mem_alloc(batch * sizeof *relay->items);
    relay->wave = mem_alloc(batch * sizeof *relay->wave);
    relay->wave_index = mem_alloc(batch * sizeof *relay->wave_index);
    relay->results = mem_alloc(batch * sizeof *relay->results);
    relay->settlements = mem_alloc(batch * sizeof *relay->settlements);
    if (relay->buckets && relay->items && relay->wave && relay->wave_index && relay->results &&
        relay->settlements)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a relay with a batch of %zu", batch);
}

static void relay_free(semel_relay *relay)
{
    mem_free(relay->buckets);
    mem_free(relay->items);
    mem_free(relay->wave);
    mem_free(relay->wave_index);
    mem_free(relay->results);
    mem_free(relay->settlements);
    arena_free(&relay->arena);
    mem_free(relay);
}

static semel_status relay_new(semel_relay **out, semel_outbox *outbox,
                              const semel_relay_options *options, semel_error *err)
{
    semel_relay *relay = mem_alloc(sizeof *relay);
    if (!relay)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a relay");
    relay->outbox = outbox;
    relay->store = outbox->store;
    semel_status status = read_options(&relay->options, options, err);
    if (!status)
        status = make_room(relay, err);
    if (!status)
        status = store_watch(relay->store, &relay->watcher, err);
    if (status) {
        relay_free(relay);
        return status;
    }
    relay->limit = relay->options.batch;
    *out = relay;
    return SEMEL_OK;
}

semel_status semel_relay_open(semel_relay **out, semel_outbox *outbox, semel_transport *transport,
                              const semel_relay_options *options, semel_error *err)
{
    semel_relay *relay;
    semel_status status = relay_new(&relay, outbox, options, err);
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
    if (inbox->options.mode == SEMEL_CLAIM)
        return semel_fail(
            err, SEMEL_EINVAL,
            "a local hand-off is one transaction: inbox \"%s\" must be in transaction mode",
            inbox->name);
    semel_status status = relay_new(&relay, outbox, options, err);
    if (status)
        return status;
    relay->inbox = inbox;
    relay->handler = handler;
    relay->context = context;
    if (relay->options.attempts_max == 1) /* no second attempt would tell who killed the process */
        relay->options.batch = relay->limit = 1;
    *out = relay;
    return SEMEL_OK;
}

void semel_relay_close(semel_relay *relay)
{
    if (!relay)
        return;
    store_unwatch(relay->store, &relay->watcher);
    relay_free(relay);
}

/* --- lease ------------------------------------------------------------------------------------------------ */

/* Links the item at `index` to the one before it in its group, by a hash table over the batch. */
static void link_group(semel_relay *relay, uint32_t index)
{
    static const hash_key constant = {
        1, 2}; /* groups are few and ours; no stranger gains by a collision */
    relay_item *item = &relay->items[index];
    const char *group = item->message->group;
    if (!group || !*group)
        return;
    uint32_t *bucket =
        &relay->buckets[hash_bytes(constant, group, strlen(group)) & (relay->bucket_count - 1)];
    for (uint32_t at = *bucket; at && !item->before; at = relay->items[at - 1].chain)
        if (strcmp(relay->items[at - 1].message->group, group) == 0)
            item->before = at;
    item->chain = *bucket;
    *bucket = index + 1;
}

static semel_status keep_item(const semel_item *item, void *context, semel_error *err)
{
    semel_relay *relay = context;
    const semel_message *copy = message_copy_into(&relay->arena, item->message);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message to send");
    relay->items[relay->count++] = (relay_item){.seq = item->seq,
                                                .token = item->token,
                                                .attempts = item->attempts,
                                                .refusals = item->refusals,
                                                .message = copy};
    link_group(relay, (uint32_t)relay->count - 1);
    return SEMEL_OK;
}

static semel_status lease(semel_relay *relay, semel_error *err)
{
    semel_store *store = relay->store;
    semel_unit *unit = NULL;
    relay->count = 0;
    memset(relay->buckets, 0, relay->bucket_count * sizeof *relay->buckets);
    arena_reset(&relay->arena);
    semel_status status = unit_new(&unit, store, err);
    if (status)
        return status;
    relay->leased_at_ms = seam_steady_ms(&store->seam);
    status = unit_open(unit, SEMEL_BEGIN_RELAXED, err);
    if (!status)
        status = store->driver->take(unit->state, relay->outbox->scope, relay->limit,
                                     relay->options.lease_ms, keep_item, relay, err);
    if (!status && relay->count)
        status = store_fault(store, "relay.leased", err);
    if (!status && relay->count)
        status = unit_close(unit, err);
    unit_abandon(unit);
    unit_free(unit);
    if (status)
        relay->count = 0;
    return status || !relay->count ? status : store_fault(store, "relay.taken", err);
}

int relay_is_late(const semel_relay *relay)
{
    return seam_steady_ms(&relay->store->seam) - relay->leased_at_ms > relay->options.lease_ms / 2;
}

int relay_is_blocked(const semel_relay *relay, const relay_item *item)
{
    return item->before && relay->items[item->before - 1].verdict != SEMEL_ITEM_REMOVE;
}

uint32_t relay_backoff_ms(const semel_relay *relay, uint32_t attempts)
{
    return seam_backoff_ms(&relay->store->seam, relay->options.backoff_ms,
                           relay->options.backoff_max_ms, attempts);
}

/* --- settle ------------------------------------------------------------------------------------------------ */

/* One letter per row, and not per id: nothing keeps two messages of an outbox from having the same one. */
static semel_status letter_key(semel_bytes *out, semel_relay *relay, const relay_item *item,
                               semel_error *err)
{
    enum { SEQ_TEXT = 24 };
    semel_bytes id = item->message->id;
    char *key = arena_alloc(&relay->arena, id.len + SEQ_TEXT);
    if (!key)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a dead letter");
    memcpy(key, id.data, id.len);
    int len = snprintf(key + id.len, SEQ_TEXT, "#%lld", (long long)item->seq);
    *out = (semel_bytes){key, id.len + (size_t)len};
    return SEMEL_OK;
}

/* What the letter says, of the last answer: the one before it may have been another. */
static const char *reason_of(semel_error *room, const relay_item *item)
{
    const char *topic = item->message->topic;
    if (item->result != SEMEL_PUBLISH_UNROUTABLE)
        return "the broker refused it each time";
    semel_fail(room, SEMEL_ETRANSPORT,
               "the broker has no place for it: no queue was bound for topic \"%s\"",
               topic ? topic : "");
    return room->text;
}

static semel_status keep_dead_letter(semel_relay *relay, semel_unit *unit, const relay_item *item,
                                     semel_error *err)
{
    semel_bytes key = {NULL, 0};
    semel_error room;
    semel_status status = letter_key(&key, relay, item, err);
    if (status)
        return status;
    semel_dead dead = {.size = sizeof dead,
                       .origin = SEMEL_DEAD_OUTBOX,
                       .name = relay->outbox->name,
                       .key = key,
                       .message = item->message,
                       .attempts = item->attempts,
                       .error = reason_of(&room, item)};
    return relay->store->driver->dead_put(unit->state, &dead, err);
}

/* Dead letters are kept only for items that are still ours: settle first, then look. */
static semel_status apply(semel_relay *relay, semel_unit *unit, semel_error *err)
{
    for (size_t i = 0; i < relay->count; i++) {
        const relay_item *item = &relay->items[i];
        relay->settlements[i] = (semel_settlement){
            .seq = item->seq,
            .token = item->token,
            .verdict = item->verdict ? item->verdict : SEMEL_ITEM_RELEASE,
            .delay_ms = item->delay_ms,
            .refused = item->verdict != SEMEL_ITEM_RELEASE && relay_is_refused(relay, item)};
    }
    semel_status status = relay->store->driver->settle(unit->state, relay->outbox->scope,
                                                       relay->settlements, relay->count, err);
    for (size_t i = 0; !status && i < relay->count; i++)
        if (relay->items[i].dead && !relay->settlements[i].lost)
            status = keep_dead_letter(relay, unit, &relay->items[i], err);
    return status;
}

static void count_settled(semel_relay *relay, size_t *sent)
{
    for (size_t i = 0; i < relay->count; i++) {
        const relay_item *item = &relay->items[i];
        if (item->dead && !relay->settlements[i].lost) {
            store_count(relay->store, TALLY_DEAD, 1);
        } else if (item->result == SEMEL_PUBLISH_CONFIRMED) {
            store_count(relay->store, TALLY_SENT, 1);
            store_count(relay->store, TALLY_RESENT, item->attempts > 1);
            ++*sent;
        }
        if (item->tried && item->result != SEMEL_PUBLISH_CONFIRMED)
            store_count(relay->store, TALLY_SEND_FAILED, 1);
    }
}

static semel_status settle(semel_relay *relay, size_t *sent, semel_error *err)
{
    semel_unit *unit = NULL;
    semel_status status = unit_new(&unit, relay->store, err);
    if (status)
        return status;
    status = unit_open(unit, SEMEL_BEGIN_RELAXED, err);
    if (!status)
        status = apply(relay, unit, err);
    if (!status)
        status = store_fault(relay->store, "relay.settled", err);
    if (!status)
        status = unit_close(unit, err);
    unit_abandon(unit);
    unit_free(unit);
    if (status)
        return status;
    count_settled(relay, sent);
    return store_fault(relay->store, "relay.done", err);
}

/* --- the turn ------------------------------------------------------------------------------------------------ */

/* After trouble one message at a time, so that a bad one is found and does not take others down; then
 * twice as many each time it goes well. */
static void adapt(semel_relay *relay, semel_status status)
{
    if (status)
        relay->limit = 1;
    else if (relay->limit < relay->options.batch)
        relay->limit =
            relay->limit * 2 < relay->options.batch ? relay->limit * 2 : relay->options.batch;
}

static semel_status work(semel_relay *relay, size_t *sent, semel_error *err)
{
    relay->trouble = RELAY_TROUBLE_STORE;
    semel_status status = lease(relay, err);
    if (status || !relay->count)
        return status;
    if (!relay->transport) {
        status = relay_hand_over(relay, sent, err);
        adapt(relay, status);
        return status;
    }
    semel_status published = relay_publish(relay, err);
    adapt(relay, published);
    if (published)
        relay->trouble = RELAY_TROUBLE_BROKER;
    status = store_fault(relay->store, "relay.published", err);
    if (!status)
        status = settle(relay, sent, published ? NULL : err);
    return published ? published : status;
}

static int is_stopped(semel_relay *relay)
{
    return atomic_load(&relay->stopped);
}

/* Until woken, until it is time to look again, or until `left_ms` is over. Somebody who commits right after the
 * one who woke us may not do so again: a moment later there is one more look. */
static void wait_for_work(semel_relay *relay, int64_t left_ms)
{
    enum { ECHO_MS = 60 };
    int64_t pause = relay->woken ? ECHO_MS : relay->options.poll_ms;
    relay->woken = store_wait(relay->store, &relay->watcher, left_ms < pause ? left_ms : pause);
}

semel_status semel_relay_step(size_t *sent, semel_relay *relay, uint32_t wait_ms, semel_error *err)
{
    int64_t deadline = wait_clock_ms() + wait_ms;
    size_t count = 0;
    for (;;) {
        semel_status status = work(relay, &count, err);
        if (status)
            return status;
        int64_t left = deadline - wait_clock_ms();
        if (relay->count || left <= 0 || is_stopped(relay))
            break;
        wait_for_work(relay, left);
    }
    *sent = count;
    return SEMEL_OK;
}

/* Said once when it begins and once when it is over, however often it is met in between. */
static void tell(const semel_relay *relay, const semel_error *trouble)
{
    if (relay->options.notice)
        relay->options.notice(relay->options.notice_context, trouble);
}

static void meet_trouble(semel_relay *relay, const semel_error *why)
{
    if (!relay->troubles)
        tell(relay, why);
    relay->troubles |= relay->trouble;
}

static int is_confirmed_any(const semel_relay *relay)
{
    for (size_t i = 0; i < relay->count; i++)
        if (relay->items[i].result == SEMEL_PUBLISH_CONFIRMED)
            return 1;
    return 0;
}

/* The broker is back when it has taken something. */
static void turn_went_well(semel_relay *relay)
{
    int before = relay->troubles;
    relay->failures = 0;
    relay->troubles &= is_confirmed_any(relay) ? 0 : ~RELAY_TROUBLE_STORE;
    if (before && !relay->troubles)
        tell(relay, NULL);
}

/* Sleeps in pieces, so that stopping does not wait for the whole of it. */
static void back_off(semel_relay *relay)
{
    enum { PIECE_MS = 50 };
    relay->failures++;
    uint32_t left = relay_backoff_ms(relay, relay->failures);
    while (left && !is_stopped(relay)) {
        uint32_t piece = left < PIECE_MS ? left : PIECE_MS;
        seam_sleep_ms(&relay->store->seam, piece);
        left -= piece;
    }
}

semel_status semel_relay_run(semel_relay *relay, semel_error *err)
{
    semel_error why;
    relay->failures = 0;
    relay->troubles = 0;
    while (!is_stopped(relay)) {
        size_t sent;
        semel_status status = semel_relay_step(&sent, relay, relay->options.poll_ms, &why);
        if (!status) {
            turn_went_well(relay);
            continue;
        }
        if (!why.retryable) {
            if (err)
                *err = why;
            return status;
        }
        meet_trouble(relay, &why);
        back_off(relay);
    }
    return SEMEL_OK;
}

void semel_relay_stop(semel_relay *relay)
{
    atomic_store(&relay->stopped, 1);
    watcher_wake(&relay->watcher);
}
