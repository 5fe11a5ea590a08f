/* Made where it is missing (declare=yes), and compared with what the URL says of it: what the URL
 * does not say may be anything that loses no message.
 *
 * Two processes may make the same thing at the same time. The one that comes second is told that it
 * is there, and looks at it as if it had been there all the time. */
#include "transport/nats/topology.h"

#include "base/sigpipe.h"
#include "transport/nats/link.h"
#include "transport/nats/topology_losses.h"

#include <stdio.h>
#include <string.h>

enum { SUBJECTS_MAX = 32, NS_PER_MS = 1000000 };

/* What is made if the URL does not say it. */
enum { DUPLICATES_DEFAULT_MS = 120000, REPLICAS_DEFAULT = 1, ACK_PENDING_DEFAULT = 1000 };

typedef struct look {
    const jet_address *address;
    jsCtx *js;
    jsStreamInfo *stream;     /* NULL: not looked at */
    jsConsumerInfo *consumer; /* NULL: not looked at */
} look;

/* --- errors ----------------------------------------------------------------------------------- */

/* A server that has no JetStream, or none at this moment, may have it later; what it refuses, it
 * refuses. */
static semel_status fail_by(const look *at, natsStatus code, jsErrCode number, const char *doing,
                            semel_error *err)
{
    const jet_address *a = at->address;
    natsStatus same;
    if (!number)
        return jet_fail(a, code, doing, err);
    semel_status status = number == JSClusterNotAvailErr || number == JSNotEnabledErr
                              ? SEMEL_EUNAVAILABLE
                              : SEMEL_ETRANSPORT;
    semel_fail(err, status, "%s:%u, %s: the server says %d %s", a->host, (unsigned)a->port, doing,
               (int)number, nats_GetLastError(&same));
    if (err)
        err->native = (int32_t)number;
    return status;
}

static semel_status fail_missing(const jet_address *a, const char *what, const char *name,
                                 jsErrCode number, semel_error *err)
{
    semel_fail(err, SEMEL_ETRANSPORT, "%s:%u: there is no %s %s; declare=yes makes it", a->host,
               (unsigned)a->port, what, name);
    if (err)
        err->native = (int32_t)number;
    return SEMEL_ETRANSPORT;
}

static semel_status fail_other(const char *what, const char *name, const char *parameter,
                               semel_error *err)
{
    return semel_fail(err, SEMEL_ETRANSPORT, "%s %s: its %s is not what the URL says", what, name,
                      parameter);
}

/* --- the stream ------------------------------------------------------------------------------- */

/* The subjects of the URL, in `room`; how many. */
static int list_subjects(const char *list[SUBJECTS_MAX], char room[2 * JET_PATH_ROOM],
                         const jet_address *a)
{
    int count = 0;
    if (a->subjects[0])
        (void)snprintf(room, 2 * JET_PATH_ROOM, "%s", a->subjects);
    else
        (void)snprintf(room, 2 * JET_PATH_ROOM, "%s,%s.>", a->subject, a->subject);
    for (char *at = room; *at && count < SUBJECTS_MAX;) {
        size_t len = strcspn(at, ",");
        int is_last = !at[len];
        at[len] = 0;
        list[count++] = at;
        at += len + !is_last;
    }
    return count;
}

static jsStorageType storage_of(const jet_address *a)
{
    return a->storage == JET_STORAGE_MEMORY ? js_MemoryStorage : js_FileStorage;
}

static jsRetentionPolicy retention_of(const jet_address *a)
{
    return a->retention == JET_RETENTION_LIMITS     ? js_LimitsPolicy
           : a->retention == JET_RETENTION_INTEREST ? js_InterestPolicy
                                                    : js_WorkQueuePolicy;
}

static natsStatus make_stream(look *at, jsErrCode *number)
{
    const jet_address *a = at->address;
    const char *subjects[SUBJECTS_MAX];
    char room[2 * JET_PATH_ROOM];
    jsStreamConfig config;
    (void)jsStreamConfig_Init(&config);
    config.Name = a->stream;
    config.SubjectsLen = list_subjects(subjects, room, a);
    config.Subjects = subjects;
    config.Storage = storage_of(a);
    config.Retention = retention_of(a);
    config.Replicas = a->replicas ? a->replicas : REPLICAS_DEFAULT;
    config.Duplicates =
        (int64_t)(a->duplicates_ms ? a->duplicates_ms : DUPLICATES_DEFAULT_MS) * NS_PER_MS;
    return js_AddStream(&at->stream, at->js, &config, NULL, number);
}

