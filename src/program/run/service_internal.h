/* The service as its parts share it. */
#ifndef SEMEL_PROGRAM_RUN_SERVICE_INTERNAL_H
#define SEMEL_PROGRAM_RUN_SERVICE_INTERNAL_H

#include "program/admin/admin.h"
#include "program/gateway/gateway.h"
#include "program/run/assembly.h"
#include "program/run/changes.h"
#include "program/run/history_writer.h"
#include "program/run/live.h"
#include "program/run/outcomes.h"
#include "program/run/retrier.h"
#include "program/run/service.h"
#include "program/trace/tracer.h"

#include <pthread.h>
#include <stdatomic.h>

/* A pipeline that is open, the retrier of its dead letters, and the thread that waits for the end
 * of both. */
typedef struct service service;

typedef struct running {
    assembly *assembly;
    semel_pipeline *pipeline;
    retrier *retrier;
    pthread_t waiter;
    int waits;        /* the thread was started, and not joined yet */
    atomic_int ended; /* the pipeline has ended by itself or was stopped */
    int wake_fd;      /* the thread writes here when it has */
    service *owner;   /* its `live` and admin are told when the pipeline works, and before it is
                         closed */
    semel_status status;
    semel_error why;
} running;

struct service {
    const service_options *options;
    config *all;
    log *log;
    outcomes *outcomes;
    live *live;
    history_writer *history;
    tracer *tracer; /* NULL: tracing is off */
    semel_store *store;
    running now;
    gateway *gateway; /* NULL: there is none */
    admin *admin;     /* the same */
    int signal_fd;
    int wake_fd;               /* wakes the main thread */
    int reader_fd;             /* wakes the reader of the signals */
    pthread_t reader;          /* reads signals, as long as reader_runs */
    int reader_runs;           /* the main thread's own */
    atomic_int stop_signal;    /* that was received; 0: none */
    atomic_int wants_reload;   /* SIGHUP was received */
    _Atomic int64_t closes_ms; /* by the steady clock, then closing is given up; 0: not closing */
    atomic_int is_closed;      /* the reader is to end */
    int exit_status;           /* if closing is given up; set before closes_ms */
    pthread_mutex_t end_lock;  /* over the end of the process, and of `live` */
    int64_t watchdog_ms, watchdog_due_ms;
    int64_t status_due_ms;
    outcome_totals status_totals;
    outcome_totals once_totals; /* at the last look of --once */
    int quiet_rounds;
};

/* service.c: what comes once in a second. */
void service_tick(service *s);

/* service_open.c: each returns an exit status, 0 if it succeeded. With a signal to stop
 * meanwhile it returns EXIT_STOPPED. */
enum { EXIT_STOPPED = -1 };
int service_open_store(service *s);
/* The observer of the store, and of what the gateway does with copies: its context is the
 * service. */
void service_observe(void *context, const semel_event *event);
/* Prints what the store says of the statements. */
int service_verify(service *s, const config *all);
/* Makes the store send the rows of the tables as the configuration that is used says. */
int service_capture(service *s);
/* Triggers of tables that the configuration has no more. */
void service_say_left(service *s, const config *all);
int service_open_pipeline(service *s, const config *all, running *out);
int service_start(service *s, const config *all, running *r);
void service_stop_pipeline(running *r); /* and does not wait */
void service_close_pipeline(running *r);
void service_print(const service *s, diagnostics *found, const config *all);
void service_notice(void *context, const char *component, const semel_error *trouble);

/* service_signals.c: signals come by a descriptor, and a thread reads it: so a second signal ends
 * the process wherever the main thread waits. 0, or -1. */
int service_block_signals(service *s);
int service_read_signals(service *s); /* from now on */

/* What follows is closing: it has some seconds, then the process ends with this status. */
void service_begin_closing(service *s, int status);
void service_end_closing(service *s);

/* The caller closes it: the end of the process no longer touches it. */
live *service_take_live(service *s);

/* Ends the process without waiting for anything; what handlers have started ends with it. */
_Noreturn void service_end_at_once(service *s, int status);

/* Waits for a signal, for the end of the pipeline, or until the time is over. */
void service_wait(service *s, int64_t wait_ms);

/* service_reload.c: replaces the configuration; the old one stays if the new one cannot be
 * used. */
void service_reload(service *s);

/* service_gateway.c: opens what the configuration has, if it has one. Prepares what a fresh one
 * has, uses the pipeline that is open, leaves it, takes no more requests, waits for those in
 * hand. */
int service_open_gateway(service *s);
semel_status service_prepare_gateway(service *s, const config *fresh, semel_error *err);
void service_use_gateway(service *s, const config *all);
void service_pause_gateway(service *s);
void service_drain_gateway(service *s);
int service_gateway_is_idle(const service *s);
void service_close_gateway(service *s);

/* service_admin.c: as for the gateway; the URL is said when it is new. A NULL pipeline: the one
 * that was used is closed next. */
int service_open_admin(service *s);
semel_status service_prepare_admin(service *s, const config *fresh, semel_error *err);
void service_use_admin(service *s, const config *all);
void service_follow_admin(service *s, const config *all, semel_pipeline *pipeline);
void service_close_admin(service *s);

/* service_once.c: is anything left to do? Asks the store, so not too often. 1: nothing. */
int service_is_idle(service *s);

/* service_lines.c: what is said at the start and the end. */
void service_say_start(const service *s);
void service_say_newer_tables(const service *s); /* if there are any */
void service_say_ready(const service *s);
void service_say_stopping(const service *s);
void service_say_stopped(const service *s);

/* service_changes.c: a line for each of them, and how many they were. */
void service_say_changes(const service *s, const changes *all);
void service_say_reloaded(const service *s, const changes *all);

#endif
