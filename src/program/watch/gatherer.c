/* See gatherer.h. The first view is followed by another one after a second at most, since rates
 * need two. */
#include "program/watch/gatherer.h"

#include "program/run/live_internal.h"
#include "program/support/thread.h"
#include "program/watch/top_page.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MS_PER_S = 1000, NS_PER_MS = 1000000 };

struct gatherer {
    tool *t;
    const argument_list *inboxes;
    uint64_t every_ms;
    int wake_fd;
    pthread_t thread;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t wake;
    int stops, is_busy, wants_groups;
    view *fresh;
    buffer groups;
};

static void wake_reader(const gatherer *g)
{
    const uint64_t one = 1;
    (void)!write(g->wake_fd, &one, sizeof one);
}

static void put(gatherer *g, view *read, buffer *groups)
{
    if (g->fresh) {
        view_free(g->fresh);
        free(g->fresh);
    }
    g->fresh = read;
    if (groups->len) {
        buffer_free(&g->groups);
        g->groups = *groups;
    }
}

/* The lock is held, but not while the store is asked. Returns how long to wait for the next one. */
static uint64_t gather(gatherer *g)
{
    view *read = must_alloc(sizeof *read);
    buffer groups = {0};
    int wants_groups = g->wants_groups;
    g->is_busy = 1;
    pthread_mutex_unlock(&g->lock);
    view_read(read, g->t, g->inboxes, 1);
    if (wants_groups)
        top_page_groups(&groups, g->t);
    pthread_mutex_lock(&g->lock);
    g->is_busy = 0;
    uint64_t pause_ms = view_pause_ms(read, g->every_ms);
    put(g, read, &groups);
    wake_reader(g);
    return pause_ms;
}

static void pause_for(gatherer *g, uint64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / MS_PER_S);
    until.tv_nsec += (long)(ms % MS_PER_S * NS_PER_MS);
    if (until.tv_nsec >= (long)NS_PER_MS * MS_PER_S) {
        until.tv_nsec -= (long)NS_PER_MS * MS_PER_S;
        until.tv_sec++;
    }
    if (!g->stops)
        (void)pthread_cond_timedwait(&g->wake, &g->lock, &until);
}

static void *run(void *context)
{
    gatherer *g = context;
    pthread_mutex_lock(&g->lock);
    for (uint64_t most_ms = MS_PER_S; !g->stops; most_ms = UINT64_MAX) {
        uint64_t pause_ms = gather(g);
        pause_for(g, pause_ms < most_ms ? pause_ms : most_ms);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

gatherer *gatherer_open(tool *t, const argument_list *inboxes, uint64_t every_ms, int wake_fd)
{
    gatherer *g = must_alloc(sizeof *g);
    pthread_condattr_t clock;
    g->t = t;
    g->inboxes = inboxes;
    g->every_ms = every_ms;
    g->wake_fd = wake_fd;
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&g->wake, &clock);
    pthread_condattr_destroy(&clock);
    if (start_thread(&g->thread, run, g) == 0)
        return g;
    free(g);
    return NULL;
}

int gatherer_close(gatherer *g)
{
    buffer none = {0};
    pthread_mutex_lock(&g->lock);
    int is_busy = g->is_busy;
    g->stops = 1;
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
    if (is_busy)
        return 0;
    (void)pthread_join(g->thread, NULL);
    put(g, NULL, &none);
    buffer_free(&g->groups);
    pthread_cond_destroy(&g->wake);
    pthread_mutex_destroy(&g->lock);
    free(g);
    return 1;
}

view *gatherer_take(gatherer *g)
{
    pthread_mutex_lock(&g->lock);
    view *taken = g->fresh;
    g->fresh = NULL;
    pthread_mutex_unlock(&g->lock);
    return taken;
}

void gatherer_want_groups(gatherer *g, int wanted)
{
    pthread_mutex_lock(&g->lock);
    g->wants_groups = wanted;
    pthread_cond_signal(&g->wake);
    pthread_mutex_unlock(&g->lock);
}

void gatherer_copy_groups(gatherer *g, buffer *to)
{
    pthread_mutex_lock(&g->lock);
    if (g->groups.len)
        buffer_add(to, g->groups.data, g->groups.len);
    pthread_mutex_unlock(&g->lock);
}
