/* Changes: what would be changed, and the change itself. A change is started once for each
 * request id: a second click gets the answer of the first. */
#include "program/admin/api_internal.h"
#include "program/cli.h"
#include "program/support/digest.h"
#include "program/support/show.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* --- preview ---------------------------------------------------------------------------------- */

static void put_consequences(buffer *to, const api_action *a)
{
    static const char *const texts[API_VERBS][3] = {
        [API_DEAD_RETRY] =
            {"Each letter is handled once more by a running semel.",
             "Messages handled in the meantime count as duplicates, and their letters "
             "are removed."},
        [API_DEAD_DISCARD] =
            {"The letters and their messages are gone for good; export them first to "
             "keep them.",
             "Their keys are still remembered: later copies do not run."},
        [API_INBOX_FORGET] = {"If a copy arrives, the handler runs again."},
        [API_OUTBOX_REQUEUE] = {"Messages that wait for their next attempt are due now.",
                                "A message behind others of its group still waits for these."},
        [API_OUTBOX_SKIP] = {"The message is not sent and becomes a dead letter of the outbox.",
                             "Those behind it in its group are sent next."},
        [API_QUEUE_PURGE] = {"The messages are gone for good, and no handler has seen them.",
                             "Messages that a consumer has right now, and those that come later, "
                             "stay."}};
    put_open(to, "consequences", '[');
    for (size_t i = 0; i < 3 && texts[a->verb][i]; i++)
        put_text(to, NULL,
                 a->verb == API_DEAD_DISCARD && a->forget && i == 1
                     ? "Their keys are forgotten: later copies run as first copies."
                     : texts[a->verb][i]);
    put_close(to, ']');
}

/* What has to come back with the change, so that it means the same. */
static void put_filter(buffer *to, const api_action *a, const work_found *f)
{
    const struct {
        const char *name, *value;
    } texts[] = {{"inbox", a->inbox}, {"outbox", a->outbox}, {"queue", a->queue},
                 {"type", a->type},   {"error", a->error},   {"cause", a->cause},
                 {"since", a->since}, {"key", a->key},       {"id", a->id}};
    put_open(to, "filter", '{');
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].value)
            put_text(to, texts[i].name, texts[i].value);
    if (a->until)
        put_text(to, "until", a->until);
    else if (f->until_ms)
        put_int(to, "until", f->until_ms);
    if (a->until_id || f->until_id)
        put_int(to, "until_id", a->until_id ? a->until_id : f->until_id);
    put_close(to, '}');
}

static void put_preview(buffer *to, const api_action *a, const work_found *f)
{
    put_text(to, "action", api_verb_names[a->verb]);
    put_int(to, "count", (int64_t)f->count);
    put_open(to, "sample", '[');
    for (size_t i = 0; i < f->sampled; i++)
        put_key(to, NULL, f->sample[i]);
    put_close(to, ']');
    put_text(to, "command", f->command);
    put_consequences(to, a);
    put_bool(to, "irreversible", f->irreversible);
    put_open(to, "names", '[');
    for (size_t i = 0; i < f->name_count; i++)
        put_text(to, NULL, f->names[i]);
    put_close(to, ']');
    put_known(to, "until_id", f->until_id ? f->until_id : -1);
    put_filter(to, a, f);
}

/* 1, or 0 after a problem. */
static int look(work_found *found, asking *q, api_answer *out, const api_place *at)
{
    hearing h;
    hearing_begin(&h, out);
    int status = work_look(found, &q->memory, at, &q->action, &h.host);
    hearing_end(&h, status);
    return !status;
}

void api_preview(asking *q, api_answer *out)
{
    api_place at;
    work_found found;
    if (!api_begin_use(q->a, &at)) {
        api_no_store(out, q->a);
        return;
    }
    if (look(&found, q, out, &at))
        put_preview(&out->body, &q->action, &found);
    api_end_use(q->a);
}

/* --- once ------------------------------------------------------------------------------------- */

/* The caller has job_lock. */
static replay *find_replay(api *a, const char *request)
{
    for (size_t i = 0; i < API_REPLAYS_MAX; i++)
        if (strcasecmp(a->replays[i].request, request) == 0)
            return &a->replays[i];
    return NULL;
}

