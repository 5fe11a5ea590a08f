/* Contenders take turns. A machine that is busy with something else for a second slows down one round of
 * all of them rather than all rounds of one, so the ratio within a round means something when the rates
 * do not. Reported are medians over rounds, with the smallest and the largest. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

static double run_one(const contender *c, const message_set *set)
{
    if (c->before)
        c->before(c->context);
    double start = now_s();
    c->run(c->context, set);
    double took = now_s() - start;
    if (c->after)
        c->after(c->context, set);
    return (double)set->count / took;
}

void duel_run(duel *out, const contender *contenders, size_t count, key_source *keys,
              size_t per_round, size_t rounds, const char *label)
{
    message_set set = {0};
    if (count > CONTENDERS_MAX)
        die("a duel of %zu; CONTENDERS_MAX is %d", count, CONTENDERS_MAX);
    *out = (duel){.rounds = rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX, .contenders = count};
    for (size_t round = 0; round <= out->rounds; round++) {
        progress(label, round, out->rounds + 1);
        messages_make(&set, keys, per_round);
        for (size_t turn = 0; turn < count; turn++) {
            size_t who = round % 2 ? count - 1 - turn : turn;
            double rate = run_one(&contenders[who], &set);
            if (round > 0)
                out->rate[who][round - 1] = rate;
            stop_if_asked();
        }
    }
    progress_clear();
    messages_free(&set);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double percentile(double values[], size_t count, double share)
{
    if (!count)
        return 0;
    qsort(values, count, sizeof *values, compare);
    size_t at = (size_t)(share * (double)count);
    return values[at < count ? at : count - 1];
}

spread spread_of(const double values[], size_t count)
{
    double sorted[ROUNDS_MAX];
    if (!count || count > ROUNDS_MAX)
        return (spread){0, 0, 0};
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    double median = (sorted[count / 2] + sorted[(count - 1) / 2]) / 2;
    return (spread){median, sorted[0], sorted[count - 1]};
}

spread duel_rate(const duel *d, size_t who)
{
    return spread_of(d->rate[who], d->rounds);
}

spread duel_ratio(const duel *d, size_t who, size_t against)
{
    double ratios[ROUNDS_MAX];
    for (size_t i = 0; i < d->rounds; i++)
        ratios[i] = d->rate[who][i] / d->rate[against][i];
    return spread_of(ratios, d->rounds);
}
