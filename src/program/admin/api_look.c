/* The thread that looks at the store and at health every other second, and may hang there. What it
 * has seen is kept; the samples of every second are api_sample.c's.
 *
 * A look counts what waits in outboxes and queues, which takes the longer the more it is. While
 * no page is open, looks take a hundredth of the time at most, and come less often. */
#include "program/admin/api_internal.h"
#include "program/cli.h"
#include "program/operate/queues.h"
#include "program/run/live_internal.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LOOK_MS = 2000,
    SECOND_MS = 1000,
    MINUTE_MS = 60000,
    HOUR_MS = 3600000,
    FRESH_LOOKS = 3,    /* so many pauses old may a look be to count as of now */
    WATCHED_MS = 15000, /* so long after a question somebody has the page open */
    UNWATCHED_SHARE = 100,
    COUNT_EVERY_MS = 30000, /* keys of inboxes, and queues at brokers */
    COUNT_MS = 200,         /* for each inbox */
    HEALTH_DEPTH = 8,
    NS_PER_MS = 1000000
};

/* --- waiting ---------------------------------------------------------------------------------- */

/* In steps, so that an end is seen soon. */
int api_pause(api *a, int64_t ms)
{
    enum { STEP_MS = 100 };
    int stops = 0;
    for (int64_t left = ms; left > 0 && !stops; left -= STEP_MS) {
        int64_t step = left < STEP_MS ? left : STEP_MS;
        struct timespec time = {.tv_nsec = (long)(step * NS_PER_MS)};
        (void)nanosleep(&time, NULL);
        pthread_mutex_lock(&a->lock);
        stops = a->stops;
        pthread_mutex_unlock(&a->lock);
    }
    return stops;
}

/* --- troubles --------------------------------------------------------------------------------- */

const trouble *looked_trouble(const looked *l, const char *component)
{
    for (size_t i = 0; i < l->trouble_count; i++)
        if (!l->troubles[i].until_ms && strcmp(l->troubles[i].component, component) == 0)
            return &l->troubles[i];
    return NULL;
}

static const char *text_of(struct json_object *of, const char *name)
{
    struct json_object *found = NULL;
    (void)json_object_object_get_ex(of, name, &found);
    return json_object_is_type(found, json_type_string) ? json_object_get_string(found) : "";
}

static int64_t number_of(struct json_object *of, const char *name)
{
    struct json_object *found = NULL;
    (void)json_object_object_get_ex(of, name, &found);
    return json_object_get_int64(found);
}

/* The last one gives way: those of now stand before those that are over. */
static trouble *add_trouble(looked *l)
{
    size_t keep = l->trouble_count < API_OUTAGES_MAX ? l->trouble_count : API_OUTAGES_MAX - 1;
    memmove(l->troubles + 1, l->troubles, keep * sizeof *l->troubles);
    l->trouble_count = keep + 1;
    l->troubles[0] = (trouble){0};
    return &l->troubles[0];
}

static void note_problem(looked *l, struct json_object *problem, int64_t now_ms)
{
    const char *component = text_of(problem, "component");
    trouble *to = (trouble *)looked_trouble(l, component);
    if (!to) {
        to = add_trouble(l);
        to->since_ms = now_ms - number_of(problem, "for_ms");
        (void)snprintf(to->component, sizeof to->component, "%s", component);
    }
    (void)snprintf(to->msg, sizeof to->msg, "%s", text_of(problem, "msg"));
    (void)snprintf(to->error, sizeof to->error, "%s", text_of(problem, "error"));
    to->waiting = (uint64_t)number_of(problem, "waiting");
}

static int is_named(struct json_object *problems, const char *component)
{
    for (size_t i = 0; i < json_object_array_length(problems); i++)
        if (strcmp(text_of(json_object_array_get_idx(problems, i), "component"), component) == 0)
            return 1;
    return 0;
}

/* Those that are over are kept for an hour. */
static void end_others(looked *l, struct json_object *problems, int64_t now_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->trouble_count; i++) {
        trouble *t = &l->troubles[i];
        if (!t->until_ms && !is_named(problems, t->component))
            t->until_ms = now_ms;
        if (!t->until_ms || now_ms - t->until_ms < HOUR_MS)
            l->troubles[kept++] = *t;
    }
    l->trouble_count = kept;
}

