/* A span as OTLP/JSON writes it: ids as hexadecimal digits, enumerations as numbers, names in
 * lowerCamelCase, 64-bit numbers as texts.
 *
 * A span is written into a text by the thread whose work it tells of, and only if it is sampled;
 * the thread that exports puts many of them into one request. Attributes first, then links. */
#ifndef SEMEL_PROGRAM_TRACE_SPAN_H
#define SEMEL_PROGRAM_TRACE_SPAN_H

#include "program/support/memory.h"
#include "program/trace/context.h"

typedef enum span_kind {
    SPAN_INTERNAL = 1,
    SPAN_SERVER,
    SPAN_CLIENT,
    SPAN_PRODUCER,
    SPAN_CONSUMER
} span_kind;

enum { SPAN_TEXT_MAX = 512, SPAN_LINKS_MAX = 128 };

typedef struct span_head {
    trace_context self;
    const trace_context *parent; /* NULL: it begins a trace */
    const char *operation;       /* with `object` the name: "process billing" */
    const char *object;
    span_kind kind;
    int64_t start_ns, end_ns; /* since 1970 */
} span_head;

typedef struct span {
    buffer text;
    size_t attributes, links;
} span;

void span_begin(span *s, const span_head *head);

/* Attributes. Of a longer text the first SPAN_TEXT_MAX bytes are kept; NULL: none. */
void span_text(span *s, const char *name, const char *text);
void span_bytes(span *s, const char *name, semel_bytes text);
void span_number(span *s, const char *name, int64_t number);

/* `state` may be {NULL, 0}. What is beyond SPAN_LINKS_MAX is left out. */
void span_link(span *s, const trace_context *to, semel_bytes state);

/* `error`: NULL if it has none, "" if there is nothing to say about it. The text is the caller's,
 * to free. */
char *span_end(span *s, const char *error);

/* --- requests --------------------------------------------------------------------------------- */

/* The version of the semantic conventions that names and attributes follow. */
#define SPAN_SCHEMA "https://opentelemetry.io/schemas/1.37.0"

typedef struct span_attribute {
    const char *name;
    const char *value;
} span_attribute;

/* What comes before the spans of a request, and behind them. Between spans is a comma. */
void spans_open(buffer *to, const span_attribute *resource, size_t count);
void spans_close(buffer *to);

#endif
