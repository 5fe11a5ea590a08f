/* Settling, extending, giving back: one script for all. It looks whether the entry is still pending
 * for this consumer, with the number of deliveries that it had, and then acknowledges it, copies it
 * to the dead stream and acknowledges it, or sets how long it has been idle: 0 to keep it for
 * another claim_ms, claim_ms to let anybody have it now, and less for a delay.
 *
 * A delivery that is no longer this consumer's changes nothing. Giving it back is then no error;
 * acknowledging or rejecting it is refused as that of an unknown tag, because another consumer has
 * the message.
 *
 * If the process dies before the script, the entry is claimed by another consumer later; after it,
 * the verdict holds. If the answer is lost, the deliveries are forgotten here: those that were not
 * settled come again when they have been idle for claim_ms. */
#include "base/seam.h"
#include "base/wait.h"
#include "transport/redis/streams.h"

#include <stdio.h>

/* One call of the script. */
typedef struct settling {
    streams *self;
    redis_request request;
    size_t *index; /* for each delivery in it, its place in the caller's list */
    size_t count;
} settling;

static semel_status settling_init(settling *s, streams *self, size_t most, const char *doing,
                                  semel_error *err)
{
    static const char *const keeps[] = {"a", "y", "n"};
    *s = (settling){.self = self};
    semel_status status = stream_need_group(&self->at, err);
    if (status)
        return status;
    s->index = mem_alloc((most + 1) * sizeof *s->index);
    if (!s->index)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory settling %zu deliveries", most);
    s->request = stream_request(self, STREAM_SETTLE, doing);
    s->request.writes = 1;
    redis_word_z(&s->request, self->at.group);
    redis_word_z(&s->request, self->consumer);
    redis_word_z(&s->request, keeps[self->at.keep]);
    return SEMEL_OK;
}

static void settling_free(settling *s)
{
    mem_free(s->request.bytes.bytes);
    mem_free(s->index);
}

static void settling_add(settling *s, const stream_delivery *d, size_t index, const char *verdict,
                         int64_t idle_ms)
{
    redis_word_z(&s->request, verdict);
    redis_word_z(&s->request, d->entry);
    redis_word_number(&s->request, (int64_t)d->count);
    redis_word_number(&s->request, idle_ms);
    s->index[s->count++] = index;
}

/* Called for each delivery that is no longer this consumer's. */
typedef void lost_one(void *context, size_t index);

static semel_status settling_run(settling *s, lost_one *lost, void *context, semel_error *err)
{
    redis_answer answer;
    if (!s->count)
        return SEMEL_OK;
    semel_status status = redis_exchange(&s->self->client, &s->request, &answer, err);
    if (status)
        return status;
    const redisReply *reply = answer.replies[0];
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        long long at = reply->element[i]->integer;
        if (at >= 0 && (size_t)at < s->count)
            lost(context, s->index[at]);
    }
    redis_answer_free(&answer);
    return SEMEL_OK;
}

/* An entry that was given back is due after so long: it is looked for then. */
static void expect_claim(streams *self, uint32_t delay_ms)
{
    int64_t due_ms = wait_clock_ms() + delay_ms;
    if (due_ms < self->claim_due_ms)
        self->claim_due_ms = due_ms;
    (void)snprintf(self->cursor, sizeof self->cursor, "0-0");
}

/* --- verdicts --------------------------------------------------------------------------------- */

typedef struct verdicts {
    settling s;
    const semel_delivery_settlement *settles;
    stream_delivery *taken; /* from the table, linked by same_bucket */
    size_t refused;
} verdicts;

/* A delay beyond claim_ms is not possible: the entry is due then. */
static int64_t idle_for(const streams *self, uint32_t delay_ms)
{
    return delay_ms < self->at.claim_ms ? (int64_t)(self->at.claim_ms - delay_ms) : 0;
}

static void ask_for(verdicts *v, const stream_delivery *d, size_t index)
{
    const semel_delivery_settlement *one = &v->settles[index];
    if (one->verdict == SEMEL_VERDICT_RETRY)
        settling_add(&v->s, d, index, "C", idle_for(v->s.self, one->delay_ms));
    else
        settling_add(&v->s, d, index, one->verdict == SEMEL_VERDICT_REJECT ? "D" : "A", 0);
}

/* Under the lock: takes it from the table. One that is gone needs no request. */
static void add_verdict(verdicts *v, size_t index)
{
    streams *self = v->s.self;
    const semel_delivery_settlement *one = &v->settles[index];
    stream_delivery *d = stream_delivery_find(self, one->tag);
    if (!d) {
        v->refused++;
        return;
    }
    stream_delivery_remove(self, d);
    d->node.same_bucket = (delivery_node *)v->taken;
    v->taken = d;
    if (!d->gone)
        ask_for(v, d, index);
    else if (one->verdict != SEMEL_VERDICT_RETRY)
        v->refused++;
}

static void add_verdicts(verdicts *v, size_t count)
{
    streams *self = v->s.self;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < count; i++)
        add_verdict(v, i);
    pthread_mutex_unlock(&self->lock);
}

static void refuse_lost(void *context, size_t index)
{
    verdicts *v = context;
    v->refused += v->settles[index].verdict != SEMEL_VERDICT_RETRY;
}