static void remember(asking *q, int64_t id)
{
    api *a = q->a;
    pthread_mutex_lock(&a->job_lock);
    replay *r = &a->replays[a->next_replay++ % API_REPLAYS_MAX];
    *r = (replay){.status = 202, .job = id};
    (void)snprintf(r->request, sizeof r->request, "%s", q->request_id);
    digest_hex(r->digest, q->body.data, q->body.len);
    pthread_mutex_unlock(&a->job_lock);
}

/* 1: the request was answered before, and so it is again. */
static int answer_again(asking *q, api_answer *out)
{
    char digest[DIGEST_HEX_SIZE];
    digest_hex(digest, q->body.data, q->body.len);
    pthread_mutex_lock(&q->a->job_lock);
    const replay *r = find_replay(q->a, q->request_id);
    int is_same = r && strcmp(r->digest, digest) == 0;
    if (is_same) {
        out->status = r->status;
        out->is_replayed = 1;
        put_int(&out->body, "job", r->job);
    }
    pthread_mutex_unlock(&q->a->job_lock);
    if (r && !is_same)
        api_problem(out, 422, "mismatch", "Another change under the same id",
                    "X-Semel-Request was used for another change before; nothing was changed.");
    return r != NULL;
}

/* --- the change ------------------------------------------------------------------------------- */

/* Fewer than were confirmed is fine, for others may have been faster; more is not. A queue is
 * purged up to where it was looked at, however many have come since. */
static int is_confirmed(asking *q, api_answer *out, const work_found *found)
{
    const api_action *a = &q->action;
    int is_bounded = a->verb == API_QUEUE_PURGE && a->until_id && a->until;
    if (a->count < 0)
        api_problem(out, 400, "bad-body", "The body is not understood",
                    "A change needs the count that the preview gave.");
    else if (!is_bounded && found->count > (uint64_t)a->count)
        api_problem(out, 409, "count-changed", "More than were confirmed",
                    "%lld were confirmed, and %llu match now; nothing was changed.",
                    (long long)a->count, (unsigned long long)found->count);
    else
        return 1;
    put_int(&out->more, "count", (int64_t)found->count);
    return 0;
}

static void start(asking *q, api_answer *out, const work_found *found)
{
    int64_t busy = 0;
    api_action *a = &q->action;
    uint64_t total = (uint64_t)a->count;
    uint64_t gone = a->verb != API_QUEUE_PURGE && found->count < total ? total - found->count : 0;
    const char *who = api_actor(&q->memory, a->who, q->peer);
    if (!a->until_id && !a->id_count && (a->verb == API_DEAD_RETRY || a->verb == API_DEAD_DISCARD))
        a->until_id = found->until_id;
    const job *j = job_start(q->a, a, who, found->command + strlen("semel "), total, gone, &busy);
    if (j) {
        out->status = 202;
        put_int(&out->body, "job", j->id);
        remember(q, j->id);
        return;
    }
    api_problem(out, busy ? 409 : 503, "busy", "Another one is at work",
                busy ? "Job %lld does the same right now; wait for its end, or stop it."
                     : "A thread could not be started; try again.",
                (long long)busy);
    put_int(&out->more, "job", busy);
}

static void decide(asking *q, api_answer *out)
{
    api_place at;
    work_found found;
    if (answer_again(q, out))
        return;
    if (!api_begin_use(q->a, &at)) {
        api_no_store(out, q->a);
        return;
    }
    if (look(&found, q, out, &at) && is_confirmed(q, out, &found))
        start(q, out, &found);
    api_end_use(q->a);
}

/* What is refused is audited as well. */
void api_act(asking *q, api_answer *out)
{
    pthread_mutex_lock(&q->a->decide_lock);
    decide(q, out);
    pthread_mutex_unlock(&q->a->decide_lock);
    if (!out->type || out->status == 503)
        return;
    api_count_refused(q->a);
    api_audit_refused(
        q->a, api_actor(&q->memory, q->action.who, q->peer),
        region_printf(&q->memory, "%s # page", api_action_text(&q->memory, &q->action)),
        out->detail.len ? out->detail.data : out->title);
}
