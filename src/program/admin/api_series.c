/* See api_series.h. A minute is the mean of its seconds, for levels, too. The day ends with the
 * last minute that is complete. */
#include "program/admin/api_series.h"

#include "program/admin/api_json.h"

enum { MINUTE_S = 60, RATE_S = 10 };

/* Those that the page draws. */
static const struct {
    const char *name;
    series_kind kind;
} drawn[] = {{"processed", SERIES_PROCESSED},
             {"suppressed", SERIES_SUPPRESSED},
             {"failed", SERIES_FAILED},
             {"lag", SERIES_LAG},
             {"dead", SERIES_DEAD}};

static series_point *second_of(series *s, int64_t second)
{
    return &s->seconds[second % SERIES_SECONDS];
}

static series_point *minute_of(series *s, int64_t minute)
{
    return &s->minutes[minute % SERIES_MINUTES];
}

static void clear(series_point *point)
{
    for (int i = 0; i < SERIES_KINDS; i++)
        point->values[i] = -1;
}

/* What is forgotten with the minute that had this place a day ago is not in the totals any more. */
static void put_minute(series *s, int64_t minute)
{
    series_point *to = minute_of(s, minute);
    int was_used = minute - s->first_s / MINUTE_S >= SERIES_MINUTES;
    for (int i = 0; i < SERIES_KINDS; i++) {
        if (i < SERIES_RATES && was_used && to->values[i] > 0)
            s->totals[i] -= (double)to->values[i] * MINUTE_S;
        to->values[i] = s->counts[i] ? (float)(s->sums[i] / s->counts[i]) : -1;
        if (i < SERIES_RATES) {
            if (s->counts[i]) /* over the whole minute, so that sums are right */
                to->values[i] = (float)(s->sums[i] / MINUTE_S);
            s->totals[i] += s->sums[i];
            s->totals[i] = s->totals[i] < 0 ? 0 : s->totals[i];
        }
        s->sums[i] = 0;
        s->counts[i] = 0;
    }
}

/* Seconds without a sample: the process was stopped, or the clock was set. */
static void skip_to(series *s, int64_t second)
{
    int64_t from = s->last_s + 1;
    if (second - from > (int64_t)SERIES_MINUTES * MINUTE_S)
        from = second - (int64_t)SERIES_MINUTES * MINUTE_S;
    for (int64_t i = from; i < second; i++) {
        clear(second_of(s, i));
        if (i % MINUTE_S == 0)
            put_minute(s, i / MINUTE_S - 1);
    }
}

void series_add(series *s, int64_t second, const series_point *point)
{
    if (second <= s->last_s && s->last_s - second < MINUTE_S)
        return; /* the clock was set back: this second has a point */
    if (!s->last_s || second < s->last_s) {
        *s = (series){.first_s = second};
        for (int i = 0; i < SERIES_SECONDS; i++)
            clear(&s->seconds[i]);
        for (int i = 0; i < SERIES_MINUTES; i++)
            clear(&s->minutes[i]);
    } else {
        skip_to(s, second);
        if (second % MINUTE_S == 0)
            put_minute(s, second / MINUTE_S - 1);
    }
    s->last_s = second;
    *second_of(s, second) = *point;
    for (int i = 0; i < SERIES_KINDS; i++)
        if (point->values[i] >= 0) {
            s->sums[i] += (double)point->values[i];
            s->counts[i]++;
        }
}

static void put_points(buffer *to, const series *s, series_kind kind, int64_t from, int64_t end,
                       int is_day)
{
    for (int64_t i = from; i <= end; i++) {
        const series_point *p =
            is_day ? &s->minutes[i % SERIES_MINUTES] : &s->seconds[i % SERIES_SECONDS];
        int is_there = is_day ? i >= s->first_s / MINUTE_S : i >= s->first_s;
        put_real(to, NULL, is_there ? (double)p->values[kind] : -1);
    }
}

static void put_all(buffer *to, const series *s, int64_t from, int64_t end, int is_day)
{
    put_int(to, "end", is_day ? end * MINUTE_S : end);
    put_int(to, "step", is_day ? MINUTE_S : 1);
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
        put_open(to, drawn[i].name, '[');
        put_points(to, s, drawn[i].kind, from, end, is_day);
        put_close(to, ']');
    }
}

void series_put_minute(buffer *to, const series *s, int64_t after)
{
    int64_t from = s->last_s - SERIES_SECONDS + 1;
    if (!s->last_s) {
        put_null(to, "minute");
        return;
    }
    if (after >= from)
        from = after < s->last_s ? after + 1 : s->last_s + 1;
    put_open(to, "minute", '{');
    put_all(to, s, from, s->last_s, 0);
    put_close(to, '}');
}

void series_put_day(buffer *to, const series *s, int64_t after)
{
    int64_t end = s->last_s / MINUTE_S - 1;
    if (!s->last_s || (after && after / MINUTE_S - 1 >= end)) {
        put_null(to, "day");
        return;
    }
    put_open(to, "day", '{');
    put_all(to, s, end - SERIES_MINUTES + 1, end, 1);
    put_close(to, '}');
}

double series_rate(const series *s, series_kind kind)
{
    double sum = 0;
    int count = 0;
    for (int64_t i = s->last_s; i > s->last_s - RATE_S && i >= s->first_s && s->last_s; i--) {
        float value = s->seconds[i % SERIES_SECONDS].values[kind];
        sum += value >= 0 ? (double)value : 0;
        count += value >= 0;
    }
    return count ? sum / count : -1;
}

double series_total(const series *s, series_kind kind)
{
    return s->totals[kind] + s->sums[kind];
}
