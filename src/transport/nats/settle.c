/* Each delivery by its own verdict, and each verdict with an answer of the server: it has it. The
 * verdicts of a call are sent together, then their answers are collected.
 *
 *  - Acknowledged: +ACK, also if the ack wait is over. The server then takes the word of the first
 *    consumer though it has given the message to another one, which is right: the work was done and
 *    is recorded in the inbox, so the other one finds a duplicate, and acknowledges it again. Not
 *    if its number may be another message's by now (receiver.c).
 *  - Again: -NAK with the delay. Not if the ack wait is over, because then another one may have it,
 *    and the server would take it from there.
 *  - Never again: the copy is stored first (dead=), then the message ends (+TERM). If the process
 *    dies in between, the message comes again and is copied again, under the same Nats-Msg-Id. If
 *    it cannot be copied it is given back. Not if the ack wait is over: the one that has it then
 *    decides.
 *
 * If the process dies before a verdict has reached the server, or there is no answer, the delivery
 * comes again after the ack wait. */
#include "base/sigpipe.h"
#include "base/wait.h"
#include "transport/nats/envelope.h"
#include "transport/nats/escape.h"
#include "transport/nats/publisher.h"
#include "transport/nats/receiver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MS = 10000, VERDICT_ROOM = 64, NS_PER_MS = 1000000 };
enum { DEAD_DELAY_MS = 5000 }; /* until a message whose copy was not stored comes again */

typedef struct verdict {
    jet_delivery *delivery; /* NULL: there is nothing to tell the server */
    semel_verdict what;
    uint32_t delay_ms;
} verdict;

typedef struct settling {
    jet_receiver *self;
    verdict *verdicts; /* one for each settlement */
    size_t count;
    jet_batch batch;
    int64_t until_ms;
    size_t unknown; /* tags that are not out */
    uint64_t first_unknown;
    size_t lost;     /* verdicts without an answer */
    size_t uncopied; /* rejected messages whose copy was not stored */
} settling;

/* --- one verdict ------------------------------------------------------------------------------ */

static void write_verdict(char out[VERDICT_ROOM], const verdict *one)
{
    if (one->what == SEMEL_VERDICT_ACK)
        (void)snprintf(out, VERDICT_ROOM, "+ACK");
    else if (one->what == SEMEL_VERDICT_REJECT)
        (void)snprintf(out, VERDICT_ROOM, "+TERM");
    else if (one->delay_ms)
        (void)snprintf(out, VERDICT_ROOM, "-NAK {\"delay\": %" PRId64 "}",
                       (int64_t)one->delay_ms * NS_PER_MS);
    else
        (void)snprintf(out, VERDICT_ROOM, "-NAK");
}

static natsStatus send_verdict(natsConnection *connection, const verdict *one, const char *reply)
{
    char text[VERDICT_ROOM];
    write_verdict(text, one);
    return natsConnection_PublishRequestString(connection, natsMsg_GetReply(one->delivery->raw),
                                               reply, text);
}

/* --- copies of what is rejected --------------------------------------------------------------- */

static natsStatus copy_header(natsMsg *to, natsMsg *from, const char *name)
{
    const char **values = NULL;
    int count = 0;
    natsStatus code = natsMsgHeader_Values(from, name, &values, &count);
    if (code != NATS_OK)
        return code == NATS_NO_MEMORY ? code : NATS_OK;
    for (int i = 0; code == NATS_OK && i < count; i++)
        code = natsMsgHeader_Add(to, name, values[i]);
    free((void *)values); /* allowed: nats.c allocated it */
    return code;
}

/* The headers go along, but not those that are for the server. */
static natsStatus copy_headers(natsMsg *to, natsMsg *from)
{
    const char **names = NULL;
    int count = 0;
    natsStatus code = natsMsgHeader_Keys(from, &names, &count);
    if (code != NATS_OK) /* it has none, or none that can be read */
        return code == NATS_NO_MEMORY ? code : NATS_OK;
    for (int i = 0; code == NATS_OK && i < count; i++)
        if (strncmp(names[i], "Nats-", 5) != 0)
            code = copy_header(to, from, names[i]);
    free((void *)names); /* allowed: nats.c allocated it */
    return code;
}

/* What a foreign message had from the server: its id (Nats-Msg-Id, or its number) and its subject.
 * The copy has others. */
static natsStatus add_member(natsMsg *to, jet_delivery *one, int field, semel_bytes value)
{
    const char *name = jet_fields[field].header, *there = NULL;
    if (!value.len || natsMsgHeader_Get(to, name, &there) == NATS_OK)
        return NATS_OK;
    const char *text = jet_escape_text(&one->arena, value);
    return text ? natsMsgHeader_Set(to, name, text) : NATS_NO_MEMORY;
}

