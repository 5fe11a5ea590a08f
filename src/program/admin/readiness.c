/* See readiness.h. The checks:
 *
 *     store       it answers
 *     broker NAME for each queue at a broker: whoever reads it or sends to it is connected
 *     schema      the tables are those that this program needs
 *     moving      what is due moves; one that fails says which queue or outbox does not
 *     draining    the process is not stopping
 *     starting    the pipeline was opened once
 *
 * and one for each other element that does not work, named as in `semel health`. */
#include "program/admin/readiness.h"

#include "program/run/live_internal.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PERIOD_MS = 10000, FRESH_MS = 1000, ANSWER_MS = 3000, MS_PER_S = 1000 };
#define NS_PER_MS INT64_C(1000000)

typedef struct check {
    const char *name;
    int is_broker;
    buffer why; /* empty: it is good */
} check;

typedef struct user {
    const char *component; /* "queue orders", "outbox placed" */
    const char *queue;
} user;

struct readiness {
    struct live *live;
    totals *totals;
    pthread_t thread;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t wake, answered;
    int stops, is_asked;
    int64_t asked_ns, answered_ns; /* 0: never */
    region memory;
    user *users;
    size_t user_count;
    const char **brokers; /* queues at brokers */
    size_t broker_count;
    region texts;  /* of the checks */
    check *checks; /* of the last answer */
    size_t check_count;
    int is_ready;
};

/* --- what is used ----------------------------------------------------------------------------- */

static int is_at_broker(const config *all, const char *queue)
{
    for (size_t i = 0; queue && i < all->queue_count; i++)
        if (strcmp(all->queues[i].name, queue) == 0)
            return all->queues[i].url != NULL;
    return 0;
}

static void add_user(readiness *r, const char *kind, const char *name, const char *queue)
{
    r->users[r->user_count++] = (user){region_printf(&r->memory, "%s %s", kind, name),
                                       region_copy(&r->memory, queue, strlen(queue))};
}

void readiness_configure(readiness *r, const config *all)
{
    pthread_mutex_lock(&r->lock);
    region_free(&r->memory);
    r->user_count = r->broker_count = 0;
    r->users = region_alloc(&r->memory, (all->queue_count + all->outbox_count + 1) * sizeof(user));
    r->brokers = region_alloc(&r->memory, (all->queue_count + 1) * sizeof *r->brokers);
    for (size_t i = 0; i < all->queue_count; i++)
        if (all->queues[i].url) {
            const char *name = all->queues[i].name;
            add_user(r, "queue", name, name);
            r->brokers[r->broker_count++] = region_copy(&r->memory, name, strlen(name));
        }
    for (size_t i = 0; i < all->outbox_count; i++)
        if (is_at_broker(all, all->outboxes[i].to))
            add_user(r, "outbox", all->outboxes[i].name, all->outboxes[i].to);
    pthread_mutex_unlock(&r->lock);
}

/* --- checks ----------------------------------------------------------------------------------- */

enum { CHECKS_MORE = 5 };

static check *find_check(readiness *r, const char *name)
{
    for (size_t i = 0; i < r->check_count; i++)
        if (strcmp(r->checks[i].name, name) == 0)
            return &r->checks[i];
    r->checks[r->check_count] = (check){.name = region_copy(&r->texts, name, strlen(name))};
    return &r->checks[r->check_count++];
}

static void fail(check *c, const char *why)
{
    buffer_text(&c->why, c->why.len ? "; " : "");
    buffer_text(&c->why, why);
}

static struct json_object *member(struct json_object *of, const char *name)
{
    struct json_object *found = NULL;
    return json_object_object_get_ex(of, name, &found) ? found : NULL;
}

static const char *text_of(struct json_object *of, const char *name)
{
    const char *text = json_object_get_string(member(of, name));
    return text ? text : "";
}

/* stalled for 14m 20s, 215 waiting: no queue is bound for "order.paid" */
static void describe(buffer *to, struct json_object *problem)
{
    int64_t for_ms = json_object_get_int64(member(problem, "for_ms"));
    int64_t waiting = json_object_get_int64(member(problem, "waiting"));
    const char *msg = text_of(problem, "msg"), *error = text_of(problem, "error");
    buffer_text(to, strcmp(msg, "waiting") == 0 ? "unreachable" : msg);
    if (for_ms) {
        buffer_text(to, " for ");
        show_duration(to, for_ms * NS_PER_MS);
    }
    if (waiting > 0)
        buffer_printf(to, ", %lld waiting", (long long)waiting);
    if (*error) {
        buffer_text(to, ": ");
        show_text(to, error, strlen(error), 0);
    }
}

