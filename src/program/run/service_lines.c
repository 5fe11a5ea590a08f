/* What `semel run` says when it starts, is ready, stops. */
#include "program/config/complete.h"
#include "program/handler/handler.h"
#include "program/run/sample.h"
#include "program/run/service_internal.h"
#include "program/support/newer_tables.h"
#include "program/support/show.h"
#include "program/support/units.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

void service_say_start(const service *s)
{
    buffer text = {0};
    buffer_printf(&text, "semel %s, %s, pid %d", semel_version(), s->all->path, (int)getpid());
    log_write(s->log, &(log_entry){.level = LOG_INFO,
                                   .event = "start",
                                   .msg = "start",
                                   .text = text.data,
                                   .fields = {{"version", semel_version(), 0},
                                              {"config", s->all->path, 0},
                                              {"pid", NULL, getpid()}}});
    buffer_free(&text);
}

void service_say_newer_tables(const service *s)
{
    newer_tables found = newer_tables_find(s->store);
    buffer text = {0};
    if (!found.there)
        return;
    newer_tables_text(&text, &found);
    log_write(s->log, &(log_entry){.level = LOG_WARNING,
                                   .event = "schema",
                                   .subject = "store",
                                   .msg = text.data,
                                   .fields = {{"version", NULL, found.there},
                                              {"known", NULL, found.known}}});
    buffer_free(&text);
}

/* --- ready ------------------------------------------------------------------------------------ */

static const char *survives(semel_durability durability)
{
    return durability == SEMEL_DURABLE_POWER     ? "survives power loss"
           : durability == SEMEL_DURABLE_PROCESS ? "survives kill -9, not power loss"
                                                 : "lost when the process ends";
}

/* Without user, password and parameters. */
static void say_store(const service *s)
{
    buffer text = {0};
    buffer_text(&text, "store ");
    sample_url(&text, s->all->store_url);
    buffer_printf(&text, ": %s", survives(semel_store_durability(s->store)));
    log_line(s->log, text.data);
    buffer_free(&text);
}

static void say_gateway(const service *s)
{
    buffer text = {0};
    size_t routes = s->all->gateway.route_count;
    if (!s->gateway)
        return;
    const char *address = gateway_address(s->gateway);
    buffer_printf(&text, "gateway %s%s, %zu route%s",
                  strncmp(address, "unix:", 5) == 0 ? "" : "http://", address, routes,
                  routes == 1 ? "" : "s");
    log_write(s->log,
              &(log_entry){.level = LOG_INFO,
                           .event = "gateway",
                           .msg = "listening",
                           .text = text.data,
                           .fields = {{"address", address, 0}, {"routes", NULL, (int64_t)routes}}});
    buffer_free(&text);
}

static int inbox_width(const config *all)
{
    int width = 0;
    for (size_t i = 0; i < all->inbox_count; i++) {
        int mine = (int)(strlen(config_inbox_from(all, &all->inboxes[i])) +
                         strlen(all->inboxes[i].name) + 4);
        width = mine > width ? mine : width;
    }
    return width;
}

static void say_inbox(const service *s, const inbox_config *inbox, int width)
{
    buffer text = {0};
    const char *from = config_inbox_from(s->all, inbox);
    int len = (int)(strlen(from) + strlen(inbox->name) + 4);
    buffer_printf(&text, "%s -> %s%*s   %-4s  %s", from, inbox->name, width - len, "",
                  handler_class_of(inbox->handler)->name,
                  semel_grade_name(assembly_grade(s->now.pipeline, inbox)));
    log_line(s->log, text.data);
    buffer_free(&text);
}

static void say_warning(const service *s, const char *queue, const char *text, size_t len)
{
    region memory = {0};
    log_write(s->log, &(log_entry){.level = LOG_WARNING,
                                   .event = "broker",
                                   .subject = region_printf(&memory, "queue %s", queue),
                                   .msg = region_copy(&memory, text, len),
                                   .fields = {{"queue", queue, 0}}});
    region_free(&memory);
}

/* What brokers may lose, a sentence per line; what the store may lose stands in its own line. */
static void say_warnings(const service *s)
{
    for (size_t i = 0; i < s->all->queue_count; i++) {
        const queue_config *queue = &s->all->queues[i];
        const semel_transport *transport =
            queue->url ? semel_pipeline_find_queue(s->now.pipeline, queue->name) : NULL;
        const char *at = transport ? semel_transport_warnings(transport) : "";
        for (size_t len; *at; at += len + (at[len] == '\n')) {
            len = strcspn(at, "\n");
            say_warning(s, queue->name, at, len);
        }
    }
}

static void say_hint(const service *s)
{
    buffer text = {0};
    if (!log_is_text(s->log) || !sample_inbox(s->all) || !isatty(STDERR_FILENO))
        return;
    log_line(s->log, "no messages handled yet; in a second terminal, run:");
    buffer_printf(&text, "%14s", "");
    sample_publish(&text, s->all);
    buffer_text(&text, "\n");
    (void)fwrite(text.data, 1, text.len, stderr);
    buffer_free(&text);
}

