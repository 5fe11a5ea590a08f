/* A leased batch through a transport.
 *
 * Messages without a group go out together. Messages of one group must not overtake each other, not
 * even when one of them fails: so unless the driver promises that for a whole batch
 * (SEMEL_TRANSPORT_ORDERED), each wave holds at most one message of a group, and a group that
 * failed sends no more in this pass.
 *
 * A refusal is the message's fault: the message is tried again with backoff and becomes a dead
 * letter when it has been refused often enough. A missing answer is not the message's fault, and
 * neither is a broker that cannot take it now (NACKED): the message is tried again for as long as
 * it takes, and that does not count towards the limit. An unroutable message needs an operator who
 * binds a queue at the broker; the user's options say whether the relay waits for that. */
#include "core/relay.h"

#include <string.h>

/* The items that may go out now, in order: untried, and not given back after another of their
 * group. */
static size_t next_wave(semel_relay *relay, relay_batch *batch)
{
    int ordered = (relay->transport->driver->abilities & SEMEL_TRANSPORT_ORDERED) != 0;
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        relay_item *item = &batch->items[i];
        if (item->tried || item->verdict || (!ordered && relay_is_blocked(batch, item)))
            continue;
        item->tried = 1;
        relay->wave[count] = item->message;
        relay->wave_index[count++] = i;
    }
    return count;
}

int relay_is_refused(const semel_relay *relay, const relay_item *item)
{
    return item->result == SEMEL_PUBLISH_REFUSED ||
           (item->result == SEMEL_PUBLISH_UNROUTABLE &&
            relay->options.on_unroutable == SEMEL_UNROUTABLE_DEAD);
}

/* What is kept with a message that is tried again. `outage` is the error of the whole call, if it
 * had one. */
static const char *failure_text(const relay_item *item, const char *outage)
{
    switch (item->result) {
    case SEMEL_PUBLISH_REFUSED:
        return "the broker refused it";
    case SEMEL_PUBLISH_UNROUTABLE:
        return "the broker has no queue for its topic";
    case SEMEL_PUBLISH_NACKED:
        return "the broker could not accept it at that time";
    case SEMEL_PUBLISH_UNKNOWN:
        return outage ? outage : "the broker gave no answer in time";
    case SEMEL_PUBLISH_CONFIRMED:
        break;
    }
    return NULL;
}

static void decide_item(semel_relay *relay, const relay_batch *batch, relay_item *item,
                        const char *outage)
{
    int refused = relay_is_refused(relay, item);
    if (item->result == SEMEL_PUBLISH_CONFIRMED) {
        item->verdict = SEMEL_VERDICT_ACK;
        relay->confirmed++;
    } else if (relay_is_blocked(batch, item)) {
        item->verdict =
            SEMEL_VERDICT_RELEASE; /* not its own failure: it comes after one of its group */
        item->tried = 0;
    } else if (refused && item->refusals + 1 >= relay->options.attempts_max) {
        item->verdict = SEMEL_VERDICT_ACK;
        item->dead = 1;
    } else {
        item->verdict = SEMEL_VERDICT_RETRY;
        item->why = failure_text(item, outage);
        item->delay_ms = relay_backoff_ms(relay, refused ? item->refusals + 1 : item->attempts);
    }
}

static void decide_wave(semel_relay *relay, relay_batch *batch, size_t count, const char *outage)
{
    for (size_t i = 0; i < count; i++)
        batch->items[relay->wave_index[i]].result = relay->results[i];
    for (size_t i = 0; i < count; i++)
        decide_item(relay, batch, &batch->items[relay->wave_index[i]], outage);
}

/* For the observer: one answer of the broker after the other, but they are told together. */
static void note_times(const semel_relay *relay, relay_batch *batch, size_t count,
                       int64_t started_ns)
{
    int64_t took = observe_since(relay->store, started_ns);
    for (size_t i = 0; took && i < count; i++) {
        batch->items[relay->wave_index[i]].started_ns = started_ns;
        batch->items[relay->wave_index[i]].publish_ns = took;
    }
}

/* The beginning of the error's text; NULL if there is no error, or no memory for it. */
static const char *keep_outage(relay_batch *batch, semel_status status, const semel_error *why)
{
    return status ? arena_copy(&batch->arena, why->text, strnlen(why->text, SETTLER_ERROR_MAX))
                  : NULL;
}

semel_status relay_publish(semel_relay *relay, semel_meanwhile *meanwhile, semel_error *err)
{
    relay_batch *batch = relay->now;
    uint32_t wait_ms = relay->options.lease_ms / 2;
    for (;; meanwhile = NULL) {
        size_t count = relay_is_late(relay, batch) ? 0 : next_wave(relay, batch);
        if (!count)
            return SEMEL_OK;
        semel_error why;
        int64_t started_ns = observe_start(relay->store);
        semel_status status = transport_publish(relay->results, relay->transport, relay->wave,
                                                count, wait_ms, meanwhile, relay, &why);
        note_times(relay, batch, count, started_ns);
        decide_wave(relay, batch, count, keep_outage(batch, status, &why));
        if (status && err)
            *err = why;
        if (status)
            return status;
    }
}
