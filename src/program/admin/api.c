/* See api.h. A request is read completely before it is looked at; one that needs the store waits in
 * a queue for a thread that asks it. A thread may hang in the store: then what waits is answered by
 * the sampler, and what the thread finds in the end is thrown away. */
#include "program/admin/api_internal.h"
#include "program/cli.h"
#include "program/run/live_internal.h"
#include "program/support/digest.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NS_PER_MS = 1000000 };

/* One request on its way. Who takes `request` out under the lock answers it. */
struct question {
    asking asks;
    api_route *route;
    http_request *request; /* NULL: it was answered */
    const char *if_none_match;
    int64_t asked_ns;
    struct question *next;
};

/* --- who uses what ---------------------------------------------------------------------------- */

int api_begin_use(api *a, api_place *out)
{
    pthread_mutex_lock(&a->lock);
    int is_there = a->store && a->all && !a->is_exchanged && !a->stops;
    if (is_there) {
        *out = (api_place){a->store, a->all, a->pipeline};
        a->uses++;
    }
    pthread_mutex_unlock(&a->lock);
    return is_there;
}

void api_end_use(api *a)
{
    pthread_mutex_lock(&a->lock);
    a->uses--;
    pthread_cond_broadcast(&a->idle);
    pthread_mutex_unlock(&a->lock);
}

snapshot *api_take_facts(api *a)
{
    pthread_mutex_lock(&a->lock);
    snapshot *s = a->facts;
    s->uses++;
    pthread_mutex_unlock(&a->lock);
    return s;
}

void api_return_facts(api *a, snapshot *s)
{
    pthread_mutex_lock(&a->lock);
    int is_last = --s->uses == 0;
    pthread_mutex_unlock(&a->lock);
    if (is_last)
        snapshot_free(s);
}

static void use_facts(api *a, snapshot *new)
{
    pthread_mutex_lock(&a->lock);
    snapshot *old = a->facts;
    a->facts = new;
    pthread_mutex_unlock(&a->lock);
    if (old)
        api_return_facts(a, old);
}

void api_use_store(api *a, semel_store *store)
{
    pthread_mutex_lock(&a->lock);
    a->store = store;
    pthread_mutex_unlock(&a->lock);
}

void api_use_pipeline(api *a, const config *all, semel_pipeline *pipeline)
{
    if (pipeline)
        use_facts(a, snapshot_make(all, pipeline));
    else
        jobs_stop(a);
    pthread_mutex_lock(&a->lock);
    a->is_exchanged = !pipeline;
    while (!pipeline && a->uses)
        (void)pthread_cond_wait(&a->idle, &a->lock);
    a->all = pipeline ? all : NULL;
    a->pipeline = pipeline;
    pthread_mutex_unlock(&a->lock);
}

/* --- questions -------------------------------------------------------------------------------- */

static void question_free(question *q)
{
    region_free(&q->asks.memory);
    free(q);
}

static void run_route(question *q, api_answer *out)
{
    buffer_text(&out->body, "{");
    q->route(&q->asks, out);
}

static const char *copy(region *memory, const char *text)
{
    return text ? region_copy(memory, text, strlen(text)) : NULL;
}

static question *make_question(api *a, http_request *request)
{
    question *q = must_alloc(sizeof *q);
    region *memory = &q->asks.memory;
    semel_bytes body = http_request_body(request);
    q->request = request;
    q->asked_ns = steady_clock_ns();
    q->asks.a = a;
    q->if_none_match = copy(memory, http_request_header(request, "If-None-Match"));
    q->asks.peer = copy(memory, http_request_peer(request));
    q->asks.request_id = copy(memory, http_request_header(request, "X-Semel-Request"));
    q->asks.token = copy(memory, http_request_header(request, "X-Semel-Token"));
    q->asks.body =
        (semel_bytes){region_copy(memory, body.len ? body.data : "", body.len), body.len};
    q->asks.is_post = strcmp(http_request_method(request), "POST") == 0;
    return q;
}

/* The lock is held. */
static http_request *take_request(question *q)
{
    http_request *request = q->request;
    q->request = NULL;
    return request;
}

static void finish(question *q)
{
    api *a = q->asks.a;
    api_answer out = {0};
    run_route(q, &out);
    pthread_mutex_lock(&a->lock);
    http_request *request = take_request(q);
    pthread_mutex_unlock(&a->lock);
    if (request)
        api_send(request, q->if_none_match, &out);
    api_answer_free(&out);
}

/* 0: there are too many already. */
static int enqueue(api *a, question *q)
{
    pthread_mutex_lock(&a->lock);
    int fits = a->waiting < API_QUESTIONS_MAX && !a->stops;
    if (fits) {
        *(a->last ? &a->last->next : &a->first) = q;
        a->last = q;
        a->waiting++;
        pthread_cond_signal(&a->wake);
    }
    pthread_mutex_unlock(&a->lock);
    return fits;
}

