/* What happened, second by second for a minute and minute by minute for a day: in memory, since the
 * process started. A second in which nothing was sampled is a gap, and never a zero. */
#ifndef SEMEL_PROGRAM_ADMIN_API_SERIES_H
#define SEMEL_PROGRAM_ADMIN_API_SERIES_H

#include "program/support/memory.h"

#include <stdint.h>

typedef enum series_kind {
    SERIES_PROCESSED = 0, /* rates: a second */
    SERIES_SUPPRESSED,
    SERIES_FAILED,
    SERIES_SENT,
    SERIES_BURIED, /* letters that were made */
    SERIES_LAG,    /* levels: messages that wait in outboxes */
    SERIES_DEAD,   /* dead letters */
    SERIES_KINDS
} series_kind;

enum { SERIES_SECONDS = 61, SERIES_MINUTES = 1440, SERIES_RATES = SERIES_LAG };

typedef struct series_point {
    float values[SERIES_KINDS]; /* negative: a gap */
} series_point;

typedef struct series {
    series_point seconds[SERIES_SECONDS]; /* by the second since 1970, modulo */
    series_point minutes[SERIES_MINUTES];
    int64_t first_s, last_s; /* since 1970; 0: none was added */
    /* the minute at hand */
    double sums[SERIES_KINDS];
    int counts[SERIES_KINDS];
    double totals[SERIES_RATES]; /* of the last 24 h, without the minute at hand */
} series;

/* A point for this second. What lies between it and the last one is a gap. */
void series_add(series *s, int64_t second, const series_point *point);

/* "minute": of the seconds behind `after`; 0: all. */
void series_put_minute(buffer *to, const series *s, int64_t after);
/* "day"; null if no minute has ended since `after`. */
void series_put_day(buffer *to, const series *s, int64_t after);

/* The mean of the last ten seconds; negative: not known. */
double series_rate(const series *s, series_kind kind);
/* In the last 24 hours. */
double series_total(const series *s, series_kind kind);

#endif
