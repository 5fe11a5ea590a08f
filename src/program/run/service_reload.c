/* SIGHUP: the configuration is read again. If it has errors, or the store refuses its statements,
 * that is said, and the old one stays: it has worked all the time. Otherwise the pipeline is
 * stopped as at the end of the program (handlers finish, deliveries that wait go back), and the
 * new one is opened on the same store; if that fails, the old one is opened again. A crash
 * anywhere here is a crash as any other: the next start reads the file.
 *
 * The store itself is not exchanged: another URL or other options of the store need a restart,
 * and a configuration that changes them is refused. */
#include "program/capture/capture.h"
#include "program/cli.h"
#include "program/handler/sql.h"
#include "program/run/notify.h"
#include "program/run/service_internal.h"

#include <string.h>

static void refuse(const service *s, const char *why)
{
    log_write(s->log,
              &(log_entry){
                  .level = LOG_ERROR, .event = "reload_refused", .subject = "reload", .msg = why});
}

static int same_store(const config *a, const config *b)
{
    return strcmp(a->store_url, b->store_url) == 0 && a->store.busy_ms == b->store.busy_ms &&
           a->store.answer_ms == b->store.answer_ms;
}

static void refuse_errors(const service *s, const diagnostics *found)
{
    buffer text = {0};
    buffer_printf(&text, "%s has %zu error%s (below); keeping the old config", s->all->path,
                  found->errors, found->errors == 1 ? "" : "s");
    refuse(s, text.data);
    buffer_free(&text);
}

static config *load(service *s)
{
    diagnostics found = {0};
    config *fresh = NULL;
    int is_good = s->options->load(&fresh, s->options->load_context, &found);
    if (!is_good)
        refuse_errors(s, &found);
    service_print(s, &found, s->all);
    diagnostic_free(&found);
    if (!is_good || same_store(s->all, fresh))
        return fresh;
    refuse(s, "store: another store needs a restart; keeping the old config");
    s->options->unload(fresh);
    return NULL;
}

/* Asked while the old one still works. The tables are last: what was changed there is to be changed
 * back if the old one stays. */
static int store_accepts(service *s, const config *fresh)
{
    semel_error why;
    if (service_prepare_admin(s, fresh, &why) || service_prepare_gateway(s, fresh, &why) ||
        sql_setup(s->store, &fresh->setup, NULL, &why)) {
        refuse(s, why.text);
    } else if (service_verify(s, fresh) != CLI_OK) {
        if (!s->stop_signal)
            refuse(s, "the statements of the new config cannot be used; keeping the old config");
    } else if (capture_install(fresh, &why)) {
        refuse(s, why.text);
        (void)service_capture(s);
    } else {
        return 1;
    }
    return 0;
}

static void use(service *s, const config *all)
{
    outcomes_configure(s->outcomes, all);
    tracer_configure(s->tracer, all);
    live_configure(s->live, all);
    history_writer_configure(s->history, &all->history);
    log_configure(s->log, &all->log);
    service_use_admin(s, all);
}

static int open_and_start(service *s, const config *all)
{
    int status = service_open_pipeline(s, all, &s->now);
    if (status)
        return status;
    use(s, all);
    status = service_start(s, all, &s->now);
    if (status)
        service_close_pipeline(&s->now);
    else
        service_use_gateway(s, all);
    return status;
}

/* The program cannot go on without a pipeline: it ends, and its supervisor starts it again. */
static void go_back(service *s)
{
    refuse(s, "the new config cannot be opened; going back to the old one");
    (void)service_capture(s); /* if it cannot be done, that was said */
    if (open_and_start(s, s->all) != CLI_OK && !s->stop_signal) {
        s->now.status = SEMEL_EMISUSE;
        semel_fail(&s->now.why, SEMEL_EMISUSE, "the old configuration cannot be opened any more");
        atomic_store(&s->now.ended, 1);
    }
}

/* 0 if a signal to stop comes first: then the old pipeline is drained as always. */
static int stop_old(service *s)
{
    enum { TICK_MS = 1000 };
    service_stop_pipeline(&s->now);
    while (!s->stop_signal && !atomic_load(&s->now.ended)) {
        service_wait(s, TICK_MS);
        service_tick(s);
    }
    return !s->stop_signal;
}

static int same_text(const char *a, const char *b)
{
    return !a == !b && (!a || strcmp(a, b) == 0);
}

static int same_pairs(const config_pairs *a, const config_pairs *b)
{
    int same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = same_text(a->items[i].name, b->items[i].name) &&
               same_text(a->items[i].value, b->items[i].value);
    return same;
}

/* The tracer belongs to the store, which stays open. */
static void say_tracing(const service *s, const tracing_config *fresh)
{
    const tracing_config *old = &s->all->tracing;
    if (same_text(old->endpoint, fresh->endpoint) && same_text(old->sample, fresh->sample) &&
        same_text(old->service, fresh->service) && same_pairs(&old->headers, &fresh->headers))
        return;
    log_write(s->log, &(log_entry){.level = LOG_WARNING,
                                   .event = "reload",
                                   .subject = "tracing",
                                   .msg = "this section is used at the next start; until then "
                                          "tracing stays as it is"});
}

/* `fresh` is used from now on, or freed. */
static void replace(service *s, config *fresh)
{
    changes all = {0};
    config *unused = fresh;
    changes_find(&all, s->all, fresh);
    service_say_changes(s, &all);
    say_tracing(s, &fresh->tracing);
    if (stop_old(s)) {
        service_pause_gateway(s);
        service_close_pipeline(&s->now);
        if (open_and_start(s, fresh) == CLI_OK) {
            unused = s->all;
            s->all = fresh;
            service_say_reloaded(s, &all);
            service_say_left(s, s->all);
        } else if (!s->stop_signal) {
            go_back(s);
        }
    }
    if (!s->now.pipeline) /* a signal to stop came while none was open */
        atomic_store(&s->now.ended, 1);
    s->options->unload(unused);
    changes_free(&all);
}

/* Servers that only the refused configuration has were never used. */
static void refuse_servers(service *s, config *fresh)
{
    if (!s->all->admin.listen)
        service_close_admin(s);
    if (!s->all->gateway.listen)
        service_close_gateway(s);
    s->options->unload(fresh);
}

void service_reload(service *s)
{
    s->wants_reload = 0;
    notify_reloading();
    log_write(s->log,
              &(log_entry){
                  .level = LOG_INFO, .event = "reload", .subject = "reload", .msg = s->all->path});
    config *fresh = load(s);
    if (fresh && store_accepts(s, fresh))
        replace(s, fresh);
    else if (fresh)
        refuse_servers(s, fresh);
    notify_send("READY=1");
}
