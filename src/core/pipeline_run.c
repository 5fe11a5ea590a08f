/* Running a pipeline: a thread for each loop, which all end together.
 *
 * Stopping is one store to each loop and one byte in a pipe, so a signal handler may do it. The
 * byte stays in the pipe: whatever waits for the stop polls that, and nothing asks from time to
 * time whether it is over. A loop that ends with an error stops the others, and so does the last
 * loop to end; so the caller that waits needs to know of the stop only, and then joins the
 * threads.
 *
 * Nothing here is stored. If the process dies, each loop leaves what it leaves by itself: leases
 * that end, and deliveries that come again. */
#include "core/pipeline.h"

#include "base/thread.h"
#include "core/consumer.h"
#include "core/relay.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- notices ---------------------------------------------------------------------------------- */

static void give_notice(semel_pipeline *p, const char *element, const char *name,
                        const semel_error *trouble)
{
    char component[SEMEL_NAME_MAX + 16];
    if (!p->table.spec.notice)
        return;
    (void)snprintf(component, sizeof component, "%s %s", element, name);
    pthread_mutex_lock(&p->notice_lock);
    p->table.spec.notice(p->table.spec.notice_context, component, trouble);
    pthread_mutex_unlock(&p->notice_lock);
}

void pipeline_notice_loop(void *context, const semel_error *trouble)
{
    const pipeline_loop *loop = context;
    give_notice(loop->pipeline, loop->element, loop->name, trouble);
}

void pipeline_notice_sweep(void *context, const semel_error *trouble)
{
    const pipeline_sweep *sweep = context;
    give_notice(sweep->pipeline, "inbox", sweep->name, trouble);
}

/* --- stopping --------------------------------------------------------------------------------- */

/* A child has the parent's pipe, and must not stop the parent. */
void semel_pipeline_stop(semel_pipeline *pipeline)
{
    int before = errno; /* that of the code which a signal has interrupted */
    if (!pipeline || pipeline->pid != getpid())
        return;
    atomic_store(&pipeline->stopped, 1);
    for (size_t i = 0; i < pipeline->loop_count; i++) {
        const pipeline_loop *loop = &pipeline->loops[i];
        if (loop->consumer)
            semel_consumer_stop(loop->consumer);
        if (loop->relay)
            semel_relay_stop(loop->relay);
    }
    ssize_t ignored = write(pipeline->wake[1], "", 1); /* a full pipe wakes, too */
    (void)ignored;
    errno = before;
}

/* Up to wait_ms (-1: without an end); 1 if it is stopped. */
static int wait_for_stop(semel_pipeline *p, int wait_ms)
{
    struct pollfd end = {.fd = p->wake[0], .events = POLLIN};
    if (!atomic_load(&p->stopped))
        (void)poll(&end, 1, wait_ms);
    return atomic_load(&p->stopped);
}

/* --- the loops -------------------------------------------------------------------------------- */

/* In slices, because a test's clock does not end a wait. */
static void keep_retention(semel_pipeline *p)
{
    enum { SLICE_MS = 1000 };
    uint32_t wait_ms = 0;
    for (size_t i = 0; i < p->sweep_count; i++)
        retention_start(&p->sweeps[i].retention);
    while (!wait_for_stop(p, (int)wait_ms)) {
        wait_ms = SLICE_MS;
        for (size_t i = 0; i < p->sweep_count && !atomic_load(&p->stopped); i++) {
            retention_step(&p->sweeps[i].retention);
            wait_ms = retention_wait_ms(&p->sweeps[i].retention, wait_ms);
        }
    }
}

static semel_status run_loop(const pipeline_loop *loop, semel_error *why)
{
    if (loop->consumer)
        return semel_consumer_run(loop->consumer, why);
    if (loop->relay)
        return semel_relay_run(loop->relay, why);
    keep_retention(loop->pipeline);
    return SEMEL_OK;
}