static semel_status found_one(const semel_marker *marker, void *context, semel_error *err)
{
    (void)marker, (void)err;
    *(int *)context = 1;
    return SEMEL_ESTOPPED;
}

/* Has any inbox handled anything, ever? If that cannot be known, no hint is given. */
static int is_unused(const service *s)
{
    int found = 0;
    semel_marker_filter one = {.size = sizeof one, .limit = 1};
    for (size_t i = 0; !found && i < s->all->inbox_count; i++) {
        semel_inbox *inbox = semel_pipeline_find_inbox(s->now.pipeline, s->all->inboxes[i].name);
        semel_status status = semel_inbox_list(inbox, &one, found_one, &found, NULL);
        if (status && status != SEMEL_ESTOPPED)
            return 0;
    }
    return !found;
}

void service_say_ready(const service *s)
{
    const config *all = s->all;
    int64_t took = steady_clock_ns() - s->options->started_ns;
    int width = inbox_width(all);
    buffer text = {0};
    say_store(s);
    for (size_t i = 0; i < all->inbox_count; i++)
        say_inbox(s, &all->inboxes[i], width);
    say_gateway(s);
    say_warnings(s);
    buffer_text(&text, "ready in ");
    show_duration(&text, took);
    if (isatty(STDERR_FILENO))
        buffer_text(&text, "; press Ctrl-C to finish work in progress and stop");
    log_write(s->log, &(log_entry){.level = LOG_INFO,
                                   .event = "ready",
                                   .msg = "ready",
                                   .text = text.data,
                                   .fields = {{"version", semel_version(), 0},
                                              {"config", all->path, 0},
                                              {"pid", NULL, getpid()},
                                              {"inboxes", NULL, (int64_t)all->inbox_count},
                                              {"outboxes", NULL, (int64_t)all->outbox_count},
                                              {"after_ms", NULL, took / 1000000}}});
    buffer_free(&text);
    if (!s->options->once && is_unused(s))
        say_hint(s);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Deliveries that consumers have in hand. */
static void count_in_progress(void *context, const char *component, const semel_health_part *part)
{
    if (strncmp(component, "queue ", 6) == 0)
        *(uint64_t *)context += part->waiting;
}

/* A terminal has shown ^C, and the cursor is behind it. */
static void end_typed_line(const service *s)
{
    if (s->stop_signal == SIGINT && log_is_text(s->log) && isatty(STDERR_FILENO))
        (void)fputc('\n', stderr);
}

void service_say_stopping(const service *s)
{
    uint64_t in_progress = 0;
    semel_health_state state;
    buffer text = {0};
    const char *name = s->stop_signal == SIGTERM ? "SIGTERM, " : "";
    end_typed_line(s);
    (void)semel_pipeline_health(&state, s->now.pipeline, NULL, count_in_progress, &in_progress,
                                NULL);
    buffer_printf(&text, "stopping: %snot accepting new messages, %llu in progress", name,
                  (unsigned long long)in_progress);
    if (s->stop_signal == SIGINT)
        buffer_text(&text, " (Ctrl-C again to stop now)");
    else
        buffer_printf(&text, ", draining for up to %s", units_show_duration(s->all->drain_ms).text);
    log_write(s->log, &(log_entry){.level = LOG_INFO,
                                   .event = "stopping",
                                   .msg = "not accepting new messages",
                                   .text = text.data,
                                   .fields = {{"in_progress", NULL, (int64_t)in_progress},
                                              {"drain_ms", NULL, s->all->drain_ms}}});
    buffer_free(&text);
}

void service_say_stopped(const service *s)
{
    outcome_totals totals = outcomes_totals(s->outcomes);
    int64_t took = steady_clock_ns() - s->options->started_ns;
    buffer text = {0};
    buffer_text(&text, "stopped after ");
    show_duration(&text, took);
    buffer_text(&text, ": ");
    show_number(&text, totals.processed);
    buffer_text(&text, " processed, ");
    show_number(&text, totals.duplicates);
    buffer_text(&text, " duplicates suppressed, ");
    show_number(&text, totals.failed);
    buffer_text(&text, " failed, ");
    show_number(&text, totals.dead);
    buffer_text(&text, totals.dead == 1 ? " dead letter" : " dead letters");
    log_write(s->log, &(log_entry){.level = LOG_INFO,
                                   .event = "stopped",
                                   .msg = "drained",
                                   .text = text.data,
                                   .fields = {{"processed", NULL, (int64_t)totals.processed},
                                              {"duplicates", NULL, (int64_t)totals.duplicates},
                                              {"failed", NULL, (int64_t)totals.failed},
                                              {"dead", NULL, (int64_t)totals.dead},
                                              {"after_ms", NULL, took / 1000000}}});
    buffer_free(&text);
}
