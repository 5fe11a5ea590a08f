/* A batch: messages without a group, and the first of each group, are sent at once; another one of
 * a group when the one before it is confirmed. A stream may refuse a message and take the next one,
 * and nothing that a client can send makes it refuse that, too; so within a group one answer is
 * waited for after the other, and the groups are side by side.
 *
 * A message has one of these ends: the stream has it (PubAck, also for a copy of what it had
 * already); nobody takes its subject; the stream refuses it, now or for ever; there is no answer.
 * If the process dies, or the connection, the messages may be there or not; their sender sends them
 * again, with the same Nats-Msg-Id. */
#include "transport/nats/publisher.h"

#include "base/mem.h"
#include "base/message.h"
#include "base/sigpipe.h"
#include "base/wait.h"
#include "transport/nats/envelope.h"
#include "transport/nats/groups.h"

enum { HEADERS_EXCEED_MAXIMUM = 10097 }; /* nats.c has no name for it yet */

typedef struct publishing {
    jet_calls *calls;
    jet_link *link;
    natsConnection *connection;
    const semel_message *const *messages;
    semel_publish_result *results;
    size_t count;
    int64_t until_ms;
    jet_batch batch;
    jet_place *places;
    size_t *wave; /* what is to be sent next */
    size_t wave_count;
    mem_arena arena;
    semel_error *err; /* also of single messages, which is not the caller's */
} publishing;

/* --- answers ---------------------------------------------------------------------------------- */

semel_publish_result jet_publish_result(int32_t answer)
{
    switch (answer) {
    case JET_YES:
        return SEMEL_PUBLISH_CONFIRMED;
    case JET_NO_ANSWER:
        return SEMEL_PUBLISH_UNKNOWN;
    case JET_NOBODY:
    case JSNotEnabledErr:
    case JSStreamNotFoundErr:
    case JSStreamNotMatchErr: /* another stream takes the subject */
        return SEMEL_PUBLISH_UNROUTABLE;
    case JSStreamMessageExceedsMaximumErr:
    case HEADERS_EXCEED_MAXIMUM:
        return SEMEL_PUBLISH_REFUSED;
    default: /* it is full, sealed, or has no leader */
        return SEMEL_PUBLISH_NACKED;
    }
}

/* Behind a message that failed nothing of its group is sent: "not now", as for a full stream. */
static void block_group(publishing *p, size_t index)
{
    for (size_t next = p->places[index].next; next != JET_NO_NEXT; next = p->places[next].next)
        p->results[next] = SEMEL_PUBLISH_NACKED;
}

static void decide(publishing *p, size_t index, semel_publish_result result)
{
    size_t next = p->places[index].next;
    p->results[index] = result;
    if (result != SEMEL_PUBLISH_CONFIRMED && result != SEMEL_PUBLISH_UNKNOWN)
        block_group(p, index);
    else if (result == SEMEL_PUBLISH_CONFIRMED && next != JET_NO_NEXT)
        p->wave[p->wave_count++] = next;
}

static void take_answers(publishing *p)
{
    for (const jet_call *call; (call = jet_batch_take(&p->batch)) != NULL;)
        decide(p, (size_t)(call - p->batch.calls), jet_publish_result(call->answer));
}

/* --- sending ---------------------------------------------------------------------------------- */

/* 0: it was not sent, and has its result if it is the message's fault. */
static int send_one(publishing *p, size_t index)
{
    const semel_message *message = p->messages[index];
    char reply[JET_REPLY_ROOM];
    natsMsg *out = NULL;
    jet_call_reply(reply, p->calls, &p->batch.calls[index]);
    semel_status status = message_check(message, p->err);
    if (!status)
        status = jet_envelope_write(&out, &p->arena, p->link->address, message, reply,
                                    natsConnection_GetMaxPayload(p->connection), p->err);
    if (status) {
        if (status != SEMEL_ENOMEM)
            decide(p, index, SEMEL_PUBLISH_REFUSED);
        return 0;
    }
    natsStatus code = natsConnection_PublishMsg(p->connection, out);
    natsMsg_Destroy(out);
    return code == NATS_OK;
}

static void cancel(publishing *p, size_t index)
{
    pthread_mutex_lock(&p->link->lock);
    jet_batch_cancel(&p->batch, p->calls, index);
    pthread_mutex_unlock(&p->link->lock);
}

/* The calls are open before the first message is written: its answer may come while the rest is. */
static int open_wave(publishing *p)
{
    int opened = 1;
    pthread_mutex_lock(&p->link->lock);
    for (size_t i = 0; opened && i < p->wave_count; i++)
        opened = jet_batch_open(&p->batch, p->calls, p->wave[i]);
    pthread_mutex_unlock(&p->link->lock);
    return opened;
}