static check *check_of(readiness *r, const char *component, const char *msg)
{
    if (strcmp(msg, "stalled") == 0)
        return find_check(r, "moving");
    for (size_t i = 0; i < r->user_count; i++)
        if (strcmp(r->users[i].component, component) == 0)
            return find_check(r, region_printf(&r->texts, "broker %s", r->users[i].queue));
    return find_check(r, component);
}

static void note_problem(readiness *r, struct json_object *problem)
{
    const char *component = text_of(problem, "component"), *msg = text_of(problem, "msg");
    buffer text = {0};
    check *c = check_of(r, component, msg);
    if (strcmp(c->name, component) != 0)
        buffer_printf(&text, "%s: ", component);
    describe(&text, problem);
    fail(c, text.data);
    buffer_free(&text);
}

static void begin_checks(readiness *r, size_t problems)
{
    for (size_t i = 0; i < r->check_count; i++)
        buffer_free(&r->checks[i].why);
    region_free(&r->texts);
    r->check_count = 0;
    r->checks =
        region_alloc(&r->texts, (CHECKS_MORE + r->broker_count + problems) * sizeof *r->checks);
    (void)find_check(r, "store");
    for (size_t i = 0; i < r->broker_count; i++)
        find_check(r, region_printf(&r->texts, "broker %s", r->brokers[i]))->is_broker = 1;
}

static void check_schema(readiness *r)
{
    buffer why = {0};
    schema_state state = totals_schema(r->totals, &why);
    check *c = find_check(r, "schema");
    if (state == SCHEMA_UNKNOWN)
        fail(c, "not known yet");
    else if (state == SCHEMA_BAD)
        fail(c, why.data ? why.data : "");
    buffer_free(&why);
}

/* Of the answer of `semel health`. In a process that is stopping, elements that have stopped are no
 * trouble of their own. */
static void make_checks(readiness *r, struct json_object *answer)
{
    struct json_object *problems = member(answer, "problems");
    size_t count =
        json_object_is_type(problems, json_type_array) ? json_object_array_length(problems) : 0;
    int is_stopping = json_object_get_boolean(member(answer, "stopping"));
    begin_checks(r, count);
    check_schema(r);
    (void)find_check(r, "moving");
    for (size_t i = 0; i < count; i++) {
        struct json_object *problem = json_object_array_get_idx(problems, i);
        if (!is_stopping || strcmp(text_of(problem, "msg"), "stopped") != 0)
            note_problem(r, problem);
    }
    if (is_stopping)
        fail(find_check(r, "draining"), "the process is stopping");
    else
        (void)find_check(r, "draining");
    if (!json_object_get_boolean(member(answer, "started")))
        fail(find_check(r, "starting"), "the pipeline is not open yet");
    r->is_ready = 1;
    for (size_t i = 0; i < r->check_count; i++)
        r->is_ready = r->is_ready && !r->checks[i].why.len;
}

/* --- the thread ------------------------------------------------------------------------------- */

static struct timespec at_ns(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / (NS_PER_MS * MS_PER_S),
                             .tv_nsec = ns % (NS_PER_MS * MS_PER_S)};
}

/* The lock is held, but not while the store is asked. */
static void ask(readiness *r)
{
    buffer text = {0};
    r->is_asked = 1;
    r->asked_ns = steady_clock_ns();
    pthread_mutex_unlock(&r->lock);
    live_write_health(r->live, &text, 0);
    struct json_object *answer = json_tokener_parse(text.data);
    pthread_mutex_lock(&r->lock);
    make_checks(r, answer);
    r->is_asked = 0;
    r->answered_ns = steady_clock_ns();
    pthread_cond_broadcast(&r->answered);
    json_object_put(answer);
    buffer_free(&text);
}