static semel_status check_stream(const look *at, semel_error *err)
{
    const jet_address *a = at->address;
    const jsStreamConfig *is = at->stream->Config;
    if (is->NoAck)
        return semel_fail(err, SEMEL_ETRANSPORT, "stream %s: no_ack: it does not confirm messages",
                          a->stream);
    if (a->storage && is->Storage != storage_of(a))
        return fail_other("stream", a->stream, "storage", err);
    if (a->retention && is->Retention != retention_of(a))
        return fail_other("stream", a->stream, "retention", err);
    if (a->replicas && is->Replicas != a->replicas)
        return fail_other("stream", a->stream, "number of replicas", err);
    if (a->duplicates_ms && is->Duplicates != (int64_t)a->duplicates_ms * NS_PER_MS)
        return fail_other("stream", a->stream, "duplicate window (duplicates_ms)", err);
    return SEMEL_OK;
}

static semel_status ensure_stream(look *at, semel_error *err)
{
    const jet_address *a = at->address;
    jsErrCode number = 0;
    natsStatus code = js_GetStreamInfo(&at->stream, at->js, a->stream, NULL, &number);
    if (code != NATS_OK && number == JSStreamNotFoundErr) {
        if (a->declare != JET_DECLARE)
            return fail_missing(a, "stream", a->stream, number, err);
        code = make_stream(at, &number);
        if (code != NATS_OK && number == JSStreamNameExistErr)
            code = js_GetStreamInfo(&at->stream, at->js, a->stream, NULL, &number);
    }
    return code == NATS_OK ? check_stream(at, err)
                           : fail_by(at, code, number, "asking for the stream", err);
}

/* --- the consumer ----------------------------------------------------------------------------- */

static natsStatus make_consumer(look *at, jsErrCode *number)
{
    const jet_address *a = at->address;
    jsConsumerConfig config;
    (void)jsConsumerConfig_Init(&config);
    config.Durable = a->consumer;
    config.AckPolicy = js_AckExplicit;
    config.AckWait = (int64_t)(a->ack_ms ? a->ack_ms : JET_ACK_DEFAULT_MS) * NS_PER_MS;
    config.MaxDeliver = a->max_deliver ? a->max_deliver : -1;
    config.MaxAckPending = a->max_ack_pending ? a->max_ack_pending : ACK_PENDING_DEFAULT;
    config.FilterSubject = a->filter[0] ? a->filter : NULL;
    return js_AddConsumer(&at->consumer, at->js, a->stream, &config, NULL, number);
}

static const char *text_of(const char *text)
{
    return text ? text : "";
}

/* A consumer that acknowledges all up to a message, or none, would lose those that failed. */
static semel_status check_kind(const jet_address *a, const jsConsumerConfig *is, semel_error *err)
{
    const char *wrong = text_of(is->DeliverSubject)[0]    ? "it is a push consumer, not a pull one"
                        : is->AckPolicy != js_AckExplicit ? "its ack policy is not explicit"
                        : is->HeadersOnly                 ? "headers_only: it leaves out the bodies"
                                                          : NULL;
    if (!wrong)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ETRANSPORT, "consumer %s: %s", a->consumer, wrong);
}

static semel_status check_consumer(const look *at, semel_error *err)
{
    const jet_address *a = at->address;
    const jsConsumerConfig *is = at->consumer->Config;
    semel_status status = check_kind(a, is, err);
    if (status)
        return status;
    if (a->ack_ms && is->AckWait != (int64_t)a->ack_ms * NS_PER_MS)
        return fail_other("consumer", a->consumer, "ack wait (ack_ms)", err);
    if (a->max_deliver && is->MaxDeliver != a->max_deliver)
        return fail_other("consumer", a->consumer, "max_deliver", err);
    if (a->max_ack_pending && is->MaxAckPending != a->max_ack_pending)
        return fail_other("consumer", a->consumer, "max_ack_pending", err);
    if (a->filter[0] && strcmp(text_of(is->FilterSubject), a->filter) != 0)
        return fail_other("consumer", a->consumer, "filter", err);
    return SEMEL_OK;
}

