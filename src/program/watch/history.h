/* Views of the last minute, for rates: what was counted between the oldest and the newest; or, if
 * no process is older than a minute, since the first of them started. */
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
 * counters along: then rates begin anew. */
double history_rate(const history *h, const inbox_view *inbox, meter_slot slot);
double history_all_outcomes(const history *h, const inbox_view *inbox);
double history_sent(const history *h, const outbox_view *outbox);
double history_unsent(const history *h, const outbox_view *outbox); /* attempts that failed */

/* Of all inboxes of the newest view together. */
double history_total(const history *h, meter_slot slot);

/* What comes into a queue: the inbox of the queue that receives most counts, since a message may go
 * to several of them. */
double history_into(const history *h, const char *queue);

/* How long handlers took in that time, in nanoseconds; -1: none ran. */
int64_t history_quantile(const history *h, const inbox_view *inbox, double q);

#endif