/* The lock is held. NULL: it ends. */
static question *next_question(api *a)
{
    while (!a->first && !a->stops)
        (void)pthread_cond_wait(&a->wake, &a->lock);
    question *q = a->first;
    if (!q)
        return NULL;
    a->first = q->next;
    a->last = a->first ? a->last : NULL;
    a->waiting--;
    return q;
}

typedef struct reader {
    api *a;
    size_t at;
} reader;

static void *read_store(void *context)
{
    reader r = *(reader *)context;
    free(context);
    pthread_mutex_lock(&r.a->lock);
    for (question *q; (q = next_question(r.a));) {
        r.a->asked[r.at] = q;
        pthread_mutex_unlock(&r.a->lock);
        finish(q);
        pthread_mutex_lock(&r.a->lock);
        r.a->asked[r.at] = NULL;
        pthread_mutex_unlock(&r.a->lock);
        question_free(q);
        pthread_mutex_lock(&r.a->lock);
    }
    pthread_mutex_unlock(&r.a->lock);
    return NULL;
}

static void answer_one_late(http_request *request)
{
    api_answer out = {0};
    api_problem(&out, 503, "store-unreachable", "The store does not answer",
                "The store has not answered within %d s.", API_ANSWER_MS / 1000);
    out.retry_after_s = 5;
    api_send(request, NULL, &out);
    api_answer_free(&out);
}

/* The lock is held. NULL: none is late. */
static http_request *take_late(api *a)
{
    int64_t before = steady_clock_ns() - (int64_t)API_ANSWER_MS * NS_PER_MS;
    for (size_t i = 0; i < API_READERS; i++)
        if (a->asked[i] && a->asked[i]->request && a->asked[i]->asked_ns < before)
            return take_request(a->asked[i]);
    for (question *q = a->first; q; q = q->next)
        if (q->request && q->asked_ns < before)
            return take_request(q);
    return NULL;
}

void api_answer_late(api *a)
{
    http_request *late;
    do {
        pthread_mutex_lock(&a->lock);
        late = take_late(a);
        pthread_mutex_unlock(&a->lock);
        if (late)
            answer_one_late(late);
    } while (late);
}

/* --- routes ----------------------------------------------------------------------------------- */

enum { FROM_MEMORY = 0, FROM_STORE = 1, CHANGES = 2 };

static const struct {
    const char *first, *second, *third; /* "*": any */
    api_route *route;
    int how;
} routes[] = {{"overview", NULL, NULL, api_overview, FROM_MEMORY},
              {"inboxes", NULL, NULL, api_inboxes, FROM_MEMORY},
              {"inboxes", "*", NULL, api_inbox, FROM_STORE},
              {"messages", NULL, NULL, api_message, FROM_STORE},
              {"find", NULL, NULL, api_find, FROM_STORE},
              {"outboxes", NULL, NULL, api_outboxes, FROM_MEMORY},
              {"outboxes", "*", NULL, api_outbox, FROM_STORE},
              {"queues", NULL, NULL, api_queues, FROM_MEMORY},
              {"dead", "groups", NULL, api_dead_groups, FROM_STORE},
              {"dead", NULL, NULL, api_dead, FROM_STORE},
              {"dead", "*", NULL, api_letter, FROM_STORE},
              {"gateway", NULL, NULL, api_gateway, FROM_MEMORY},
              {"config", NULL, NULL, api_config, FROM_MEMORY},
              {"audit", NULL, NULL, api_audit, FROM_STORE},
              {"session", NULL, NULL, api_session, FROM_MEMORY},
              {"jobs", "*", NULL, api_job, FROM_MEMORY},
              {"jobs", "*", "stop", api_stop_job, CHANGES | FROM_MEMORY},
              {"actions", "preview", NULL, api_preview, CHANGES | FROM_STORE},
              {"actions", NULL, NULL, api_act, CHANGES | FROM_STORE}};

static int matches(const char *wanted, const api_query *q, size_t at)
{
    const char *given = at < q->segment_count ? q->segments[at] : NULL;
    if (!wanted || !given)
        return !wanted && !given;
    return strcmp(wanted, "*") == 0 ? *given != 0 : strcmp(wanted, given) == 0;
}

/* -1: there is no such route. */
static int find_route(const api_query *q)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes && q->segment_count <= 3; i++)
        if (matches(routes[i].first, q, 0) && matches(routes[i].second, q, 1) &&
            matches(routes[i].third, q, 2))
            return (int)i;
    return -1;
}

/* What a browser of another site may not send, and what is not JSON, is refused before anything is
 * looked at. */
static int check_change(question *q, api_answer *out)
{
    asking *asks = &q->asks;
    const char *wrong = NULL;
    if (!api_may_change(asks->a, q->request, out))
        return 0;
    if (q->route != api_stop_job)
        wrong = api_action_parse(&asks->action, &asks->memory, asks->body);
    if (wrong)
        api_problem(out, 400, "bad-body", "The body is not understood", "It is refused: %s.",
                    wrong);
    return !wrong;
}

