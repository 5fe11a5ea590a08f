/* The thread of a running process that touches the store for those who watch: it writes the row of
 * the process every ten seconds, and asks for health when it is told to.
 *
 * A row that cannot be written is written the next time; nothing depends on it. A process that is
 * killed leaves its row: readers see by its time that it is old, on the same host by the socket
 * that it is gone, and whichever process writes its row first removes it after a day. */
#include "program/run/live_internal.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <semel/operate.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_MS = 1000000, MS_PER_S = 1000 };

struct presence {
    live *all;
    pthread_t thread;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t wake;
    semel_store *store; /* set once */
    int stops;
    int is_asked, is_answered;
    uint32_t stalled_after_ms;
    buffer answer;
    int64_t started_ms; /* by the store's clock; the thread's own, as what follows */
    int has_row, has_said;
    int is_away; /* the last write failed */
};

/* --- the row ---------------------------------------------------------------------------------- */

static int knows_start(presence *p, semel_store *store)
{
    int64_t now_ms;
    if (p->started_ms)
        return 1;
    if (semel_store_now(&now_ms, store, NULL))
        return 0;
    p->started_ms = now_ms - (steady_clock_ns() - p->all->started_ns) / NS_PER_MS;
    return 1;
}

/* Once, if waiting does not help: a right is missing. */
static void say_no_row(presence *p, const semel_error *why)
{
    buffer text = {0};
    if (why->retryable || p->has_said)
        return;
    p->has_said = 1;
    buffer_printf(&text, "the store does not learn of this process: %s", why->text);
    log_write(p->all->log, &(log_entry){.level = LOG_WARNING, .event = "row", .msg = text.data});
    buffer_free(&text);
}

static void write_row(presence *p, semel_store *store)
{
    buffer data = {0};
    if (!knows_start(p, store))
        return;
    live_write_row(p->all, &data);
    semel_process row = {.size = sizeof row,
                         .id = p->all->id,
                         .host = p->all->host,
                         .pid = getpid(),
                         .started_ms = p->started_ms,
                         .socket = p->all->path,
                         .data = data.data};
    semel_error why = {0};
    p->is_away = semel_process_write(&row, store, &why) != SEMEL_OK;
    if (p->is_away) {
        say_no_row(p, &why);
    } else if (!p->has_row) { /* "" is the id of none */
        (void)semel_process_remove(store, "", LIVE_FORGOTTEN_MS, NULL);
        p->has_row = 1;
    }
    buffer_free(&data);
}

/* A store that is away is not waited for at the end: the row is old soon. */
static void remove_row(presence *p, semel_store *store)
{
    if (store && p->has_row && !p->is_away)
        (void)semel_process_remove(store, p->all->id, LIVE_FORGOTTEN_MS, NULL);
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

/* The lock is held, but not while the store is asked. */
static void answer_question(presence *p)
{
    const uint64_t one = 1;
    buffer answer = {0};
    uint32_t stalled_after_ms = p->stalled_after_ms;
    pthread_mutex_unlock(&p->lock);
    live_write_health(p->all, &answer, stalled_after_ms);
    pthread_mutex_lock(&p->lock);
    buffer_free(&p->answer);
    p->answer = answer;
    p->is_asked = 0;
    p->is_answered = 1;
    (void)!write(p->all->wake_fd, &one, sizeof one);
}

static int is_over(const struct timespec *due)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > due->tv_sec || (now.tv_sec == due->tv_sec && now.tv_nsec >= due->tv_nsec);
}

static int row_is_due(const presence *p, const struct timespec *due)
{
    return p->store && is_over(due);
}

static void wait_for_work(presence *p, const struct timespec *due)
{
    while (!p->stops && !p->is_asked && !row_is_due(p, due)) {
        if (p->store)
            (void)pthread_cond_timedwait(&p->wake, &p->lock, due);
        else
            (void)pthread_cond_wait(&p->wake, &p->lock);
    }
}

static void *keep_present(void *context)
{
    presence *p = context;
    struct timespec due = after_ms(0);
    pthread_mutex_lock(&p->lock);
    for (wait_for_work(p, &due); !p->stops; wait_for_work(p, &due)) {
        if (p->is_asked)
            answer_question(p);
        if (row_is_due(p, &due)) {
            pthread_mutex_unlock(&p->lock);
            write_row(p, p->store);
            due = after_ms(LIVE_PERIOD_MS);
            pthread_mutex_lock(&p->lock);
        }
    }
    pthread_mutex_unlock(&p->lock);
    remove_row(p, p->store);
    return NULL;
}

/* --- from other threads ----------------------------------------------------------------------- */

presence *presence_open(live *all)
{
    presence *p = must_alloc(sizeof *p);
    pthread_condattr_t clock;
    p->all = all;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &clock);
    pthread_condattr_destroy(&clock);
    if (start_thread(&p->thread, keep_present, p) == 0)
        return p;
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}

void presence_close(presence *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stops = 1;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    (void)pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    buffer_free(&p->answer);
    free(p);
}

void presence_use_store(presence *p, semel_store *store)
{
    pthread_mutex_lock(&p->lock);
    p->store = store;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

int presence_ask(presence *p, uint32_t stalled_after_ms)
{
    pthread_mutex_lock(&p->lock);
    int is_free = !p->is_asked && !p->is_answered;
    if (is_free) {
        p->is_asked = 1;
        p->stalled_after_ms = stalled_after_ms;
        pthread_cond_signal(&p->wake);
    }
    pthread_mutex_unlock(&p->lock);
    return is_free;
}

int presence_take_answer(presence *p, buffer *to)
{
    pthread_mutex_lock(&p->lock);
    int is_there = p->is_answered;
    if (is_there)
        buffer_add(to, p->answer.data, p->answer.len);
    p->is_answered = 0;
    pthread_mutex_unlock(&p->lock);
    return is_there;
}
