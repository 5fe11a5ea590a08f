/* The context of a span as W3C Trace Context writes it (traceparent), and how ids are made.
 *
 * What is not a traceparent to the letter is none: it comes from strangers. */
#ifndef SEMEL_PROGRAM_TRACE_CONTEXT_H
#define SEMEL_PROGRAM_TRACE_CONTEXT_H

#include <semel/observe.h>

enum {
    TRACE_ID_LEN = 16,
    SPAN_ID_LEN = 8,
    TRACEPARENT_LEN = SEMEL_TRACEPARENT_SIZE - 1,
    TRACE_ID_HEX = 2 * TRACE_ID_LEN,
    TRACE_ID_AT = 3,      /* in a traceparent */
    TRACESTATE_MAX = 512, /* characters that every part of a trace must pass on */
};

typedef struct trace_context {
    unsigned char trace[TRACE_ID_LEN];
    unsigned char span[SPAN_ID_LEN];
    int sampled;
} trace_context;

/* 1 if it is one. A later version may have more behind it, which is not passed on. */
int trace_context_read(trace_context *out, semel_bytes traceparent);
void trace_context_write(char out[SEMEL_TRACEPARENT_SIZE], const trace_context *context);

/* 1 if the value can be passed on as a tracestate: printable ASCII, not too long. */
int trace_state_is_valid(semel_bytes tracestate);

void trace_hex(char *out, const unsigned char *bytes, size_t len); /* with a NUL behind it */

/* A hash for ids, not for secrets: every bit of `seed` and of the bytes counts. */
uint64_t trace_hash(uint64_t seed, const void *bytes, size_t len);
uint64_t trace_mix(uint64_t number);

/* Ids of eight bytes in the order of their digits; a span's is never zero. */
uint64_t trace_low_half(const trace_context *context);
void trace_context_set(trace_context *out, uint64_t high, uint64_t low, uint64_t span);

#endif