static void keep_first(const pipeline_loop *loop, semel_status status, semel_error *why)
{
    semel_pipeline *p = loop->pipeline;
    (void)pipeline_blame(status, loop->element, loop->name, why);
    pthread_mutex_lock(&p->first_lock);
    if (!p->first.status)
        p->first = *why;
    pthread_mutex_unlock(&p->first_lock);
}

static void *loop_main(void *context)
{
    const pipeline_loop *loop = context;
    semel_pipeline *p = loop->pipeline;
    semel_error why = {0};
    semel_status status = run_loop(loop, &why);
    if (status)
        keep_first(loop, status, &why);
    if (atomic_fetch_sub(&p->running, 1) == 1 || status)
        semel_pipeline_stop(p);
    return NULL;
}

/* --- starting and waiting (the lock is held) -------------------------------------------------- */

static semel_status start_failed(const pipeline_loop *loop, int error, semel_error *err)
{
    semel_status status =
        semel_fail(err, SEMEL_ENOMEM, "its thread cannot be started: %s", strerror(error));
    if (err)
        err->native = error;
    return pipeline_blame(status, loop->element, loop->name, err);
}

/* A loop that was started is not stopped, however long its thread takes to begin. */
static void note_started(pipeline_loop *loop)
{
    if (loop->consumer)
        health_enter(&loop->consumer->health, &loop->consumer->transport->seam, SEMEL_HEALTH_OK,
                     NULL);
    if (loop->relay)
        health_enter(&loop->relay->health, &loop->relay->store->seam, SEMEL_HEALTH_OK, NULL);
}

static semel_status start_loops(semel_pipeline *p, semel_error *err)
{
    atomic_store(&p->running, p->loop_count);
    for (; p->started < p->loop_count; p->started++) {
        pipeline_loop *loop = &p->loops[p->started];
        note_started(loop);
        int error = thread_start(&loop->thread, loop_main, loop);
        if (error)
            return start_failed(loop, error, err);
    }
    return SEMEL_OK;
}

static void join_loops(semel_pipeline *p)
{
    while (p->started > 0)
        pthread_join(p->loops[--p->started].thread, NULL);
    p->phase = PIPELINE_ENDED;
}

semel_status semel_pipeline_start(semel_pipeline *pipeline, semel_error *err)
{
    semel_status status = pipeline_check_process(pipeline, err);
    if (status)
        return status;
    pthread_mutex_lock(&pipeline->lock);
    if (pipeline->phase != PIPELINE_OPEN) {
        pthread_mutex_unlock(&pipeline->lock);
        return semel_fail(err, SEMEL_EMISUSE, "this pipeline was started before: open a new one");
    }
    pipeline->phase = PIPELINE_STARTED;
    status = start_loops(pipeline, err);
    if (status) {
        semel_pipeline_stop(pipeline);
        join_loops(pipeline);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return status;
}

/* Without the lock: 1 if there is something to wait for. */
static int is_started(semel_pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    int started = p->phase != PIPELINE_OPEN;
    pthread_mutex_unlock(&p->lock);
    return started;
}

semel_status semel_pipeline_wait(semel_pipeline *pipeline, semel_error *err)
{
    semel_status status = pipeline_check_process(pipeline, err);
    if (status)
        return status;
    if (!is_started(pipeline))
        return semel_fail(err, SEMEL_EMISUSE, "this pipeline was not started");
    while (!wait_for_stop(pipeline, -1))
        continue;
    pthread_mutex_lock(&pipeline->lock);
    join_loops(pipeline);
    pthread_mutex_unlock(&pipeline->lock);
    status = pipeline->first.status; /* no thread is left that could change it */
    if (status && err)
        *err = pipeline->first;
    return status;
}

semel_status semel_pipeline_run(semel_pipeline *pipeline, semel_error *err)
{
    semel_status status = semel_pipeline_start(pipeline, err);
    return status ? status : semel_pipeline_wait(pipeline, err);
}
