/* See tracer.h: the queue, and the thread that empties it. */
#include "program/support/show.h"
#include "program/support/thread.h"
#include "program/trace/tracer_internal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

static void wake(int fd)
{
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

/* --- the queue -------------------------------------------------------------------------------- */

void tracer_push(tracer *t, char *text)
{
    uint64_t waiting = atomic_fetch_add_explicit(&t->waiting, 1, memory_order_relaxed) + 1;
    if (waiting > t->settings.queue_spans || !ring_push(t->spans, text)) {
        atomic_fetch_sub_explicit(&t->waiting, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&t->dropped, 1, memory_order_relaxed);
        free(text);
        return;
    }
    if (waiting == t->settings.batch_spans)
        wake(t->wake_fd);
}

uint64_t tracer_new_id(tracer *t)
{
    uint64_t count = atomic_fetch_add_explicit(&t->ids, 1, memory_order_relaxed);
    return trace_mix(trace_mix(t->secret[0] + count) ^ t->secret[1]);
}

int64_t tracer_wall_ns(int64_t steady_ns)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t now = (int64_t)wall.tv_sec * NS_PER_S + wall.tv_nsec;
    return now - (steady_clock_ns() - steady_ns);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Spans of one request. 0: there were none. */
static uint64_t make_request(tracer *t, buffer *to)
{
    uint64_t count = 0;
    char *one;
    while (count < t->settings.batch_spans && (one = ring_pop(t->spans))) {
        if (count++)
            buffer_text(to, ",");
        else
            spans_open(to, t->settings.resource, t->settings.resource_count);
        buffer_text(to, one);
        free(one);
    }
    atomic_fetch_sub_explicit(&t->waiting, count, memory_order_relaxed);
    if (count)
        spans_close(to);
    return count;
}

static void tell_dropped(tracer *t)
{
    uint64_t dropped = atomic_load(&t->dropped);
    exporter_lost(t->exporter, dropped - t->told_dropped);
    t->told_dropped = dropped;
}

/* 0: there was nothing to send. */
static int export_batch(tracer *t)
{
    buffer request = {0};
    uint64_t count = make_request(t, &request);
    if (count) {
        tell_dropped(t);
        if (!exporter_post(t->exporter, &request, count)) {
            atomic_fetch_add(&t->dropped, count);
            t->told_dropped += count;
        }
    }
    buffer_free(&request);
    return count > 0;
}

static int is_over(const tracer *t)
{
    int64_t until = atomic_load(&t->stop.until_ns);
    return until && steady_clock_ns() >= until;
}

static void wait_for_batch(const tracer *t)
{
    struct pollfd fds[] = {{.fd = t->stop.fd, .events = POLLIN},
                           {.fd = t->wake_fd, .events = POLLIN}};
    uint64_t count;
    (void)poll(fds, 2, (int)t->settings.delay_ms);
    (void)!read(t->wake_fd, &count, sizeof count);
}

/* A batch that was complete before the thread looked has woken nobody: so it goes on as long as
 * there is a whole one. */
static void *export_all(void *context)
{
    tracer *t = context;
    while (!atomic_load(&t->stop.until_ns)) {
        wait_for_batch(t);
        do
            (void)export_batch(t);
        while (!atomic_load(&t->stop.until_ns) &&
               atomic_load(&t->waiting) >= t->settings.batch_spans);
    }
    while (!is_over(t) && export_batch(t))
        continue;
    return NULL;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void say_warnings(const trace_settings *settings, log *l)
{
    for (size_t i = 0; i < settings->warning_count; i++)
        log_write(l, &(log_entry){.level = LOG_WARNING,
                                  .event = "tracing",
                                  .subject = "tracing",
                                  .msg = settings->warnings[i]});
}

static size_t places_for(uint32_t spans)
{
    size_t places = 1;
    while (places < spans)
        places *= 2;
    return places;
}

static void free_tracer(tracer *t)
{
    exporter_close(t->exporter);
    ring_close(t->spans);
    if (t->wake_fd >= 0)
        (void)close(t->wake_fd);
    if (t->stop.fd >= 0)
        (void)close(t->stop.fd);
    trace_settings_free(&t->settings);
    free(t);
}

static int open_parts(tracer *t)
{
    t->hooks = (semel_tracing){.size = sizeof t->hooks,
                               .context = t,
                               .start = tracer_on_start,
                               .transfer = tracer_on_transfer};
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->stop.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->spans = ring_open(places_for(t->settings.queue_spans));
    t->exporter = exporter_open(&t->settings, t->log, &t->stop);
    return t->wake_fd >= 0 && t->stop.fd >= 0 && t->exporter &&
           getrandom(t->secret, sizeof t->secret, 0) == (ssize_t)sizeof t->secret &&
           !start_thread(&t->thread, export_all, t);
}

tracer *tracer_open(const config *all, log *l, const outcomes *o)
{
    trace_settings settings;
    trace_settings_read(&settings, &all->tracing, getenv);
    say_warnings(&settings, l);
    if (!settings.url) {
        trace_settings_free(&settings);
        return NULL;
    }
    tracer *t = must_alloc(sizeof *t);
    *t = (tracer){.log = l, .outcomes = o, .all = all, .settings = settings};
    if (open_parts(t))
        return t;
    log_write(l, &(log_entry){.level = LOG_ERROR,
                              .event = "tracing",
                              .subject = "tracing",
                              .msg = "it cannot be started: no memory, descriptor or thread; "
                                     "there are no spans"});
    free_tracer(t);
    return NULL;
}

void tracer_close(tracer *t, int64_t deadline_ms)
{
    if (!t)
        return;
    atomic_store(&t->stop.until_ns, steady_clock_ns() + deadline_ms * NS_PER_MS);
    wake(t->stop.fd);
    (void)pthread_join(t->thread, NULL);
    free_tracer(t);
}

void tracer_configure(tracer *t, const config *all)
{
    if (t)
        t->all = all;
}

const semel_tracing *tracer_hooks(const tracer *t)
{
    return t ? &t->hooks : NULL;
}
