/* Receiving: new entries (XREADGROUP, which waits at the server), and entries that are pending for
 * longer than claim_ms, whoever has them (XAUTOCLAIM): those of a consumer that died, of one that
 * is too slow, and those that were given back. The latter are looked for every poll_ms, and as soon
 * as something that this process gave back is due; they come first, since they are older.
 *
 * If the process dies before the answer is read, the entries are pending without an owner that
 * knows of them: they are claimed when they have been idle for claim_ms.
 *
 * With single_active a script reads new entries, and only if nothing older is pending; a consumer
 * whose turn it is and who finds none waits with XREAD, which hands out nothing.
 *
 * How long a delivery is held counts from before the request was sent: the server's time began
 * later. A process that was stopped in between does not take the delivery for a fresh one. */
#include "base/seam.h"
#include "base/wait.h"
#include "transport/redis/streams.h"

#include <stdio.h>
#include <string.h>

enum { COUNT_MAX = 10000, TURN_MS = 50 /* between looks whether it is our turn */ };

typedef struct receiving {
    streams *self;
    semel_delivery *deliveries;
    size_t max, count;
    int64_t asked_ms; /* by the seam's steady clock: before the request */
} receiving;

/* --- handing out ------------------------------------------------------------------------------ */

/* The same entry may be out already, to a handler that took too long: that one is late. */
static int hand_out(receiving *r, stream_delivery *d)
{
    streams *self = r->self;
    pthread_mutex_lock(&self->lock);
    stream_delivery *older = d->count > 1 ? stream_delivery_of_entry(self, d->entry) : NULL;
    if (older)
        older->gone = 1;
    int added = stream_delivery_add(self, d);
    pthread_mutex_unlock(&self->lock);
    if (added)
        r->deliveries[r->count++] =
            (semel_delivery){.tag = d->node.tag, .message = &d->message, .position = -1};
    return added;
}

/* `entry` is its id and its fields, which the delivery takes over. 0: out of memory. */
static int deliver(receiving *r, redisReply *entry, uint64_t count)
{
    if (entry->type != REDIS_REPLY_ARRAY || entry->elements != 2 ||
        entry->element[0]->type != REDIS_REPLY_STRING || r->count == r->max)
        return 1; /* it was removed meanwhile */
    stream_delivery *d =
        stream_delivery_new(r->self, entry->element[0]->str, count, entry->element[1]);
    if (!d)
        return 0;
    entry->element[1] = NULL;
    d->held_until_ms = r->asked_ms + r->self->at.claim_ms;
    if (hand_out(r, d))
        return 1;
    stream_delivery_free(d);
    return 0;
}

/* What does not fit into memory stays pending, and comes again. */
static semel_status deliver_all(receiving *r, const redisReply *entries, const redisReply *counts,
                                semel_error *err)
{
    for (size_t i = 0; entries->type == REDIS_REPLY_ARRAY && i < entries->elements; i++) {
        uint64_t count = 1;
        if (counts && i < counts->elements && counts->element[i]->integer > 1)
            count = (uint64_t)counts->element[i]->integer;
        if (!deliver(r, entries->element[i], count))
            return r->count ? SEMEL_OK
                            : semel_fail(err, SEMEL_ENOMEM, "out of memory for a delivery");
    }
    return SEMEL_OK;
}

static semel_status odd_answer(semel_error *err)
{
    return semel_fail(err, SEMEL_ETRANSPORT,
                      "redis stream, receiving: an answer that does not fit the question");
}

/* What this process has: the server compares it with what is pending. */
static size_t held(streams *self)
{
    pthread_mutex_lock(&self->lock);
    size_t count = stream_deliveries_held(self);
    pthread_mutex_unlock(&self->lock);
    return count;
}

/* --- entries that are idle -------------------------------------------------------------------- */

static int takes_claim(streams *self, char cursor[STREAM_ENTRY_ROOM], int always)
{
    int64_t now_ms = wait_clock_ms();
    pthread_mutex_lock(&self->lock);
    int due = always || now_ms >= self->claim_due_ms;
    if (due) {
        self->claim_due_ms = now_ms + self->at.poll_ms;
        memcpy(cursor, self->cursor, STREAM_ENTRY_ROOM);
        (void)snprintf(self->cursor, sizeof self->cursor, "0-0");
    }
    pthread_mutex_unlock(&self->lock);
    return due;
}

