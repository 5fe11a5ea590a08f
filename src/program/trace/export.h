/* Requests to the collector of the spans (OTLP/HTTP with JSON). For one thread, which may wait: it
 * has nothing else to do. */
#ifndef SEMEL_PROGRAM_TRACE_EXPORT_H
#define SEMEL_PROGRAM_TRACE_EXPORT_H

#include "program/run/log.h"
#include "program/trace/settings.h"

#include <stdatomic.h>

/* When everything has to end, by the steady clock; 0: it goes on. `fd` is readable from then on. */
typedef struct trace_stop {
    _Atomic int64_t until_ns;
    int fd;
} trace_stop;

typedef struct exporter exporter;

/* NULL if libcurl cannot be used. The settings are copied. */
exporter *exporter_open(const trace_settings *settings, log *l, const trace_stop *stop);
void exporter_close(exporter *e);

/* Posts a request with so many spans in it. What the collector cannot take now is tried again, for
 * as long as the settings say. 0: it was given up, and said. */
int exporter_post(exporter *e, const buffer *request, uint64_t spans);

/* Spans that were lost elsewhere, for what is said when the collector is back. */
void exporter_lost(exporter *e, uint64_t spans);

#endif