static int check(question *q, api_answer *out, int *how)
{
    const char *method = http_request_method(q->request);
    const char *wrong =
        api_query_parse(&q->asks.query, &q->asks.memory, http_request_target(q->request));
    int at = wrong ? -1 : find_route(&q->asks.query);
    if (wrong)
        api_bad_query(out, "It is refused: %s.", wrong);
    else if (at < 0)
        api_not_found(out, "There is nothing at this address; see docs/DASHBOARD.md.");
    if (wrong || at < 0)
        return 0;
    *how = routes[at].how;
    q->route = routes[at].route;
    if (strcmp(method, *how & CHANGES ? "POST" : "GET") != 0) {
        api_problem(out, 405, "wrong-method", "Wrong method", "This address takes %s only.",
                    *how & CHANGES ? "POST" : "GET");
        return 0;
    }
    return !(*how & CHANGES) || check_change(q, out);
}

/* The request was answered; the audit is told by a thread that may wait for the store. */
static void audit_refused(asking *q, api_answer *out)
{
    (void)out;
    api_audit_refused(
        q->a, api_actor(&q->memory, q->action.who, q->peer),
        region_printf(&q->memory, "%s # page", api_action_text(&q->memory, &q->action)),
        q->body.data);
}

static void refuse(question *q, api_answer *out, int how)
{
    asking *asks = &q->asks;
    http_request *request = q->request;
    q->request = NULL;
    if (how & CHANGES) {
        api_count_refused(asks->a);
        (void)api_action_parse(&asks->action, &asks->memory, asks->body);
        asks->action.who = asks->action.who ? asks->action.who : "unknown";
        asks->body = (semel_bytes){region_copy(&asks->memory, out->detail.data, out->detail.len),
                                   out->detail.len};
        q->route = audit_refused;
    }
    api_send(request, NULL, out);
    if (!(how & CHANGES) || !enqueue(asks->a, q))
        question_free(q);
}

int api_handle(api *a, http_request *request)
{
    question *q = make_question(a, request);
    api_answer out = {0};
    int how = FROM_MEMORY;
    atomic_store_explicit(&a->asked_ns, steady_clock_ns(), memory_order_relaxed);
    if (!check(q, &out, &how)) {
        refuse(q, &out, how);
    } else if (!(how & FROM_STORE)) {
        finish(q);
        question_free(q);
    } else if (!enqueue(a, q)) {
        api_problem(&out, 503, "busy", "Too many questions",
                    "Too many requests wait for the store; try again.");
        out.retry_after_s = 2;
        api_send(request, NULL, &out);
        question_free(q);
    }
    api_answer_free(&out);
    return 1;
}

/* --- life ------------------------------------------------------------------------------------- */

static void init_locks(api *a)
{
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->look_lock, NULL);
    pthread_mutex_init(&a->gateway_lock, NULL);
    pthread_mutex_init(&a->job_lock, NULL);
    pthread_mutex_init(&a->decide_lock, NULL);
    pthread_cond_init(&a->wake, NULL);
    pthread_cond_init(&a->idle, NULL);
}

/* A thread that cannot be had is missed: then questions that need it are answered late, with
 * 503. */
api *api_open(const config *all, const api_links *links)
{
    api *a = must_alloc(sizeof *a);
    a->log = links->log;
    a->live = links->live;
    a->all = all;
    a->looked = (looked){.unsent = -1, .oldest_ms = -1, .dead = -1, .ping_ns = -1};
    init_locks(a);
    a->facts = snapshot_make(all, NULL);
    for (size_t i = 0; i < API_READERS; i++) {
        reader *r = must_alloc(sizeof *r);
        *r = (reader){a, i};
        if (start_thread(&a->readers[a->reader_count], read_store, r) == 0)
            a->reader_count++;
        else
            free(r);
    }
    a->has_looker = start_thread(&a->looker, api_look, a) == 0;
    a->has_sampler = start_thread(&a->sampler, api_sample, a) == 0;
    return a;
}

static void destroy(api *a)
{
    api_return_facts(a, a->facts);
    looked_free(&a->looked);
    pthread_cond_destroy(&a->wake);
    pthread_cond_destroy(&a->idle);
    pthread_mutex_destroy(&a->lock);
    pthread_mutex_destroy(&a->look_lock);
    pthread_mutex_destroy(&a->gateway_lock);
    pthread_mutex_destroy(&a->job_lock);
    pthread_mutex_destroy(&a->decide_lock);
    free(a);
}

void api_close(api *a)
{
    if (!a)
        return;
    jobs_stop(a);
    pthread_mutex_lock(&a->lock);
    a->stops = 1;
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; i < a->reader_count; i++)
        (void)pthread_join(a->readers[i], NULL);
    if (a->has_looker)
        (void)pthread_join(a->looker, NULL);
    if (a->has_sampler)
        (void)pthread_join(a->sampler, NULL);
    jobs_close(a);
    destroy(a);
}
