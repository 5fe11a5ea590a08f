/* See span.h. */
#include "program/trace/span.h"

#include "program/support/show.h"

#include <semel/semel.h>
#include <string.h>

enum { STATUS_ERROR = 2 };

static void add_id(buffer *to, const char *name, const unsigned char *id, size_t len)
{
    char digits[TRACE_ID_HEX + 1];
    trace_hex(digits, id, len);
    buffer_printf(to, "\"%s\":\"%s\"", name, digits);
}

/* Not in the middle of a character: show_json makes a sign of replacement of what is left of it. */
static void add_text(buffer *to, const void *text, size_t len)
{
    show_json(to, text, len < SPAN_TEXT_MAX ? len : SPAN_TEXT_MAX);
}

void span_begin(span *s, const span_head *head)
{
    buffer name = {0};
    *s = (span){0};
    buffer_printf(&name, "%s %s", head->operation, head->object ? head->object : "");
    if (!head->object || !*head->object)
        name.len--;
    buffer_text(&s->text, "{");
    add_id(&s->text, "traceId", head->self.trace, TRACE_ID_LEN);
    buffer_text(&s->text, ",");
    add_id(&s->text, "spanId", head->self.span, SPAN_ID_LEN);
    if (head->parent) {
        buffer_text(&s->text, ",");
        add_id(&s->text, "parentSpanId", head->parent->span, SPAN_ID_LEN);
    }
    buffer_text(&s->text, ",\"name\":");
    add_text(&s->text, name.data, name.len);
    buffer_printf(&s->text,
                  ",\"kind\":%d,\"startTimeUnixNano\":\"%lld\",\"endTimeUnixNano\":\"%lld\"",
                  (int)head->kind, (long long)head->start_ns, (long long)head->end_ns);
    buffer_free(&name);
}

/* --- attributes ------------------------------------------------------------------------------- */

static void begin_attribute(span *s, const char *name)
{
    buffer_text(&s->text, s->attributes++ ? "," : ",\"attributes\":[");
    buffer_printf(&s->text, "{\"key\":\"%s\",\"value\":{", name);
}

void span_bytes(span *s, const char *name, semel_bytes text)
{
    if (!text.data)
        return;
    begin_attribute(s, name);
    buffer_text(&s->text, "\"stringValue\":");
    add_text(&s->text, text.data, text.len);
    buffer_text(&s->text, "}}");
}

void span_text(span *s, const char *name, const char *text)
{
    if (text)
        span_bytes(s, name, (semel_bytes){text, strlen(text)});
}

void span_number(span *s, const char *name, int64_t number)
{
    begin_attribute(s, name);
    buffer_printf(&s->text, "\"intValue\":\"%lld\"}}", (long long)number);
}

/* --- links and the end ------------------------------------------------------------------------ */

static void end_attributes(span *s)
{
    if (s->attributes && !s->links)
        buffer_text(&s->text, "]");
}

void span_link(span *s, const trace_context *to, semel_bytes state)
{
    if (s->links >= SPAN_LINKS_MAX)
        return;
    end_attributes(s);
    buffer_text(&s->text, s->links++ ? ",{" : ",\"links\":[{");
    add_id(&s->text, "traceId", to->trace, TRACE_ID_LEN);
    buffer_text(&s->text, ",");
    add_id(&s->text, "spanId", to->span, SPAN_ID_LEN);
    if (trace_state_is_valid(state)) {
        buffer_text(&s->text, ",\"traceState\":");
        show_json(&s->text, state.data, state.len);
    }
    buffer_text(&s->text, "}");
}

char *span_end(span *s, const char *error)
{
    end_attributes(s);
    if (s->links)
        buffer_text(&s->text, "]");
    if (error)
        buffer_printf(&s->text, ",\"status\":{\"code\":%d", STATUS_ERROR);
    if (error && *error) {
        buffer_text(&s->text, ",\"message\":");
        add_text(&s->text, error, strlen(error));
    }
    buffer_text(&s->text, error ? "}}" : "}");
    char *text = s->text.data;
    *s = (span){0};
    return text;
}

/* --- requests --------------------------------------------------------------------------------- */

void spans_open(buffer *to, const span_attribute *resource, size_t count)
{
    buffer_text(to, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    for (size_t i = 0; i < count; i++) {
        buffer_text(to, i ? ",{\"key\":" : "{\"key\":");
        show_json(to, resource[i].name, strlen(resource[i].name));
        buffer_text(to, ",\"value\":{\"stringValue\":");
        show_json(to, resource[i].value, strlen(resource[i].value));
        buffer_text(to, "}}");
    }
    buffer_printf(to,
                  "]},\"scopeSpans\":[{\"scope\":{\"name\":\"semel\",\"version\":\"%s\"},"
                  "\"schemaUrl\":\"" SPAN_SCHEMA "\",\"spans\":[",
                  semel_version());
}

void spans_close(buffer *to)
{
    buffer_text(to, "]}],\"schemaUrl\":\"" SPAN_SCHEMA "\"}]}");
}
