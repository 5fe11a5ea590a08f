/* The relay's two short transactions: one leases a batch of the outbox, the other settles it.
 *
 * Both are atomic, and need not survive power loss (BEGIN_RELAXED): a lease or a settlement that is
 * lost means sending again. Every item carries the token of its lease; what another relay has taken
 * over meanwhile is not settled here, and the driver says so (`lost`). Relays side by side may
 * deadlock in a server; the relay whose transaction the server ends begins it anew, and does not
 * send again what is confirmed. */
#include "core/relay.h"

#include "base/hash.h"
#include "base/message.h"

#include <stdio.h>
#include <string.h>

/* --- lease ------------------------------------------------------------------------------------ */

/* Links the item at `index` to the one before it in its group, by a hash table over the batch. */
static void link_group(const semel_relay *relay, relay_batch *batch, uint32_t index)
{
    static const hash_key constant = {
        1, 2}; /* groups are few and ours; no stranger gains by a collision */
    relay_item *item = &batch->items[index];
    const char *group = item->message->group;
    if (!group || !*group)
        return;
    uint32_t *bucket =
        &batch->buckets[hash_bytes(constant, group, strlen(group)) & (relay->bucket_count - 1)];
    for (uint32_t at = *bucket; at && !item->before; at = batch->items[at - 1].chain)
        if (strcmp(batch->items[at - 1].message->group, group) == 0)
            item->before = at;
    item->chain = *bucket;
    *bucket = index + 1;
}

/* Where the driver's items go. */
typedef struct lease_sink {
    const semel_relay *relay;
    relay_batch *batch;
} lease_sink;

static semel_status batch_add_item(const semel_item *item, void *context, semel_error *err)
{
    lease_sink *in = context;
    relay_batch *batch = in->batch;
    const semel_message *copy = message_copy_into(&batch->arena, item->message);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message to send");
    batch->items[batch->count++] = (relay_item){.seq = item->seq,
                                                .token = item->token,
                                                .attempts = item->attempts,
                                                .refusals = item->refusals,
                                                .message = copy};
    link_group(in->relay, batch, (uint32_t)batch->count - 1);
    return SEMEL_OK;
}

/* A lease of no row may have noted which groups wait: that is kept, too. */
static semel_status lease_rows(semel_relay *relay, relay_batch *batch, work_unit *unit,
                               semel_error *err)
{
    lease_sink in = {relay, batch};
    semel_store *store = relay->store;
    unit->operation = SEMEL_OPERATION_RELAY;
    semel_status status = unit_tx_begin(unit, SEMEL_BEGIN_RELAXED, err);
    if (!status)
        status = store->driver->outbox->lease(unit->state, relay->outbox->scope, relay->limit,
                                              relay->options.lease_ms, batch_add_item, &in, err);
    if (status || (!batch->count && !store_unit_used(store, unit->state)))
        return status;
    status = store_fault(store, "relay.leased", err);
    return status ? status : unit_tx_commit(unit, err);
}

static void batch_reset(const semel_relay *relay, relay_batch *batch)
{
    batch->count = 0;
    memset(batch->buckets, 0, relay->bucket_count * sizeof *batch->buckets);
    arena_reset(&batch->arena);
    batch->leased_at_ms = seam_steady_ms(&relay->store->seam);
}

semel_status relay_lease(semel_relay *relay, relay_batch *batch, semel_error *err)
{
    work_unit *unit = NULL;
    uint32_t tries = 0;
    batch->count = 0;
    semel_status status = unit_new(&unit, relay->store, err);
    if (status)
        return status;
    do {
        batch_reset(relay, batch);
        status = lease_rows(relay, batch, unit, err);
        unit_tx_rollback(unit);
    } while (store_retry_after_pause(relay->store, status, NULL, &tries));
    unit_free(unit);
    if (!status && batch->count)
        status = store_fault(relay->store, "relay.taken", err);
    if (status)
        batch->count = 0;
    return status;
}

int relay_is_late(const semel_relay *relay, const relay_batch *batch)
{
    return seam_steady_ms(&relay->store->seam) - batch->leased_at_ms > relay->options.lease_ms / 2;
}

/* A dead letter sets its group free when it is stored, and not before: if that fails, the message
 * comes again. */
int relay_is_blocked(const relay_batch *batch, const relay_item *item)
{
    const relay_item *before = item->before ? &batch->items[item->before - 1] : NULL;
    return before && (before->verdict != SEMEL_VERDICT_ACK || before->dead);
}

/* --- settle ----------------------------------------------------------------------------------- */

/* One letter per message, and not per id: nothing keeps two messages of an outbox from having the
 * same one. Their numbers do not tell them apart for ever, either: a database gives one again when
 * the highest row has left, or when an operator resets its sequence. The token of the lease was
 * drawn for this letter alone. */
