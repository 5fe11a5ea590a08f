/* What a running process says of itself, as JSON. */
#include "program/run/live_internal.h"
#include "program/support/show.h"

#include <semel/operate.h>
#include <string.h>
#include <unistd.h>

static void add_text(buffer *to, const char *text)
{
    show_json(to, text, strlen(text));
}

void live_write_process(const live *all, buffer *to)
{
    buffer_text(to, "\"id\":");
    add_text(to, all->id);
    buffer_text(to, ",\"host\":");
    add_text(to, all->host);
    buffer_printf(to, ",\"pid\":%lld,\"version\":\"%s\",\"config\":", (long long)getpid(),
                  semel_version());
    add_text(to, all->names.config ? all->names.config : "");
    buffer_text(to, ",\"since\":\"");
    show_rfc3339(to, all->started_ms);
    buffer_text(to, "\"");
}

static void add_list(buffer *to, const char *name, const char *const *items, size_t count)
{
    buffer_printf(to, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        buffer_text(to, i ? "," : "");
        add_text(to, items[i]);
    }
    buffer_text(to, "]");
}

/* --- the row ---------------------------------------------------------------------------------- */

static void add_counts(live *all, buffer *to)
{
    const live_names *names = &all->names;
    buffer_text(to, ",\"counts\":[");
    for (size_t i = 0; i < names->inbox_count; i++) {
        meter *m = live_meter(all, names->inboxes[i]);
        if (!m)
            continue;
        buffer_text(to, i ? ",{\"inbox\":" : "{\"inbox\":");
        add_text(to, names->inboxes[i]);
        buffer_text(to, ",");
        meter_write_counts(to, m);
        buffer_text(to, "}");
    }
    buffer_text(to, "]");
}

/* What does not fit is left out, the counters first. */
void live_write_row(live *all, buffer *to)
{
    buffer counts = {0};
    pthread_mutex_lock(&all->lock);
    const live_names *names = &all->names;
    buffer_text(to, "{");
    live_write_process(all, to);
    size_t start = to->len;
    add_list(to, "inboxes", names->inboxes, names->inbox_count);
    add_list(to, "outboxes", names->outboxes, names->outbox_count);
    add_list(to, "queues", names->queues, names->queue_count);
    if (to->len >= SEMEL_PROCESS_DATA_MAX)
        to->len = start;
    add_counts(all, &counts);
    if (to->len + counts.len < SEMEL_PROCESS_DATA_MAX)
        buffer_add(to, counts.data, counts.len);
    buffer_text(to, "}");
    pthread_mutex_unlock(&all->lock);
    buffer_free(&counts);
}

/* --- stats ------------------------------------------------------------------------------------ */

static void add_inbox(live *all, buffer *to, const char *name, const char *from)
{
    meter *m = live_meter(all, name);
    buffer_text(to, "{\"inbox\":");
    add_text(to, name);
    buffer_text(to, ",\"from\":");
    add_text(to, from);
    if (m) {
        buffer_printf(to, ",\"in_progress\":%d,", atomic_load(&m->in_progress));
        meter_write_counts(to, m);
        buffer_text(to, ",\"took\":");
        meter_write_took(to, m);
    }
    buffer_text(to, "}");
}

static void add_outbox(live *all, buffer *to, const char *name)
{
    meter *m = meters_find(all->meters, SEMEL_EVENT_SENT, name);
    buffer_text(to, "{\"outbox\":");
    add_text(to, name);
    if (m)
        buffer_printf(to, ",\"sent\":%llu,\"failed\":%llu,\"dead\":%llu",
                      (unsigned long long)atomic_load(&m->counts[METER_PROCESSED]),
                      (unsigned long long)atomic_load(&m->counts[METER_FAILED]),
                      (unsigned long long)atomic_load(&m->counts[METER_DEAD]));
    buffer_text(to, "}");
}

void live_write_stats(live *all, buffer *to)
{
    pthread_mutex_lock(&all->lock);
    const live_names *names = &all->names;
    buffer_text(to, "{");
    live_write_process(all, to);
    buffer_text(to, ",\"inboxes\":[");
    for (size_t i = 0; i < names->inbox_count; i++) {
        buffer_text(to, i ? "," : "");
        add_inbox(all, to, names->inboxes[i], names->from[i]);
    }
    buffer_text(to, "],\"outboxes\":[");
    for (size_t i = 0; i < names->outbox_count; i++) {
        buffer_text(to, i ? "," : "");
        add_outbox(all, to, names->outboxes[i]);
    }
    buffer_text(to, "]");
    add_list(to, "queues", names->queues, names->queue_count);
    buffer_text(to, "}");
    pthread_mutex_unlock(&all->lock);
}
