/* What may get lost, and by which setting: said of what the URL uses and of nothing else.
 *
 * A server writes to the disk every two minutes unless it is told to do so before it answers
 * (sync_interval: always); a client cannot see which. So a confirmed message survives the end of
 * the server's process and not a power failure, unless the stream has three replicas or the URL
 * says sync=always. That is no reason to refuse a stream, since it is how NATS comes; a warning
 * tells it.
 *
 * Not among it is whatever the server tells the publisher, such as a stream that is full and
 * refuses new messages. */
#include "transport/nats/topology_losses.h"

#include "transport/common/losses.h"

#include <stdio.h>

enum { REPLICAS_SAFE = 3 };

semel_durability jet_topology_durability(const jet_address *address, const jsStreamConfig *stream)
{
    if (!stream || stream->Storage == js_MemoryStorage)
        return SEMEL_DURABLE_NOT;
    return address->sync_always || stream->Replicas >= REPLICAS_SAFE ? SEMEL_DURABLE_POWER
                                                                     : SEMEL_DURABLE_PROCESS;
}

/* A stream of limits that discards old messages does so whether or not they were received. */
static void write_limits(losses *out, const jsStreamConfig *stream)
{
    int discards_old = stream->Discard == js_DiscardOld;
    if (stream->MaxAge > 0)
        losses_add(out,
                   "stream %s: max_age: it drops messages of that age, also if no consumer "
                   "has had them",
                   stream->Name);
    if (discards_old && stream->MaxMsgs > 0)
        losses_add(out,
                   "stream %s: max_msgs with discard old: when it is full it drops the oldest "
                   "message; discard new refuses the newest instead",
                   stream->Name);
    if (discards_old && stream->MaxBytes > 0)
        losses_add(out,
                   "stream %s: max_bytes with discard old: when it is full it drops the "
                   "oldest message; discard new refuses the newest instead",
                   stream->Name);
    if (stream->MaxMsgsPerSubject > 0 && !(stream->DiscardNewPerSubject && !discards_old))
        losses_add(out,
                   "stream %s: max_msgs_per_subject: a newer message of the same subject "
                   "replaces an older one",
                   stream->Name);
}

static void write_stream_losses(losses *out, const jsStreamConfig *stream,
                                const jsConsumerConfig *consumer)
{
    if (stream->Storage == js_MemoryStorage)
        losses_add(out, "stream %s: storage memory: its messages are gone when the server restarts",
                   stream->Name);
    write_limits(out, stream);
    if (stream->Retention == js_InterestPolicy && (!consumer || consumer->FilterSubject))
        losses_add(out,
                   "stream %s: retention interest: it confirms and drops a message that no "
                   "consumer is there for",
                   stream->Name);
}

static void write_consumer_losses(losses *out, const jsConsumerConfig *consumer)
{
    const char *name = consumer->Durable ? consumer->Durable : consumer->Name;
    if (consumer->MaxDeliver > 0)
        losses_add(out,
                   "consumer %s: max_deliver %lld: it never again delivers a message that "
                   "came so often; set it to -1",
                   name, (long long)consumer->MaxDeliver);
    if (consumer->DeliverPolicy != js_DeliverAll)
        losses_add(out,
                   "consumer %s: its deliver policy is not all: it leaves out messages that "
                   "were there before it",
                   name);
    if (consumer->InactiveThreshold > 0)
        losses_add(out,
                   "consumer %s: inactive_threshold: the server deletes it when nobody asks "
                   "it for messages",
                   name);
}

void jet_topology_losses(char out[JET_LOSSES_ROOM], const jet_address *address,
                         const jsStreamConfig *stream, const jsConsumerConfig *consumer)
{
    losses sentences = losses_begin(out, JET_LOSSES_ROOM);
    if (!address->stream[0])
        losses_add(&sentences,
                   "the URL names no stream: whether messages are kept was not checked");
    else if (address->declare == JET_TRUST)
        losses_add(&sentences,
                   "stream %s: declare=no: whether it keeps its messages was not checked",
                   address->stream);
    if (stream)
        write_stream_losses(&sentences, stream, consumer);
    if (consumer)
        write_consumer_losses(&sentences, consumer);
}

void jet_topology_warnings(jet_facts *facts, const jsStreamConfig *stream)
{
    char unsynced[JET_WARNINGS_ROOM - JET_LOSSES_ROOM] = "";
    if (stream && facts->durability == SEMEL_DURABLE_PROCESS)
        (void)snprintf(
            unsynced, sizeof unsynced,
            "stream %.255s: the server confirms a message before it syncs it to the disk, "
            "so a power failure may lose it; say sync=always if the server's "
            "sync_interval is always, or give the stream three replicas",
            stream->Name);
    (void)snprintf(facts->warnings, sizeof facts->warnings, "%s%s%s", facts->losses,
                   facts->losses[0] && unsynced[0] ? "\n" : "", unsynced);
}
