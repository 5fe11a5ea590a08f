/* See history.h. */
#include "program/watch/history.h"

#include <stdlib.h>
#include <string.h>

#define MINUTE_NS ((int64_t)60 * 1000000000)
#define SECOND_NS ((int64_t)1000000000)
#define NS_PER_MS ((int64_t)1000000)

static void drop(history *h, size_t i)
{
    view_free(h->views[i]);
    free(h->views[i]);
    h->count--;
    memmove(h->views + i, h->views + i + 1, (h->count - i) * sizeof(view *));
}

static uint64_t sum_of(const inbox_view *inbox)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < METER_OTHERS; i++)
        sum += inbox->counts[i];
    return sum;
}

/* A counter that falls is that of a process that has ended, and perhaps was started anew. */
static int has_fallen(view *before, const view *now)
{
    for (size_t i = 0; i < now->inbox_count; i++) {
        const inbox_view *old = view_inbox(before, now->inboxes[i].name);
        if (old && sum_of(&now->inboxes[i]) < sum_of(old))
            return 1;
    }
    return 0;
}

/* Views that follow each other within a second replace each other, so that a minute fits. */
void history_add(history *h, view *newest)
{
    while (h->count && newest->at_ns - h->views[0]->at_ns > MINUTE_NS)
        drop(h, 0);
    if (h->count && has_fallen(h->views[h->count - 1], newest))
        history_free(h);
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

/* How long the oldest process has run, if that is no more than a minute: all that it has counted
 * then counts. 0: longer, or not known. A clock that differs is no reason for a wrong rate. */
static int64_t young_ns(const history *h)
{
    const view *now = history_newest(h);
    int64_t age = now->since_ms ? (now->at_ms - now->since_ms) * NS_PER_MS : 0;
    return age <= 0 || age > MINUTE_NS ? 0 : age < SECOND_NS ? SECOND_NS : age;
}

static double per_second(const history *h, uint64_t before, uint64_t now)
{
    int64_t young = young_ns(h);
    int64_t ns = young ? young : history_newest(h)->at_ns - h->views[0]->at_ns;
    return ns <= 0 ? -1 : now < before ? 0 : (double)(now - before) * SECOND_NS / (double)ns;
}

static const inbox_view *oldest_of(const history *h, const inbox_view *inbox)
{
    static const inbox_view none;
    const inbox_view *found = young_ns(h) ? NULL : view_inbox(h->views[0], inbox->name);
    return found ? found : &none;
}

double history_rate(const history *h, const inbox_view *inbox, meter_slot slot)
{
    return per_second(h, oldest_of(h, inbox)->counts[slot], inbox->counts[slot]);
}

double history_all_outcomes(const history *h, const inbox_view *inbox)
{
    return per_second(h, sum_of(oldest_of(h, inbox)), sum_of(inbox));
}

static const outbox_view *oldest_outbox(const history *h, const outbox_view *outbox)
{
    static const outbox_view none;
    const view *oldest = h->views[0];
    for (size_t i = 0; i < oldest->outbox_count && !young_ns(h); i++)
        if (strcmp(oldest->outboxes[i].name, outbox->name) == 0)
            return &oldest->outboxes[i];
    return &none;
}

double history_sent(const history *h, const outbox_view *outbox)
{
    return per_second(h, oldest_outbox(h, outbox)->sent, outbox->sent);
}

double history_unsent(const history *h, const outbox_view *outbox)
{
    return per_second(h, oldest_outbox(h, outbox)->failed, outbox->failed);
}

double history_total(const history *h, meter_slot slot)
{
    const view *now = history_newest(h);
    double sum = 0;
    for (size_t i = 0; i < now->inbox_count; i++) {
        double rate = history_rate(h, &now->inboxes[i], slot);
        sum = rate < 0 ? -1 : sum + rate;
    }
    return now->inbox_count ? sum : 0;
}

double history_into(const history *h, const char *queue)
{
    const view *now = history_newest(h);
    double most = -1;
    for (size_t i = 0; i < now->inbox_count; i++) {
        if (strcmp(now->inboxes[i].from, queue) != 0)
            continue;
        double rate = history_all_outcomes(h, &now->inboxes[i]);
        most = rate > most ? rate : most;
    }
    return most;
}

int64_t history_quantile(const history *h, const inbox_view *inbox, double q)
{
    uint64_t counts[HISTOGRAM_BUCKETS];
    const inbox_view *oldest = oldest_of(h, inbox);
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        counts[i] = inbox->took[i] > oldest->took[i] ? inbox->took[i] - oldest->took[i] : 0;
    return histogram_quantile(counts, q);
}
