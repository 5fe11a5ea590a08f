/* See retrier.h. An idle process asks one question in a second, which an index answers. After it
 * had something to do it asks more often for a while: a bulk retry asks for letters in steps. While
 * the store is away the retrier asks less often and says nothing: the pipeline says so already.
 *
 * A failure that the store could not be told of is kept until it can; nothing else is taken before
 * that. If the process ends first, the letter stays as begun (retry.c). */
#include "program/run/retrier.h"

#include "program/support/memory.h"
#include "program/support/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PAGE = 100,
    LOOK_MS = 1000,
    SOON_MS = 50,
    SOON_LOOKS = 40,
    AWAY_MOST_MS = 10000,
    REFUSED_MS = 60000
};

typedef struct page {
    retry_letter letters[PAGE];
    size_t count;
} page;

struct retrier {
    retry_place place;
    log *log;
    pthread_t thread;
    int runs; /* the thread was started, and not joined yet */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int stopped; /* under the lock */
    atomic_int idle;
    page page;
    int64_t unnoted; /* a letter whose failure is still to be told; 0: none */
    semel_error why; /* its error */
    int was_refused; /* that was said */
    int worked;      /* in this round */
    int soon;        /* so many looks follow each other quickly */
};

/* --- waiting ---------------------------------------------------------------------------------- */

static int is_stopped(retrier *r)
{
    pthread_mutex_lock(&r->lock);
    int stopped = r->stopped;
    pthread_mutex_unlock(&r->lock);
    return stopped;
}

static void wait_for(retrier *r, int64_t ms)
{
    enum { NS_PER_MS = 1000000, MS_PER_S = 1000 };
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + ms % MS_PER_S * NS_PER_MS;
    until.tv_sec += (time_t)(ms / MS_PER_S + ns / (MS_PER_S * NS_PER_MS));
    until.tv_nsec = (long)(ns % (MS_PER_S * NS_PER_MS));
    pthread_mutex_lock(&r->lock);
    while (!r->stopped && pthread_cond_timedwait(&r->wake, &r->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&r->lock);
}

/* --- one round -------------------------------------------------------------------------------- */

static semel_status note_letter(const semel_dead *dead, void *context, semel_error *err)
{
    page *p = context;
    (void)err;
    if (p->count < PAGE)
        p->letters[p->count++] = retry_letter_of(dead);
    return SEMEL_OK;
}

static semel_status read_page(retrier *r, int64_t after_id, semel_error *err)
{
    semel_dead_filter filter = {
        .size = sizeof filter, .after_id = after_id, .limit = PAGE, .retry = 1, .brief = 1};
    r->page.count = 0;
    return semel_dead_list(r->place.store, &filter, note_letter, &r->page, err);
}

static semel_status note_failure(retrier *r, semel_error *err)
{
    retry_end ignored;
    semel_status status =
        r->unnoted ? retry_note(&ignored, &r->place, r->unnoted, r->why.text, err) : SEMEL_OK;
    if (!status)
        r->unnoted = 0;
    return status;
}

static semel_status run_one(retrier *r, const retry_letter *letter, semel_error *err)
{
    retry_end end;
    semel_error why = {0};
    atomic_store(&r->idle, 0);
    semel_status status = retry_run(&end, &r->place, letter, &why);
    if (status) {
        *err = why;
        return status;
    }
    r->worked |= end != RETRY_END_POSTPONED;
    if (end == RETRY_END_UNNOTED) {
        r->unnoted = letter->id;
        r->why = why;
    }
    return note_failure(r, err);
}

/* Letters of other configurations on the same store are passed over, however many they are. */
static semel_status run_all(retrier *r, semel_error *err)
{
    int64_t after = 0;
    semel_status status = note_failure(r, err);
    r->worked = 0;
    do {
        if (!status)
            status = read_page(r, after, err);
        for (size_t i = 0; !status && i < r->page.count && !is_stopped(r); i++) {
            const retry_letter *letter = &r->page.letters[i];
            after = letter->id;
            if (retry_is_known(&r->place, letter))
                status = run_one(r, letter, err);
        }
    } while (!status && r->page.count == PAGE && !is_stopped(r));
    return status;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void say_refused(retrier *r, const semel_error *why)
{
    if (!r->was_refused)
        log_write(r->log, &(log_entry){.level = LOG_WARNING,
                                       .event = "failed",
                                       .subject = "retries",
                                       .msg = why->text,
                                       .fields = {{"component", "retries", 0}}});
    r->was_refused = 1;
}

/* How long until the next round. */
static int64_t pause_after(retrier *r, const semel_error *why, int64_t last_ms)
{
    if (!why->status) {
        r->was_refused = 0;
        r->soon = r->worked ? SOON_LOOKS : r->soon ? r->soon - 1 : 0;
        return r->worked ? 0 : r->soon ? SOON_MS : LOOK_MS;
    }
    if (why->retryable)
        return last_ms < LOOK_MS            ? LOOK_MS
               : last_ms * 2 < AWAY_MOST_MS ? last_ms * 2
                                            : AWAY_MOST_MS;
    say_refused(r, why);
    return REFUSED_MS;
}

static void *retrier_main(void *context)
{
    retrier *r = context;
    for (int64_t pause_ms = 0; !is_stopped(r); wait_for(r, pause_ms)) {
        semel_error why = {0};
        if (run_all(r, &why) == SEMEL_OK)
            why = (semel_error){0};
        pause_ms = pause_after(r, &why, pause_ms);
        atomic_store(&r->idle, !why.retryable && !r->worked);
    }
    return NULL;
}

static int make_lock(retrier *r)
{
    pthread_condattr_t steady;
    int error = pthread_condattr_init(&steady);
    if (!error)
        error = pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    if (!error)
        error = pthread_cond_init(&r->wake, &steady);
    (void)pthread_condattr_destroy(&steady);
    return error ? error : pthread_mutex_init(&r->lock, NULL);
}

int retrier_start(retrier **out, const retry_place *place, log *l)
{
    retrier *r = must_alloc(sizeof *r);
    r->place = *place;
    r->log = l;
    int error = make_lock(r);
    if (!error)
        error = start_thread(&r->thread, retrier_main, r);
    if (error) {
        free(r);
        return error;
    }
    r->runs = 1;
    *out = r;
    return 0;
}

void retrier_stop(retrier *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stopped = 1;
    pthread_cond_broadcast(&r->wake);
    pthread_mutex_unlock(&r->lock);
}

void retrier_join(retrier *r)
{
    if (!r || !r->runs)
        return;
    retrier_stop(r);
    (void)pthread_join(r->thread, NULL);
    r->runs = 0;
}

void retrier_free(retrier *r)
{
    if (!r)
        return;
    retrier_join(r);
    (void)pthread_cond_destroy(&r->wake);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

int retrier_is_idle(const retrier *r)
{
    return !r || atomic_load(&r->idle);
}
