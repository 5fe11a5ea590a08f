/* See worker_pool.h. The mutex guards everything but the child of a process that is taken (that is
 * its taker's) or about to be started (that is the pool's thread's); it is never held over I/O. */
#include "program/handler/worker_pool.h"
#include "program/support/thread.h"

#include <pthread.h>
#include <semel/semel.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BACKOFF_MS = 100, BACKOFF_MAX_MS = 10000, BACKOFF_DOUBLINGS = 7, MS_PER_S = 1000 };

struct worker_pool {
    const program *program;
    const char *const *env;
    worker_process *all;
    size_t count;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t starter;
    int closing;
};

/* --- the thread that starts processes --------------------------------------------------------- */

static worker_process *next_to_start(worker_pool *pool)
{
    for (size_t i = 0; i < pool->count; i++)
        if (pool->all[i].to_start)
            return &pool->all[i];
    return NULL;
}

static semel_status start_process(const worker_pool *pool, worker_process *w)
{
    child_spec spec = program_child(pool->program);
    spec.env = pool->env;
    spec.in = spec.out = spec.err = CHILD_PIPE;
    semel_status status = child_start(&w->child, &spec, &w->trouble);
    w->child.keeps_input = 1;
    return status;
}

static void *run_starter(void *context)
{
    worker_pool *pool = context;
    (void)pthread_mutex_lock(&pool->mutex);
    while (!pool->closing) {
        worker_process *w = next_to_start(pool);
        if (!w) {
            (void)pthread_cond_wait(&pool->changed, &pool->mutex);
            continue;
        }
        (void)pthread_mutex_unlock(&pool->mutex);
        semel_status status = start_process(pool, w);
        (void)pthread_mutex_lock(&pool->mutex);
        w->started = status;
        w->running = !status;
        w->to_start = 0;
        (void)pthread_cond_broadcast(&pool->changed);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void free_pool(worker_pool *pool)
{
    (void)pthread_cond_destroy(&pool->changed);
    (void)pthread_mutex_destroy(&pool->mutex);
    free(pool->all);
    free(pool);
}

semel_status worker_pool_open(worker_pool **out, const program *of, const char *const *env,
                              uint32_t processes, semel_error *err)
{
    worker_pool *pool = must_alloc(sizeof *pool);
    pthread_condattr_t steady;
    pool->program = of;
    pool->env = env;
    pool->count = processes ? processes : 1;
    pool->all = must_alloc(pool->count * sizeof *pool->all);
    (void)pthread_condattr_init(&steady);
    (void)pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&pool->changed, &steady);
    (void)pthread_condattr_destroy(&steady);
    (void)pthread_mutex_init(&pool->mutex, NULL);
    if (start_thread(&pool->starter, run_starter, pool) != 0) {
        free_pool(pool);
        return semel_fail(err, SEMEL_ENOMEM, "worker: cannot start a thread");
    }
    *out = pool;
    return SEMEL_OK;
}

/* A process that reads until the end of its input ends by itself. */
static void end_processes(worker_pool *pool)
{
    int64_t until = child_clock_ms() + CHILD_GRACE_MS;
    for (size_t i = 0; i < pool->count; i++)
        if (pool->all[i].running)
            pool->all[i].child.keeps_input = 0;
    for (size_t i = 0; i < pool->count; i++) /* the step closes stdin */
        if (pool->all[i].running)
            child_step(&pool->all[i].child, 0, NULL, 0);
    for (size_t i = 0; i < pool->count; i++) {
        worker_process *w = &pool->all[i];
        while (w->running && !w->child.ended && child_clock_ms() < until)
            child_step(&w->child, until, NULL, 0);
        if (w->running)
            child_close(&w->child);
    }
}

void worker_pool_close(worker_pool *pool)
{
    end_processes(pool);
    (void)pthread_mutex_lock(&pool->mutex);
    pool->closing = 1;
    (void)pthread_cond_broadcast(&pool->changed);
    (void)pthread_mutex_unlock(&pool->mutex);
    (void)pthread_join(pool->starter, NULL);
    free_pool(pool);
}

/* --- taking and giving back ------------------------------------------------------------------- */

/* One that runs is preferred to one that would have to be started. */
static worker_process *find_free(worker_pool *pool, int64_t now)
{
    worker_process *found = NULL;
    for (size_t i = 0; i < pool->count; i++) {
        worker_process *w = &pool->all[i];
        if (w->taken)
            continue;
        if (w->running)
            return w;
        if (!found && w->not_before_ms <= now)
            found = w;
    }
    return found;
}

/* When a process that waits to be started again is the next thing to happen. */
static int64_t earliest_start(const worker_pool *pool, int64_t wake)
{
    for (size_t i = 0; i < pool->count; i++) {
        const worker_process *w = &pool->all[i];
        if (!w->taken && !w->running && w->not_before_ms < wake)
            wake = w->not_before_ms;
    }
    return wake;
}

static void wait_until(worker_pool *pool, int64_t until_ms)
{
    int64_t left = until_ms - child_clock_ms();
    if (left <= 0)
        return;
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + left % MS_PER_S * 1000000;
    at.tv_sec += left / MS_PER_S + ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    (void)pthread_cond_timedwait(&pool->changed, &pool->mutex, &at);
}

/* The lease is renewed while the message waits for its turn, without the mutex. */
static semel_status reserve(worker_process **out, worker_pool *pool, attempt *a, semel_error *err)
{
    semel_status status = SEMEL_OK;
    (void)pthread_mutex_lock(&pool->mutex);
    while (!status && !(*out = find_free(pool, child_clock_ms()))) {
        wait_until(pool, earliest_start(pool, attempt_wake_ms(a)));
        (void)pthread_mutex_unlock(&pool->mutex);
        status = attempt_continue(a, err);
        (void)pthread_mutex_lock(&pool->mutex);
    }
    if (!status)
        (*out)->taken = 1;
    (void)pthread_mutex_unlock(&pool->mutex);
    return status;
}

static semel_status have_started(worker_pool *pool, worker_process *w, semel_error *err)
{
    (void)pthread_mutex_lock(&pool->mutex);
    w->to_start = 1;
    w->answered = 0;
    (void)pthread_cond_broadcast(&pool->changed);
    while (w->to_start)
        (void)pthread_cond_wait(&pool->changed, &pool->mutex);
    semel_status status = w->started;
    (void)pthread_mutex_unlock(&pool->mutex);
    return status ? semel_fail(err, SEMEL_EHANDLER, "worker: %s", w->trouble.text) : SEMEL_OK;
}

/* What a process has written while it had nothing to do is no answer to anything. */
static int is_usable(worker_process *w)
{
    if (!w->running)
        return 0;
    child_step(&w->child, 0, NULL, 0);
    w->child.line_len = w->child.last_len = 0;
    return !w->child.ended && w->child.out >= 0 && w->child.in >= 0 && !w->child.output.len;
}

/* The next process in its place may be started at once if this one has worked. */
static void retire(worker_pool *pool, worker_process *w)
{
    if (w->running)
        child_close(&w->child);
    (void)pthread_mutex_lock(&pool->mutex);
    w->running = 0;
    w->deaths = w->answered ? 0 : w->deaths + 1;
    w->not_before_ms = 0;
    if (w->deaths) {
        unsigned doublings = w->deaths - 1 < BACKOFF_DOUBLINGS ? w->deaths - 1 : BACKOFF_DOUBLINGS;
        int64_t pause = (int64_t)BACKOFF_MS << doublings;
        w->not_before_ms = child_clock_ms() + (pause < BACKOFF_MAX_MS ? pause : BACKOFF_MAX_MS);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
}

semel_status worker_pool_take(worker_process **out, worker_pool *pool, attempt *a, semel_error *err)
{
    for (;;) {
        worker_process *w = NULL;
        semel_status status = reserve(&w, pool, a, err);
        if (status)
            return status;
        int was_running = w->running;
        if (!was_running)
            status = have_started(pool, w, err);
        if (!status && (!was_running || is_usable(w))) {
            *out = w;
            return SEMEL_OK;
        }
        worker_pool_give_back(pool, w, 0);
        if (status)
            return status;
    }
}

void worker_pool_give_back(worker_pool *pool, worker_process *w, int keep)
{
    w->child.output.len = 0;
    if (!keep)
        retire(pool, w);
    (void)pthread_mutex_lock(&pool->mutex);
    w->taken = 0;
    (void)pthread_cond_broadcast(&pool->changed);
    (void)pthread_mutex_unlock(&pool->mutex);
}

/* --- one question, one answer ----------------------------------------------------------------- */

static semel_status has_ended(const child *c, semel_error *err)
{
    buffer text = {0};
    if (c->ended)
        child_describe(&text, c);
    else
        buffer_text(&text, "it has closed its output");
    semel_status status =
        semel_fail(err, SEMEL_EHANDLER, "worker: ended before it answered: %s", text.data);
    buffer_free(&text);
    return status;
}

/* A process that has closed its output is ending: its status and its last words are worth a moment.
 * */
static void let_end(child *c)
{
    int64_t until = child_clock_ms() + CHILD_LINGER_MS;
    while (c->out < 0 && !child_is_done(c) && child_clock_ms() < until)
        child_step(c, until, NULL, 0);
}

/* The answer, or none yet: out->data is NULL. */
static semel_status look_for_line(semel_bytes *out, child *c, semel_error *err)
{
    const char *text = c->output.data;
    const char *newline = c->output.len ? memchr(text, '\n', c->output.len) : NULL;
    if (!newline) {
        if (c->output_exceeded)
            return semel_fail(err, SEMEL_EHANDLER, "worker: the answer is longer than %zu bytes",
                              c->output_max);
        let_end(c);
        return c->out < 0 || child_is_done(c) ? has_ended(c, err) : SEMEL_OK;
    }
    if (newline + 1 != text + c->output.len || c->output_exceeded)
        return semel_fail(err, SEMEL_EHANDLER, "worker: more than one line for one message");
    if (c->input.len)
        return semel_fail(err, SEMEL_EHANDLER, "worker: answered before it had read the message");
    *out = (semel_bytes){text, (size_t)(newline - text)};
    return SEMEL_OK;
}

semel_status worker_ask(semel_bytes *answer, worker_process *w, semel_bytes line, attempt *a,
                        semel_error *err)
{
    child *c = &w->child;
    semel_bytes found = {NULL, 0};
    semel_status status = SEMEL_OK;
    c->output.len = 0;
    c->input = line;
    while (!status && !found.data) {
        child_step(c, attempt_wake_ms(a), NULL, 0);
        status = attempt_continue(a, err);
        if (!status)
            status = look_for_line(&found, c, err);
    }
    if (status)
        return status;
    w->answered = 1;
    *answer = found;
    return SEMEL_OK;
}
