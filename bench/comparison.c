/* Contenders take turns, in slices of a few milliseconds. A machine that is busy with something
 * else for a second slows down all of them rather than one, so the ratio within a round means
 * something when the rates do not. Reported are medians over rounds, with the smallest and the
 * largest.
 *
 * Rounds end when more of them would not change the ratios: the error of each median is estimated
 * from the deviations of the rounds, and compared with a tolerance. A measurement that scatters
 * ends when its time is over, and is reported with its scatter. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICES = 10, LEAST_ROUNDS = 3 };

#define SETTLED   0.015 /* of the ratio */
#define LONGEST_S 3.0

static message_set slice_of(const message_set *set, size_t start, size_t count)
{
    return (message_set){.count = count < set->count - start ? count : set->count - start,
                         .ids = set->ids + start,
                         .messages = set->messages + start,
                         .pointers = set->pointers + start};
}

static void rest_for(double seconds)
{
    const struct timespec pause = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (seconds > 0)
        nanosleep(&pause, NULL);
}

static double seconds_for(const contender *c, const message_set *slice)
{
    double start = now_s();
    c->run(c->context, slice);
    return now_s() - start;
}

/* Slice by slice; the first contender alternates with each, and with the rounds. */
void comparison_round(comparison *d, size_t round, const contender *contenders,
                      const message_set *set, size_t slice)
{
    double took[CONTENDERS_MAX] = {0};
    for (size_t start = 0, number = round; start < set->count; start += slice, number++) {
        message_set part = slice_of(set, start, slice);
        for (size_t turn = 0; turn < d->contenders; turn++) {
            size_t which = number % 2 ? d->contenders - 1 - turn : turn;
            rest_for(d->rest_s);
            took[which] += seconds_for(&contenders[which], &part);
            stop_if_asked();
        }
    }
    for (size_t which = 0; round > 0 && which < d->contenders; which++)
        d->rate[which][round - 1] = (double)set->count / took[which];
}

void comparison_run(comparison *out, const contender *contenders, size_t count, key_source *keys,
                    size_t batch, size_t batches, size_t rounds, const char *label)
{
    message_set set = {0};
    size_t slice = (batches + SLICES - 1) / SLICES * batch;
    if (count > CONTENDERS_MAX)
        die("a comparison of %zu; CONTENDERS_MAX is %d", count, CONTENDERS_MAX);
    *out = (comparison){.rounds = rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX, .contenders = count};
    for (size_t round = 0; round <= out->rounds; round++) {
        progress(label, round, out->rounds + 1);
        messages_make(&set, keys, batch * batches);
        comparison_round(out, round, contenders, &set, slice);
        comparison_settle(out, round);
    }
    progress_clear();
    messages_free(&set);
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double percentile(double values[], size_t count, double share)
{
    if (!count)
        return 0;
    qsort(values, count, sizeof *values, compare_doubles);
    size_t at = (size_t)(share * (double)count);
    return values[at < count ? at : count - 1];
}

static double median_of(double values[], size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return (values[count / 2] + values[(count - 1) / 2]) / 2;
}

/* The standard error of a median is 1.25 standard deviations by the root of the count, and a
 * standard deviation is 1.48 median deviations, if what disturbs is many small things. */
spread spread_of(const double values[], size_t count)
{
    double sorted[ROUNDS_MAX], deviations[ROUNDS_MAX];
    if (!count || count > ROUNDS_MAX)
        return (spread){.median = 0};
    memcpy(sorted, values, count * sizeof *sorted);
    double median = median_of(sorted, count);
    for (size_t i = 0; i < count; i++)
        deviations[i] = fabs(values[i] - median);
    return (spread){.median = median,
                    .low = sorted[0],
                    .high = sorted[count - 1],
                    .error = 1.25 * 1.48 * median_of(deviations, count) / sqrt((double)count)};
}

spread spread_unknown(double value)
{
    return (spread){.median = value, .low = NAN, .high = NAN};
}

spread comparison_rate(const comparison *d, size_t which)
{
    return spread_of(d->rate[which], d->rounds);
}

spread comparison_ratio(const comparison *d, size_t which, size_t against)
{
    double ratios[ROUNDS_MAX];
    for (size_t i = 0; i < d->rounds; i++)
        ratios[i] = d->rate[which][i] / d->rate[against][i];
    return spread_of(ratios, d->rounds);
}

static int has_settled(comparison d, size_t done)
{
    double tolerance = d.tolerance > 0 ? d.tolerance : SETTLED;
    d.rounds = done;
    for (size_t i = 1; i < d.contenders; i++) {
        spread ratio = comparison_ratio(&d, i, 0);
        if (!(ratio.error <= tolerance * ratio.median))
            return 0;
    }
    return 1;
}

void comparison_settle(comparison *d, size_t done)
{
    double now = now_s();
    if (d->began_s == 0)
        d->began_s = now;
    if (options.full || done < LEAST_ROUNDS || done >= d->rounds)
        return;
    if (has_settled(*d, done) || now - d->began_s > (d->seconds > 0 ? d->seconds : LONGEST_S))
        d->rounds = done;
}