static natsStatus add_origin(natsMsg *to, const jet_address *a, jet_delivery *one)
{
    char id[JET_NAME_ROOM + VERDICT_ROOM];
    jet_origin origin;
    natsStatus code = add_member(to, one, JET_FIELD_ID, one->message->id);
    if (code == NATS_OK)
        code = add_member(to, one, JET_FIELD_TOPIC, semel_str(one->message->topic));
    if (code != NATS_OK || !jet_origin_read(&origin, natsMsg_GetReply(one->raw)))
        return code;
    (void)snprintf(id, sizeof id, "dead:%s:%" PRIu64 ":%" PRId64, a->stream, origin.sequence,
                   origin.stored_ns);
    return natsMsgHeader_Set(to, JET_HEADER_MESSAGE_ID, id);
}

static natsStatus try_copy(natsConnection *connection, const jet_address *a, jet_delivery *one,
                           const char *reply, int with_origin)
{
    natsMsg *copy = NULL;
    natsStatus code = natsMsg_Create(&copy, a->dead, reply, natsMsg_GetData(one->raw),
                                     natsMsg_GetDataLength(one->raw));
    if (code == NATS_OK)
        code = copy_headers(copy, one->raw);
    if (code == NATS_OK && with_origin)
        code = add_origin(copy, a, one);
    if (code == NATS_OK)
        code = natsConnection_PublishMsg(connection, copy);
    natsMsg_Destroy(copy);
    return code;
}

/* A message of the largest size has no room for where it came from. */
static natsStatus send_copy(natsConnection *connection, const jet_address *a, const verdict *one,
                            const char *reply)
{
    natsStatus code = try_copy(connection, a, one->delivery, reply, 1);
    return code == NATS_MAX_PAYLOAD ? try_copy(connection, a, one->delivery, reply, 0) : code;
}

/* --- a round: everything is sent, then the answers are collected ------------------------------ */

/* Which of the verdicts a round is about; and what is sent for it. */
typedef struct round {
    int (*concerns)(const settling *s, const verdict *one);
    natsStatus (*send)(natsConnection *connection, const jet_address *a, const verdict *one,
                       const char *reply);
    void (*answered)(settling *s, verdict *one, int32_t answer);
    int of_verdicts; /* else of messages */
} round;

static void expect_nothing(settling *s, size_t index)
{
    pthread_mutex_lock(&s->self->link->lock);
    jet_batch_cancel(&s->batch, s->self->calls, index);
    pthread_mutex_unlock(&s->self->link->lock);
}

static void send_round(settling *s, const round *r, natsConnection *connection)
{
    jet_link *link = s->self->link;
    char reply[JET_REPLY_ROOM];
    sigpipe_guard guard;
    sigpipe_guard_up(&guard, link->address->tls);
    for (size_t i = 0; i < s->count; i++) {
        if (!r->concerns(s, &s->verdicts[i]) || !s->batch.calls[i].node.tag)
            continue;
        jet_call_reply(reply, s->self->calls, &s->batch.calls[i]);
        if (r->send(connection, link->address, &s->verdicts[i], reply) != NATS_OK)
            expect_nothing(s, i);
    }
    (void)jet_flush(connection, s->until_ms); /* or the answers do not come */
    sigpipe_guard_down(&guard);
}

/* With the lock held, which is given up meanwhile. */
static void do_round(settling *s, const round *r)
{
    jet_link *link = s->self->link;
    natsConnection *connection = link->connection;
    size_t opened = 0;
    s->batch.of_verdicts = r->of_verdicts;
    for (size_t i = 0; i < s->count; i++)
        if (r->concerns(s, &s->verdicts[i]))
            opened += (size_t)jet_batch_open(&s->batch, s->self->calls, i);
    if (!opened)
        return;
    pthread_mutex_unlock(&link->lock);
    send_round(s, r, connection);
    pthread_mutex_lock(&link->lock);
    (void)jet_batch_wait(&s->batch, s->self->calls, s->until_ms); /* each is looked at below */
    while (jet_batch_take(&s->batch))
        continue;
    for (size_t i = 0; i < s->count; i++)
        if (r->concerns(s, &s->verdicts[i])) {
            jet_batch_cancel(&s->batch, s->self->calls, i);
            r->answered(s, &s->verdicts[i], s->batch.calls[i].answer);
        }
}

static int is_rejected(const settling *s, const verdict *one)
{
    return one->delivery && one->what == SEMEL_VERDICT_REJECT && s->self->link->address->dead[0];
}

static void copy_answered(settling *s, verdict *one, int32_t answer)
{
    if (jet_publish_result(answer) == SEMEL_PUBLISH_CONFIRMED)
        return;
    s->uncopied++;
    one->what = SEMEL_VERDICT_RETRY;
    one->delay_ms = DEAD_DELAY_MS;
}

