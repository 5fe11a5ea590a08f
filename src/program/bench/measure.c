/* See measure.h. */
#include "program/bench/measure.h"

#include "program/operate/confirm.h"
#include "program/support/memory.h"
#include "program/support/show.h"

#include <stdlib.h>

static void note(measurement *m, int64_t took_ns, size_t messages)
{
    if (m->count == m->room) {
        m->room = m->room ? m->room * 2 : 1024;
        m->calls = must_realloc(m->calls, m->room * sizeof *m->calls);
    }
    m->calls[m->count++] = took_ns;
    m->took_ns += took_ns;
    m->messages += messages;
}

semel_status measure_slice(measurement *m, const measured *what, void *context, int64_t for_ns,
                           semel_error *err)
{
    int64_t until = m->took_ns + for_ns;
    while (m->took_ns < until && !interrupted()) {
        size_t messages = 0;
        semel_status status = what->prepare ? what->prepare(context, err) : SEMEL_OK;
        int64_t began = steady_clock_ns();
        if (!status)
            status = what->step(context, &messages, err);
        if (status)
            return status;
        note(m, steady_clock_ns() - began, messages);
    }
    return SEMEL_OK;
}

double measure_rate(const measurement *m)
{
    return m->took_ns ? (double)m->messages * 1e9 / (double)m->took_ns : 0;
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

int64_t measure_percentile(measurement *m, unsigned percent)
{
    if (!m->count)
        return 0;
    qsort(m->calls, m->count, sizeof *m->calls, compare);
    return m->calls[(m->count - 1) * percent / 100];
}

void measure_free(measurement *m)
{
    free(m->calls);
    *m = (measurement){0};
}
