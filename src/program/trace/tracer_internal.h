/* The tracer as its parts share it. */
#ifndef SEMEL_PROGRAM_TRACE_TRACER_INTERNAL_H
#define SEMEL_PROGRAM_TRACE_TRACER_INTERNAL_H

#include "program/run/ring.h"
#include "program/trace/export.h"
#include "program/trace/span.h"
#include "program/trace/tracer.h"

#include <pthread.h>

struct tracer {
    log *log;
    const outcomes *outcomes;
    const config *all;
    trace_settings settings;
    semel_tracing hooks;
    uint64_t secret[2];       /* of this process: other processes make other ids */
    atomic_uint_fast64_t ids; /* given so far */
    ring *spans;
    atomic_uint_fast64_t waiting; /* in the ring, about */
    atomic_uint_fast64_t dropped;
    int wake_fd; /* a batch is complete */
    trace_stop stop;
    exporter *exporter;
    pthread_t thread;
    uint64_t told_dropped; /* of the thread: what the exporter knows of `dropped` */
};

/* Takes the text over. */
void tracer_push(tracer *t, char *text);

/* A number that was not given before. */
uint64_t tracer_new_id(tracer *t);

/* A time of the steady clock as one of the wall clock. */
int64_t tracer_wall_ns(int64_t steady_ns);

/* messages.c: the hooks of the library. */
void tracer_on_start(void *context, const semel_start *start,
                     char traceparent[SEMEL_TRACEPARENT_SIZE]);
void tracer_on_transfer(void *context, const semel_transfer *transfer);

#endif
