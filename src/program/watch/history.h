/* Views of the last minute, for rates: what was counted between the oldest and the newest. */
#ifndef SEMEL_PROGRAM_WATCH_HISTORY_H
#define SEMEL_PROGRAM_WATCH_HISTORY_H

#include "program/watch/view.h"

enum { HISTORY_MAX = 64 };

typedef struct history {
    view *views[HISTORY_MAX]; /* the oldest first */
    size_t count;
} history;

/* Takes the view over, which was allocated. */
void history_add(history *h, view *newest);
void history_free(history *h);

/* NULL: there is none. */
view *history_newest(const history *h);

/* Of an inbox of the newest view, in a second; -1: not known yet. A process that ended takes its
 * counters along: then a rate is 0 until the next minute. */
double history_rate(const history *h, const inbox_view *inbox, meter_slot slot);
double history_all_outcomes(const history *h, const inbox_view *inbox);
double history_sent(const history *h, const outbox_view *outbox);

/* How long handlers took in that time, in nanoseconds; -1: none ran. */
int64_t history_quantile(const history *h, const inbox_view *inbox, double q);

#endif
