/* Opening: a database or broker that is away is waited for, which is said once and once when it is
 * over. What will not pass ends the program. */
#include "program/capture/capture.h"
#include "program/cli.h"
#include "program/config/store_url.h"
#include "program/config/verify.h"
#include "program/handler/sql.h"
#include "program/run/notify.h"
#include "program/run/service_internal.h"
#include "program/run/transactions.h"
#include "program/support/show.h"
#include "program/support/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RETRY_LEAST_MS = 200, RETRY_MOST_MS = 5000 };

/* --- what is away ----------------------------------------------------------------------------- */

static void write_outage(log *l, log_level level, const char *component, const char *why,
                         const char *next)
{
    buffer text = {0};
    buffer_printf(&text, "unreachable: %s; %s", why, next);
    log_write(l, &(log_entry){.level = level,
                              .event = "outage",
                              .subject = component,
                              .msg = why,
                              .text = text.data,
                              .fields = {{"component", component, 0}}});
    buffer_free(&text);
}

static void say_outage(log *l, const char *component, const char *why)
{
    write_outage(l, LOG_WARNING, component, why, "retrying");
}

static void say_outage_over(log *l, const char *component, int64_t after_ns)
{
    buffer text = {0};
    buffer_text(&text, "connected after ");
    show_duration(&text, after_ns);
    log_write(l, &(log_entry){.level = LOG_INFO,
                              .event = "outage_over",
                              .subject = component,
                              .msg = text.data,
                              .fields = {{"component", component, 0},
                                         {"after_ms", NULL, after_ns / 1000000}}});
    buffer_free(&text);
}

void service_notice(void *context, const char *component, const semel_error *trouble)
{
    service *s = context;
    if (trouble)
        say_outage(s->log, component, trouble->text);
    else
        log_write(s->log, &(log_entry){.level = LOG_INFO,
                                       .event = "outage_over",
                                       .subject = component,
                                       .msg = "works again",
                                       .fields = {{"component", component, 0}}});
}

/* What an error is about: an element of the pipeline, if it names one, else `component`. */
typedef struct blamed {
    region memory;
    const char *component;
    const char *text;
} blamed;

static blamed blame(const char *component, const semel_error *why)
{
    blamed b = {.component = component, .text = why->text};
    const char *part = verify_part(&b.text, &b.memory, why);
    b.component = part ? part : component;
    return b;
}

static int fail(const service *s, const char *component, const semel_error *why)
{
    blamed b = blame(component, why);
    log_write(s->log, &(log_entry){.level = LOG_ERROR,
                                   .event = "failed",
                                   .subject = b.component,
                                   .msg = b.text,
                                   .fields = {{"component", b.component, 0}}});
    region_free(&b.memory);
    return CLI_FAILED;
}

/* Tries until it works, or cannot work, or the program is to stop. With --once it does not wait. */
typedef semel_status attempt(service *s, void *context, semel_error *err);

/* Once for each part that is away, one after the other. */
static void tell_outage(service *s, const blamed *now, char said[], size_t room)
{
    live_wait_for(s->live, now->component, now->text);
    if (strcmp(said, now->component) == 0)
        return;
    say_outage(s->log, now->component, now->text);
    notify_send("STATUS=waiting for %s", now->component);
    (void)snprintf(said, room, "%s", now->component);
}

static int keep_trying(service *s, const char *component, attempt *try_it, void *context,
                       semel_error *last)
{
    int64_t began = steady_clock_ns(), pause_ms = RETRY_LEAST_MS;
    char said[LIVE_COMPONENT_SIZE] = "";
    while (try_it(s, context, last)) {
        if (!last->retryable)
            return CLI_FAILED;
        blamed now = blame(component, last);
        if (s->options->once)
            write_outage(s->log, LOG_ERROR, now.component, now.text, "nothing was handled");
        else
            tell_outage(s, &now, said, sizeof said);
        region_free(&now.memory);
        if (s->options->once)
            return CLI_TEMPORARY;
        service_wait(s, pause_ms);
        if (s->stop_signal)
            return EXIT_STOPPED;
        pause_ms = pause_ms * 2 < RETRY_MOST_MS ? pause_ms * 2 : RETRY_MOST_MS;
    }
    live_wait_for(s->live, NULL, NULL);
    if (*said)
        say_outage_over(s->log, said, steady_clock_ns() - began);
    return CLI_OK;
}

