/* See histogram.h. The first bucket has everything below 1,024 ns, the last one everything that is
 * longer than the others hold. */
#include "program/support/histogram.h"

enum { LEAST_BITS = 10, STEP_BITS = 3, STEPS = 1 << STEP_BITS };

static unsigned highest_bit(uint64_t number)
{
    unsigned bit = 0;
    for (unsigned half = 32; half; half /= 2)
        if (number >> half) {
            number >>= half;
            bit += half;
        }
    return bit;
}

size_t histogram_bucket(int64_t ns)
{
    if (ns < 1 << LEAST_BITS)
        return 0;
    unsigned bits = highest_bit((uint64_t)ns);
    size_t step = (size_t)(ns >> (bits - STEP_BITS)) & (STEPS - 1);
    size_t bucket = 1 + (size_t)(bits - LEAST_BITS) * STEPS + step;
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

int64_t histogram_middle(size_t bucket)
{
    if (!bucket)
        return 1 << (LEAST_BITS - 1);
    size_t bits = (bucket - 1) / STEPS + LEAST_BITS, step = (bucket - 1) % STEPS;
    int64_t width = (int64_t)1 << (bits - STEP_BITS);
    return ((int64_t)1 << bits) + (int64_t)step * width + width / 2;
}

void histogram_add(histogram *h, int64_t ns)
{
    atomic_fetch_add_explicit(&h->counts[histogram_bucket(ns)], 1, memory_order_relaxed);
}

int64_t histogram_quantile(const uint64_t counts[HISTOGRAM_BUCKETS], double q)
{
    uint64_t all = 0, below = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        all += counts[i];
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        below += counts[i];
        if (counts[i] && (double)below >= q * (double)all)
            return histogram_middle(i);
    }
    return -1;
}
