/* See history_writer.h.
 *
 * There are two rings: one for failures and what else a person looks for, one for the rest. Each is
 * as large as what may come in a second before the writer knows that it is too much. After that a
 * key is recorded if its hash is below the share that fits into the budget, so that the timeline of
 * a key is complete or missing, and not full of holes. The budget follows from the number of rows
 * that are kept: the history is to reach back for a minute or more, however busy the process is.
 *
 * Of a request of a proxy there is no message: the inbox has its checksum only, and a caller's
 * headers are its secrets more often than not.
 *
 * The thread writes small transactions that do not wait for the disk, so that other writers of a
 * store with one writer wait for some milliseconds. What cannot be written is dropped and counted:
 * a store that is away has other things to do when it is back. Rows are removed by each process
 * that writes some, in steps; a process first looks whether there is something to remove. */
#include "program/run/history_writer.h"

#include "program/gateway/proxy_inbox.h"
#include "program/run/history_record.h"
#include "program/run/ring.h"
#include "program/support/memory.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <errno.h>
#include <pthread.h>
#include <semel/operate.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    URGENT_PLACES = 1024,
    PLAIN_PLACES = 1024,
    BYTES_MAX = 32 << 20, /* in both rings; then messages are left out */
    BATCH_ROWS = 500,     /* of a transaction */
    BUDGET_LEAST = 50,    /* rows in a second */
    BUDGET_MOST = 1000,
    BUDGET_SPAN_S = 100, /* in which the budget fills the history */
    SHARE_ALL = 1 << 16,
    PERIOD_MS = 1000,
    GAP_MS = 10000,  /* a gap that goes on is written as often */
    TRIM_MS = 10000, /* without new rows it is looked for old ones as often */
    TRIM_ROWS = 500, /* of a transaction */
    TRIM_STEPS = 10, /* in a period: more than can be written in one */
    REFUSED_MS = 60000,
    CLOSE_MS = 1000,
    PROCESS_SIZE = 64
};
enum { NS_PER_MS = 1000000, MS_PER_S = 1000 };

struct history_writer {
    log *log;
    char process[PROCESS_SIZE];
    atomic_int enabled;
    _Atomic size_t body_max;
    _Atomic uint64_t rows_kept, age_ms;
    ring *urgent, *plain;
    atomic_uint share;            /* of SHARE_ALL, the keys that are recorded */
    atomic_uint_fast64_t offered; /* to the plain ring, in this period */
    atomic_uint_fast64_t lost;    /* since the last look at it */
    atomic_uint_fast64_t lost_ever;
    atomic_size_t bytes; /* in the rings */

    semel_store *store; /* the thread's own, as what follows up to the lock */
    uint64_t gap_count;
    int64_t gap_since_ms, gap_last_ms;
    uint64_t untrimmed; /* rows that were written since the last look for old ones */
    int64_t trim_due_ms, write_due_ms;
    int is_away, has_said_gap, has_said_failure;

    pthread_t thread;
    int runs; /* the thread was started */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int stops, has_ended;
};

static int64_t steady_ms(void)
{
    return steady_clock_ns() / NS_PER_MS;
}

/* --- the observer ----------------------------------------------------------------------------- */