/* --- the store -------------------------------------------------------------------------------- */

void service_observe(void *context, const semel_event *event)
{
    const service *s = context;
    outcomes_observe(s->outcomes, event);
    live_observe(s->live, event);
    history_writer_observe(s->history, event);
    tracer_observe(s->tracer, event);
}

/* Requests wait for the disk, and commits that wait together are written together: half as many
 * connections as the gateway has workers made first requests half as fast again on PostgreSQL (16
 * against 8; 32 were slower). Without a gateway the store's own number stays. */
static const char *store_url(region *memory, const config *all)
{
    enum { LEAST = 8, MOST = 32 };
    uint32_t wanted = all->gateway.workers / 2;
    if (!all->gateway.route_count || wanted <= LEAST)
        return all->store_url;
    return store_url_pooled(memory, all->store_url, wanted < MOST ? wanted : MOST);
}

static semel_status try_store(service *s, void *context, semel_error *err)
{
    semel_store_options options = s->all->store;
    semel_store *store = NULL;
    region memory = {0};
    (void)context;
    options.observer = service_observe;
    options.observer_context = s;
    options.transactions = transactions_observe;
    options.tracing = tracer_hooks(s->tracer);
    semel_status status = semel_store_open(&store, store_url(&memory, s->all), &options, err);
    region_free(&memory);
    if (!status)
        status = semel_store_migrate(store, err);
    if (!status)
        status = sql_setup(store, &s->all->setup, NULL, err);
    if (status)
        semel_store_close(store);
    else
        s->store = store;
    return status;
}

int service_open_store(service *s)
{
    semel_error why = {0};
    int status = keep_trying(s, "store", try_store, NULL, &why);
    if (!status) {
        live_use_store(s->live, s->store);
        history_writer_use_store(s->history, s->store);
        admin_use_store(s->admin, s->store);
    }
    return status == CLI_FAILED ? fail(s, "store", &why) : status;
}

/* --- what the store says of the configuration ------------------------------------------------- */

/* In the form of the log, so that one that programs read has JSON only. */
void service_print(const service *s, diagnostics *found, const config *all)
{
    diagnostic_print(stderr, found, all->path, (diagnostic_form){.json = !log_is_text(s->log)});
}

/* Prints what was found; 0 if there are no errors. */
static int print_found(const service *s, diagnostics *found, const config *all)
{
    service_print(s, found, all);
    return found->errors ? CLI_CONFIG : CLI_OK;
}

typedef struct asking {
    const config *all;
    diagnostics found;
} asking;

static semel_status try_statements(service *s, void *context, semel_error *err)
{
    asking *a = context;
    diagnostic_clear(&a->found);
    const config_list accept = {s->options->accept, s->options->accept_count};
    semel_status status = verify_definitions(&a->found, a->all, s->store, &accept, err);
    if (!status)
        status = verify_sql(&a->found, a->all, s->store, 0, err);
    return status ? status : capture_verify(&a->found, a->all, s->store, 0, err);
}

int service_verify(service *s, const config *all)
{
    asking a = {.all = all};
    semel_error why = {0};
    int status = keep_trying(s, "store", try_statements, &a, &why);
    if (status == CLI_FAILED)
        status = fail(s, "store", &why);
    if (!status)
        status = print_found(s, &a.found, all);
    diagnostic_free(&a.found);
    return status;
}

static semel_status try_capture(service *s, void *context, semel_error *err)
{
    (void)context;
    return capture_install(s->all, err);
}