static int has_delivery(const settling *s, const verdict *one)
{
    (void)s;
    return one->delivery != NULL;
}

static natsStatus send_any(natsConnection *connection, const jet_address *a, const verdict *one,
                           const char *reply)
{
    (void)a;
    return send_verdict(connection, one, reply);
}

static void verdict_answered(settling *s, verdict *one, int32_t answer)
{
    (void)one;
    s->lost += answer != JET_YES;
}

/* --- settling --------------------------------------------------------------------------------- */

static void note_unknown(settling *s, uint64_t tag)
{
    if (!s->unknown++)
        s->first_unknown = tag;
}

/* 0: the server is not told. */
static int is_ours(const jet_receiver *self, const jet_delivery *one, semel_verdict what)
{
    if (what == SEMEL_VERDICT_ACK)
        return !one->gone;
    return !one->given_back && !jet_delivery_is_over(self, one);
}

/* From here on it is this call's. */
static void take_out(settling *s, verdict *out, const semel_delivery_settlement *settle)
{
    jet_receiver *self = s->self;
    jet_delivery *one = jet_delivery_of(delivery_table_find(&self->received, settle->tag));
    if (!one) {
        note_unknown(s, settle->tag);
        return;
    }
    delivery_table_remove(&self->received, &one->node);
    delivery_list_remove(&self->unsettled, &one->node);
    if (!is_ours(self, one, settle->verdict)) {
        if (settle->verdict != SEMEL_VERDICT_RETRY)
            note_unknown(s, settle->tag);
        jet_delivery_free(one);
        return;
    }
    *out = (verdict){one, settle->verdict, settle->delay_ms};
}

static semel_status report(const settling *s, semel_error *err)
{
    const jet_address *a = s->self->link->address;
    if (s->unknown)
        return semel_fail(err, SEMEL_EINVAL,
                          "%zu of %zu deliveries are not out (any more), the first has tag %llu; "
                          "the others are settled",
                          s->unknown, s->count, (unsigned long long)s->first_unknown);
    if (s->uncopied)
        return semel_fail(err, SEMEL_EUNAVAILABLE,
                          "%zu rejected messages were given back: no stream has confirmed their "
                          "copies to the subject %s (dead=)",
                          s->uncopied, a->dead);
    if (s->lost)
        return semel_fail(err, SEMEL_EUNAVAILABLE,
                          "%s:%u did not answer %zu of %zu verdicts: those messages may come again",
                          a->host, (unsigned)a->port, s->lost, s->count);
    return SEMEL_OK;
}

/* Copies may have taken long. What comes again by now is another's, as far as it is not
 * acknowledged; and the verdicts have a time of their own. */
static void leave_what_is_over(settling *s)
{
    for (size_t i = 0; i < s->count; i++) {
        verdict *one = &s->verdicts[i];
        if (!one->delivery || one->what == SEMEL_VERDICT_ACK ||
            !jet_delivery_is_over(s->self, one->delivery))
            continue;
        if (one->what == SEMEL_VERDICT_REJECT)
            note_unknown(s, one->delivery->node.tag);
        jet_delivery_free(one->delivery);
        one->delivery = NULL;
    }
    s->until_ms = wait_clock_ms() + ANSWER_MS;
}

/* By a connection that is in use. */
static semel_status settle_all(settling *s, semel_error *err)
{
    static const round copies = {is_rejected, send_copy, copy_answered, 0};
    static const round verdicts = {has_delivery, send_any, verdict_answered, 1};
    semel_status status = jet_batch_init(&s->batch, s->self->calls, s->count, err);
    if (!status) {
        do_round(s, &copies);
        leave_what_is_over(s);
        do_round(s, &verdicts);
    }
    jet_batch_free(&s->batch, s->self->calls);
    return status;
}

semel_status jet_settle(jet_receiver *receiver, const semel_delivery_settlement settles[],
                        size_t count, semel_error *err)
{
    jet_link *link = receiver->link;
    settling s = {.self = receiver, .count = count, .until_ms = wait_clock_ms() + ANSWER_MS};
    s.verdicts = mem_alloc((count + 1) * sizeof *s.verdicts);
    if (!s.verdicts)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory to settle %zu deliveries", count);
    pthread_mutex_lock(&link->lock);
    semel_status status = jet_link_use(link, err); /* a new one looks at what is out */
    for (size_t i = 0; i < count; i++)
        take_out(&s, &s.verdicts[i], &settles[i]);
    if (!status) {
        status = settle_all(&s, err);
        jet_link_done(link);
    }
    pthread_mutex_unlock(&link->lock);
    for (size_t i = 0; i < count; i++)
        if (s.verdicts[i].delivery)
            jet_delivery_free(s.verdicts[i].delivery);
    mem_free(s.verdicts);
    return status ? status : report(&s, err);
}
