/* How long something took, in the few buckets of a metric: the boundaries that OpenTelemetry gives
 * for durations of messaging and HTTP, 5 ms to 10 s, and the exact sum. Counting is two additions
 * without a lock. (support/histogram.h has fine buckets, for quantiles of one process.) */
#ifndef SEMEL_PROGRAM_SUPPORT_BUCKETS_H
#define SEMEL_PROGRAM_SUPPORT_BUCKETS_H

#include "program/support/histogram.h"

enum { BUCKETS_COUNT = 15 }; /* the last one has what is longer than all boundaries */

/* A zeroed one is empty. Threads may add at once. */
typedef struct buckets {
    atomic_uint_fast64_t counts[BUCKETS_COUNT];
    atomic_uint_fast64_t sum_ns;
} buckets;

/* What it held at a moment. */
typedef struct buckets_seen {
    uint64_t counts[BUCKETS_COUNT];
    uint64_t sum_ns;
} buckets_seen;

/* The upper boundary of a bucket as a label: "0.005"; of the last one "+Inf". */
const char *buckets_label(size_t bucket);

void buckets_add(buckets *to, int64_t ns);
buckets_seen buckets_read(const buckets *from);

/* Of a histogram: a fine bucket is counted where its middle is. */
buckets_seen buckets_of_histogram(const histogram *from, uint64_t sum_ns);

#endif
