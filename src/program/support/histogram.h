/* How long something took, many times over: counts in buckets that grow with the duration, eight
 * for each doubling, from a microsecond to half an hour. So a quantile is known to about 6 %, and
 * counting is one addition without a lock. Histograms of several processes are added up bucket by
 * bucket. */
#ifndef SEMEL_PROGRAM_SUPPORT_HISTOGRAM_H
#define SEMEL_PROGRAM_SUPPORT_HISTOGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 249 };

/* A zeroed one is empty. Threads may add at once. */
typedef struct histogram {
    atomic_uint_fast64_t counts[HISTOGRAM_BUCKETS];
} histogram;

size_t histogram_bucket(int64_t ns);
int64_t histogram_middle(size_t bucket); /* in nanoseconds */
void histogram_add(histogram *h, int64_t ns);

/* What half of them (q = 0.5) did not exceed, in nanoseconds; -1: there are none. */
int64_t histogram_quantile(const uint64_t counts[HISTOGRAM_BUCKETS], double q);

#endif
