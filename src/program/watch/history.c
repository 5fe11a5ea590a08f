/* See history.h. */
#include "program/watch/history.h"

#include <stdlib.h>
#include <string.h>

#define MINUTE_NS ((int64_t)60 * 1000000000)
#define SECOND_NS ((int64_t)1000000000)

static void drop(history *h, size_t i)
{
    view_free(h->views[i]);
    free(h->views[i]);
    h->count--;
    memmove(h->views + i, h->views + i + 1, (h->count - i) * sizeof(view *));
}

/* Views that follow each other within a second replace each other, so that a minute fits. */
void history_add(history *h, view *newest)
{
    while (h->count && newest->at_ns - h->views[0]->at_ns > MINUTE_NS)
        drop(h, 0);
    if (h->count > 1 && h->views[h->count - 1]->at_ns - h->views[h->count - 2]->at_ns < SECOND_NS)
        drop(h, h->count - 1);
    if (h->count == HISTORY_MAX)
        drop(h, 0);
    h->views[h->count++] = newest;
}

void history_free(history *h)
{
    while (h->count)
        drop(h, 0);
}

view *history_newest(const history *h)
{
    return h->count ? h->views[h->count - 1] : NULL;
}

/* --- rates ------------------------------------------------------------------------------------ */

static double per_second(const history *h, uint64_t before, uint64_t now)
{
    int64_t ns = history_newest(h)->at_ns - h->views[0]->at_ns;
    return ns <= 0 ? -1 : now < before ? 0 : (double)(now - before) * SECOND_NS / (double)ns;
}

static const inbox_view *oldest_of(const history *h, const inbox_view *inbox)
{
    static const inbox_view none;
    const inbox_view *found = view_inbox(h->views[0], inbox->name);
    return found ? found : &none;
}

double history_rate(const history *h, const inbox_view *inbox, meter_slot slot)
{
    return per_second(h, oldest_of(h, inbox)->counts[slot], inbox->counts[slot]);
}

static uint64_t sum_of(const inbox_view *inbox)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < METER_OTHERS; i++)
        sum += inbox->counts[i];
    return sum;
}

double history_all_outcomes(const history *h, const inbox_view *inbox)
{
    return per_second(h, sum_of(oldest_of(h, inbox)), sum_of(inbox));
}

double history_sent(const history *h, const outbox_view *outbox)
{
    const view *oldest = h->views[0];
    for (size_t i = 0; i < oldest->outbox_count; i++)
        if (strcmp(oldest->outboxes[i].name, outbox->name) == 0)
            return per_second(h, oldest->outboxes[i].sent, outbox->sent);
    return per_second(h, 0, outbox->sent);
}

int64_t history_quantile(const history *h, const inbox_view *inbox, double q)
{
    uint64_t counts[HISTOGRAM_BUCKETS];
    const inbox_view *oldest = oldest_of(h, inbox);
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        counts[i] = inbox->took[i] > oldest->took[i] ? inbox->took[i] - oldest->took[i] : 0;
    return histogram_quantile(counts, q);
}
