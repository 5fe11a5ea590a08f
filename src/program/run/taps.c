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

enum { TEXT_INBOX = 0, TEXT_KEY, TEXT_ID, TEXT_TYPE, TEXT_ERROR, TEXTS };

/* An outcome on its way to the reader, which makes a line of it. */
typedef struct record {
    int64_t at_ms, handler_ns;
    int64_t letter; /* that it became; 0: none */
    semel_outcome outcome;
    uint32_t attempt;
    failure_terms terms;
    size_t start[TEXTS], len[TEXTS]; /* in the bytes, each with a NUL behind it */
    char bytes[];
} record;

struct tap {
    tap_filter *filter;
    ring *things;
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
        one->things = ring_open(TAP_PLACES);
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
        ring_close(one->things);
        free_filter(one->filter);
        free(one);
        return;
    }
}

uint64_t tap_take_lost(tap *one)
{
    return atomic_exchange(&one->lost, 0);
}

void taps_ask_to_be_woken(taps *all)
{
    (void)atomic_exchange(&all->wants_waking, 1);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void add_text(buffer *to, const char *name, const char *text)
{
    buffer_printf(to, ",\"%s\":", name);
    show_json(to, text, strlen(text));
}

static void add_key(buffer *to, const char *name, const record *r, size_t text, const log *l)
{
    buffer key = {0};
    failures_key(&key, l, (semel_bytes){r->bytes + r->start[text], r->len[text]});
    add_text(to, name, key.data);
    buffer_free(&key);
}

static void add_attempt(buffer *to, const record *r)
{
    buffer error = {0};
    uint32_t max = failures_attempts_max(r->attempt, r->terms);
    if (r->attempt)
        buffer_printf(to, ",\"attempt\":%u", r->attempt);
    if (r->attempt && max)
        buffer_printf(to, ",\"attempts_max\":%u", max);
    if (r->len[TEXT_ERROR]) {
        semel_event failed = {.error = r->bytes + r->start[TEXT_ERROR], .outcome = r->outcome};
        failures_error(&error, &failed, r->terms);
        add_text(to, "error", error.data);
    }
    if (r->letter)
        buffer_printf(to, ",\"letter\":%lld", (long long)r->letter);
    buffer_free(&error);
}

/* As `semel tail --json` shows it. */
static char *make_line(const record *r, const log *l)
{
    buffer line = {0};
    buffer_text(&line, "{\"at\":\"");
    show_rfc3339(&line, r->at_ms);
    buffer_text(&line, "\"");
    add_text(&line, "inbox", r->bytes + r->start[TEXT_INBOX]);
    add_key(&line, "key", r, TEXT_KEY, l);
    add_text(&line, "outcome", semel_outcome_name(r->outcome));
    if (r->len[TEXT_TYPE])
        add_text(&line, "type", r->bytes + r->start[TEXT_TYPE]);
    add_key(&line, "message_id", r, TEXT_ID, l);
    if (r->handler_ns)
        buffer_printf(&line, ",\"took_ms\":%lld,\"took_us\":%lld",
                      (long long)(r->handler_ns / NS_PER_MS),
                      (long long)(r->handler_ns / NS_PER_US));
    add_attempt(&line, r);
    buffer_text(&line, "}");
    return line.data;
}

char *tap_next(tap *one, const log *l)
{
    record *r = ring_pop(one->things);
    char *line = r ? make_line(r, l) : NULL;
    free(r);
    return line;
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

static void wake_reader(taps *all)
{
    const uint64_t one = 1;
    if (atomic_exchange(&all->wants_waking, 0))
        (void)!write(all->wake_fd, &one, sizeof one);
}

/* More of it is not shown. */
static size_t error_length(const char *error)
{
    enum { ERROR_MAX = 2000 };
    return error ? strnlen(error, ERROR_MAX) : 0;
}

static void copy_texts(record *to, const semel_bytes texts[TEXTS])
{
    size_t at = 0;
    for (size_t i = 0; i < TEXTS; i++) {
        to->start[i] = at;
        to->len[i] = texts[i].len;
        if (texts[i].len)
            memcpy(to->bytes + at, texts[i].data, texts[i].len);
        at += texts[i].len;
        to->bytes[at++] = 0;
    }
}

/* What a line is made of, with the texts behind it. */
static record *make_record(const semel_event *event, const outcomes *o)
{
    const semel_message *m = event->message;
    failure_terms terms =
        event->attempt || event->error ? outcomes_terms(o, event->name) : (failure_terms){0};
    const semel_bytes texts[TEXTS] = {[TEXT_INBOX] = {event->name, strlen(event->name)},
                                      [TEXT_KEY] = event->key,
                                      [TEXT_ID] = m->id,
                                      [TEXT_TYPE] = {m->type, m->type ? strlen(m->type) : 0},
                                      [TEXT_ERROR] = {event->error, error_length(event->error)}};
    size_t len = 0;
    for (size_t i = 0; i < TEXTS; i++)
        len += texts[i].len + 1;
    record *r = must_alloc(sizeof *r + len);
    *r = (record){.at_ms = wall_clock_ms(),
                  .handler_ns = event->handler_ns,
                  .letter = event->letter,
                  .outcome = event->outcome,
                  .attempt = event->attempt,
                  .terms = terms};
    copy_texts(r, texts);
    return r;
}

static void give(tap *one, const semel_event *event, const outcomes *o)
{
    if (!passes(one->filter, event))
        return;
    record *r = ring_is_full(one->things) ? NULL : make_record(event, o);
    if (r && ring_push(one->things, r))
        return;
    free(r);
    atomic_fetch_add(&one->lost, 1);
}

void taps_offer(taps *all, const semel_event *event, const outcomes *o)
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
            give(one, event, o);
        atomic_fetch_sub(&at->writers, 1);
    }
    wake_reader(all);
}