static semel_status letter_key(semel_bytes *out, relay_batch *batch, const relay_item *item,
                               semel_error *err)
{
    enum { NUMBERS_TEXT = 48 };
    semel_bytes id = item->message->id;
    char *key = arena_alloc(&batch->arena, id.len + NUMBERS_TEXT);
    if (!key)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a dead letter");
    memcpy(key, id.data, id.len);
    int len = snprintf(key + id.len, NUMBERS_TEXT, "#%lld-%016llx", (long long)item->seq,
                       (unsigned long long)item->token);
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

static semel_status keep_dead_letter(semel_relay *relay, relay_batch *batch, work_unit *unit,
                                     relay_item *item, semel_error *err)
{
    semel_bytes key = {NULL, 0};
    semel_error room;
    semel_status status = letter_key(&key, batch, item, err);
    if (status)
        return status;
    semel_dead dead = {.size = sizeof dead,
                       .origin = SEMEL_DEAD_OUTBOX,
                       .name = relay->outbox->name,
                       .key = key,
                       .message = item->message,
                       .attempts = item->attempts,
                       .error = reason_of(&room, item)};
    status = unit_put_letter(unit, &dead, err);
    item->letter = dead.id;
    return status;
}

typedef struct batch_end {
    semel_relay *relay;
    relay_batch *batch;
} batch_end;

/* Dead letters are kept only for items that are still ours: settle first, then look. */
static semel_status settle_rows(work_unit *unit, void *context, semel_error *err)
{
    semel_relay *relay = ((batch_end *)context)->relay;
    relay_batch *batch = ((batch_end *)context)->batch;
    unit->operation = SEMEL_OPERATION_RELAY;
    for (size_t i = 0; i < batch->count; i++) {
        const relay_item *item = &batch->items[i];
        relay->settlements[i] = (semel_item_settlement){
            .seq = item->seq,
            .token = item->token,
            .verdict = item->verdict ? item->verdict : SEMEL_VERDICT_RELEASE,
            .delay_ms = item->delay_ms,
            .refused = item->verdict != SEMEL_VERDICT_RELEASE && relay_is_refused(relay, item),
            .error = item->why,
            .sent = relay->options.keep_sent_ms && !item->dead};
    }
    semel_status status = relay->store->driver->outbox->settle(
        unit->state, relay->outbox->scope, relay->settlements, batch->count, err);
    for (size_t i = 0; !status && i < batch->count; i++)
        if (batch->items[i].dead && !relay->settlements[i].lost)
            status = keep_dead_letter(relay, batch, unit, &batch->items[i], err);
    return status ? status : store_fault(relay->store, "relay.settled", err);
}

void relay_count_sent(semel_relay *relay, const relay_item *item)
{
    outbox_add(relay->outbox, TALLY_SENT, 1);
    outbox_add(relay->outbox, TALLY_RESENT, item->attempts > 1);
    outbox_report(relay->outbox, &(semel_event){.message = item->message,
                                                .outcome = SEMEL_PROCESSED,
                                                .attempt = item->attempts,
                                                .publish_ns = item->publish_ns,
                                                .started_ns = item->started_ns});
}

static const char *publish_failure(semel_publish_result result)
{
    return result == SEMEL_PUBLISH_REFUSED      ? "the broker refused the message"
           : result == SEMEL_PUBLISH_UNROUTABLE ? "no queue is bound for the message's topic"
           : result == SEMEL_PUBLISH_NACKED     ? "the broker cannot take the message now"
                                                : "the broker gave no answer";
}

static void count_dead(semel_relay *relay, const relay_item *item)
{
    semel_error room;
    outbox_add(relay->outbox, TALLY_DEAD, 1);
    outbox_report(relay->outbox, &(semel_event){.message = item->message,
                                                .outcome = SEMEL_DEAD,
                                                .attempt = item->attempts,
                                                .error = reason_of(&room, item),
                                                .letter = item->letter,
                                                .publish_ns = item->publish_ns,
                                                .started_ns = item->started_ns});
}

static void report_failed(semel_relay *relay, const relay_item *item)
{
    outbox_report(relay->outbox, &(semel_event){.message = item->message,
                                                .outcome = SEMEL_FAILED,
                                                .attempt = item->attempts,
                                                .error = publish_failure(item->result),
                                                .retry_ms = item->delay_ms,
                                                .publish_ns = item->publish_ns,
                                                .started_ns = item->started_ns});
}

static void count_settled(semel_relay *relay, const relay_batch *batch, size_t *sent)
{
    size_t before = *sent;
    for (size_t i = 0; i < batch->count; i++) {
        const relay_item *item = &batch->items[i];
        if (item->dead && !relay->settlements[i].lost) {
            count_dead(relay, item);
        } else if (item->result == SEMEL_PUBLISH_CONFIRMED) {
            relay_count_sent(relay, item);
            ++*sent;
        } else if (item->tried) {
            report_failed(relay, item);
        }
        if (item->tried && item->result != SEMEL_PUBLISH_CONFIRMED)
            outbox_add(relay->outbox, TALLY_SEND_FAILED, 1);
    }
    if (*sent > before)
        health_moved(&relay->health, &relay->store->seam);
}

static semel_status settle_batch(semel_relay *relay, relay_batch *batch, semel_error *err)
{
    batch_end end = {relay, batch};
    semel_status status;
    uint32_t tries = 0;
    do
        status = store_transact(relay->store, SEMEL_BEGIN_RELAXED, settle_rows, &end, err);
    while (store_retry_after_pause(relay->store, status, NULL, &tries));
    return status;
}

semel_status relay_settle(semel_relay *relay, relay_batch *batch, size_t *sent, semel_error *err)
{
    if (!batch->count)
        return SEMEL_OK;
    semel_status status = settle_batch(relay, batch, err);
    if (!status) {
        count_settled(relay, batch, sent);
        relay->settled++;
        status = store_fault(relay->store, "relay.done", err);
    }
    batch->count = 0;
    return status;
}
