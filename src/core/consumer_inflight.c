/* See consumer_inflight.h. Of a group or partition only a hash is kept: two that share one are
 * handled as if they were one, which is slower and not wrong, and nothing has to be compared with
 * messages that may be settled by now. */
#include "core/consumer_inflight.h"

#include "base/mem.h"
#include "base/message.h"

#include <string.h>

semel_status inflight_open(inflight *in, uint32_t max, semel_order order, hash_key key,
                           semel_error *err)
{
    *in = (inflight){.max = max, .bucket_count = 1, .order = order, .key = key};
    while (in->bucket_count < max)
        in->bucket_count *= 2;
    in->jobs = mem_alloc(max * sizeof *in->jobs);
    if (order != SEMEL_ORDER_NONE)
        in->tails = mem_alloc(in->bucket_count * sizeof(job *));
    if (!in->jobs || (order != SEMEL_ORDER_NONE && !in->tails)) {
        inflight_close(in);
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %u deliveries in flight", max);
    }
    for (uint32_t i = max; i > 0; i--) {
        in->jobs[i - 1].behind = in->unused;
        in->unused = &in->jobs[i - 1];
    }
    return SEMEL_OK;
}

void inflight_close(inflight *in)
{
    mem_free(in->jobs);
    mem_free(in->tails);
    *in = (inflight){0};
}

/* --- lines ------------------------------------------------------------------------------------ */

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

/* Behind `place`; NULL: as the next one. */
static void become_ready_behind(inflight *in, job *place, job *j)
{
    j->state = JOB_READY;
    in->ready_count++;
    line_insert(&in->ready, place, j);
}

static void become_ready(inflight *in, job *j)
{
    become_ready_behind(in, in->ready.last, j);
}

static void leave_ready(inflight *in, job *j)
{
    in->ready_count--;
    line_remove(&in->ready, j);
}

static void join_all(inflight *in, job *j)
{
    j->older = in->all.last;
    j->newer = NULL;
    *(j->older ? &j->older->newer : &in->all.first) = j;
    in->all.last = j;
    in->count++;
}

static void leave_all(inflight *in, job *j)
{
    *(j->older ? &j->older->newer : &in->all.first) = j->newer;
    *(j->newer ? &j->newer->older : &in->all.last) = j->older;
    in->count--;
}

/* --- chains ----------------------------------------------------------------------------------- */

static const char *chain_name(const inflight *in, const job *j)
{
    if (in->order == SEMEL_ORDER_PARTITION)
        return j->partition;
    return j->unusable ? NULL : j->message->group;
}

static uint64_t chain_of(const inflight *in, const job *j)
{
    const char *name = in->tails ? chain_name(in, j) : NULL;
    if (!name || !*name)
        return 0;
    uint64_t hash = hash_bytes(in->key, name, strlen(name));
    return hash ? hash : 1;
}

static job **find_tail(const inflight *in, uint64_t chain)
{
    job **at = &in->tails[chain & (in->bucket_count - 1)];
    while (*at && (*at)->chain != chain)
        at = &(*at)->same_bucket;
    return at;
}

/* As the last one of its chain. */
static void join_chain(const inflight *in, job *j)
{
    job **at = find_tail(in, j->chain);
    j->leader = *at;
    if (j->leader) {
        j->leader->follower = j;
        j->same_bucket = j->leader->same_bucket;
    }
    *at = j;
}

static void replace_tail(const inflight *in, const job *j)
{
    job **at = find_tail(in, j->chain);
    if (j->leader)
        j->leader->same_bucket = j->same_bucket;
    *at = j->leader ? j->leader : j->same_bucket;
}

/* Its chain goes on without it. */
static void leave_chain(inflight *in, job *j)
{
    job *next = j->follower;
    if (!next)
        replace_tail(in, j);
    if (j->leader)
        j->leader->follower = next;
    if (next)
        next->leader = j->leader;
    if (next && !next->leader && next->state == JOB_BEHIND)
        become_ready(in, next);
    j->leader = j->follower = NULL;
}

/* --- a delivery comes and goes ---------------------------------------------------------------- */

void inflight_add(inflight *in, const semel_delivery *delivery, uint32_t losses)
{
    job *j = in->unused;
    in->unused = j->behind;
    *j = (job){.tag = delivery->tag,
               .message = delivery->message,
               .partition = delivery->partition,
               .origin = delivery->origin,
               .position = delivery->position,
               .losses = losses,
               .suspect = delivery->message->delivery >= 2,
               .redelivered = delivery->message->delivery >= 2,
               .unusable = message_check(delivery->message, NULL) != SEMEL_OK};
    j->chain = chain_of(in, j);
    join_all(in, j);
    if (j->chain)
        join_chain(in, j);
    if (j->leader)
        j->state = JOB_BEHIND;
    else
        become_ready(in, j);
}

