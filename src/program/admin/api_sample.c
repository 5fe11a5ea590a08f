/* The thread that takes a sample once a second, and asks nobody: what this process has counted; or,
 * if there are several on the store, what the looks at all of them have found. A look comes every
 * other second or later. What it has found is spread over as many seconds as lie between it and the
 * one before, so that the plot is even and its sum is what was counted. */
#include "program/admin/api_internal.h"
#include "program/run/live_internal.h"
#include "program/support/show.h"

#include <stdlib.h>

enum { SECOND_MS = 1000, FILLED_MAX_S = 10 };

typedef struct totals {
    double counts[SERIES_RATES];
} totals;

typedef struct sampling {
    totals own;           /* of this process, at the last sample */
    int64_t look_ns;      /* the last look; 0: there was none */
    totals all, own_then; /* what all processes had counted then, and what this one had */
    int has_others;       /* the samples are those of all */
    totals open, pace;    /* found, and not in a sample yet; and how much of that a second gets */
} sampling;

static totals own_totals(const api *a)
{
    outcome_totals o = outcomes_totals(a->live->outcomes);
    return (totals){{(double)o.processed, (double)o.duplicates, (double)o.failed, (double)o.sent,
                     (double)o.dead}};
}

static totals totals_of(const view *v)
{
    static const struct {
        meter_slot slot;
        series_kind kind;
    } slots[] = {{METER_PROCESSED, SERIES_PROCESSED},
                 {METER_DUPLICATES, SERIES_SUPPRESSED},
                 {METER_FAILED, SERIES_FAILED},
                 {METER_DEAD, SERIES_BURIED}};
    totals sum = {0};
    for (size_t i = 0; i < v->inbox_count; i++)
        for (size_t k = 0; k < sizeof slots / sizeof *slots; k++)
            sum.counts[slots[k].kind] += (double)v->inboxes[i].counts[slots[k].slot];
    for (size_t i = 0; i < v->outbox_count; i++)
        sum.counts[SERIES_SENT] += (double)v->outboxes[i].sent;
    return sum;
}

/* What the others did before this process saw them is found by the first look that has them: what
 * this one did in that time is in its samples already. A process that has ended takes its counters
 * along, so a sum that falls is no news. */
static void take_look(sampling *s, const view *v, const totals *own)
{
    totals now = totals_of(v);
    double seconds = (double)(v->at_ns - s->look_ns) / 1e9;
    int has_others = v->processes > 1;
    for (int i = 0; i < SERIES_RATES; i++) {
        double found = s->look_ns ? now.counts[i] - s->all.counts[i] : 0;
        if (!s->has_others)
            found -= own->counts[i] - s->own_then.counts[i];
        s->open.counts[i] = has_others ? s->open.counts[i] + (found > 0 ? found : 0) : 0;
        s->pace.counts[i] = s->open.counts[i] / (seconds > 1 && s->look_ns ? seconds : 1);
    }
    s->all = now;
    s->own_then = *own;
    s->look_ns = v->at_ns;
    s->has_others = has_others;
}

/* The caller has the lock. */
static void fill(sampling *s, series_point *to, const looked *l, double passed, int is_fresh)
{
    const view *v = history_newest(&l->views);
    const totals own = s->own;
    if (v && v->at_ns != s->look_ns)
        take_look(s, v, &own);
    for (int i = 0; s->has_others && i < SERIES_RATES; i++) {
        double part = s->pace.counts[i] * passed, *open = &s->open.counts[i];
        part = part < *open ? part : *open;
        *open -= part;
        to->values[i] = (float)(part / passed);
    }
    to->values[SERIES_LAG] = is_fresh ? (float)l->unsent : -1;
    to->values[SERIES_DEAD] = is_fresh ? (float)l->dead : -1;
}

/* A thread that woke up late fills the seconds before, so that sums are right; what is longer away
 * is a gap. */
static void take_sample(api *a, sampling *s)
{
    series_point point;
    totals now = own_totals(a);
    int64_t now_ms = wall_clock_ms(), second = now_ms / SECOND_MS;
    int64_t passed = a->series.last_s ? second - a->series.last_s : 1; /* only this thread adds */
    if (passed == 0)
        return;
    if (passed < 0 || passed > FILLED_MAX_S)
        passed = 1;
    for (int i = 0; i < SERIES_RATES; i++)
        point.values[i] = (float)((now.counts[i] - s->own.counts[i]) / (double)passed);
    s->own = now;
    pthread_mutex_lock(&a->look_lock);
    int is_fresh = a->looked.store_at_ms && now_ms - a->looked.store_at_ms < a->looked.fresh_ms;
    fill(s, &point, &a->looked, (double)passed, is_fresh);
    for (int64_t i = passed - 1; i >= 0; i--)
        series_add(&a->series, second - i, &point);
    pthread_mutex_unlock(&a->look_lock);
}

void *api_sample(void *context)
{
    api *a = context;
    sampling s = {.own = own_totals(a)};
    while (!api_pause(a, SECOND_MS - wall_clock_ms() % SECOND_MS)) {
        take_sample(a, &s);
        api_answer_late(a);
    }
    return NULL;
}
