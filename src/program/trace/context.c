/* See context.h. */
#include "program/trace/context.h"

#include <string.h>

enum { DASHES = 3, SAMPLED = 1, HASH_STEP = 8 };

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Two digits for each byte; 0 if there is anything else. */
static int read_hex(unsigned char *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return 0;
        out[i] = (unsigned char)(high * 16 + low);
    }
    return 1;
}

static int is_zero(const unsigned char *bytes, size_t len)
{
    unsigned all = 0;
    for (size_t i = 0; i < len; i++)
        all |= bytes[i];
    return !all;
}

int trace_context_read(trace_context *out, semel_bytes traceparent)
{
    static const size_t dashes[DASHES] = {2, 35, 52};
    const char *text = traceparent.data;
    unsigned char version, flags;
    if (!text || traceparent.len < TRACEPARENT_LEN || !read_hex(&version, text, 1) ||
        version == 0xff)
        return 0;
    for (size_t i = 0; i < DASHES; i++)
        if (text[dashes[i]] != '-')
            return 0;
    if (traceparent.len > TRACEPARENT_LEN && (!version || text[TRACEPARENT_LEN] != '-'))
        return 0;
    if (!read_hex(out->trace, text + dashes[0] + 1, TRACE_ID_LEN) ||
        !read_hex(out->span, text + dashes[1] + 1, SPAN_ID_LEN) ||
        !read_hex(&flags, text + dashes[2] + 1, 1))
        return 0;
    out->sampled = flags & SAMPLED;
    return !is_zero(out->trace, TRACE_ID_LEN) && !is_zero(out->span, SPAN_ID_LEN);
}

void trace_hex(char *out, const unsigned char *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * len] = '\0';
}

void trace_context_write(char out[SEMEL_TRACEPARENT_SIZE], const trace_context *context)
{
    enum { SPAN_AT = TRACE_ID_AT + TRACE_ID_HEX + 1, FLAGS_AT = SPAN_AT + 2 * SPAN_ID_LEN };
    memcpy(out, "00-", TRACE_ID_AT);
    trace_hex(out + TRACE_ID_AT, context->trace, TRACE_ID_LEN);
    out[SPAN_AT - 1] = '-';
    trace_hex(out + SPAN_AT, context->span, SPAN_ID_LEN);
    memcpy(out + FLAGS_AT, context->sampled ? "-01" : "-00", 4);
}

int trace_state_is_valid(semel_bytes tracestate)
{
    const char *text = tracestate.data;
    if (!tracestate.len || tracestate.len > TRACESTATE_MAX)
        return 0;
    for (size_t i = 0; i < tracestate.len; i++)
        if (text[i] < ' ' || text[i] > '~')
            return 0;
    return 1;
}

/* --- ids -------------------------------------------------------------------------------------- */

/* The finalizer of a 64-bit hash: one bit changed changes half of them. */
uint64_t trace_mix(uint64_t number)
{
    number ^= number >> 31;
    number *= UINT64_C(0x7fb5d329728ea185);
    number ^= number >> 27;
    number *= UINT64_C(0x81dadef4bc2dd44d);
    return number ^ (number >> 33);
}

uint64_t trace_hash(uint64_t seed, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t hash = trace_mix(seed + len);
    for (; len >= HASH_STEP; len -= HASH_STEP, at += HASH_STEP) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        hash = trace_mix(hash ^ word);
    }
    uint64_t rest = 0;
    if (len)
        memcpy(&rest, at, len);
    return trace_mix(hash ^ rest);
}

static void write_number(unsigned char out[8], uint64_t number)
{
    for (int i = 7; i >= 0; i--, number >>= 8)
        out[i] = (unsigned char)number;
}

uint64_t trace_low_half(const trace_context *context)
{
    uint64_t number = 0;
    for (int i = TRACE_ID_LEN / 2; i < TRACE_ID_LEN; i++)
        number = number << 8 | context->trace[i];
    return number;
}

void trace_context_set(trace_context *out, uint64_t high, uint64_t low, uint64_t span)
{
    write_number(out->trace, high);
    write_number(out->trace + TRACE_ID_LEN / 2, low);
    write_number(out->span, span ? span : 1);
    if (is_zero(out->trace, TRACE_ID_LEN))
        out->trace[0] = 1;
}
