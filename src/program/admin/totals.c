/* See totals.h. Two locks: one is held while the pipeline is used, one over the numbers. A reader
 * never waits for the store. */
#include "program/admin/totals.h"

#include "program/gateway/proxy_inbox.h"
#include "program/run/live_internal.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <semel/operate.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PERIOD_MS = 5000,
    KEYS_PERIOD_MS = 60000, /* all markers are read */
    SCHEMA_PERIOD_MS = 60000,
    QUESTION_MS = 1000,
    PAUSE_FACTOR = 100, /* counting takes a hundredth of the time at most */
    NS_PER_MS = 1000000,
    MS_PER_S = 1000
};

typedef struct counted {
    const char *name;
    outbox_total outbox;
    inbox_total inbox;
} counted;

struct totals {
    pthread_t thread;
    pthread_mutex_t use_lock; /* over the pipeline, while it is used */
    semel_pipeline *pipeline;
    atomic_int is_wanted; /* the pipeline, by one who closes it */
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t wake;
    semel_store *store;
    int stops;
    int is_new; /* the pipeline: it is counted at once */
    region memory;
    counted *inboxes, *outboxes;
    size_t inbox_count, outbox_count;
    int64_t dead, counted_ms;
    schema_state schema;
    semel_error schema_why;
};

/* --- counting --------------------------------------------------------------------------------- */

static void put_outbox(totals *t, size_t at, const outbox_total *value)
{
    pthread_mutex_lock(&t->lock);
    t->outboxes[at].outbox = *value;
    pthread_mutex_unlock(&t->lock);
}

/* The lists are changed by the one who has use_lock, so the thread reads them without the other
 * lock. */
static void count_outbox(totals *t, size_t at)
{
    semel_stats stats;
    outbox_total value = {-1, -1};
    semel_outbox *outbox = semel_pipeline_find_outbox(t->pipeline, t->outboxes[at].name);
    if (outbox && !semel_outbox_stats(&stats, sizeof stats, outbox, QUESTION_MS, NULL))
        value = (outbox_total){(int64_t)stats.unsent, stats.oldest_unsent_ms};
    put_outbox(t, at, &value);
}

static void count_inbox(totals *t, size_t at, int counts_keys)
{
    semel_stats stats;
    semel_counters counters;
    semel_inbox *inbox = semel_pipeline_find_inbox(t->pipeline, t->inboxes[at].name);
    if (!inbox)
        return;
    inbox_total value = t->inboxes[at].inbox;
    semel_inbox_counters(&counters, sizeof counters, inbox);
    value.purged = (int64_t)counters.swept;
    if (counts_keys) {
        int failed = semel_inbox_stats(&stats, sizeof stats, inbox, QUESTION_MS, NULL) != SEMEL_OK;
        value.keys = failed ? -1 : stats.keys;
    }
    pthread_mutex_lock(&t->lock);
    t->inboxes[at].inbox = value;
    pthread_mutex_unlock(&t->lock);
}

static void count_letters(totals *t, semel_store *store)
{
    semel_stats stats;
    int failed = semel_store_stats(&stats, sizeof stats, store, QUESTION_MS, NULL) != SEMEL_OK;
    pthread_mutex_lock(&t->lock);
    t->dead = failed ? -1 : (int64_t)stats.dead;
    if (!failed)
        t->counted_ms = wall_clock_ms();
    pthread_mutex_unlock(&t->lock);
}

/* 1: there is a pipeline. One that is to be closed is waited for no longer than for one
 * question. */
static int count_elements(totals *t, int counts_keys)
{
    pthread_mutex_lock(&t->use_lock);
    int is_open = t->pipeline != NULL;
    for (size_t i = 0; t->pipeline && i < t->outbox_count && !atomic_load(&t->is_wanted); i++)
        count_outbox(t, i);
    for (size_t i = 0; t->pipeline && i < t->inbox_count && !atomic_load(&t->is_wanted); i++)
        count_inbox(t, i, counts_keys);
    pthread_mutex_unlock(&t->use_lock);
    return is_open;
}

/* --- the tables ------------------------------------------------------------------------------- */

static semel_status look_at_step(const semel_schema_step *step, void *context, semel_error *err)
{
    (void)err;
    if (!step->applied_ms && !step->newer && !*(int32_t *)context)
        *(int32_t *)context = step->version;
    return SEMEL_OK;
}

/* A store that does not answer says nothing about its tables. */
static void look_at_schema(totals *t, semel_store *store)
{
    int32_t missing = 0;
    semel_error why = {0};
    semel_status status = semel_store_schema(store, look_at_step, &missing, &why);
    pthread_mutex_lock(&t->lock);
    if (status == SEMEL_OK && !missing)
        t->schema = SCHEMA_GOOD;
    else if (status == SEMEL_OK || status == SEMEL_ESCHEMA)
        t->schema = SCHEMA_BAD;
    if (status == SEMEL_OK && missing)
        (void)semel_fail(&why, SEMEL_ESCHEMA, "version %d of the tables is missing: semel migrate",
                         (int)missing);
    t->schema_why = why;
    if (status == SEMEL_EUNSUPPORTED)
        t->schema = SCHEMA_GOOD;
    pthread_mutex_unlock(&t->lock);
}

/* --- the thread ------------------------------------------------------------------------------- */

static struct timespec after_ms(int64_t ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / MS_PER_S;
    at.tv_nsec += ms % MS_PER_S * NS_PER_MS;
    if (at.tv_nsec >= (int64_t)NS_PER_MS * MS_PER_S) {
        at.tv_nsec -= (int64_t)NS_PER_MS * MS_PER_S;
        at.tv_sec++;
    }
    return at;
}