int service_capture(service *s)
{
    semel_error why = {0};
    int status = keep_trying(s, "store", try_capture, NULL, &why);
    return status == CLI_FAILED ? fail(s, "store", &why) : status;
}

static void say_left(const capture_finding *found, void *context)
{
    const service *s = context;
    buffer text = {0};
    if (found->state != CAPTURE_LEFT)
        return;
    buffer_printf(&text, "%s; %s", found->text, found->fix);
    log_write(s->log,
              &(log_entry){
                  .level = LOG_WARNING, .event = "trigger", .subject = "store", .msg = text.data});
    buffer_free(&text);
}

/* A store that cannot be asked is told of by what needs it. */
void service_say_left(service *s, const config *all)
{
    (void)capture_look(all, s->store, say_left, s, NULL);
}

/* An error that is about one element of the configuration is shown as one of the configuration. */
static int fail_opening(const service *s, const config *all, const semel_error *why)
{
    diagnostics found = {0};
    int status =
        verify_opening(&found, all, why) ? print_found(s, &found, all) : fail(s, "pipeline", why);
    diagnostic_free(&found);
    return status;
}

/* --- the pipeline ----------------------------------------------------------------------------- */

typedef struct opening {
    const config *all;
    running *out;
} opening;

static semel_status try_pipeline(service *s, void *context, semel_error *err)
{
    opening *o = context;
    running *r = o->out;
    const assembly_options options = {.notice = service_notice,
                                      .notice_context = s,
                                      .live = s->live,
                                      .accept = s->options->accept,
                                      .accept_count = s->options->accept_count};
    semel_status status =
        r->assembly ? SEMEL_OK : assembly_open(&r->assembly, o->all, s->store, &options, err);
    return status ? status : semel_pipeline_open(&r->pipeline, assembly_spec(r->assembly), err);
}

int service_open_pipeline(service *s, const config *all, running *out)
{
    opening o = {all, out};
    *out = (running){.wake_fd = s->wake_fd, .owner = s};
    semel_error why = {0};
    int status = keep_trying(s, "pipeline", try_pipeline, &o, &why);
    if (status == CLI_FAILED)
        status = fail_opening(s, all, &why);
    if (status)
        service_close_pipeline(out);
    return status;
}

static void *wait_for_end(void *context)
{
    running *r = context;
    const uint64_t one = 1;
    r->status = semel_pipeline_wait(r->pipeline, &r->why);
    retrier_join(r->retrier);
    atomic_store(&r->ended, 1);
    (void)!write(r->wake_fd, &one, sizeof one);
    return NULL;
}

int service_start(service *s, const config *all, running *r)
{
    semel_error why = {0};
    const retry_place letters = {.store = s->store,
                                 .all = all,
                                 .pipeline = r->pipeline,
                                 .spec = assembly_handlers(r->assembly)};
    if (semel_pipeline_start(r->pipeline, &why))
        return fail(s, "pipeline", &why);
    int error = retrier_start(&r->retrier, &letters, s->log);
    if (!error)
        error = start_thread(&r->waiter, wait_for_end, r);
    if (error) {
        semel_fail(&why, SEMEL_ENOMEM, "cannot start a thread: %s", strerror(error));
        return fail(s, "pipeline", &why);
    }
    r->waits = 1;
    live_use_pipeline(s->live, r->pipeline);
    service_follow_admin(s, all, r->pipeline);
    return CLI_OK;
}

void service_stop_pipeline(running *r)
{
    retrier_stop(r->retrier);
    semel_pipeline_stop(r->pipeline);
}

void service_close_pipeline(running *r)
{
    if (r->owner) {
        live_use_pipeline(r->owner->live, NULL);
        service_follow_admin(r->owner, NULL, NULL);
    }
    service_stop_pipeline(r);
    if (r->waits)
        (void)pthread_join(r->waiter, NULL);
    retrier_free(r->retrier);
    semel_pipeline_close(r->pipeline);
    assembly_close(r->assembly);
    *r = (running){0};
}