/* What `semel health` says, too. */
static void look_at_health(api *a)
{
    buffer text = {0};
    struct json_object *tree = NULL, *problems = NULL;
    int64_t now_ms = wall_clock_ms();
    live_write_health(a->live, &text, 0);
    if (strict_json_parse(&tree, (semel_bytes){text.data, text.len}, HEALTH_DEPTH, NULL) &&
        json_object_object_get_ex(tree, "problems", &problems)) {
        pthread_mutex_lock(&a->look_lock);
        for (size_t i = 0; i < json_object_array_length(problems); i++)
            note_problem(&a->looked, json_object_array_get_idx(problems, i), now_ms);
        end_others(&a->looked, problems, now_ms);
        pthread_mutex_unlock(&a->look_lock);
    }
    json_object_put(tree);
    buffer_free(&text);
}

/* --- sparks ----------------------------------------------------------------------------------- */

static spark *find_spark(looked *l, const char *name, int is_outbox)
{
    for (size_t i = 0; i < l->spark_count; i++)
        if (l->sparks[i].is_outbox == is_outbox && strcmp(l->sparks[i].name, name) == 0)
            return &l->sparks[i];
    if (l->spark_count == API_SPARKS_MAX)
        return NULL;
    l->sparks = must_realloc(l->sparks, (l->spark_count + 1) * sizeof *l->sparks);
    spark *s = &l->sparks[l->spark_count++];
    *s = (spark){.is_outbox = is_outbox};
    (void)snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

static void add_minute(looked *l, const char *name, int is_outbox, uint64_t count)
{
    spark *s = find_spark(l, name, is_outbox);
    if (!s)
        return;
    memmove(s->minutes, s->minutes + 1, (API_SPARK_MINUTES - 1) * sizeof *s->minutes);
    s->minutes[API_SPARK_MINUTES - 1] =
        count >= s->last ? (float)(count - s->last) * SECOND_MS / MINUTE_MS : 0;
    s->last = count;
    s->filled += s->filled < API_SPARK_MINUTES;
}

static void add_sparks(looked *l, const view *v)
{
    int64_t minute = v->at_ms / MINUTE_MS;
    if (minute == l->spark_minute)
        return;
    l->spark_minute = minute;
    for (size_t i = 0; i < v->inbox_count; i++)
        add_minute(l, v->inboxes[i].name, 0, v->inboxes[i].counts[METER_DUPLICATES]);
    for (size_t i = 0; i < v->outbox_count; i++)
        add_minute(l, v->outboxes[i].name, 1, v->outboxes[i].sent);
}

/* The first minute has no start, and is not known. */
void api_put_spark(buffer *to, const looked *l, const char *name, int is_outbox)
{
    const spark *s = NULL;
    for (size_t i = 0; i < l->spark_count && !s; i++)
        if (l->sparks[i].is_outbox == is_outbox && strcmp(l->sparks[i].name, name) == 0)
            s = &l->sparks[i];
    put_open(to, "spark", '[');
    for (int i = 0; i < API_SPARK_MINUTES; i++)
        put_real(to, NULL, s && i > API_SPARK_MINUTES - s->filled ? (double)s->minutes[i] : -1);
    put_close(to, ']');
}

/* --- the store -------------------------------------------------------------------------------- */

static void say_nothing(void *context, int is_refusal, const char *text)
{
    (void)context;
    (void)is_refusal;
    (void)text;
}

static const tool_host silent = {.who = "", .note = "", .say = say_nothing};

/* Expensive, so seldom: with a deadline for each. */
static void count_keys(api *a, const api_place *at)
{
    snapshot *s = api_take_facts(a);
    int64_t keys[SEMEL_PIPELINE_MAX];
    size_t count = s->inbox_count < SEMEL_PIPELINE_MAX ? s->inbox_count : SEMEL_PIPELINE_MAX;
    for (size_t i = 0; i < count; i++) {
        semel_inbox *inbox = NULL;
        semel_stats stats = {.keys = -1};
        keys[i] = -1;
        if (!semel_inbox_open_known(&inbox, at->store, s->inboxes[i].name, NULL) &&
            !semel_inbox_stats(&stats, sizeof stats, inbox, COUNT_MS, NULL))
            keys[i] = stats.keys;
        semel_inbox_close(inbox);
    }
    pthread_mutex_lock(&a->look_lock);
    memcpy(a->looked.keys, keys, count * sizeof *keys);
    a->looked.key_count = count;
    pthread_mutex_unlock(&a->look_lock);
    api_return_facts(a, s);
}

/* A broker that is away is not asked. */
static void count_depths(api *a, tool *t)
{
    int64_t depths[SEMEL_PIPELINE_MAX];
    queue_depths brokers = {.tool = t};
    size_t count =
        t->all->queue_count < SEMEL_PIPELINE_MAX ? t->all->queue_count : SEMEL_PIPELINE_MAX;
    for (size_t i = 0; i < count; i++)
        depths[i] = t->all->queues[i].url ? queue_depth_of(&brokers, &t->all->queues[i]).ready : -1;
    pthread_mutex_lock(&a->look_lock);
    memcpy(a->looked.depths, depths, count * sizeof *depths);
    a->looked.depth_count = count;
    pthread_mutex_unlock(&a->look_lock);
}

static int is_watched(api *a)
{
    int64_t asked_ns = atomic_load_explicit(&a->asked_ns, memory_order_relaxed);
    return asked_ns && steady_clock_ns() - asked_ns < (int64_t)WATCHED_MS * NS_PER_MS;
}

/* How long to wait for the next look: at least, and while no page is open. */
typedef struct look_pause {
    int64_t least_ms, most_ms;
} look_pause;

static look_pause pause_after(const view *v)
{
    int64_t least_ms = (int64_t)view_pause_ms(v, LOOK_MS);
    int64_t most_ms = v->took_ns / NS_PER_MS * UNWATCHED_SHARE;
    return (look_pause){least_ms, most_ms > least_ms ? most_ms : least_ms};
}

/* 1: it ends. */
static int rest(api *a, look_pause pause)
{
    int stops = api_pause(a, pause.least_ms);
    for (int64_t at = pause.least_ms; at < pause.most_ms && !stops && !is_watched(a);
         at += LOOK_MS) {
        look_at_health(a);
        stops = api_pause(a, LOOK_MS);
    }
    return stops;
}

static void keep_view(api *a, view *v, int64_t ping_ns, int64_t most_ms)
{
    looked *l = &a->looked;
    pthread_mutex_lock(&a->look_lock);
    l->fresh_ms = most_ms * FRESH_LOOKS;
    if (!v->trouble.status) {
        int64_t oldest_ms;
        l->unsent = (int64_t)view_unsent(v, &oldest_ms);
        l->oldest_ms = oldest_ms;
        l->dead = (int64_t)v->dead;
        l->store_at_ms = wall_clock_ms();
        l->ping_ns = ping_ns;
        add_sparks(l, v);
        history_add(&l->views, v);
        v = NULL;
    }
    pthread_mutex_unlock(&a->look_lock);
    if (v) {
        view_free(v);
        free(v);
    }
}

static look_pause look_at_store(api *a, const api_place *at, int counts)
{
    static const tool_options options = {.quiet = 1};
    const argument_list every = {0};
    tool t;
    view *v = must_alloc(sizeof *v);
    int64_t began = steady_clock_ns();
    int is_away = tool_borrow(&t, "admin", &options, &silent, (config *)at->all, at->store);
    int64_t ping_ns = steady_clock_ns() - began;
    look_pause pause = {LOOK_MS, LOOK_MS};
    if (is_away) {
        free(v);
    } else {
        view_read(v, &t, &every, 1);
        pause = pause_after(v);
        keep_view(a, v, ping_ns, pause.most_ms);
        if (counts) {
            count_keys(a, at);
            count_depths(a, &t);
        }
    }
    tool_return(&t);
    return pause;
}

void *api_look(void *context)
{
    api *a = context;
    api_place at;
    int64_t counted_ns = 0;
    look_pause pause;
    do {
        pause = (look_pause){LOOK_MS, LOOK_MS};
        if (api_begin_use(a, &at)) {
            int counts =
                !counted_ns || steady_clock_ns() - counted_ns > (int64_t)COUNT_EVERY_MS * NS_PER_MS;
            pause = look_at_store(a, &at, counts);
            if (counts)
                counted_ns = steady_clock_ns();
            api_end_use(a);
        }
        look_at_health(a);
        if (!counted_ns) /* the first look follows the store soon */
            pause = (look_pause){SECOND_MS / 5, SECOND_MS / 5};
    } while (!rest(a, pause));
    return NULL;
}

void looked_free(looked *l)
{
    history_free(&l->views);
    free(l->sparks);
}
