/* CloudEvents 1.0 in structured mode: one JSON object, application/cloudevents+json.
 *
 * One table maps the members of a message to attributes, in both directions. An attribute that is
 * null or empty is as good as absent. Every other attribute becomes a header when reading, numbers
 * and booleans as their text. When writing, a header becomes an extension attribute if CloudEvents
 * has room for it: its name, in lower case, must be letters a-z and digits only and not one of the
 * table's, and its value text without control characters. Other headers are left out, and so are
 * `delivery` and `delay_ms`; of two headers with one name the first is written, which is the one
 * that semel_message_header() finds.
 *
 * The body
 *  - is JSON data if the content type is JSON or absent (which means JSON in CloudEvents) and the
 *    body is JSON: written as it is but for line breaks, which become spaces, so that an event is
 *    one line; read as its JSON text without spaces between the tokens;
 *  - is a string if the content type is another one and the body is UTF-8;
 *  - else is data_base64. So is a body that claims to be JSON and is not: as a string it would come
 *    back in quotes.
 *
 * Writing is here, reading in cloudevent_read.c. The writer does not use json-c: every allocation
 * is ours, and a want of memory is always noticed. */
#include "core/cloudevent.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/message.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "base/utf8.h"

#define MEMBER(member) #member, offsetof(semel_message, member)

const event_attribute event_attributes[EVENT_ATTRIBUTES] = {
    {"id", MEMBER(id), 1, 1},
    {"source", MEMBER(source), 0, 1},
    {"type", MEMBER(type), 0, 1},
    {"subject", MEMBER(topic), 0, 0},
    {"partitionkey", MEMBER(group), 0, 0},
    {"correlationid", MEMBER(correlation_id), 1, 0},
    {"datacontenttype", MEMBER(content_type), 0, 0}};

int event_name_is_taken(const char *name)
{
    static const char *const others[] = {"specversion", "time", "data", "data_base64"};
    for (size_t i = 0; i < EVENT_ATTRIBUTES; i++)
        if (text_same(name, event_attributes[i].name))
            return 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (text_same(name, others[i]))
            return 1;
    return 0;
}

int event_type_is_json(const char *content_type)
{
    if (!content_type || !*content_type)
        return 1;
    size_t len = strcspn(content_type, "; \t");
    if (len < 5 || !strchr("/+", content_type[len - 5]))
        return 0;
    const char *suffix = content_type + len - 4;
    return text_lower(suffix[0]) == 'j' && text_lower(suffix[1]) == 's' &&
           text_lower(suffix[2]) == 'o' && text_lower(suffix[3]) == 'n';
}

static void append_name(text_buffer *t, const char *name)
{
    text_append_z(t, ",\"");
    text_append_z(t, name);
    text_append_z(t, "\":");
}

static semel_status write_attribute(text_buffer *t, const event_attribute *a,
                                    const semel_message *message, semel_error *err)
{
    const char *member = (const char *)message + a->offset;
    semel_bytes value;
    if (a->is_bytes) {
        memcpy(&value, member, sizeof value);
    } else {
        const char *string;
        memcpy(&string, member, sizeof string);
        value = semel_str(string);
    }
    if (!value.len && a->required)
        return semel_fail(err, SEMEL_EINVAL, "CloudEvent: message.%s is missing", a->member);
    if (!utf8_plain(value.data, value.len))
        return semel_fail(err, SEMEL_EINVAL,
                          "CloudEvent: message.%s is not UTF-8 text without control characters",
                          a->member);
    if (value.len) {
        append_name(t, a->name);
        text_append_json(t, value.data, value.len);
    }
    return SEMEL_OK;
}

static semel_status write_time(text_buffer *t, int64_t time_ms, semel_error *err)
{
    char when[RFC3339_TEXT + 1];
    if (!time_ms)
        return SEMEL_OK;
    if (!rfc3339_format(when, time_ms))
        return semel_fail(err, SEMEL_EINVAL,
                          "CloudEvent: message.time_ms is outside years 0 to 9999");
    append_name(t, "time");
    text_append_json(t, when, RFC3339_TEXT);
    return SEMEL_OK;
}

static int is_extension_name(const char *name)
{
    for (const char *at = name; *at; at++) {
        char c = text_lower(*at);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
            return 0;
    }
    return 1;
}

static int is_first_of_its_name(const semel_message *message, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (text_same(message->headers[i].name, message->headers[index].name))
            return 0;
    return 1;
}

static void write_headers(text_buffer *t, const semel_message *message)
{
    for (size_t i = 0; i < message->header_count; i++) {
        const semel_header *header = &message->headers[i];
        if (!is_extension_name(header->name) || event_name_is_taken(header->name) ||
            !is_first_of_its_name(message, i) || !utf8_plain(header->value.data, header->value.len))
            continue;
        size_t start = t->len;
        append_name(t, header->name);
        for (size_t k = start; k < t->len; k++)
            t->bytes[k] = text_lower(t->bytes[k]);
        text_append_json(t, header->value.data, header->value.len);
    }
}

/* One level less than a reader takes, since `data` is itself a level down. */
static int is_json(semel_bytes body)
{
    json_facts facts;
    return json_text_check(&facts, body, JSON_DEPTH_MAX - 1) && !facts.beyond_64_bits;
}

/* Line breaks in JSON stand between tokens only. */
static void write_json(text_buffer *t, semel_bytes body)
{
    char *room = text_extend(t, body.len);
    const char *from = body.data;
    for (size_t i = 0; room && i < body.len; i++)
        room[i] = from[i] == '\n' || from[i] == '\r' ? ' ' : from[i];
}

static void write_base64(text_buffer *t, semel_bytes body)
{
    text_append_z(t, "\"");
    char *room = text_extend(t, base64_size(body.len));
    if (room)
        base64_encode(room, body.data, body.len);
    text_append_z(t, "\"");
}

static void write_body(text_buffer *t, const semel_message *message)
{
    semel_bytes body = message->body;
    int json_type = event_type_is_json(message->content_type);
    if (!body.len)
        return;
    if (json_type && is_json(body)) {
        append_name(t, "data");
        write_json(t, body);
    } else if (!json_type && utf8_valid(body.data, body.len)) {
        append_name(t, "data");
        text_append_json(t, body.data, body.len);
    } else {
        append_name(t, "data_base64");
        write_base64(t, body);
    }
}

static semel_status write_event(text_buffer *t, const semel_message *message, semel_error *err)
{
    semel_status status = SEMEL_OK;
    text_append_z(t, "{\"specversion\":\"1.0\"");
    for (size_t i = 0; !status && i < EVENT_ATTRIBUTES; i++)
        status = write_attribute(t, &event_attributes[i], message, err);
    if (!status)
        status = write_time(t, message->time_ms, err);
    if (status)
        return status;
    write_headers(t, message);
    write_body(t, message);
    text_append(t, "}", sizeof "}");
    if (t->failed)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a CloudEvent");
    return SEMEL_OK;
}

semel_status semel_message_write_cloudevent(char **out, const semel_message *message,
                                            semel_error *err)
{
    text_buffer t = {0};
    if (!json_built_in())
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "JSON is not built in: build semel with SEMEL_JSON=ON for CloudEvents");
    semel_status status = message_check(message, err);
    if (!status)
        status = write_event(&t, message, err);
    if (status)
        mem_free(t.bytes);
    else
        *out = t.bytes;
    return status;
}

void semel_text_free(char *text)
{
    mem_free(text);
}