/* There may be more: a call looks at some entries only. */
static void go_on_from(streams *self, const char *next)
{
    if (strcmp(next, "0-0") == 0)
        return;
    pthread_mutex_lock(&self->lock);
    (void)snprintf(self->cursor, sizeof self->cursor, "%s", next);
    self->claim_due_ms = 0;
    pthread_mutex_unlock(&self->lock);
}

static semel_status read_claimed(receiving *r, const redisReply *reply, semel_error *err)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[2]->type != REDIS_REPLY_ARRAY)
        return odd_answer(err);
    go_on_from(r->self, reply->element[0]->str);
    return deliver_all(r, reply->element[1], reply->element[2], err);
}

static semel_status claim(receiving *r, const char *cursor, semel_error *err)
{
    streams *self = r->self;
    redis_request request = stream_request(self, STREAM_CLAIM, "claiming");
    redis_answer answer;
    redis_word_z(&request, self->at.group);
    redis_word_z(&request, self->consumer);
    redis_word_number(&request, self->at.claim_ms);
    redis_word_z(&request, cursor);
    redis_word_number(&request, (int64_t)r->max);
    if (self->at.single_active)
        redis_word_number(&request, (int64_t)held(self));
    else
        redis_word_z(&request, "");
    r->asked_ms = seam_steady_ms(self->seam);
    semel_status status = redis_exchange(&self->client, &request, &answer, err);
    if (status)
        return status;
    status = read_claimed(r, answer.replies[0], err);
    redis_answer_free(&answer);
    return status;
}

/* --- new entries ------------------------------------------------------------------------------ */

/* Bounded, so that idle entries are looked for, and the time that a delivery is held is not used up
 * by waiting for it. */
static int64_t block_ms(streams *self, int64_t end_ms)
{
    int64_t now_ms = wait_clock_ms(), left = end_ms - now_ms, most = self->at.claim_ms / 4;
    pthread_mutex_lock(&self->lock);
    int64_t due = self->claim_due_ms - now_ms;
    pthread_mutex_unlock(&self->lock);
    left = left < due ? left : due;
    return left < most ? left : most;
}

static void write_read(redis_request *out, const receiving *r, int64_t wait_ms)
{
    const streams *self = r->self;
    redis_begin(out, wait_ms > 0 ? 11 : 9);
    redis_word_z(out, "XREADGROUP");
    redis_word_z(out, "GROUP");
    redis_word_z(out, self->at.group);
    redis_word_z(out, self->consumer);
    redis_word_z(out, "COUNT");
    redis_word_number(out, (int64_t)r->max);
    if (wait_ms > 0) {
        redis_word_z(out, "BLOCK");
        redis_word_number(out, wait_ms);
        out->answer_ms = self->client.answer_ms + (uint32_t)wait_ms;
    }
    redis_word_z(out, "STREAMS");
    redis_word_z(out, self->at.stream);
    redis_word_z(out, ">");
}

/* The one stream, with its name and its entries; nil if there are none. */
static semel_status read_new(receiving *r, const redisReply *reply, semel_error *err)
{
    if (reply->type == REDIS_REPLY_NIL)
        return SEMEL_OK;
    if (reply->type == REDIS_REPLY_ERROR)
        return redis_fail(&r->self->client, reply, "receiving", err);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1 ||
        reply->element[0]->type != REDIS_REPLY_ARRAY || reply->element[0]->elements != 2)
        return odd_answer(err);
    return deliver_all(r, reply->element[0]->element[1], NULL, err);
}

static semel_status receive_new(receiving *r, int64_t wait_ms, semel_error *err)
{
    redis_request request = {.doing = "receiving"};
    redis_answer answer;
    write_read(&request, r, wait_ms);
    r->asked_ms = seam_steady_ms(r->self->seam);
    semel_status status = redis_exchange(&r->self->client, &request, &answer, err);
    if (status)
        return status;
    status = read_new(r, answer.replies[0], err);
    redis_answer_free(&answer);
    return status;
}

/* --- new entries, for one consumer at a time -------------------------------------------------- */