static semel_status ensure_consumer(look *at, semel_error *err)
{
    const jet_address *a = at->address;
    jsErrCode number = 0;
    natsStatus code =
        js_GetConsumerInfo(&at->consumer, at->js, a->stream, a->consumer, NULL, &number);
    if (code != NATS_OK && number == JSConsumerNotFoundErr) {
        if (a->declare != JET_DECLARE)
            return fail_missing(a, "consumer", a->consumer, number, err);
        code = make_consumer(at, &number);
        if (code != NATS_OK && number == JSConsumerNameExistErr)
            code = js_GetConsumerInfo(&at->consumer, at->js, a->stream, a->consumer, NULL, &number);
    }
    return code == NATS_OK ? check_consumer(at, err)
                           : fail_by(at, code, number, "asking for the consumer", err);
}

/* --- all of it -------------------------------------------------------------------------------- */

static uint32_t in_ms(int64_t ns)
{
    int64_t ms = ns / NS_PER_MS;
    return ms > UINT32_MAX ? UINT32_MAX : ms < 0 ? 0 : (uint32_t)ms;
}

/* With a backoff of its own a consumer waits that long, by the number of deliveries. */
static uint32_t hold_of(const jsConsumerConfig *is)
{
    int64_t least = is->AckWait;
    for (int i = 0; i < is->BackOffLen; i++)
        least = is->BackOff[i] < least ? is->BackOff[i] : least;
    return in_ms(least);
}

static void write_facts(jet_facts *out, const look *at)
{
    const jet_address *a = at->address;
    const jsStreamConfig *stream = at->stream ? at->stream->Config : NULL;
    const jsConsumerConfig *consumer = at->consumer ? at->consumer->Config : NULL;
    out->hold_ms = a->ack_ms ? a->ack_ms : JET_ACK_DEFAULT_MS;
    out->batch_max = out->expires_max_ms = 0;
    if (consumer) {
        out->hold_ms = hold_of(consumer);
        out->batch_max = consumer->MaxRequestBatch > 0 ? (uint32_t)consumer->MaxRequestBatch : 0;
        out->expires_max_ms = in_ms(consumer->MaxRequestExpires);
    }
    out->durability = jet_topology_durability(a, stream);
    jet_topology_losses(out->losses, a, stream, consumer);
    jet_topology_warnings(out, stream);
}

static semel_status begin_look(look *at, const jet_address *address, natsConnection *connection,
                               semel_error *err)
{
    jsOptions options;
    *at = (look){.address = address};
    (void)jsOptions_Init(&options);
    options.Wait = address->connect_ms;
    natsStatus code = natsConnection_JetStream(&at->js, connection, &options);
    return code == NATS_OK ? SEMEL_OK : jet_fail(address, code, "opening JetStream", err);
}

static void end_look(look *at)
{
    jsConsumerInfo_Destroy(at->consumer);
    jsStreamInfo_Destroy(at->stream);
    jsCtx_Destroy(at->js);
}

semel_status jet_topology(jet_facts *out, const jet_address *address, natsConnection *connection,
                          semel_error *err)
{
    look at;
    semel_status status = begin_look(&at, address, connection, err);
    if (!status && address->stream[0] && address->declare != JET_TRUST) {
        status = ensure_stream(&at, err);
        if (!status && address->consumer[0])
            status = ensure_consumer(&at, err);
    }
    if (!status)
        write_facts(out, &at);
    end_look(&at);
    return status;
}

int jet_topology_has(const jet_address *address, natsConnection *connection, uint64_t sequence,
                     int64_t stored_ns)
{
    look at;
    natsMsg *found = NULL;
    int has = 0;
    if (address->declare == JET_TRUST || begin_look(&at, address, connection, NULL))
        return 0;
    if (js_GetMsg(&found, at.js, address->stream, sequence, NULL, NULL) == NATS_OK)
        has = natsMsg_GetTime(found) == stored_ns;
    natsMsg_Destroy(found);
    end_look(&at);
    return has;
}

semel_status jet_topology_depth(uint64_t *ready, const jet_address *address,
                                natsConnection *connection, semel_error *err)
{
    look at;
    jsErrCode number = 0;
    sigpipe_guard guard;
    sigpipe_guard_up(&guard, address->tls);
    semel_status status = begin_look(&at, address, connection, err);
    if (!status) {
        natsStatus code = js_GetConsumerInfo(&at.consumer, at.js, address->stream,
                                             address->consumer, NULL, &number);
        if (code == NATS_OK)
            *ready = at.consumer->NumPending;
        else
            status = fail_by(&at, code, number, "asking for the consumer", err);
    }
    end_look(&at);
    sigpipe_guard_down(&guard);
    return status;
}
