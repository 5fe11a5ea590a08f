/* See worker_request.h. A body in JSON is passed on as it is written, but for its line breaks:
 * outside of texts, where alone JSON has them, a space means the same. */
#include "program/handler/worker_request.h"

#include "program/handler/answer.h"
#include "program/handler/environment.h"
#include "program/support/binary.h"
#include "program/support/encoding.h"
#include "program/support/json_scan.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

#include <string.h>

static void add_name(buffer *to, const char *name)
{
    if (to->data[to->len - 1] != '{')
        buffer_text(to, ",");
    buffer_printf(to, "\"%s\":", name);
}

static void add_text(buffer *to, const char *name, semel_bytes value)
{
    if (!value.data)
        return;
    add_name(to, name);
    show_json(to, value.data, value.len);
}

static void add_time(buffer *to, int64_t time_ms)
{
    if (!time_ms)
        return;
    add_name(to, "time");
    buffer_text(to, "\"");
    show_rfc3339(to, time_ms);
    buffer_text(to, "\"");
}

/* Of several headers with one name the first one counts, as everywhere in semel. */
static void add_headers(buffer *to, const semel_message *message)
{
    if (!message->header_count)
        return;
    add_name(to, "headers");
    buffer_text(to, "{");
    for (size_t i = 0; i < message->header_count; i++) {
        const semel_header *header = &message->headers[i];
        if (semel_message_header(message, header->name).data != header->value.data)
            continue;
        if (to->data[to->len - 1] != '{')
            buffer_text(to, ",");
        show_json(to, header->name, strlen(header->name));
        buffer_text(to, ":");
        show_json(to, header->value.data, header->value.len);
    }
    buffer_text(to, "}");
}

static void add_on_one_line(buffer *to, semel_bytes json)
{
    size_t start = to->len;
    buffer_add(to, json.data, json.len);
    for (size_t i = start; i < to->len; i++)
        if (to->data[i] == '\n' || to->data[i] == '\r')
            to->data[i] = ' ';
}

static void add_body(buffer *to, semel_bytes body)
{
    if (!body.len)
        return;
    if (strict_json_check(body, ANSWER_DEPTH_MAX, NULL)) {
        add_name(to, "body");
        add_on_one_line(to, scan_trimmed(body));
    } else if (encoding_is_text(body.data, body.len)) {
        add_text(to, "body_text", body);
    } else {
        add_name(to, "body_base64");
        buffer_text(to, "\"");
        binary_add_base64(to, body);
        buffer_text(to, "\"");
    }
}

static semel_status add_keys(buffer *to, region *memory, const semel_unit *unit, semel_error *err)
{
    char passed_on[SEMEL_IDEMPOTENCY_KEY_SIZE];
    semel_bytes key = semel_unit_key(unit);
    if (!key.len)
        return SEMEL_OK;
    add_text(to, "key", semel_str(environment_key(memory, key)));
    semel_status status = semel_unit_idempotency_key(passed_on, unit, err);
    if (!status)
        add_text(to, "idempotency_key", semel_str(passed_on));
    return status;
}

semel_status worker_request(buffer *to, const char **id, region *memory, const char *inbox,
                            const semel_unit *unit, const semel_message *message, semel_error *err)
{
    *id = message->id.len ? environment_key(memory, message->id) : NULL;
    buffer_text(to, "{");
    add_text(to, "inbox", semel_str(inbox));
    add_text(to, "id", semel_str(*id));
    semel_status status = add_keys(to, memory, unit, err);
    if (status)
        return status;
    add_text(to, "type", semel_str(message->type));
    add_text(to, "source", semel_str(message->source));
    add_text(to, "topic", semel_str(message->topic));
    add_text(to, "group", semel_str(message->group));
    add_text(to, "correlation_id", message->correlation_id);
    add_text(to, "content_type", semel_str(message->content_type));
    add_time(to, message->time_ms);
    add_name(to, "attempt");
    buffer_printf(to, "%u", semel_unit_attempt(unit));
    add_text(to, "traceparent",
             semel_str(environment_traceparent(memory, semel_unit_traceparent(unit))));
    add_headers(to, message);
    add_body(to, message->body);
    buffer_text(to, "}\n");
    return SEMEL_OK;
}
