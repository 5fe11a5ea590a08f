/* A message as an HTTP request, by the HTTP binding of CloudEvents 1.0.
 *
 * No byte of a message can end a header: attributes are percent-encoded as the binding says (all
 * but printable ASCII, and of that the space, the double quote and the percent sign), and what
 * cannot be encoded (content type, trace context) must be printable ASCII. */
#include "program/handler/http_request.h"

#include "program/support/encoding.h"
#include "program/support/strict_json.h"
#include "program/trace/context.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { BODY_DEPTH_MAX = 64 };

static void add_header(http_request *to, const char *text)
{
    struct curl_slist *more = curl_slist_append(to->headers, text);
    if (more)
        to->headers = more;
    else
        to->failed = 1;
}

static void add_pair(http_request *to, const char *name, const char *value)
{
    buffer line = {0};
    buffer_printf(&line, *value ? "%s: %s" : "%s;", name, value); /* as libcurl writes no value */
    add_header(to, line.data);
    buffer_free(&line);
}

/* --- configured headers ----------------------------------------------------------------------- */

static int is_token(const char *name)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return *name && !name[strspn(name, token)];
}

static int is_ours(const char *name)
{
    static const char *const ours[] = {"content-type",      "content-length", "connection",
                                       "transfer-encoding", "expect",         "upgrade",
                                       "idempotency-key",   "traceparent",    "tracestate"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcasecmp(name, ours[i]) == 0)
            return 1;
    return strncasecmp(name, "ce-", 3) == 0 || strncasecmp(name, "semel-", 6) == 0;
}

static int has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return 1;
    return 0;
}

semel_status http_headers_check(const config_pairs *headers, semel_error *err)
{
    for (size_t i = 0; i < headers->count; i++) {
        const config_pair *pair = &headers->items[i];
        if (!is_token(pair->name))
            return semel_fail(err, SEMEL_EINVAL, "http: the name of header %zu is not valid",
                              i + 1);
        if (is_ours(pair->name))
            return semel_fail(err, SEMEL_EINVAL, "http: semel itself sets the header \"%s\"",
                              pair->name);
        if (has_control(pair->value))
            return semel_fail(err, SEMEL_EINVAL,
                              "http: the value of the header \"%s\" has a line break or another "
                              "control character in it",
                              pair->name);
    }
    return SEMEL_OK;
}

/* --- CloudEvents, binary ---------------------------------------------------------------------- */

static void encode(buffer *to, semel_bytes value)
{
    const unsigned char *at = value.data;
    for (size_t i = 0; i < value.len; i++) {
        if (at[i] > ' ' && at[i] < 0x7f && at[i] != '"' && at[i] != '%')
            buffer_add(to, &at[i], 1);
        else
            buffer_printf(to, "%%%02X", at[i]);
    }
}

static void add_attribute(http_request *to, const char *name, semel_bytes value)
{
    buffer line = {0};
    if (!value.len)
        return;
    buffer_printf(&line, "ce-%s: ", name);
    encode(&line, value);
    add_header(to, line.data);
    buffer_free(&line);
}

static void add_time(http_request *to, int64_t time_ms)
{
    char text[64];
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm parts;
    if (time_ms <= 0 || !gmtime_r(&seconds, &parts))
        return;
    size_t len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(text + len, sizeof text - len, ".%03dZ", (int)(time_ms % 1000));
    add_attribute(to, "time", semel_str(text));
}

static int is_taken(const char *name)
{
    static const char *const taken[] = {"id",           "source",        "type",
                                        "subject",      "time",          "specversion",
                                        "partitionkey", "correlationid", "datacontenttype",
                                        "data",         "traceparent",   "tracestate"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(name, taken[i]) == 0)
            return 1;
    return 0;
}

static int is_line(semel_bytes value)
{
    const unsigned char *at = value.data;
    for (size_t i = 0; i < value.len; i++)
        if (at[i] < ' ' || at[i] == 0x7f)
            return 0;
    return encoding_is_text(value.data, value.len);
}

/* A header becomes an attribute if its name, in lower case, has only letters and digits, and its
 * value is text without control characters; of two with one name the first. */
static void add_extension(http_request *to, const semel_message *message, size_t index)
{
    enum { NAME_MAX_LEN = 64 };
    const semel_header *header = &message->headers[index];
    char name[NAME_MAX_LEN + 1];
    size_t len = strlen(header->name);
    if (!len || len > NAME_MAX_LEN || !is_line(header->value))
        return;
    for (size_t i = 0; i <= len; i++)
        name[i] = (char)(header->name[i] >= 'A' && header->name[i] <= 'Z' ? header->name[i] + 32
                                                                          : header->name[i]);
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789")] || is_taken(name))
        return;
    for (size_t i = 0; i < index; i++)
        if (strcasecmp(message->headers[i].name, name) == 0)
            return;
    add_attribute(to, name, header->value);
}

