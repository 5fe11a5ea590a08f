/* The trace context of a message: the headers of W3C Trace Context and Baggage, which are also the
 * extension attributes of CloudEvents. A message that a handler sends belongs to the trace of the
 * message that it handles. */
#ifndef SEMEL_BASE_TRACE_H
#define SEMEL_BASE_TRACE_H

#include "base/mem.h"

#include <semel/message.h>

/* Adds the trace context of `from` to `message`, unless the message has a traceparent of its own.
 * `parent`, if it is not empty, is the traceparent of the work on `from`, and comes instead. The
 * headers go to the arena. What does not fit among SEMEL_HEADERS_MAX headers is left out: a
 * trace must not keep a message from being sent. */
semel_status trace_inherit(semel_message *message, mem_arena *arena, const semel_message *from,
                           const char *parent, semel_error *err);

#endif
