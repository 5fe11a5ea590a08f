/* Metrics as text: the format of Prometheus (0.0.4) and OpenMetrics (1.0). The samples of a family
 * follow its heading. Both name the same series, so that a scraper that changes from one to the
 * other continues them. */
#ifndef SEMEL_PROGRAM_ADMIN_EXPOSITION_H
#define SEMEL_PROGRAM_ADMIN_EXPOSITION_H

#include "program/support/buckets.h"
#include "program/support/memory.h"

typedef struct exposition {
    buffer *to;
    int is_open_metrics;
    const char *family; /* without _total */
    const char *suffix; /* _total */
} exposition;

typedef enum metric_type {
    METRIC_COUNTER,
    METRIC_GAUGE,
    METRIC_HISTOGRAM,
    METRIC_INFO
} metric_type;

/* The last one has no name. */
typedef struct metric_label {
    const char *name;
    const char *value;
} metric_label;

/* The name of a counter is without _total, that of an info without _info. */
void exposition_family(exposition *e, const char *name, metric_type type, const char *unit,
                       const char *help);

/* Of a counter, gauge or info. */
void exposition_count(exposition *e, const metric_label *labels, uint64_t value);
void exposition_seconds(exposition *e, const metric_label *labels, double value);
void exposition_buckets(exposition *e, const metric_label *labels, const buckets_seen *seen);

void exposition_end(exposition *e);

/* What a client's Accept header asks for; NULL is anything. 1: OpenMetrics. */
int exposition_wants_open_metrics(const char *accept);
const char *exposition_content_type(int is_open_metrics);

#endif
