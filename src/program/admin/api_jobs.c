/* Jobs: a change at work, in a thread of its own, which can be watched and stopped. One of a
 * kind at a time. A job that is stopped keeps what it has done; the rest is done by a new one.
 * The entry in the audit is that of the command, written before the first change and kept
 * current. */
#include "program/admin/api_internal.h"
#include "program/cli.h"
#include "program/run/live_internal.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <stdlib.h>
#include <string.h>

static const char *const states[] = {"", "running", "done", "stopped", "failed"};

/* What a job is told while it works. */
typedef struct at_work {
    job *job;
    buffer refusal; /* since the last entry of the audit */
} at_work;

/* --- what the commands say -------------------------------------------------------------------- */

static void hear(void *context, int is_refusal, const char *text)
{
    at_work *w = context;
    job *j = w->job;
    if (is_refusal) {
        w->refusal.len = 0;
        buffer_text(&w->refusal, text);
    }
    pthread_mutex_lock(&j->api->job_lock);
    if (j->note_count < API_NOTES_MAX)
        j->notes[j->note_count++] = must_copy(text);
    pthread_mutex_unlock(&j->api->job_lock);
}

static int is_stopped(void *context)
{
    return atomic_load(&((at_work *)context)->job->stops);
}

static void count(void *context, const char *word, uint64_t number)
{
    job *j = ((at_work *)context)->job;
    size_t i = 0;
    if (strcmp(word, "gone") == 0) /* and those that were gone before it began */
        number += j->gone;
    pthread_mutex_lock(&j->api->job_lock);
    while (i < j->outcome_count && strcmp(j->outcomes[i].word, word) != 0)
        i++;
    if (i == j->outcome_count && number && i < API_OUTCOMES_MAX) {
        j->outcomes[i].word = region_copy(&j->memory, word, strlen(word));
        j->outcome_count++;
    }
    if (i < j->outcome_count)
        j->outcomes[i].count = number;
    pthread_mutex_unlock(&j->api->job_lock);
}

