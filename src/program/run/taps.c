/* See taps.h. A writer announces itself at the place of a tap before it looks whether there is one;
 * a tap is taken from its place first and freed when no writer is announced there any more. So
 * only the reader ever waits.
 *
 * The reader asks to be woken, looks once more for lines and then sleeps. Both sides exchange the
 * mark, so either the writer sees it, or the reader sees the line. */
#include "program/run/taps.h"

#include "program/operate/filters.h"
#include "program/run/ring.h"
#include "program/support/show.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NS_PER_MS = 1000000, NS_PER_US = 1000 };

struct tap {
    tap_filter *filter;
    ring *lines;
    atomic_uint_fast64_t lost;
};

typedef struct tap_place {
    _Atomic(tap *) tap;
    atomic_int writers;
} tap_place;

struct taps {
    int wake_fd;
    atomic_int count;
    atomic_int wants_waking;
    tap_place places[TAPS_MAX];
};

taps *taps_open(int wake_fd)
{
    taps *all = must_alloc(sizeof *all);
    all->wake_fd = wake_fd;
    return all;
}

void taps_close(taps *all)
{
    free(all);
}

/* --- the reader ------------------------------------------------------------------------------- */

static void free_filter(tap_filter *filter)
{
    region_free(&filter->memory);
    free(filter);
}

tap *taps_add(taps *all, tap_filter *filter)
{
    for (size_t i = 0; i < TAPS_MAX; i++) {
        if (atomic_load(&all->places[i].tap))
            continue;
        tap *one = must_alloc(sizeof *one);
        one->filter = filter;
        one->lines = ring_open(TAP_PLACES);
        atomic_store(&all->places[i].tap, one);
        atomic_fetch_add(&all->count, 1);
        return one;
    }
    free_filter(filter);
    return NULL;
}

void taps_remove(taps *all, tap *one)
{
    for (size_t i = 0; one && i < TAPS_MAX; i++) {
        if (atomic_load(&all->places[i].tap) != one)
            continue;
        atomic_fetch_sub(&all->count, 1);
        atomic_store(&all->places[i].tap, NULL);
        while (atomic_load(&all->places[i].writers))
            (void)sched_yield();
        ring_close(one->lines);
        free_filter(one->filter);
        free(one);
        return;
    }
}

char *tap_next(tap *one)
{
    return ring_pop(one->lines);
}

uint64_t tap_take_lost(tap *one)
{
    return atomic_exchange(&one->lost, 0);
}

void taps_ask_to_be_woken(taps *all)
{
    (void)atomic_exchange(&all->wants_waking, 1);
}

/* --- writers ---------------------------------------------------------------------------------- */

static int passes(const tap_filter *filter, const semel_event *event)
{
    const char *type = event->message->type ? event->message->type : "";
    return filters_match(&filter->inboxes, event->name) && filters_match(&filter->types, type) &&
           (!filter->outcome || !strcmp(filter->outcome, semel_outcome_name(event->outcome))) &&
           (!filter->key.len || (filter->key.len == event->key.len &&
                                 !memcmp(filter->key.data, event->key.data, event->key.len)));
}

static void add_text(buffer *to, const char *name, const char *text)
{
    buffer_printf(to, ",\"%s\":", name);
    show_json(to, text, strlen(text));
}

static void add_attempt(buffer *to, const semel_event *event, const outcomes *o)
{
    buffer error = {0};
    failure_terms terms = outcomes_terms(o, event->name);
    if (event->attempt)
        buffer_printf(to, ",\"attempt\":%u", event->attempt);
    if (event->attempt && terms.attempts_max)
        buffer_printf(to, ",\"attempts_max\":%u", terms.attempts_max);
    if (event->error) {
        failures_error(&error, event, terms);
        add_text(to, "error", error.data);
    }
    buffer_free(&error);
}

/* As `semel tail --json` shows it. */
static char *make_line(const semel_event *event, const outcomes *o, const log *l)
{
    buffer line = {0}, key = {0}, id = {0};
    buffer_text(&line, "{\"at\":\"");
    show_rfc3339(&line, wall_clock_ms());
    buffer_text(&line, "\"");
    add_text(&line, "inbox", event->name);
    failures_key(&key, l, event->key);
    add_text(&line, "key", key.data);
    add_text(&line, "outcome", semel_outcome_name(event->outcome));
    if (event->message->type)
        add_text(&line, "type", event->message->type);
    failures_key(&id, l, event->message->id);
    add_text(&line, "message_id", id.data);
    if (event->handler_ns)
        buffer_printf(&line, ",\"took_ms\":%lld,\"took_us\":%lld",
                      (long long)(event->handler_ns / NS_PER_MS),
                      (long long)(event->handler_ns / NS_PER_US));
    if (event->attempt || event->error)
        add_attempt(&line, event, o);
    buffer_text(&line, "}");
    buffer_free(&key);
    buffer_free(&id);
    return line.data;
}

static void wake_reader(taps *all)
{
    const uint64_t one = 1;
    if (atomic_exchange(&all->wants_waking, 0))
        (void)!write(all->wake_fd, &one, sizeof one);
}

static void give(tap *one, const semel_event *event, const outcomes *o, const log *l)
{
    if (!passes(one->filter, event))
        return;
    char *line = make_line(event, o, l);
    if (ring_push(one->lines, line))
        return;
    free(line);
    atomic_fetch_add(&one->lost, 1);
}

void taps_offer(taps *all, const semel_event *event, const outcomes *o, const log *l)
{
    if (!atomic_load_explicit(&all->count, memory_order_relaxed) ||
        event->kind != SEMEL_EVENT_RECEIVED || event->outcome == SEMEL_IN_PROGRESS)
        return;
    for (size_t i = 0; i < TAPS_MAX; i++) {
        tap_place *at = &all->places[i];
        if (!atomic_load_explicit(&at->tap, memory_order_relaxed))
            continue;
        atomic_fetch_add(&at->writers, 1);
        tap *one = atomic_load(&at->tap);
        if (one)
            give(one, event, o, l);
        atomic_fetch_sub(&at->writers, 1);
    }
    wake_reader(all);
}
