/* See service.h. The main thread waits for signals and does what comes once in a second; the
 * pipeline has threads of its own.
 *
 * Whenever the process is killed, what was not committed has not happened: there is nothing to
 * clean up at the next start. */
#include "program/run/service.h"

#include "program/cli.h"
#include "program/handler/drain.h"
#include "program/run/notify.h"
#include "program/run/service_internal.h"
#include "program/support/show.h"

enum { TICK_MS = 1000, ONCE_MS = 100, STATUS_MS = 5000, GRACE_MS = 5000, NS_PER_MS = 1000000 };

static int64_t steady_ms(void)
{
    return steady_clock_ns() / NS_PER_MS;
}

/* --- once in a second ------------------------------------------------------------------------- */

static void send_status(service *s, int64_t now)
{
    outcome_totals totals = outcomes_totals(s->outcomes);
    double seconds = (double)(now - (s->status_due_ms - STATUS_MS)) / 1000;
    buffer dead = {0};
    show_number(&dead, totals.dead);
    notify_send("STATUS=%.1f/s processed, %.1f/s duplicates, %s dead letter%s",
                (double)(totals.processed - s->status_totals.processed) / seconds,
                (double)(totals.duplicates - s->status_totals.duplicates) / seconds, dead.data,
                totals.dead == 1 ? "" : "s");
    buffer_free(&dead);
    s->status_totals = totals;
    s->status_due_ms = now + STATUS_MS;
}

void service_tick(service *s)
{
    int64_t now = steady_ms();
    outcomes_tick(s->outcomes, wall_clock_ms());
    if (now >= s->status_due_ms)
        send_status(s, now);
}

static int64_t tick_ms(const service *s)
{
    return s->options->once ? ONCE_MS : TICK_MS;
}

/* --- running and ending ----------------------------------------------------------------------- */

/* Ends by a signal, by an error of the pipeline, or, with --once, when nothing is left to do. */
static void run_until_end(service *s)
{
    while (!s->stop_signal && !atomic_load(&s->now.ended)) {
        service_wait(s, tick_ms(s));
        service_tick(s);
        if (s->wants_reload && !s->stop_signal)
            service_reload(s);
        if (s->options->once && service_is_idle(s))
            return;
    }
}

/* When the time is over, handlers end what they have begun (handler/drain.h). What does not
 * end even then, a statement that hangs, is given up: the process ends without waiting for it,
 * and the message is delivered again. */
static void give_up_draining(service *s)
{
    log_write(s->log,
              &(log_entry){.level = LOG_WARNING,
                           .event = "stopped",
                           .subject = NULL,
                           .msg = "the time for draining is over; what is still in progress "
                                  "was not completed and will be delivered again"});
    outcomes_flush(s->outcomes);
    service_end_at_once(s, CLI_OK);
}

static int is_drained(const service *s)
{
    return atomic_load(&s->now.ended) && service_gateway_is_idle(s);
}

static int drain(service *s)
{
    int64_t until = steady_ms() + s->all->drain_ms + GRACE_MS, pause_ms;
    service_say_stopping(s);
    live_stopping(s->live);
    notify_send("STOPPING=1");
    drain_begin(s->all->drain_ms);
    service_drain_gateway(s);
    service_stop_pipeline(&s->now);
    for (int64_t left; !is_drained(s); service_wait(s, left < pause_ms ? left : pause_ms)) {
        left = until - steady_ms();
        pause_ms = atomic_load(&s->now.ended) ? ONCE_MS : TICK_MS;
        if (left <= 0)
            give_up_draining(s);
        service_tick(s);
    }
    outcomes_flush(s->outcomes);
    return CLI_OK;
}

static int report_end(service *s)
{
    const running *r = &s->now;
    if (!r->status) {
        service_say_stopped(s);
        return CLI_OK;
    }
    log_write(s->log, &(log_entry){.level = LOG_ERROR, .event = "stopped", .msg = r->why.text});
    return CLI_FAILED;
}

static int open_and_run(service *s)
{
    int status = service_open_store(s);
    if (!status)
        service_say_newer_tables(s);
    if (!status)
        status = service_verify(s, s->all);
    if (!status)
        status = service_capture(s);
    if (!status)
        service_say_left(s, s->all);
    if (!status)
        status = service_open_pipeline(s, s->all, &s->now);
    if (!status) {
        service_use_gateway(s, s->all);
        service_say_ready(s);
        status = service_start(s, s->all, &s->now);
    }
    if (status)
        return status == EXIT_STOPPED ? CLI_OK : status;
    notify_send("READY=1");
    run_until_end(s);
    if (!atomic_load(&s->now.ended))
        status = drain(s);
    return status ? status : report_end(s);
}

/* Signals are blocked before there are threads. */
static int begin(service *s)
{
    int failed = service_block_signals(s);
    s->live = live_open(s->log, s->outcomes, s->options->once);
    live_configure(s->live, s->all);
    if (failed || service_read_signals(s))
        return CLI_FAILED;
    int status = service_open_admin(s);
    return status ? status : service_open_gateway(s);
}

/* What touches store and brokers comes first, as long as the signals are read. */
static void close_all(service *s, int status)
{
    service_begin_closing(s, status);
    service_close_gateway(s);
    service_close_pipeline(&s->now);
    service_close_admin(s);
    live_close(service_take_live(s));
    semel_store_close(s->store);
    service_end_closing(s);
    outcomes_close(s->outcomes);
    log_close(s->log);
    s->options->unload(s->all);
    pthread_mutex_destroy(&s->end_lock);
}

int service_run(config *all, const service_options *options)
{
    service s = {.options = options, .all = all};
    s.log = log_open(&all->log, stderr);
    s.outcomes = outcomes_open(s.log);
    s.watchdog_ms = notify_watchdog_ms();
    s.status_due_ms = steady_ms() + STATUS_MS;
    pthread_mutex_init(&s.end_lock, NULL);
    outcomes_configure(s.outcomes, all);
    service_say_start(&s);
    int status = begin(&s);
    if (!status)
        status = open_and_run(&s);
    close_all(&s, status);
    return status;
}