/* What was refused before, a letter that was gone, is no reason to fail. */
static void audited(void *context, int64_t id)
{
    at_work *w = context;
    pthread_mutex_lock(&w->job->api->job_lock);
    if (!w->job->audit_id)
        w->refusal.len = 0;
    w->job->audit_id = id;
    pthread_mutex_unlock(&w->job->api->job_lock);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* A change that found nothing to change has an entry, too. */
static void audit_nothing(job *j, const api_place *at, const char *why)
{
    semel_audit entry = {.size = sizeof entry,
                         .who = j->who,
                         .what = region_printf(&j->memory, "%s%s", j->what, j->note),
                         .result = region_printf(&j->memory, "nothing: %s", why)};
    if (!semel_audit_write(&entry, at->store, NULL))
        j->audit_id = entry.id;
}

static void end_job(job *j, const at_work *w, int status)
{
    int failed = status && w->refusal.len;
    pthread_mutex_lock(&j->api->job_lock);
    j->ended_ms = wall_clock_ms();
    j->state = failed ? JOB_FAILED : atomic_load(&j->stops) ? JOB_STOPPED : JOB_DONE;
    if (failed)
        j->error = must_copy(w->refusal.data);
    pthread_mutex_unlock(&j->api->job_lock);
}

static void *run(void *context)
{
    job *j = context;
    at_work w = {.job = j};
    api_place at;
    const tool_host host = {.context = &w,
                            .who = j->who,
                            .note = j->note,
                            .say = hear,
                            .is_stopped = is_stopped,
                            .count = count,
                            .audited = audited};
    int status = CLI_TEMPORARY;
    count(&w, "gone", 0);
    if (api_begin_use(j->api, &at)) {
        status = work_do(&at, j->action, &host);
        if (!j->audit_id)
            audit_nothing(j, &at, w.refusal.len ? w.refusal.data : "all were gone before");
        api_end_use(j->api);
    } else {
        hear(&w, 1, "the configuration is being read again; nothing was changed");
    }
    end_job(j, &w, status);
    buffer_free(&w.refusal);
    return NULL;
}

/* --- the table -------------------------------------------------------------------------------- */

static void job_free(job *j)
{
    if (!j)
        return;
    if (j->has_thread)
        (void)pthread_join(j->thread, NULL);
    for (size_t i = 0; i < j->note_count; i++)
        free(j->notes[i]);
    free(j->error);
    region_free(&j->memory);
    free(j);
}

job *job_find(api *a, int64_t id)
{
    for (size_t i = 0; i < API_JOBS_KEPT; i++)
        if (a->jobs[i] && a->jobs[i]->id == id)
            return a->jobs[i];
    return NULL;
}

static const job *find_running(const api *a, api_verb verb)
{
    for (size_t i = 0; i < API_JOBS_KEPT; i++)
        if (a->jobs[i] && a->jobs[i]->state == JOB_RUNNING && a->jobs[i]->verb == verb)
            return a->jobs[i];
    return NULL;
}

/* An empty place, or that of the oldest one that has ended: there are fewer kinds than places. */
static job **find_place(api *a)
{
    job **oldest = NULL;
    for (size_t i = 0; i < API_JOBS_KEPT; i++) {
        if (!a->jobs[i])
            return &a->jobs[i];
        if (a->jobs[i]->state != JOB_RUNNING && (!oldest || a->jobs[i]->id < (*oldest)->id))
            oldest = &a->jobs[i];
    }
    return oldest;
}

/* The texts of the action belong to a request, which may be gone before the job is. */
static const char *copy(region *memory, const char *text)
{
    return text ? region_copy(memory, text, strlen(text)) : NULL;
}

static const api_action *copy_action(region *memory, const api_action *from)
{
    api_action *to = region_alloc(memory, sizeof *to);
    *to = *from;
    const char **texts[] = {&to->inbox, &to->outbox, &to->queue, &to->type, &to->error,
                            &to->cause, &to->since,  &to->until, &to->key,  &to->id};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = copy(memory, *texts[i]);
    for (size_t i = 0; i < from->id_count; i++)
        to->ids[i] = copy(memory, from->ids[i]);
    to->reason = to->who = NULL;
    return to;
}

/* " # page: because", in one line. */
static const char *note_of(region *memory, const char *reason)
{
    buffer shown = {0};
    if (!reason)
        return " # page";
    show_text(&shown, reason, strlen(reason), 0);
    const char *note = region_printf(memory, " # page: %s", shown.data);
    buffer_free(&shown);
    return note;
}

static job *make_job(api *a, const api_action *action, const char *who)
{
    job *j = must_alloc(sizeof *j);
    j->api = a;
    j->verb = action->verb;
    j->state = JOB_RUNNING;
    j->action = copy_action(&j->memory, action);
    j->who = copy(&j->memory, who);
    j->note = note_of(&j->memory, action->reason);
    j->began_ms = wall_clock_ms();
    return j;
}

job *job_start(api *a, const api_action *action, const char *who, const char *what, uint64_t total,
               uint64_t gone, int64_t *busy)
{
    job *j = make_job(a, action, who);
    j->what = copy(&j->memory, what);
    j->total = total;
    j->gone = gone;
    pthread_mutex_lock(&a->job_lock);
    const job *other = find_running(a, action->verb);
    *busy = other ? other->id : 0;
    job **to = other ? NULL : find_place(a);
    job *old = to ? *to : NULL;
    if (to) {
        j->id = ++a->last_job;
        *to = j;
        j->has_thread = start_thread(&j->thread, run, j) == 0;
        if (!j->has_thread)
            *to = NULL;
    }
    int has_started = j->has_thread;
    pthread_mutex_unlock(&a->job_lock);
    job_free(old);
    if (!has_started)
        job_free(j);
    return has_started ? j : NULL;
}

void jobs_stop(api *a)
{
    pthread_mutex_lock(&a->job_lock);
    for (size_t i = 0; i < API_JOBS_KEPT; i++)
        if (a->jobs[i])
            atomic_store(&a->jobs[i]->stops, 1);
    pthread_mutex_unlock(&a->job_lock);
}

void jobs_close(api *a)
{
    for (size_t i = 0; i < API_JOBS_KEPT; i++)
        job_free(a->jobs[i]);
}

/* --- answers ---------------------------------------------------------------------------------- */

static uint64_t done_of(const job *j)
{
    uint64_t done = 0;
    for (size_t i = 0; i < j->outcome_count; i++)
        if (strcmp(j->outcomes[i].word, "asked") != 0)
            done += j->outcomes[i].count;
    return done;
}

void job_put(buffer *to, job *j)
{
    put_int(to, "job", j->id);
    put_text(to, "action", api_verb_names[j->verb]);
    put_text(to, "state", states[j->state]);
    put_int(to, "done", (int64_t)done_of(j));
    put_int(to, "total", (int64_t)j->total);
    put_open(to, "outcomes", '{');
    for (size_t i = 0; i < j->outcome_count; i++)
        put_int(to, j->outcomes[i].word, (int64_t)j->outcomes[i].count);
    put_close(to, '}');
    put_time(to, "audit_id", j->audit_id);
    put_text(to, "error", j->error);
    put_text(to, "what", j->what);
    put_text(to, "who", j->who);
    put_int(to, "began", j->began_ms);
    put_time(to, "ended", j->ended_ms);
    put_open(to, "notes", '[');
    for (size_t i = 0; i < j->note_count; i++)
        put_text(to, NULL, j->notes[i]);
    put_close(to, ']');
}

static void answer_job(asking *q, api_answer *out, int stops)
{
    int64_t id = 0;
    int is_number = api_query_number(&id, q->query.segments[1]);
    pthread_mutex_lock(&q->a->job_lock);
    job *j = is_number ? job_find(q->a, id) : NULL;
    if (j && stops && j->state == JOB_RUNNING)
        atomic_store(&j->stops, 1);
    if (j)
        job_put(&out->body, j);
    pthread_mutex_unlock(&q->a->job_lock);
    if (!j)
        api_not_found(out, "There is no such job: semel was started anew, or it is long ago. The "
                           "audit has what was done.");
}

void api_job(asking *q, api_answer *out)
{
    answer_job(q, out, 0);
}

void api_stop_job(asking *q, api_answer *out)
{
    answer_job(q, out, 1);
}
