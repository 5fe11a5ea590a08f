/* What tracing is to do: the section `tracing` of the configuration, and behind it the OTEL_*
 * variables of OpenTelemetry. What the file says wins. A variable that cannot be used is ignored,
 * as OpenTelemetry asks for, and a warning says so. */
#ifndef SEMEL_PROGRAM_TRACE_SETTINGS_H
#define SEMEL_PROGRAM_TRACE_SETTINGS_H

#include "program/config/config.h"
#include "program/support/memory.h"
#include "program/trace/span.h"

typedef struct trace_sampler {
    int follows_parent; /* a context that comes with the message or request decides, if any */
    double ratio;       /* of the traces without one, or of all: 0 to 1 */
} trace_sampler;

/* A deterministic choice by the lower half of the trace id: the same for all spans of a trace, and
 * for all traces that semel derives from it. `from` may be NULL. */
int trace_sampler_takes(const trace_sampler *sampler, const trace_context *from, uint64_t low_half);

typedef struct trace_settings {
    region memory;
    const char *url; /* where spans are posted to; NULL: tracing is off */
    config_pairs headers;
    const char *certificate; /* of the collector's authority; NULL: the system's */
    int packs;               /* requests are compressed by gzip */
    uint32_t timeout_ms;     /* of one request */
    trace_sampler sampler;
    uint32_t queue_spans, batch_spans, delay_ms, export_ms; /* OTEL_BSP_* */
    span_attribute *resource;
    size_t resource_count;
    const char **warnings;
    size_t warning_count;
} trace_settings;

/* `get` is getenv(), or that of a test. */
void trace_settings_read(trace_settings *out, const tracing_config *file,
                         char *(*get)(const char *name));
void trace_settings_free(trace_settings *all);

/* A number from 0 to 1; 0 if the text is none. */
int trace_ratio_read(double *out, const char *text);

#endif