/* As many as there is time for; the others stay unknown. Without the lock. */
static void send_wave(publishing *p)
{
    size_t count = p->wave_count, sent = 0;
    sigpipe_guard guard;
    if (!open_wave(p)) {
        semel_fail(p->err, SEMEL_ENOMEM, "out of memory to publish %zu messages", p->count);
        p->wave_count = 0;
        return;
    }
    p->wave_count = 0; /* decide() may not add to it here: nothing is confirmed */
    sigpipe_guard_up(&guard, p->link->address->tls);
    for (size_t i = 0; i < count; i++)
        if (wait_clock_ms() < p->until_ms && send_one(p, p->wave[i]))
            sent++;
        else
            cancel(p, p->wave[i]);
    if (sent)
        (void)jet_flush(p->connection, p->until_ms); /* or the answers do not come */
    sigpipe_guard_down(&guard);
}

/* --- a batch ---------------------------------------------------------------------------------- */

static semel_status status_of_results(const publishing *p)
{
    const jet_link *link = p->link;
    const jet_address *a = link->address;
    size_t unknown = 0;
    for (size_t i = 0; i < p->count; i++)
        unknown += p->results[i] == SEMEL_PUBLISH_UNKNOWN;
    if (!unknown)
        return SEMEL_OK;
    if (link->epoch != p->batch.epoch) {
        *p->err = link->trouble;
        return link->trouble.status;
    }
    if (p->err->status == SEMEL_ENOMEM)
        return SEMEL_ENOMEM;
    return semel_fail(p->err, SEMEL_EUNAVAILABLE,
                      "%zu of %zu messages were not confirmed in time by the server at %s:%u%s",
                      unknown, p->count, a->host, (unsigned)a->port,
                      link->complaint == NATS_NOT_PERMITTED
                          ? "; it does not permit this user something, as its log says"
                          : "");
}

static void start_wave(publishing *p)
{
    p->wave_count = 0;
    p->batch.eager = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (!p->places[i].follows)
            p->wave[p->wave_count++] = i;
        p->batch.eager |= p->places[i].follows;
    }
}

/* With the lock held, which is given up while something is sent. */
static void collect(publishing *p)
{
    while (jet_batch_wait(&p->batch, p->calls, p->until_ms)) {
        take_answers(p);
        if (!p->wave_count)
            continue;
        pthread_mutex_unlock(&p->link->lock);
        send_wave(p);
        pthread_mutex_lock(&p->link->lock);
    }
}

static semel_status publish_batch(publishing *p, semel_meanwhile **meanwhile, void *context)
{
    start_wave(p);
    pthread_mutex_unlock(&p->link->lock);
    send_wave(p);
    if (*meanwhile)
        (*meanwhile)(context);
    *meanwhile = NULL;
    pthread_mutex_lock(&p->link->lock);
    take_answers(p); /* those that have come, however late it is */
    if (p->wave_count) {
        pthread_mutex_unlock(&p->link->lock);
        send_wave(p);
        pthread_mutex_lock(&p->link->lock);
    }
    collect(p);
    return status_of_results(p);
}

static semel_status prepare(publishing *p)
{
    p->places = jet_groups_find(p->messages, p->count);
    p->wave = mem_alloc((p->count + 1) * sizeof *p->wave);
    if (!p->places || !p->wave)
        return semel_fail(p->err, SEMEL_ENOMEM, "out of memory to publish %zu messages", p->count);
    return jet_batch_init(&p->batch, p->calls, p->count, p->err);
}

static semel_status publish_all(publishing *p, semel_meanwhile **meanwhile, void *context)
{
    jet_link *link = p->link;
    pthread_mutex_lock(&link->lock);
    semel_status status = jet_link_use(link, p->err);
    if (!status) {
        p->connection = link->connection;
        status = prepare(p);
        if (!status)
            status = publish_batch(p, meanwhile, context);
        jet_batch_free(&p->batch, p->calls);
        jet_link_done(link);
    }
    pthread_mutex_unlock(&link->lock);
    return status;
}

semel_status jet_publish(jet_calls *calls, semel_publish_result results[],
                         const semel_message *const messages[], size_t count, uint32_t wait_ms,
                         semel_meanwhile *meanwhile, void *context, semel_error *err)
{
    semel_error why = {.status = SEMEL_OK};
    publishing p = {.calls = calls,
                    .link = calls->link,
                    .messages = messages,
                    .results = results,
                    .count = count,
                    .until_ms = wait_clock_ms() + wait_ms,
                    .err = &why};
    for (size_t i = 0; i < count; i++)
        results[i] = SEMEL_PUBLISH_UNKNOWN;
    semel_status status = publish_all(&p, &meanwhile, context);
    mem_free(p.places);
    mem_free(p.wave);
    arena_free(&p.arena);
    if (meanwhile)
        meanwhile(context); /* nothing was sent */
    if (status && err)
        *err = why;
    return status;
}