static const char *content_type_of(const semel_message *message)
{
    if (message->content_type && *message->content_type)
        return message->content_type;
    return strict_json_check(message->body, BODY_DEPTH_MAX, NULL) ? "application/json"
                                                                  : "application/octet-stream";
}

static semel_status make_binary(http_request *out, const semel_message *event, semel_error *err)
{
    const char *content_type = content_type_of(event);
    for (const char *at = content_type; *at; at++)
        if (*at < ' ' || *at > '~')
            return semel_fail(err, SEMEL_EGIVEUP,
                              "http: the message's content type is not printable ASCII");
    add_pair(out, "Content-Type", content_type);
    add_header(out, "ce-specversion: 1.0");
    add_attribute(out, "id", event->id);
    add_attribute(out, "source", semel_str(event->source));
    add_attribute(out, "type", semel_str(event->type));
    add_attribute(out, "subject", semel_str(event->topic));
    add_attribute(out, "partitionkey", semel_str(event->group));
    add_attribute(out, "correlationid", event->correlation_id);
    add_time(out, event->time_ms);
    for (size_t i = 0; i < event->header_count; i++)
        add_extension(out, event, i);
    out->body = event->body.data;
    out->body_len = event->body.len;
    return SEMEL_OK;
}

/* --- CloudEvents, structured ------------------------------------------------------------------ */

static semel_status make_structured(http_request *out, const semel_message *event, semel_error *err)
{
    semel_status status = semel_message_write_cloudevent(&out->event, event, err);
    if (status)
        return status == SEMEL_ENOMEM
                   ? status
                   : semel_fail(err, SEMEL_EGIVEUP, "http: the message is no CloudEvent: %s",
                                err ? err->text : "");
    add_header(out, "Content-Type: application/cloudevents+json; charset=utf-8");
    out->body = out->event;
    out->body_len = strlen(out->event);
    return SEMEL_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void add_trace_header(http_request *to, const char *name, semel_bytes value)
{
    buffer line = {0};
    buffer_printf(&line, "%s: %.*s", name, (int)value.len, (const char *)value.data);
    add_header(to, line.data);
    buffer_free(&line);
}

/* The context of the unit's work; what is none is not passed on. A tracestate belongs to the trace
 * that the message brought: work that has a trace of its own (trace/messages.c) has none. */
static void add_trace(http_request *to, const semel_unit *unit, const semel_message *message)
{
    trace_context found;
    semel_bytes own = semel_unit_traceparent(unit);
    semel_bytes received = semel_message_header(message, "traceparent");
    semel_bytes state = semel_message_header(message, "tracestate");
    if (!trace_context_read(&found, own))
        return;
    add_trace_header(to, "traceparent", (semel_bytes){own.data, TRACEPARENT_LEN});
    if (own.data == received.data && trace_state_is_valid(state))
        add_trace_header(to, "tracestate", state);
}

/* CloudEvents wants an id, a source and a type; a message need not have them. */
static semel_message complete(const semel_message *message, const char *key, const char *inbox)
{
    semel_message event = {.size = sizeof event};
    memcpy(&event, message, message->size < sizeof event ? message->size : sizeof event);
    event.size = sizeof event;
    if (!event.id.len)
        event.id = semel_str(key);
    if (!event.source || !*event.source)
        event.source = "semel";
    if (!event.type || !*event.type)
        event.type = inbox;
    return event;
}

semel_status http_request_make(http_request *out, const http_config *to, const char *inbox,
                               const semel_unit *unit, const semel_message *message,
                               semel_error *err)
{
    char key[SEMEL_IDEMPOTENCY_KEY_SIZE] = "", text[80];
    *out = (http_request){0};
    semel_status status = semel_unit_idempotency_key(key, unit, err);
    if (status && status != SEMEL_ENOTFOUND) /* an inbox may handle messages without a key */
        return status;
    if (*key) {
        (void)snprintf(text, sizeof text, "Idempotency-Key: \"%s\"", key);
        add_header(out, text);
    }
    (void)snprintf(text, sizeof text, "Semel-Attempt: %u", (unsigned)semel_unit_attempt(unit));
    add_header(out, text);
    add_header(out, "Expect:"); /* libcurl would wait for leave to send a large body */
    add_trace(out, unit, message);
    for (size_t i = 0; i < to->headers.count; i++)
        add_pair(out, to->headers.items[i].name, to->headers.items[i].value);
    semel_message event = complete(message, key, inbox);
    status = to->cloudevents == HTTP_STRUCTURED ? make_structured(out, &event, err)
                                                : make_binary(out, &event, err);
    return !status && out->failed
               ? semel_fail(err, SEMEL_ENOMEM, "out of memory for an HTTP request")
               : status;
}

void http_request_free(http_request *request)
{
    curl_slist_free_all(request->headers);
    semel_text_free(request->event);
    *request = (http_request){0};
}