static int is_retry(const job *j)
{
    return !j->suspect && j->failures > 0; /* not by its message: that may be settled by now */
}

static void end_work(inflight *in, const job *j)
{
    in->suspects -= j->suspect != 0;
    in->retries -= is_retry(j) != 0;
}

void inflight_remove(inflight *in, job *j)
{
    if (j->state == JOB_WORKING)
        end_work(in, j);
    leave_all(in, j);
    if (j->chain)
        leave_chain(in, j);
    j->state = JOB_FREE;
    j->behind = in->unused;
    in->unused = j;
}

/* --- into work and out of it ------------------------------------------------------------------ */

static void start_work(inflight *in, job *j)
{
    j->state = JOB_WORKING;
    in->suspects += j->suspect != 0;
    in->retries += is_retry(j) != 0;
    j->unsettled = j->failed = j->stopped = j->left = 0;
}

void inflight_refresh(inflight *in, int64_t now_ms)
{
    for (job *due; (due = in->waiting.first) && due->due_ms <= now_ms;) {
        line_remove(&in->waiting, due);
        become_ready(in, due);
    }
}

size_t inflight_next(inflight *in, job *out[], size_t max, int64_t now_ms)
{
    size_t count = 0;
    inflight_refresh(in, now_ms);
    int others_have_suspects = in->suspects > 0, others_have_retries = in->retries > 0;
    int suspect_waits = 0;
    for (job *j = in->ready.first, *next; j && count < max; j = next) {
        next = j->behind;
        if (j->suspect && (others_have_suspects || others_have_retries)) {
            suspect_waits = 1;
            continue;
        }
        if (is_retry(j) && (others_have_suspects || suspect_waits))
            continue;
        leave_ready(in, j);
        start_work(in, j);
        out[count++] = j;
    }
    return count;
}

/* A chain may be named by two partitions that share a hash: then their positions are not of one
 * run. The consumer divides what it gets by partitions, so a mixture is only a shorter run. */
static size_t take_run(inflight *in, job *j, job *out[], size_t max)
{
    size_t count = 0;
    leave_ready(in, j);
    do {
        int64_t position = j->position;
        start_work(in, j);
        out[count++] = j;
        j = j->follower;
        if (j && j->position <= position)
            break; /* the broker has begun again */
    } while (j && count < max && j->state == JOB_BEHIND);
    return count;
}

size_t inflight_next_runs(inflight *in, job *out[], size_t max, size_t chains, int64_t now_ms)
{
    size_t count = 0;
    inflight_refresh(in, now_ms);
    for (size_t i = 0; i < chains && count < max && in->ready.first; i++)
        count += take_run(in, in->ready.first, out + count, max - count);
    return count;
}

job *inflight_next_oldest(inflight *in)
{
    job *j = in->all.first;
    while (j && j->state == JOB_WORKING)
        j = j->newer;
    if (!j)
        return NULL;
    if (j->state == JOB_READY)
        leave_ready(in, j);
    else if (j->state == JOB_WAITING)
        line_remove(&in->waiting, j);
    start_work(in, j);
    return j;
}

/* 1 if another one of its chain comes first. */
static int falls_behind(job *j)
{
    if (j->leader)
        j->state = JOB_BEHIND;
    return j->leader != NULL;
}

void inflight_put_back(inflight *in, job *j)
{
    end_work(in, j);
    if (!falls_behind(j))
        become_ready(in, j);
}

void inflight_put_first(inflight *in, job *j)
{
    end_work(in, j);
    if (!falls_behind(j))
        become_ready_behind(in, NULL, j);
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

void inflight_postpone(inflight *in, job *j, int64_t due_ms)
{
    end_work(in, j);
    if (j->failed) {
        count_delivery(j);
        j->suspect = 0; /* no process died of it */
    } else {
        j->setbacks++;
    }
    if (falls_behind(j))
        return;
    j->state = JOB_WAITING;
    j->due_ms = due_ms;
    job *place = in->waiting.last;
    while (place && place->due_ms > due_ms)
        place = place->before;
    line_insert(&in->waiting, place, j);
}

int64_t inflight_due_ms(const inflight *in)
{
    return in->waiting.first ? in->waiting.first->due_ms : INT64_MAX;
}

int inflight_busy(const inflight *in)
{
    for (const job *j = in->all.first; j; j = j->newer)
        if (j->state == JOB_READY || j->state == JOB_WORKING)
            return 1;
    return 0;
}
