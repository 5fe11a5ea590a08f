/* See consumer_inflight.h. Of a group only a hash is kept: two groups that share one are handled as if
 * they were one, which is slower and not wrong, and nothing has to be compared with messages that may
 * be settled by now. */
#include "core/consumer_inflight.h"

#include "base/mem.h"
#include "base/message.h"

#include <string.h>

semel_status hand_open(hand *h, uint32_t max, semel_order order, hash_key key, semel_error *err)
{
    *h = (hand){.max = max, .bucket_count = 1, .key = key};
    while (h->bucket_count < max)
        h->bucket_count *= 2;
    h->jobs = mem_alloc(max * sizeof *h->jobs);
    if (order == SEMEL_ORDER_GROUP)
        h->tails = mem_alloc(h->bucket_count * sizeof(job *));
    if (!h->jobs || (order == SEMEL_ORDER_GROUP && !h->tails)) {
        hand_close(h);
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %u deliveries in hand", max);
    }
    for (uint32_t i = max; i > 0; i--) {
        h->jobs[i - 1].behind = h->unused;
        h->unused = &h->jobs[i - 1];
    }
    return SEMEL_OK;
}

void hand_close(hand *h)
{
    mem_free(h->jobs);
    mem_free(h->tails);
    *h = (hand){0};
}

/* --- lines ------------------------------------------------------------------------------------------------ */

/* Behind `place`; NULL: at the head. */
static void line_insert(job_line *line, job *place, job *j)
{
    j->before = place;
    j->behind = place ? place->behind : line->first;
    *(j->before ? &j->before->behind : &line->first) = j;
    *(j->behind ? &j->behind->before : &line->last) = j;
}

static void line_remove(job_line *line, job *j)
{
    *(j->before ? &j->before->behind : &line->first) = j->behind;
    *(j->behind ? &j->behind->before : &line->last) = j->before;
    j->before = j->behind = NULL;
}

static void become_ready(hand *h, job *j)
{
    j->state = JOB_READY;
    line_insert(&h->ready, h->ready.last, j);
}

static void join_all(hand *h, job *j)
{
    j->older = h->all.last;
    j->newer = NULL;
    *(j->older ? &j->older->newer : &h->all.first) = j;
    h->all.last = j;
    h->count++;
}

static void leave_all(hand *h, job *j)
{
    *(j->older ? &j->older->newer : &h->all.first) = j->newer;
    *(j->newer ? &j->newer->older : &h->all.last) = j->older;
    h->count--;
}

/* --- groups ----------------------------------------------------------------------------------------------- */

static uint64_t group_of(const hand *h, const semel_message *message, int unusable)
{
    if (!h->tails || unusable || !message->group || !*message->group)
        return 0;
    uint64_t hash = hash_bytes(h->key, message->group, strlen(message->group));
    return hash ? hash : 1;
}

static job **find_tail(const hand *h, uint64_t group)
{
    job **at = &h->tails[group & (h->bucket_count - 1)];
    while (*at && (*at)->group != group)
        at = &(*at)->same_bucket;
    return at;
}

/* As the last one of its group. 1 if it is the first one, too. */
static int join_group(const hand *h, job *j)
{
    job **at = find_tail(h, j->group);
    job *tail = *at;
    if (tail) {
        tail->follower = j;
        j->same_bucket = tail->same_bucket;
    }
    *at = j;
    return !tail;
}

/* Its group goes on without it. Only the first one of a group leaves, or the others have been taken, too. */
static void leave_group(hand *h, job *j)
{
    job *next = j->follower;
    if (next && next->state == JOB_BEHIND) {
        become_ready(h, next);
    } else if (!next) {
        job **at = find_tail(h, j->group);
        if (*at == j)
            *at = j->same_bucket;
    }
    j->follower = NULL;
}

/* --- a delivery comes and goes --------------------------------------------------------------------------- */

void hand_add(hand *h, const semel_delivery *delivery, uint32_t era)
{
    job *j = h->unused;
    h->unused = j->behind;
    *j = (job){.tag = delivery->tag,
               .message = delivery->message,
               .era = era,
               .suspect = delivery->message->delivery >= 2,
               .unusable = message_check(delivery->message, NULL) != SEMEL_OK};
    j->group = group_of(h, j->message, j->unusable);
    join_all(h, j);
    if (!j->group || join_group(h, j))
        become_ready(h, j);
    else
        j->state = JOB_BEHIND;
}

static int is_retry(const job *j)
{
    return !j->suspect && j->failures > 0; /* not by its message: that may be settled by now */
}

static void end_work(hand *h, const job *j)
{
    h->suspects -= j->suspect != 0;
    h->retries -= is_retry(j) != 0;
}

void hand_remove(hand *h, job *j)
{
    if (j->state == JOB_WORKING)
        end_work(h, j);
    leave_all(h, j);
    if (j->group)
        leave_group(h, j);
    j->state = JOB_FREE;
    j->behind = h->unused;
    h->unused = j;
}

/* --- taking ------------------------------------------------------------------------------------------------ */

static void start_work(hand *h, job *j)
{
    j->state = JOB_WORKING;
    h->suspects += j->suspect != 0;
    h->retries += is_retry(j) != 0;
    j->routed = j->unsettled = j->failed = 0;
}

size_t hand_take(hand *h, job *out[], size_t max, int64_t now_ms)
{
    size_t count = 0;
    for (job *due; (due = h->waiting.first) && due->due_ms <= now_ms;) {
        line_remove(&h->waiting, due);
        become_ready(h, due);
    }
    int others_have_suspects = h->suspects > 0, others_have_retries = h->retries > 0;
    int suspect_waits = 0;
    for (job *j = h->ready.first, *next; j && count < max; j = next) {
        next = j->behind;
        if (j->suspect && (others_have_suspects || others_have_retries)) {
            suspect_waits = 1;
            continue;
        }
        if (is_retry(j) && (others_have_suspects || suspect_waits))
            continue;
        line_remove(&h->ready, j);
        start_work(h, j);
        out[count++] = j;
    }
    return count;
}

job *hand_take_oldest(hand *h)
{
    job *j = h->all.first;
    while (j && j->state == JOB_WORKING)
        j = j->newer;
    if (!j)
        return NULL;
    if (j->state == JOB_READY)
        line_remove(&h->ready, j);
    else if (j->state == JOB_WAITING)
        line_remove(&h->waiting, j);
    start_work(h, j);
    return j;
}

void hand_put_back(hand *h, job *j)
{
    end_work(h, j);
    become_ready(h, j);
}

static void count_delivery(job *j)
{
    semel_message copy = {.size = sizeof copy};
    memcpy(&copy, j->message, j->message->size < sizeof copy ? j->message->size : sizeof copy);
    copy.size = sizeof copy;
    copy.delivery = copy.delivery > 1 ? copy.delivery : 1;
    copy.delivery += copy.delivery < UINT32_MAX;
    j->failures++;
    j->copy = copy;
    j->message = &j->copy;
}

void hand_postpone(hand *h, job *j, int64_t due_ms)
{
    end_work(h, j);
    if (j->failed) {
        count_delivery(j);
        j->suspect = 0; /* nobody died of it */
    } else {
        j->setbacks++;
    }
    j->state = JOB_WAITING;
    j->due_ms = due_ms;
    job *place = h->waiting.last;
    while (place && place->due_ms > due_ms)
        place = place->before;
    line_insert(&h->waiting, place, j);
}

int64_t hand_due_ms(const hand *h)
{
    return h->waiting.first ? h->waiting.first->due_ms : INT64_MAX;
}
