/* See buckets.h. */
#include "program/support/buckets.h"

#define MS INT64_C(1000000)

static const struct {
    int64_t most_ns;
    const char *label;
} bounds[BUCKETS_COUNT] = {{5 * MS, "0.005"},  {10 * MS, "0.01"},    {25 * MS, "0.025"},
                           {50 * MS, "0.05"},  {75 * MS, "0.075"},   {100 * MS, "0.1"},
                           {250 * MS, "0.25"}, {500 * MS, "0.5"},    {750 * MS, "0.75"},
                           {1000 * MS, "1.0"}, {2500 * MS, "2.5"},   {5000 * MS, "5.0"},
                           {7500 * MS, "7.5"}, {10000 * MS, "10.0"}, {INT64_MAX, "+Inf"}};

const char *buckets_label(size_t bucket)
{
    return bounds[bucket].label;
}

static size_t bucket_of(int64_t ns)
{
    size_t bucket = 0;
    while (ns > bounds[bucket].most_ns)
        bucket++;
    return bucket;
}

void buckets_add(buckets *to, int64_t ns)
{
    ns = ns > 0 ? ns : 0;
    atomic_fetch_add_explicit(&to->counts[bucket_of(ns)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&to->sum_ns, (uint64_t)ns, memory_order_relaxed);
}

buckets_seen buckets_read(const buckets *from)
{
    buckets_seen seen = {.sum_ns = atomic_load_explicit(&from->sum_ns, memory_order_relaxed)};
    for (size_t i = 0; i < BUCKETS_COUNT; i++)
        seen.counts[i] = atomic_load_explicit(&from->counts[i], memory_order_relaxed);
    return seen;
}

buckets_seen buckets_of_histogram(const histogram *from, uint64_t sum_ns)
{
    buckets_seen seen = {.sum_ns = sum_ns};
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        seen.counts[bucket_of(histogram_middle(i))] +=
            atomic_load_explicit(&from->counts[i], memory_order_relaxed);
    return seen;
}
