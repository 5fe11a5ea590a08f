/* See meters.h. Meters are found by the hash of their name in a table with open addressing, whose
 * places are filled once and never emptied: a reader needs no lock, and two threads that bring the
 * same new name agree by a compare-and-swap. */
#include "program/run/meters.h"

#include "program/support/show.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PLACES = 2048, PROBES_MAX = 256 };

const char *const meter_names[METER_OTHERS] = {"processed", "duplicates", "failed",     "dead",
                                               "stale",     "mismatched", "missing_key"};

struct meters {
    _Atomic(meter *) places[PLACES];
    _Atomic int64_t last_ms;
};

meters *meters_open(void)
{
    return must_alloc(sizeof(meters));
}

void meters_close(meters *all)
{
    for (size_t i = 0; all && i < PLACES; i++)
        free(atomic_load(&all->places[i]));
    free(all);
}

/* --- finding ---------------------------------------------------------------------------------- */

/* FNV-1a */
static uint32_t hash_of(semel_event_kind kind, const char *name)
{
    uint32_t hash = 2166136261U ^ (uint32_t)kind;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619U;
    return hash;
}

static int is_meant(const meter *m, semel_event_kind kind, const char *name)
{
    return m->kind == kind && strcmp(m->name, name) == 0;
}

static meter *make_meter(semel_event_kind kind, const char *name)
{
    size_t len = strlen(name) + 1;
    meter *m = must_alloc(sizeof *m + len);
    m->kind = kind;
    memcpy(m->name, name, len);
    return m;
}

/* The meter that is in this place in the end: the caller's, or one that was quicker. */
static meter *fill_place(_Atomic(meter *) *place, semel_event_kind kind, const char *name)
{
    meter *mine = make_meter(kind, name), *there = NULL;
    if (atomic_compare_exchange_strong(place, &there, mine))
        return mine;
    free(mine);
    return there;
}

meter *meters_find(meters *all, semel_event_kind kind, const char *name)
{
    uint32_t hash = hash_of(kind, name);
    for (uint32_t i = 0; i < PROBES_MAX; i++) {
        _Atomic(meter *) *place = &all->places[(hash + i) % PLACES];
        meter *m = atomic_load_explicit(place, memory_order_acquire);
        if (!m)
            m = fill_place(place, kind, name);
        if (is_meant(m, kind, name))
            return m;
    }
    return NULL;
}

/* To some milliseconds, which costs less than the exact time: every message asks. */
static int64_t coarse_clock_ms(void)
{
    enum { MS_PER_S = 1000, NS_PER_MS = 1000000 };
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * MS_PER_S + now.tv_nsec / NS_PER_MS;
}

/* --- counting --------------------------------------------------------------------------------- */

int meters_is_copy_of_dead(const semel_event *event)
{
    return event->outcome == SEMEL_DEAD && !event->error;
}

int meters_is_refusal(const semel_event *event)
{
    return event->outcome == SEMEL_MISMATCH || event->outcome == SEMEL_STALE ||
           event->outcome == SEMEL_MISSING_KEY;
}

meter_slot meters_slot(const semel_event *event)
{
    switch (event->outcome) {
    case SEMEL_PROCESSED:
        return METER_PROCESSED;
    case SEMEL_DUPLICATE:
    case SEMEL_REPLAYED:
        return METER_DUPLICATES;
    case SEMEL_FAILED:
        return METER_FAILED;
    case SEMEL_DEAD:
        return meters_is_copy_of_dead(event) ? METER_DUPLICATES : METER_DEAD;
    case SEMEL_MISMATCH:
        return METER_MISMATCHED;
    case SEMEL_STALE:
        return METER_STALE;
    case SEMEL_MISSING_KEY:
        return METER_MISSING_KEY;
    default:
        return METER_OTHERS;
    }
}

/* Clocks of two hosts may differ: less than nothing is nothing. */
static void count_critical(meter *m, const semel_event *event, int64_t now_ms)
{
    enum { NS_PER_MS = 1000000 };
    int64_t made_ms = event->message ? event->message->time_ms : 0;
    if (made_ms > 0 && now_ms < made_ms + INT64_MAX / NS_PER_MS)
        buckets_add(&m->critical, (now_ms - made_ms) * NS_PER_MS);
}

void meters_count(meters *all, const semel_event *event)
{
    int64_t now_ms = coarse_clock_ms();
    meter *m = meters_find(all, event->kind, event->name);
    atomic_store_explicit(&all->last_ms, now_ms, memory_order_relaxed);
    if (!m)
        return;
    meter_slot slot = meters_slot(event);
    atomic_fetch_add_explicit(&m->counts[slot], 1, memory_order_relaxed);
    if (event->attempt > 1)
        atomic_fetch_add_explicit(&m->retries, 1, memory_order_relaxed);
    if (event->publish_ns)
        buckets_add(&m->took_seconds, event->publish_ns);
    if (event->handler_ns) {
        histogram_add(&m->took, event->handler_ns);
        buckets_add(&m->took_seconds, event->handler_ns);
    }
    if (slot == METER_PROCESSED && event->kind == SEMEL_EVENT_RECEIVED)
        count_critical(m, event, now_ms);
}

int64_t meters_last_ms(const meters *all)
{
    return atomic_load_explicit(&all->last_ms, memory_order_relaxed);
}

/* --- JSON ------------------------------------------------------------------------------------- */

void meter_write_counts(buffer *to, meter *m)
{
    for (size_t i = 0; i < METER_OTHERS; i++)
        buffer_printf(to, "%s\"%s\":%llu", i ? "," : "", meter_names[i],
                      (unsigned long long)atomic_load(&m->counts[i]));
}

void meter_write_took(buffer *to, meter *m)
{
    const char *comma = "";
    buffer_text(to, "[");
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        unsigned long long count = atomic_load(&m->took.counts[i]);
        if (!count)
            continue;
        buffer_printf(to, "%s[%zu,%llu]", comma, i, count);
        comma = ",";
    }
    buffer_text(to, "]");
}