/* FNV-1a of the name and the key. */
static uint32_t hash_of(const semel_event *event)
{
    uint32_t hash = 2166136261u;
    semel_bytes key = history_key(event);
    const unsigned char *at = key.data;
    for (size_t i = 0; i < key.len; i++)
        hash = (hash ^ at[i]) * 16777619u;
    for (const char *name = event->name; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash ^ (hash >> 16);
}

static int is_in_share(history_writer *w, const semel_event *event)
{
    unsigned share = atomic_load_explicit(&w->share, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->offered, 1, memory_order_relaxed);
    return share >= SHARE_ALL || (hash_of(event) & (SHARE_ALL - 1)) < share;
}

static void count_lost(history_writer *w, uint64_t count)
{
    atomic_fetch_add_explicit(&w->lost, count, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->lost_ever, count, memory_order_relaxed);
}

void history_writer_observe(history_writer *w, const semel_event *event)
{
    if (!atomic_load_explicit(&w->enabled, memory_order_relaxed))
        return;
    int urgent = history_is_urgent(event);
    ring *to = urgent ? w->urgent : w->plain;
    if ((!urgent && !is_in_share(w, event)) || ring_is_full(to)) {
        count_lost(w, 1);
        return;
    }
    size_t body_max = atomic_load_explicit(&w->body_max, memory_order_relaxed);
    int contents = body_max && history_is_first(event) && !proxy_inbox_is(event->name) &&
                   atomic_load_explicit(&w->bytes, memory_order_relaxed) < BYTES_MAX;
    history_record *record = history_record_make(event, contents, body_max);
    size_t size = record->size; /* the thread may free it at once */
    atomic_fetch_add_explicit(&w->bytes, size, memory_order_relaxed);
    if (ring_push(to, record))
        return;
    atomic_fetch_sub_explicit(&w->bytes, size, memory_order_relaxed);
    free(record);
    count_lost(w, 1);
}

uint64_t history_writer_lost(const history_writer *w)
{
    return atomic_load(&w->lost_ever);
}

/* --- lines of the log ------------------------------------------------------------------------- */

static void say(const history_writer *w, log_level level, const char *text)
{
    log_write(w->log,
              &(log_entry){.level = level, .event = "history", .subject = "history", .msg = text});
}

static void say_gap(history_writer *w)
{
    buffer text = {0};
    if (w->has_said_gap)
        return;
    w->has_said_gap = 1;
    buffer_text(&text, "not all deliveries are recorded, ");
    show_number(&text, history_writer_lost(w));
    buffer_text(&text, " so far: there are more than it takes; those of a part of the keys are, "
                       "and failures. This is said once");
    say(w, LOG_INFO, text.data);
    buffer_free(&text);
}

static void say_failure(history_writer *w, const semel_error *why)
{
    buffer text = {0};
    if (w->has_said_failure)
        return;
    w->has_said_failure = 1;
    buffer_printf(&text, "deliveries cannot be recorded: %s", why->text);
    if (!why->retryable)
        buffer_text(&text, "; it is tried once in a minute (history: false turns it off)");
    say(w, why->retryable ? LOG_INFO : LOG_WARNING, text.data);
    buffer_free(&text);
}

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct batch {
    semel_history rows[BATCH_ROWS + 1]; /* and a gap */
    history_record *records[BATCH_ROWS];
    size_t count;
} batch;

static size_t take_records(history_writer *w, batch *b)
{
    history_record *record;
    b->count = 0;
    while (b->count < BATCH_ROWS &&
           ((record = ring_pop(w->urgent)) || (record = ring_pop(w->plain)))) {
        b->records[b->count] = record;
        b->rows[b->count] = record->row;
        b->rows[b->count++].process = w->process;
        atomic_fetch_sub_explicit(&w->bytes, record->size, memory_order_relaxed);
    }
    return b->count;
}

static void free_records(batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        free(b->records[i]);
    b->count = 0;
}

/* What was lost since the last call belongs to the gap that is open, or opens one. */
static void gather_lost(history_writer *w)
{
    uint64_t lost = atomic_exchange(&w->lost, 0);
    if (!lost)
        return;
    if (!w->gap_count)
        w->gap_since_ms = wall_clock_ms() - PERIOD_MS;
    w->gap_count += lost;
    w->gap_last_ms = wall_clock_ms();
}

/* A gap is written when it has ended, and from time to time while it goes on. */
static int gap_is_due(const history_writer *w, int ends)
{
    int64_t now = wall_clock_ms();
    return w->gap_count &&
           (ends || now - w->gap_last_ms >= PERIOD_MS || now - w->gap_since_ms >= GAP_MS);
}

static semel_history gap_row(const history_writer *w)
{
    return (semel_history){.size = sizeof(semel_history),
                           .kind = SEMEL_HISTORY_GAP,
                           .at_ms = w->gap_last_ms,
                           .took_ns = (w->gap_last_ms - w->gap_since_ms) * NS_PER_MS,
                           .count = w->gap_count,
                           .process = w->process};
}

/* 0 if the store did not take them. */
static int write_batch(history_writer *w, batch *b, int with_gap)
{
    semel_error why = {0};
    size_t count = b->count;
    if (with_gap)
        b->rows[count++] = gap_row(w);
    if (!count)
        return 1;
    w->is_away = semel_history_write(w->store, b->rows, count, &why) != SEMEL_OK;
    if (w->is_away) {
        count_lost(w, b->count);
        if (!why.retryable)
            w->write_due_ms = steady_ms() + REFUSED_MS;
        say_failure(w, &why);
        return 0;
    }
    w->has_said_failure = 0;
    w->untrimmed += count;
    if (with_gap)
        w->gap_count = 0;
    return 1;
}

/* Without a store that takes them, they are counted and gone. */
static void drop_all(history_writer *w, batch *b)
{
    while (take_records(w, b)) {
        count_lost(w, b->count);
        free_records(b);
    }
}

static void write_all(history_writer *w, batch *b, int ends)
{
    int goes_on = steady_ms() >= w->write_due_ms, with_gap;
    size_t left = URGENT_PLACES + PLAIN_PLACES; /* what comes meanwhile waits for the next time */
    gather_lost(w);
    if (w->gap_count && goes_on && !w->is_away)
        say_gap(w);
    do {
        size_t taken = goes_on ? take_records(w, b) : 0;
        left -= taken < left ? taken : left;
        with_gap = taken < BATCH_ROWS && gap_is_due(w, ends);
        goes_on = goes_on && write_batch(w, b, with_gap) && taken == BATCH_ROWS && left;
        free_records(b);
    } while (goes_on);
    if (w->is_away)
        drop_all(w, b);
}

/* --- the share -------------------------------------------------------------------------------- */

static uint64_t budget(const history_writer *w)
{
    uint64_t rows = atomic_load(&w->rows_kept) / BUDGET_SPAN_S;
    return rows < BUDGET_LEAST ? BUDGET_LEAST : rows > BUDGET_MOST ? BUDGET_MOST : rows;
}

static void set_share(history_writer *w, int64_t period_ms)
{
    uint64_t offered = atomic_exchange(&w->offered, 0);
    uint64_t fits =
        budget(w) * (uint64_t)(period_ms > PERIOD_MS ? period_ms : PERIOD_MS) / MS_PER_S;
    uint64_t share = offered > fits ? fits * SHARE_ALL / offered : SHARE_ALL;
    atomic_store(&w->share, share ? (unsigned)share : 1);
}

/* --- trimming --------------------------------------------------------------------------------- */

/* 1: the history is longer or older than it is to be, as far as that is known. */
static int is_too_long(history_writer *w, uint64_t rows_kept, uint64_t age_ms)
{
    uint64_t rows = 0;
    int64_t oldest_ms = 0, now_ms = 0;
    if (semel_history_size(&rows, &oldest_ms, w->store, NULL) ||
        semel_store_now(&now_ms, w->store, NULL))
        return 0;
    return rows > rows_kept || (rows && oldest_ms < now_ms - (int64_t)age_ms);
}

static void trim(history_writer *w)
{
    uint64_t rows_kept = atomic_load(&w->rows_kept), age_ms = atomic_load(&w->age_ms);
    int more = 1;
    if (w->is_away || (w->untrimmed < rows_kept / 10 + 1 && steady_ms() < w->trim_due_ms))
        return;
    w->untrimmed = 0;
    w->trim_due_ms = steady_ms() + TRIM_MS;
    if (!is_too_long(w, rows_kept, age_ms))
        return;
    for (int i = 0; more && i < TRIM_STEPS; i++)
        if (semel_history_trim(NULL, &more, w->store, rows_kept, age_ms, TRIM_ROWS, NULL))
            return;
    if (more)
        w->trim_due_ms = 0;
}

/* --- the thread ------------------------------------------------------------------------------- */

static struct timespec after_ms(int64_t ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + ms % MS_PER_S * NS_PER_MS;
    at.tv_sec += ms / MS_PER_S + ns / ((int64_t)NS_PER_MS * MS_PER_S);
    at.tv_nsec = ns % ((int64_t)NS_PER_MS * MS_PER_S);
    return at;
}

/* 1: it is to stop. */
static int wait_period(history_writer *w)
{
    struct timespec end = after_ms(PERIOD_MS);
    int waits = 0;
    pthread_mutex_lock(&w->lock);
    while (!w->stops && waits != ETIMEDOUT)
        waits = pthread_cond_timedwait(&w->changed, &w->lock, &end);
    int stops = w->stops;
    pthread_mutex_unlock(&w->lock);
    return stops;
}

static void *keep_writing(void *context)
{
    history_writer *w = context;
    batch *b = must_alloc(sizeof *b);
    int64_t began = steady_ms();
    int stops;
    do {
        stops = wait_period(w);
        set_share(w, steady_ms() - began);
        began = steady_ms();
        if (!stops || !w->is_away) /* one that was away a second ago is not waited for */
            write_all(w, b, stops);
        if (!stops)
            trim(w);
    } while (!stops);
    free(b);
    pthread_mutex_lock(&w->lock);
    w->has_ended = 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- opening and closing ---------------------------------------------------------------------- */

history_writer *history_writer_open(log *l, const char *process)
{
    history_writer *w = must_alloc(sizeof *w);
    pthread_condattr_t clock;
    w->log = l;
    (void)snprintf(w->process, sizeof w->process, "%s", process);
    w->urgent = ring_open(URGENT_PLACES);
    w->plain = ring_open(PLAIN_PLACES);
    atomic_store(&w->share, SHARE_ALL);
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &clock);
    pthread_condattr_destroy(&clock);
    return w;
}

void history_writer_configure(history_writer *w, const history_config *options)
{
    atomic_store(&w->rows_kept, options->rows);
    atomic_store(&w->age_ms, options->age_ms);
    atomic_store(&w->body_max, (size_t)options->body_bytes);
    atomic_store(&w->enabled, options->enabled);
}

void history_writer_use_store(history_writer *w, semel_store *store)
{
    w->store = store;
    w->runs = start_thread(&w->thread, keep_writing, w) == 0;
    if (w->runs)
        return;
    atomic_store(&w->enabled, 0);
    say(w, LOG_WARNING, "deliveries are not recorded: no thread could be started");
}

/* 0 if the thread still waits for the store. */
static int stop_thread(history_writer *w)
{
    struct timespec end = after_ms(CLOSE_MS);
    int waits = 0;
    pthread_mutex_lock(&w->lock);
    w->stops = 1;
    pthread_cond_broadcast(&w->changed);
    while (!w->has_ended && waits != ETIMEDOUT)
        waits = pthread_cond_timedwait(&w->changed, &w->lock, &end);
    int has_ended = w->has_ended;
    pthread_mutex_unlock(&w->lock);
    if (has_ended)
        (void)pthread_join(w->thread, NULL);
    return has_ended;
}

int history_writer_close(history_writer *w)
{
    if (!w)
        return 1;
    if (w->runs && !stop_thread(w))
        return 0; /* the process is about to end, and the thread with it */
    ring_close(w->urgent);
    ring_close(w->plain);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return 1;
}
