/* See top_json.h. All inboxes are there, idle ones too. A value that is not known is left out.
 * docs/OPERATE.md has the fields. */
#include "program/watch/top_json.h"

#include "program/support/show.h"

#include <string.h>

#define NS_PER_MS 1000000.0

/* --- members ---------------------------------------------------------------------------------- */

/* Begins the next member of an object: a comma, unless it is the first. */
static void add_name(buffer *to, const char *name)
{
    int is_first = !to->len || to->data[to->len - 1] == '{';
    buffer_printf(to, "%s\"%s\":", is_first ? "" : ",", name);
}

static void add_text(buffer *to, const char *name, const char *text)
{
    add_name(to, name);
    show_json(to, text, strlen(text));
}

static void add_number(buffer *to, const char *name, int64_t number)
{
    if (number < 0)
        return;
    add_name(to, name);
    buffer_printf(to, "%lld", (long long)number);
}

static void add_real(buffer *to, const char *name, double number)
{
    if (number < 0)
        return;
    add_name(to, name);
    buffer_printf(to, "%.3f", number);
}

static void add_quantile(buffer *to, const char *name, int64_t ns)
{
    add_real(to, name, ns < 0 ? -1 : (double)ns / NS_PER_MS);
}

/* An array of objects; begin_item() begins each. */
static void begin_list(buffer *to, const char *name)
{
    add_name(to, name);
    buffer_text(to, "[");
}

static void begin_item(buffer *to, const char *what, const char *name)
{
    buffer_text(to, to->data[to->len - 1] == '[' ? "{" : ",{");
    add_text(to, what, name);
}

/* --- parts ------------------------------------------------------------------------------------ */

static void add_inboxes(buffer *to, const history *h, const view *now)
{
    begin_list(to, "inboxes");
    for (size_t i = 0; i < now->inbox_count; i++) {
        const inbox_view *inbox = &now->inboxes[i];
        begin_item(to, "inbox", inbox->name);
        add_real(to, "processed_per_s", history_rate(h, inbox, METER_PROCESSED));
        add_real(to, "duplicates_per_s", history_rate(h, inbox, METER_DUPLICATES));
        add_real(to, "failed_per_s", history_rate(h, inbox, METER_FAILED));
        add_quantile(to, "p50_ms", history_quantile(h, inbox, 0.5));
        add_quantile(to, "p99_ms", history_quantile(h, inbox, 0.99));
        add_number(to, "in_progress", inbox->has_counters ? inbox->in_progress : -1);
        add_number(to, "dead", inbox->dead);
        buffer_text(to, "}");
    }
    buffer_text(to, "]");
}

static void add_queues(buffer *to, const history *h, const view *now)
{
    begin_list(to, "queues");
    for (size_t i = 0; i < now->queue_count; i++) {
        const queue_view *queue = &now->queues[i];
        begin_item(to, "queue", queue->name);
        add_real(to, "in_per_s", history_into(h, queue->name));
        add_number(to, "waiting", queue->waiting);
        add_number(to, "oldest_ms", queue->oldest_ms);
        buffer_text(to, "}");
    }
    buffer_text(to, "]");
}

static void add_outboxes(buffer *to, const history *h, const view *now)
{
    begin_list(to, "outboxes");
    for (size_t i = 0; i < now->outbox_count; i++) {
        const outbox_view *outbox = &now->outboxes[i];
        begin_item(to, "outbox", outbox->name);
        add_real(to, "sent_per_s", history_sent(h, outbox));
        add_number(to, "waiting", outbox->waiting);
        add_number(to, "oldest_ms", outbox->oldest_ms);
        buffer_text(to, "}");
    }
    buffer_text(to, "]");
}

static void add_totals(buffer *to, const history *h, const view *now)
{
    int64_t oldest_ms;
    uint64_t unsent = view_unsent(now, &oldest_ms);
    add_number(to, "processes", (int64_t)now->processes);
    add_number(to, "unreachable", (int64_t)now->unreachable);
    add_real(to, "processed_per_s", history_total(h, METER_PROCESSED));
    add_real(to, "duplicates_per_s", history_total(h, METER_DUPLICATES));
    add_real(to, "failed_per_s", history_total(h, METER_FAILED));
    add_number(to, "dead", (int64_t)now->dead);
    add_number(to, "unsent", (int64_t)unsent);
    add_number(to, "oldest_unsent_ms", oldest_ms);
}

void top_json_write(buffer *to, const history *h)
{
    const view *now = history_newest(h);
    buffer_text(to, "{");
    add_name(to, "at");
    buffer_text(to, "\"");
    show_rfc3339(to, now->at_ms);
    buffer_text(to, "\"");
    add_totals(to, h, now);
    add_inboxes(to, h, now);
    add_queues(to, h, now);
    add_outboxes(to, h, now);
    if (now->trouble.status)
        add_text(to, "error", now->trouble.text);
    buffer_text(to, "}\n");
}