/* It takes no entry: which consumer gets one is decided by the script. */
static semel_status wait_behind(streams *self, const char *entry, int64_t wait_ms, semel_error *err)
{
    redis_request request = {.doing = "waiting",
                             .answer_ms = self->client.answer_ms + (uint32_t)wait_ms};
    redis_answer answer;
    redis_begin(&request, 8);
    redis_word_z(&request, "XREAD");
    redis_word_z(&request, "COUNT");
    redis_word_z(&request, "1");
    redis_word_z(&request, "BLOCK");
    redis_word_number(&request, wait_ms);
    redis_word_z(&request, "STREAMS");
    redis_word_z(&request, self->at.stream);
    redis_word_z(&request, entry);
    semel_status status = redis_exchange(&self->client, &request, &answer, err);
    if (!status)
        redis_answer_free(&answer);
    return status;
}

static semel_status read_next(receiving *r, const redisReply *reply, int64_t wait_ms,
                              semel_error *err)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements > 1)
        return odd_answer(err);
    if (reply->elements && reply->element[0]->type == REDIS_REPLY_ARRAY)
        return deliver_all(r, reply->element[0], NULL, err);
    if (wait_ms <= 0)
        return SEMEL_OK;
    if (reply->elements && reply->element[0]->type == REDIS_REPLY_STRING)
        return wait_behind(r->self, reply->element[0]->str, wait_ms, err);
    wait_nap_us((uint32_t)(wait_ms < TURN_MS ? wait_ms : TURN_MS) * 1000);
    return SEMEL_OK;
}

static semel_status receive_next(receiving *r, int64_t wait_ms, semel_error *err)
{
    streams *self = r->self;
    redis_request request = stream_request(self, STREAM_NEXT, "receiving");
    redis_answer answer;
    redis_word_z(&request, self->at.group);
    redis_word_z(&request, self->consumer);
    redis_word_number(&request, (int64_t)held(self));
    redis_word_number(&request, (int64_t)r->max);
    r->asked_ms = seam_steady_ms(self->seam);
    semel_status status = redis_exchange(&self->client, &request, &answer, err);
    if (status)
        return status;
    status = read_next(r, answer.replies[0], wait_ms, err);
    redis_answer_free(&answer);
    return status;
}

/* --- both ------------------------------------------------------------------------------------- */

static semel_status look_once(receiving *r, int64_t end_ms, int without_wait, semel_error *err)
{
    char cursor[STREAM_ENTRY_ROOM];
    semel_status status = SEMEL_OK;
    if (takes_claim(r->self, cursor, without_wait))
        status = claim(r, cursor, err);
    if (status || r->count)
        return status;
    int64_t wait_ms = block_ms(r->self, end_ms);
    if (r->self->at.single_active)
        return receive_next(r, wait_ms, err);
    return receive_new(r, wait_ms, err);
    return status;
}

/* The server has lost the group: it crashed before that was on its disk, or somebody removed it.
 * What was delivered by it is no longer pending. */
static semel_status restore_group(streams *self, semel_error *err)
{
    if (!self->at.declare)
        return semel_fail(err, SEMEL_ETRANSPORT,
                          "redis stream: the group, or the stream, is no longer there; with "
                          "declare=yes it would be made again");
    semel_status status = stream_group_declare(self, err);
    pthread_mutex_lock(&self->lock);
    for (delivery_node *one = self->out.first; !status && one; one = one->behind)
        ((stream_delivery *)one)->gone = 1;
    pthread_mutex_unlock(&self->lock);
    return status;
}

semel_status stream_receive(void *transport, semel_delivery deliveries[], size_t max, size_t *count,
                            uint32_t wait_ms, semel_error *err)
{
    receiving r = {
        .self = transport, .deliveries = deliveries, .max = max < COUNT_MAX ? max : COUNT_MAX};
    int64_t end_ms = wait_clock_ms() + wait_ms;
    int restored = 0;
    semel_status status = stream_need_group(&r.self->at, err);
    if (status)
        return status;
    do {
        status = look_once(&r, end_ms, !wait_ms, err);
        if (status == SEMEL_ENOTFOUND && restored++)
            status = semel_fail(err, SEMEL_ETRANSPORT, "redis stream: the group vanishes again");
        else if (status == SEMEL_ENOTFOUND)
            status = restore_group(r.self, err);
    } while (!status && !r.count && wait_clock_ms() < end_ms);
    *count = status ? 0 : r.count;
    return stream_outage(status, err);
}