/* NULL: the thread is to end. Without a store it waits for one. */
static semel_store *wait_for_turn(totals *t, int64_t pause_ms)
{
    struct timespec until = after_ms(pause_ms);
    int is_over = 0;
    pthread_mutex_lock(&t->lock);
    while (!t->stops && !t->store)
        pthread_cond_wait(&t->wake, &t->lock);
    while (!t->stops && !is_over && !t->is_new && pause_ms)
        is_over = pthread_cond_timedwait(&t->wake, &t->lock, &until) != 0;
    t->is_new = 0;
    semel_store *store = t->stops ? NULL : t->store;
    pthread_mutex_unlock(&t->lock);
    return store;
}

static void *count_all(void *context)
{
    totals *t = context;
    semel_store *store;
    int64_t pause_ms = 0, keys_ns = 0, schema_ns = 0;
    while ((store = wait_for_turn(t, pause_ms))) {
        int64_t began = steady_clock_ns();
        int counts_keys = began >= keys_ns;
        if (began >= schema_ns) {
            look_at_schema(t, store);
            schema_ns = began + (int64_t)SCHEMA_PERIOD_MS * NS_PER_MS;
        }
        count_letters(t, store);
        int is_open = count_elements(t, counts_keys);
        int64_t took_ms = (steady_clock_ns() - began) / NS_PER_MS;
        if (counts_keys && is_open)
            keys_ns = began + (KEYS_PERIOD_MS + took_ms * PAUSE_FACTOR) * NS_PER_MS;
        pause_ms = took_ms * PAUSE_FACTOR > PERIOD_MS ? took_ms * PAUSE_FACTOR : PERIOD_MS;
    }
    return NULL;
}

/* --- from other threads ----------------------------------------------------------------------- */

totals *totals_open(void)
{
    totals *t = must_alloc(sizeof *t);
    pthread_condattr_t clock;
    t->dead = -1;
    pthread_mutex_init(&t->use_lock, NULL);
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&t->wake, &clock);
    pthread_condattr_destroy(&clock);
    if (start_thread(&t->thread, count_all, t) == 0)
        return t;
    free(t);
    return NULL;
}

void totals_close(totals *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stops = 1;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    atomic_store(&t->is_wanted, 1);
    (void)pthread_join(t->thread, NULL);
    region_free(&t->memory);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    pthread_mutex_destroy(&t->use_lock);
    free(t);
}

void totals_use_store(totals *t, semel_store *store)
{
    pthread_mutex_lock(&t->lock);
    t->store = store;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

static counted unknown(region *memory, const char *name)
{
    return (counted){region_copy(memory, name, strlen(name)), {-1, -1}, {-1, -1}};
}

static size_t list_inboxes(counted *out, region *memory, const config *all)
{
    size_t count = 0;
    for (size_t i = 0; i < all->inbox_count; i++)
        out[count++] = unknown(memory, all->inboxes[i].name);
    for (size_t i = 0; i < all->gateway.route_count; i++)
        if (all->gateway.routes[i].kind == ROUTE_PROXY)
            out[count++] = unknown(memory, proxy_inbox_name(memory, &all->gateway.routes[i]));
    return count;
}

/* Both locks are held. */
static void list_elements(totals *t, const config *all)
{
    region_free(&t->memory);
    t->inboxes = region_alloc(&t->memory, (all->inbox_count + all->gateway.route_count + 1) *
                                              sizeof *t->inboxes);
    t->inbox_count = list_inboxes(t->inboxes, &t->memory, all);
    t->outboxes = region_alloc(&t->memory, (all->outbox_count + 1) * sizeof *t->outboxes);
    t->outbox_count = all->outbox_count;
    for (size_t i = 0; i < all->outbox_count; i++)
        t->outboxes[i] = unknown(&t->memory, all->outboxes[i].name);
}

void totals_use_pipeline(totals *t, const config *all, semel_pipeline *pipeline)
{
    atomic_fetch_add(&t->is_wanted, 1);
    pthread_mutex_lock(&t->use_lock);
    t->pipeline = pipeline;
    if (pipeline) {
        pthread_mutex_lock(&t->lock);
        list_elements(t, all);
        t->is_new = 1;
        pthread_cond_signal(&t->wake);
        pthread_mutex_unlock(&t->lock);
    }
    pthread_mutex_unlock(&t->use_lock);
    atomic_fetch_sub(&t->is_wanted, 1);
}

outbox_total totals_outbox(totals *t, const char *name)
{
    outbox_total found = {-1, -1};
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->outbox_count; i++)
        if (strcmp(t->outboxes[i].name, name) == 0)
            found = t->outboxes[i].outbox;
    pthread_mutex_unlock(&t->lock);
    return found;
}

inbox_total totals_inbox(totals *t, const char *name)
{
    inbox_total found = {-1, -1};
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->inbox_count; i++)
        if (strcmp(t->inboxes[i].name, name) == 0)
            found = t->inboxes[i].inbox;
    pthread_mutex_unlock(&t->lock);
    return found;
}

int64_t totals_dead(totals *t)
{
    pthread_mutex_lock(&t->lock);
    int64_t dead = t->dead;
    pthread_mutex_unlock(&t->lock);
    return dead;
}

int64_t totals_counted_ms(totals *t)
{
    pthread_mutex_lock(&t->lock);
    int64_t at = t->counted_ms;
    pthread_mutex_unlock(&t->lock);
    return at;
}

schema_state totals_schema(totals *t, buffer *why)
{
    pthread_mutex_lock(&t->lock);
    schema_state state = t->schema;
    if (state == SCHEMA_BAD)
        buffer_text(why, t->schema_why.text);
    pthread_mutex_unlock(&t->lock);
    return state;
}
