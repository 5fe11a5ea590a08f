/* The metrics of the process: one function for each family, in the order of docs/METRICS.md. Labels
 * are names of the configuration and fixed words, so their number is bounded by it. Nothing here
 * waits: counters are read as they are, and what the store holds was counted by another thread. */
#include "program/admin/admin_internal.h"
#include "program/admin/exposition.h"
#include "program/admin/metrics_process.h"
#include "program/gateway/gateway.h"
#include "program/run/live_internal.h"
#include "program/run/transactions.h"

#include <string.h>

typedef struct writing {
    exposition out;
    admin *from;
    const admin_names *names;
    meters *counts;
} writing;

static uint64_t load(const atomic_uint_fast64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

/* --- inboxes ---------------------------------------------------------------------------------- */

/* The words of the label `outcome`, in the order of the slots. */
static const char *const outcome_labels[METER_SLOTS] = {
    "processed", "duplicate", "failed",          "dead",
    "stale",     "conflict",  "rejected_no_key", "in_progress"};

static meter *inbox_meter(const writing *w, const char *name)
{
    return meters_find(w->counts, SEMEL_EVENT_RECEIVED, name);
}

static void write_outcomes(writing *w, const char *inbox, const char *handler, int dead_only)
{
    const meter *m = inbox_meter(w, inbox);
    for (size_t i = 0; m && i < METER_SLOTS; i++) {
        const metric_label labels[] = {
            {"inbox", inbox}, {"handler", handler}, {"outcome", outcome_labels[i]}, {0}};
        if (!dead_only || i == METER_DEAD)
            exposition_count(&w->out, labels, load(&m->counts[i]));
    }
}

/* Messages that fit no route, or are none, become dead letters under these names. */
static void write_messages(writing *w)
{
    exposition_family(&w->out, "semel_inbox_messages", METRIC_COUNTER, NULL,
                      "Deliveries by what became of them.");
    for (size_t i = 0; i < w->names->inbox_count; i++)
        write_outcomes(w, w->names->inboxes[i].name, w->names->inboxes[i].handler, 0);
    write_outcomes(w, "unrouted", "none", 1);
    write_outcomes(w, "unusable", "none", 1);
}

static void write_process_durations(writing *w)
{
    exposition_family(&w->out, "semel_inbox_process_duration_seconds", METRIC_HISTOGRAM, "seconds",
                      "How long handlers took.");
    for (size_t i = 0; i < w->names->inbox_count; i++) {
        const admin_inbox *inbox = &w->names->inboxes[i];
        const meter *m = inbox_meter(w, inbox->name);
        const metric_label labels[] = {{"inbox", inbox->name}, {"handler", inbox->handler}, {0}};
        if (!m)
            continue;
        const buckets_seen seen = buckets_read(&m->took_seconds);
        exposition_buckets(&w->out, labels, &seen);
    }
}

static void write_critical_times(writing *w)
{
    exposition_family(&w->out, "semel_inbox_critical_time_seconds", METRIC_HISTOGRAM, "seconds",
                      "From the time of a message until its effect was committed.");
    for (size_t i = 0; i < w->names->inbox_count; i++) {
        const meter *m = inbox_meter(w, w->names->inboxes[i].name);
        const metric_label labels[] = {{"inbox", w->names->inboxes[i].name}, {0}};
        if (!m)
            continue;
        const buckets_seen seen = buckets_read(&m->critical);
        exposition_buckets(&w->out, labels, &seen);
    }
}

static void write_retries(writing *w)
{
    exposition_family(&w->out, "semel_handler_retries", METRIC_COUNTER, NULL,
                      "Attempts behind the first one of a message.");
    for (size_t i = 0; i < w->names->inbox_count; i++) {
        const admin_inbox *inbox = &w->names->inboxes[i];
        const meter *m = inbox_meter(w, inbox->name);
        const metric_label labels[] = {{"inbox", inbox->name}, {"handler", inbox->handler}, {0}};
        if (m)
            exposition_count(&w->out, labels, load(&m->retries));
    }
}

typedef int64_t inbox_value(const writing *w, const admin_inbox *inbox);

static int64_t inflight_of(const writing *w, const admin_inbox *inbox)
{
    const meter *m = inbox_meter(w, inbox->name);
    return m ? atomic_load(&m->in_progress) : -1;
}

static int64_t keys_of(const writing *w, const admin_inbox *inbox)
{
    return totals_inbox(w->from->totals, inbox->name).keys;
}

static int64_t purged_of(const writing *w, const admin_inbox *inbox)
{
    return totals_inbox(w->from->totals, inbox->name).purged;
}

/* What is not known (-1) is left out. */
static void write_inbox_values(writing *w, inbox_value *value_of)
{
    for (size_t i = 0; i < w->names->inbox_count; i++) {
        int64_t value = value_of(w, &w->names->inboxes[i]);
        const metric_label labels[] = {{"inbox", w->names->inboxes[i].name}, {0}};
        if (value >= 0)
            exposition_count(&w->out, labels, (uint64_t)value);
    }
}

static void write_retentions(writing *w)
{
    exposition_family(&w->out, "semel_inbox_retention_seconds", METRIC_GAUGE, "seconds",
                      "How long the key of a message is remembered, as configured.");
    for (size_t i = 0; i < w->names->inbox_count; i++) {
        const admin_inbox *inbox = &w->names->inboxes[i];
        const metric_label labels[] = {{"inbox", inbox->name}, {0}};
        if (inbox->retention_ms && inbox->retention_ms < SEMEL_RETENTION_NONE)
            exposition_seconds(&w->out, labels, (double)inbox->retention_ms / 1e3);
    }
}

static void write_inboxes(writing *w)
{
    write_messages(w);
    write_process_durations(w);
    write_critical_times(w);
    exposition_family(&w->out, "semel_inbox_inflight", METRIC_GAUGE, NULL,
                      "Handlers that run right now.");
    write_inbox_values(w, inflight_of);
    exposition_family(&w->out, "semel_inbox_records", METRIC_GAUGE, NULL,
                      "Keys that the store remembers; counted once a minute.");
    write_inbox_values(w, keys_of);
    exposition_family(&w->out, "semel_inbox_purged", METRIC_COUNTER, NULL,
                      "Keys that retention has removed, by this process.");
    write_inbox_values(w, purged_of);
    write_retentions(w);
    write_retries(w);
}

/* --- outboxes --------------------------------------------------------------------------------- */

typedef void outbox_writer(writing *w, const admin_outbox *outbox, const metric_label *labels);

static void write_each_outbox(writing *w, outbox_writer *write)
{
    for (size_t i = 0; i < w->names->outbox_count; i++) {
        const admin_outbox *outbox = &w->names->outboxes[i];
        const metric_label labels[] = {{"relay", outbox->name}, {"destination", outbox->to}, {0}};
        write(w, outbox, labels);
    }
}

static void write_pending(writing *w, const admin_outbox *outbox, const metric_label *labels)
{
    outbox_total total = totals_outbox(w->from->totals, outbox->name);
    if (total.pending >= 0)
        exposition_count(&w->out, labels, (uint64_t)total.pending);
}

/* An empty outbox has no oldest message. */
static void write_oldest(writing *w, const admin_outbox *outbox, const metric_label *labels)
{
    outbox_total total = totals_outbox(w->from->totals, outbox->name);
    if (total.pending > 0 && total.oldest_ms > 0)
        exposition_seconds(&w->out, labels, (double)total.oldest_ms / 1e3);
}

static const meter *outbox_meter(const writing *w, const admin_outbox *outbox)
{
    return meters_find(w->counts, SEMEL_EVENT_SENT, outbox->name);
}

static void write_published(writing *w, const admin_outbox *outbox, const metric_label *labels)
{
    static const struct {
        meter_slot slot;
        const char *label;
    } ends[] = {{METER_PROCESSED, "sent"}, {METER_FAILED, "failed"}, {METER_DEAD, "dead"}};
    const meter *m = outbox_meter(w, outbox);
    for (size_t i = 0; m && i < sizeof ends / sizeof *ends; i++) {
        const metric_label all[] = {labels[0], labels[1], {"outcome", ends[i].label}, {0}};
        exposition_count(&w->out, all, load(&m->counts[ends[i].slot]));
    }
}

static void write_publish_duration(writing *w, const admin_outbox *outbox,
                                   const metric_label *labels)
{
    const meter *m = outbox_meter(w, outbox);
    if (!m)
        return;
    const buckets_seen seen = buckets_read(&m->took_seconds);
    exposition_buckets(&w->out, labels, &seen);
}

static void write_outboxes(writing *w)
{
    exposition_family(&w->out, "semel_outbox_pending", METRIC_GAUGE, NULL,
                      "Messages that are not sent yet.");
    write_each_outbox(w, write_pending);
    exposition_family(&w->out, "semel_outbox_oldest_timestamp_seconds", METRIC_GAUGE, "seconds",
                      "When the oldest message that is not sent yet was captured.");
    write_each_outbox(w, write_oldest);
    exposition_family(&w->out, "semel_outbox_published", METRIC_COUNTER, NULL,
                      "Attempts to send a message, by what became of them.");
    write_each_outbox(w, write_published);
    exposition_family(&w->out, "semel_outbox_publish_duration_seconds", METRIC_HISTOGRAM, "seconds",
                      "From handing over a message until the broker has confirmed its batch.");
    write_each_outbox(w, write_publish_duration);
}

/* --- dead letters ----------------------------------------------------------------------------- */

static void write_letters(writing *w)
{
    int64_t letters = totals_dead(w->from->totals);
    exposition_family(&w->out, "semel_deadletter_messages", METRIC_GAUGE, NULL,
                      "Dead letters in the store.");
    if (letters >= 0)
        exposition_count(&w->out, NULL, (uint64_t)letters);
    exposition_family(&w->out, "semel_deadletter", METRIC_COUNTER, NULL,
                      "Messages that became dead letters.");
    for (size_t i = 0; i < w->names->inbox_count; i++) {
        const admin_inbox *inbox = &w->names->inboxes[i];
        const meter *m = inbox_meter(w, inbox->name);
        const metric_label labels[] = {{"name", inbox->name}, {"handler", inbox->handler}, {0}};
        if (m)
            exposition_count(&w->out, labels, load(&m->counts[METER_DEAD]));
    }
    for (size_t i = 0; i < w->names->outbox_count; i++) {
        const meter *m = outbox_meter(w, &w->names->outboxes[i]);
        const metric_label labels[] = {
            {"name", w->names->outboxes[i].name}, {"handler", "relay"}, {0}};
        if (m)
            exposition_count(&w->out, labels, load(&m->counts[METER_DEAD]));
    }
}

/* --- the gateway ------------------------------------------------------------------------------ */

static void write_requests(void *context, const route_config *route, const route_meter *counts)
{
    writing *w = context;
    for (size_t i = 0; i < ROUTE_OUTCOMES; i++) {
        const metric_label labels[] = {
            {"route", route->name}, {"outcome", route_outcome_name((route_outcome)i)}, {0}};
        exposition_count(&w->out, labels, load(&counts->outcomes[i]));
    }
}

static void write_latency(void *context, const route_config *route, const route_meter *counts)
{
    writing *w = context;
    const metric_label labels[] = {{"route", route->name}, {0}};
    const buckets_seen seen = buckets_of_histogram(&counts->latency, load(&counts->sum_ns));
    exposition_buckets(&w->out, labels, &seen);
}

static void write_gateway(writing *w)
{
    gateway *g = w->from->gateway;
    exposition_family(&w->out, "semel_gateway_requests", METRIC_COUNTER, NULL,
                      "Requests by what became of them.");
    if (g)
        gateway_visit(g, write_requests, w);
    exposition_family(&w->out, "semel_gateway_request_duration_seconds", METRIC_HISTOGRAM,
                      "seconds", "From the whole request until its answer.");
    if (g)
        gateway_visit(g, write_latency, w);
}

/* --- transactions ----------------------------------------------------------------------------- */

static void write_transactions(writing *w)
{
    static const char *const ends[2] = {"rollback", "commit"};
    exposition_family(&w->out, "semel_db_transaction_duration_seconds", METRIC_HISTOGRAM, "seconds",
                      "Transactions of the store, from their begin to their end.");
    for (int i = 0; i < TRANSACTION_OPERATIONS; i++)
        for (int end = 0; end < 2; end++) {
            const metric_label labels[] = {
                {"operation", transactions_name((semel_operation)i)}, {"end", ends[end]}, {0}};
            const buckets_seen seen = transactions_read((semel_operation)i, end);
            exposition_buckets(&w->out, labels, &seen);
        }
}

/* --- the process ------------------------------------------------------------------------------ */

static void write_broker(void *context, const char *queue, int is_connected)
{
    writing *w = context;
    const metric_label labels[] = {{"queue", queue}, {0}};
    exposition_count(&w->out, labels, (uint64_t)is_connected);
}

static void write_flag(writing *w, int value)
{
    if (value >= 0)
        exposition_count(&w->out, NULL, (uint64_t)value);
}

static void write_health(writing *w)
{
    readiness *r = w->from->readiness;
    exposition_family(&w->out, "semel_ready", METRIC_GAUGE, NULL, "1 if /readyz says so.");
    write_flag(w, readiness_is_ready(r));
    exposition_family(&w->out, "semel_store_connected", METRIC_GAUGE, NULL,
                      "1 if the store answers.");
    write_flag(w, readiness_has_store(r));
    exposition_family(&w->out, "semel_broker_connected", METRIC_GAUGE, NULL,
                      "1 if the broker of the queue answers.");
    readiness_brokers(r, write_broker, w);
    exposition_family(&w->out, "semel_store_counted_timestamp_seconds", METRIC_GAUGE, "seconds",
                      "When the store was last asked what it holds.");
    if (totals_counted_ms(w->from->totals))
        exposition_seconds(&w->out, NULL, (double)totals_counted_ms(w->from->totals) / 1e3);
    exposition_family(&w->out, "semel_build", METRIC_INFO, NULL, "The version that runs.");
    exposition_count(&w->out, (const metric_label[]){{"version", semel_version()}, {0}}, 1);
}

void metrics_write(admin *a, buffer *to, int is_open_metrics)
{
    writing w = {.out = {.to = to, .is_open_metrics = is_open_metrics},
                 .from = a,
                 .names = &a->names,
                 .counts = a->links.live->meters};
    write_inboxes(&w);
    write_outboxes(&w);
    write_letters(&w);
    write_gateway(&w);
    write_transactions(&w);
    write_health(&w);
    metrics_write_process(&w.out, a->links.live->started_ms);
    exposition_end(&w.out);
}
