/* See outcomes.h. Counting is a few additions without a lock, since every message comes here; the
 * lock is for lines and for failures. */
#include "program/run/outcomes.h"

#include "program/run/meters.h"
#include "program/support/show.h"
#include "program/trace/context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_PER_SECOND = 10, SUMMARY_MS = 60000, KEY_WIDTH = 36 };

struct outcomes {
    log *log;
    atomic_uint_fast64_t received[METER_SLOTS], sent[METER_SLOTS];
    const config *all;
    int name_width;
    pthread_mutex_t lock; /* over what follows */
    failures *failures;
    unsigned lines;                           /* in this second */
    uint64_t more_processed, more_duplicates; /* without a line, in this second */
    int64_t summary_ms;                       /* when the next one is due */
    outcome_totals summarized;
};

outcomes *outcomes_open(log *l)
{
    outcomes *o = must_alloc(sizeof *o);
    o->log = l;
    o->failures = failures_open(l);
    pthread_mutex_init(&o->lock, NULL);
    return o;
}

void outcomes_close(outcomes *o)
{
    if (!o)
        return;
    failures_close(o->failures);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

void outcomes_configure(outcomes *o, const config *all)
{
    o->all = all;
    o->name_width = 0;
    for (size_t i = 0; i < all->inbox_count; i++) {
        int width = (int)strlen(all->inboxes[i].name);
        o->name_width = width > o->name_width ? width : o->name_width;
    }
}

outcome_totals outcomes_totals(const outcomes *o)
{
    const atomic_uint_fast64_t *c = o->received;
    return (outcome_totals){.processed = atomic_load(&c[METER_PROCESSED]),
                            .duplicates = atomic_load(&c[METER_DUPLICATES]),
                            .failed = atomic_load(&c[METER_FAILED]),
                            .dead = atomic_load(&c[METER_DEAD]),
                            .refused = atomic_load(&c[METER_STALE]) +
                                       atomic_load(&c[METER_MISMATCHED]) +
                                       atomic_load(&c[METER_MISSING_KEY]),
                            .sent = atomic_load(&o->sent[METER_PROCESSED])};
}

/* --- lines on a terminal ---------------------------------------------------------------------- */

static void add_padded(buffer *to, const char *text, int width)
{
    buffer_printf(to, "%-*s  ", width, text);
}

static void write_outcome(outcomes *o, const semel_event *event)
{
    enum { NS_PER_MS = 1000000 };
    const char *outcome = semel_outcome_name(event->outcome);
    buffer line = {0}, key = {0}, took = {0}, id = {0};
    char trace[TRACE_ID_HEX + 1] = "";
    trace_context creation;
    if (trace_context_read(&creation, semel_message_header(event->message, "traceparent")))
        trace_hex(trace, creation.trace, TRACE_ID_LEN);
    log_field more[3] = {{0}}; /* what the message has of these */
    size_t count = 0;
    if (event->message->type)
        more[count++] = (log_field){"type", event->message->type, 0};
    if (*trace)
        more[count++] = (log_field){"trace_id", trace, 0};
    failures_key(&key, o->log, event->key);
    failures_key(&id, o->log, event->message->id);
    add_padded(&line, event->name, o->name_width);
    add_padded(&line, key.data, KEY_WIDTH);
    if (event->handler_ns) {
        show_duration(&took, event->handler_ns);
        buffer_printf(&line, "%-9s  %6s", outcome, took.data);
    } else {
        buffer_text(&line, outcome);
    }
    log_write(o->log, &(log_entry){.level = LOG_INFO,
                                   .event = "outcome",
                                   .msg = outcome,
                                   .text = line.data,
                                   .name_len = strlen(event->name),
                                   .fields = {{"inbox", event->name, 0},
                                              {"key", key.data, 0},
                                              {"outcome", outcome, 0},
                                              {"message_id", id.data, 0},
                                              {"took_ms", NULL, event->handler_ns / NS_PER_MS},
                                              more[0],
                                              more[1]}});
    buffer_free(&id);
    buffer_free(&line);
    buffer_free(&key);
    buffer_free(&took);
}

static void show_outcome(outcomes *o, const semel_event *event)
{
    int limited = log_options(o->log).messages != LOG_MESSAGES_ALL;
    pthread_mutex_lock(&o->lock);
    if (!limited || o->lines < LINES_PER_SECOND) {
        o->lines++;
        write_outcome(o, event);
    } else if (event->outcome == SEMEL_PROCESSED) {
        o->more_processed++;
    } else {
        o->more_duplicates++;
    }
    pthread_mutex_unlock(&o->lock);
}

failure_terms outcomes_terms(const outcomes *o, const char *inbox)
{
    for (size_t i = 0; o->all && i < o->all->inbox_count; i++)
        if (strcmp(o->all->inboxes[i].name, inbox) == 0)
            return (failure_terms){.attempts_max = o->all->inboxes[i].options.attempts_max,
                                   .hides_values = o->all->inboxes[i].handler == HANDLER_SQL};
    return (failure_terms){0};
}

void outcomes_observe(void *context, const semel_event *event)
{
    outcomes *o = context;
    atomic_uint_fast64_t *counts = event->kind == SEMEL_EVENT_SENT ? o->sent : o->received;
    atomic_fetch_add_explicit(&counts[meters_slot(event)], 1, memory_order_relaxed);
    if (event->outcome == SEMEL_PROCESSED || event->outcome == SEMEL_DUPLICATE ||
        event->outcome == SEMEL_REPLAYED) {
        if (event->kind == SEMEL_EVENT_RECEIVED && log_shows_messages(o->log))
            show_outcome(o, event);
        return;
    }
    if (event->outcome == SEMEL_IN_PROGRESS || meters_is_refusal(event) ||
        meters_is_copy_of_dead(event))
        return;
    pthread_mutex_lock(&o->lock);
    failures_add(o->failures, event, outcomes_terms(o, event->name));
    pthread_mutex_unlock(&o->lock);
}

/* --- once in a second (the lock is held) ------------------------------------------------------ */

static void write_more(outcomes *o)
{
    buffer line = {0};
    if (o->more_processed + o->more_duplicates) {
        buffer_text(&line, "... and ");
        show_number(&line, o->more_processed + o->more_duplicates);
        buffer_text(&line, " more this second: ");
        show_number(&line, o->more_processed);
        buffer_text(&line, " processed, ");
        show_number(&line, o->more_duplicates);
        buffer_text(&line, " duplicates");
        log_line(o->log, line.data);
        buffer_free(&line);
    }
    o->lines = 0;
    o->more_processed = o->more_duplicates = 0;
}

static void write_summary(outcomes *o)
{
    outcome_totals now = outcomes_totals(o), before = o->summarized;
    if (!memcmp(&now, &before, sizeof now))
        return;
    log_write(
        o->log,
        &(log_entry){.level = LOG_INFO,
                     .event = "summary",
                     .msg = "in the last minute",
                     .fields = {{"processed", NULL, (int64_t)(now.processed - before.processed)},
                                {"duplicates", NULL, (int64_t)(now.duplicates - before.duplicates)},
                                {"failed", NULL, (int64_t)(now.failed - before.failed)},
                                {"dead", NULL, (int64_t)(now.dead - before.dead)},
                                {"refused", NULL, (int64_t)(now.refused - before.refused)},
                                {"sent", NULL, (int64_t)(now.sent - before.sent)}}});
    o->summarized = now;
}

static void summarize(outcomes *o, int64_t now_ms)
{
    if (!o->summary_ms)
        o->summary_ms = now_ms + SUMMARY_MS;
    if (now_ms < o->summary_ms)
        return;
    o->summary_ms = now_ms + SUMMARY_MS;
    if (!log_is_text(o->log) && log_options(o->log).messages != LOG_MESSAGES_NONE)
        write_summary(o);
}

void outcomes_tick(outcomes *o, int64_t now_ms)
{
    pthread_mutex_lock(&o->lock);
    write_more(o);
    summarize(o, now_ms);
    failures_tick(o->failures, now_ms);
    pthread_mutex_unlock(&o->lock);
}

void outcomes_flush(outcomes *o)
{
    pthread_mutex_lock(&o->lock);
    write_more(o);
    failures_flush(o->failures);
    pthread_mutex_unlock(&o->lock);
}