static void *keep_asking(void *context)
{
    readiness *r = context;
    pthread_mutex_lock(&r->lock);
    while (!r->stops) {
        struct timespec until = at_ns(steady_clock_ns() + PERIOD_MS * NS_PER_MS);
        ask(r);
        int is_over = 0;
        while (!r->stops && !r->is_asked && !is_over)
            is_over = pthread_cond_timedwait(&r->wake, &r->lock, &until) != 0;
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

readiness *readiness_open(struct live *of, totals *counted)
{
    readiness *r = must_alloc(sizeof *r);
    pthread_condattr_t clock;
    r->live = of;
    r->totals = counted;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &clock);
    pthread_cond_init(&r->answered, &clock);
    pthread_condattr_destroy(&clock);
    if (start_thread(&r->thread, keep_asking, r) == 0)
        return r;
    free(r);
    return NULL;
}

void readiness_close(readiness *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stops = 1;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    (void)pthread_join(r->thread, NULL);
    for (size_t i = 0; i < r->check_count; i++)
        buffer_free(&r->checks[i].why);
    region_free(&r->texts);
    region_free(&r->memory);
    pthread_cond_destroy(&r->answered);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* The lock is held. A question that takes too long is not waited for again by the next probe. */
static int wait_for_answer(readiness *r)
{
    int64_t now = steady_clock_ns();
    if (r->answered_ns && now - r->answered_ns < FRESH_MS * NS_PER_MS && !r->is_asked)
        return 1;
    if (!r->is_asked) {
        r->is_asked = 1;
        r->asked_ns = now;
        pthread_cond_signal(&r->wake);
    }
    struct timespec until = at_ns(r->asked_ns + ANSWER_MS * NS_PER_MS);
    while (r->is_asked && pthread_cond_timedwait(&r->answered, &r->lock, &until) == 0)
        continue;
    return !r->is_asked;
}

static int is_excluded(const char *name, const char *exclude)
{
    size_t len = strlen(name);
    for (const char *at = exclude; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && strncmp(at, name, len) == 0)
            return 1;
    return 0;
}

/* 1: it is good, or does not count. */
static int write_check(buffer *to, const check *c, const char *exclude)
{
    if (is_excluded(c->name, exclude))
        buffer_printf(to, "[+]%s excluded: ok\n", c->name);
    else if (!c->why.len)
        buffer_printf(to, "[+]%s ok\n", c->name);
    else
        buffer_printf(to, "[-]%s failed: %s\n", c->name, c->why.data);
    return !c->why.len || is_excluded(c->name, exclude);
}

int readiness_write(readiness *r, buffer *to, int verbose, const char *exclude)
{
    int is_good = 1;
    buffer lines = {0};
    pthread_mutex_lock(&r->lock);
    if (wait_for_answer(r)) {
        for (size_t i = 0; i < r->check_count; i++)
            is_good &= write_check(&lines, &r->checks[i], exclude);
    } else {
        buffer_text(&lines, "[-]store failed: no answer for ");
        show_duration(&lines, steady_clock_ns() - r->asked_ns);
        buffer_text(&lines, "\n");
        is_good = 0;
    }
    pthread_mutex_unlock(&r->lock);
    if (verbose || !is_good)
        buffer_add(to, lines.data, lines.len);
    buffer_text(to, is_good ? "ready\n" : "not ready\n");
    buffer_free(&lines);
    return is_good;
}

/* The lock is held. One that does not answer is as good as one that fails. */
static int has_hung(const readiness *r)
{
    return r->is_asked && steady_clock_ns() - r->asked_ns > ANSWER_MS * NS_PER_MS;
}

int readiness_is_ready(readiness *r)
{
    pthread_mutex_lock(&r->lock);
    int ready = !r->answered_ns ? -1 : r->is_ready && !has_hung(r);
    pthread_mutex_unlock(&r->lock);
    return ready;
}

int readiness_has_store(readiness *r)
{
    pthread_mutex_lock(&r->lock);
    int is_there = r->answered_ns ? !has_hung(r) : -1;
    for (size_t i = 0; i < r->check_count && is_there == 1; i++)
        if (strcmp(r->checks[i].name, "store") == 0 || strcmp(r->checks[i].name, "starting") == 0)
            is_there = !r->checks[i].why.len;
    pthread_mutex_unlock(&r->lock);
    return is_there;
}

void readiness_brokers(readiness *r, readiness_broker_visitor *visit, void *context)
{
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->check_count; i++)
        if (r->checks[i].is_broker)
            visit(context, r->checks[i].name + strlen("broker "), !r->checks[i].why.len);
    pthread_mutex_unlock(&r->lock);
}