static void expect_retries(verdicts *v)
{
    streams *self = v->s.self;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < v->s.count; i++)
        if (v->settles[v->s.index[i]].verdict == SEMEL_VERDICT_RETRY)
            expect_claim(self, v->settles[v->s.index[i]].delay_ms);
    pthread_mutex_unlock(&self->lock);
}

static void free_taken(verdicts *v)
{
    for (stream_delivery *one = v->taken, *next; one; one = next) {
        next = (stream_delivery *)one->node.same_bucket;
        stream_delivery_free(one);
    }
}

/* If the group itself is gone, nothing is pending any more. */
static semel_status end_of(const verdicts *v, semel_status status, semel_error *err)
{
    if (status && status != SEMEL_ENOTFOUND)
        return stream_outage(status, err);
    size_t refused = v->refused + (status ? v->s.count : 0);
    return refused ? semel_fail(err, SEMEL_EINVAL,
                                "redis stream: %zu of the deliveries are unknown, or took longer "
                                "than claim_ms, and others have them",
                                refused)
                   : SEMEL_OK;
}

semel_status stream_settle(void *transport, const semel_delivery_settlement settles[], size_t count,
                           semel_error *err)
{
    verdicts v = {.settles = settles};
    semel_status status = settling_init(&v.s, transport, count, "settling", err);
    if (!status) {
        add_verdicts(&v, count);
        status = settling_run(&v.s, refuse_lost, &v, err);
        expect_retries(&v);
        free_taken(&v);
        status = end_of(&v, status, err);
    }
    settling_free(&v.s);
    return status;
}

/* --- keeping ---------------------------------------------------------------------------------- */

/* Another thread may settle a delivery meanwhile: so they are known by their tags here. */
typedef struct keeping {
    settling s;
    const uint64_t *tags;
} keeping;

static void add_kept(keeping *k, size_t count)
{
    streams *self = k->s.self;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < count; i++) {
        const stream_delivery *d = stream_delivery_find(self, k->tags[i]);
        if (d && !d->gone)
            settling_add(&k->s, d, i, "C", 0);
    }
    pthread_mutex_unlock(&self->lock);
}

static void note_lost(void *context, size_t index)
{
    keeping *k = context;
    streams *self = k->s.self;
    pthread_mutex_lock(&self->lock);
    stream_delivery *d = stream_delivery_find(self, k->tags[index]);
    if (d)
        d->gone = 1;
    pthread_mutex_unlock(&self->lock);
}

static void note_kept(keeping *k, int64_t until_ms)
{
    streams *self = k->s.self;
    pthread_mutex_lock(&self->lock);
    for (size_t i = 0; i < k->s.count; i++) {
        stream_delivery *d = stream_delivery_find(self, k->tags[k->s.index[i]]);
        if (d)
            d->held_until_ms = until_ms;
    }
    pthread_mutex_unlock(&self->lock);
}

semel_status stream_extend(void *transport, const uint64_t tags[], size_t count, uint32_t *hold_ms,
                           semel_error *err)
{
    streams *self = transport;
    keeping k = {.tags = tags};
    *hold_ms = self->at.claim_ms;
    if (!count)
        return SEMEL_OK;
    semel_status status = settling_init(&k.s, self, count, "extending", err);
    if (!status) {
        int64_t until_ms = seam_steady_ms(self->seam) + self->at.claim_ms;
        add_kept(&k, count);
        status = settling_run(&k.s, note_lost, &k, err);
        if (!status)
            note_kept(&k, until_ms);
    }
    settling_free(&k.s);
    return status == SEMEL_ENOTFOUND ? SEMEL_OK : stream_outage(status, err);
}

int stream_revoked(void *transport, uint64_t tag)
{
    streams *self = transport;
    int64_t now_ms = seam_steady_ms(self->seam);
    pthread_mutex_lock(&self->lock);
    const stream_delivery *d = stream_delivery_find(self, tag);
    int revoked = !d || d->gone || now_ms >= d->held_until_ms;
    pthread_mutex_unlock(&self->lock);
    return revoked;
}

/* --- giving back ------------------------------------------------------------------------------ */

static void ignore_lost(void *context, size_t index)
{
    (void)context, (void)index;
}

static void add_all(settling *s)
{
    streams *self = s->self;
    for (delivery_node *one = self->out.first; one; one = one->behind) {
        stream_delivery *d = (stream_delivery *)one;
        if (!d->gone)
            settling_add(s, d, s->count, "C", self->at.claim_ms);
        d->gone = 1;
    }
    expect_claim(self, 0);
}

/* Should it fail, they come again when they have been idle for claim_ms. */
void stream_give_back(void *transport)
{
    streams *self = transport;
    settling s = {.self = self};
    pthread_mutex_lock(&self->lock);
    semel_status status = self->table.count
                              ? settling_init(&s, self, self->table.count, "giving back", NULL)
                              : SEMEL_ENOTFOUND;
    if (!status)
        add_all(&s);
    pthread_mutex_unlock(&self->lock);
    if (!status)
        (void)settling_run(&s, ignore_lost, NULL, NULL);
    settling_free(&s);
}
