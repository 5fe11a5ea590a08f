#include "base/trace.h"

#include <string.h>

static const char *const trace_names[] = {"traceparent", "tracestate", "baggage"};
enum { TRACE_NAMES = sizeof trace_names / sizeof *trace_names };

/* What the message inherits under this name. With a trace of its own (`parent`) the work has no
 * tracestate: the one of the message belongs to the trace of the message. */
static semel_bytes find_value(int which, const semel_message *from, const char *parent)
{
    if (!parent[0] || which == TRACE_NAMES - 1)
        return semel_message_header(from, trace_names[which]);
    return which ? (semel_bytes){NULL, 0} : (semel_bytes){parent, strlen(parent)};
}

static size_t find_missing(semel_header found[TRACE_NAMES], const semel_message *message,
                           const semel_message *from, const char *parent)
{
    size_t count = 0;
    for (int i = 0; i < TRACE_NAMES; i++) {
        semel_bytes value = find_value(i, from, parent);
        if (value.data && !semel_message_header(message, trace_names[i]).data &&
            message->header_count + count < SEMEL_HEADERS_MAX)
            found[count++] = (semel_header){trace_names[i], value};
    }
    return count;
}

semel_status trace_inherit(semel_message *message, mem_arena *arena, const semel_message *from,
                           const char *parent, semel_error *err)
{
    semel_header found[TRACE_NAMES];
    if ((!from->header_count && !parent[0]) || semel_message_header(message, trace_names[0]).data ||
        (!parent[0] && !semel_message_header(from, trace_names[0]).data))
        return SEMEL_OK;
    size_t count = find_missing(found, message, from, parent);
    semel_header *headers = arena_alloc(arena, (message->header_count + count) * sizeof *headers);
    if (!headers)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for headers");
    if (message->header_count)
        memcpy(headers, message->headers, message->header_count * sizeof *headers);
    memcpy(headers + message->header_count, found, count * sizeof *headers);
    message->headers = headers;
    message->header_count += count;
    return SEMEL_OK;
}
