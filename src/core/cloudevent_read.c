/* Reading an event: its members come out of the JSON into an arena, a message on the stack is
 * pointed at them, and semel_message_copy() checks and copies that. So there is one thing to free,
 * and the limits are those of any other message. */
#include "base/base64.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "base/utf8.h"
#include "core/cloudevent.h"

/* The longest event read: a body of control characters takes six characters for each. */
#define EVENT_MAX (8 * SEMEL_BODY_MAX)

typedef struct reading {
    mem_arena arena;
    const json_member *members;
    size_t count;
    semel_message message;
    semel_header headers[SEMEL_HEADERS_MAX];
} reading;

static const json_member *find_member(const reading *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->members[i].name, name) == 0)
            return &r->members[i];
    return NULL;
}

/* The string of that name; {NULL, 0} if it is absent, null or empty. */
static semel_status read_string(semel_bytes *out, const reading *r, const char *name,
                                semel_error *err)
{
    const json_member *member = find_member(r, name);
    *out = (semel_bytes){NULL, 0};
    if (!member || member->kind == JSON_NULL || !member->text.len)
        return SEMEL_OK;
    if (member->kind != JSON_STRING)
        return semel_fail(err, SEMEL_EINVAL, "CloudEvent: %s is not a string", name);
    *out = member->text;
    return SEMEL_OK;
}

static semel_status read_attribute(reading *r, const event_attribute *a, semel_error *err)
{
    semel_bytes value;
    char *member = (char *)&r->message + a->offset;
    semel_status status = read_string(&value, r, a->name, err);
    if (status)
        return status;
    if (!value.data && a->required)
        return semel_fail(err, SEMEL_EINVAL, "CloudEvent: %s is missing", a->name);
    if (!utf8_plain(value.data, value.len))
        return semel_fail(err, SEMEL_EINVAL, "CloudEvent: %s holds a control character", a->name);
    if (a->is_bytes)
        memcpy(member, &value, sizeof value);
    else
        memcpy(member, &value.data, sizeof value.data);
    return SEMEL_OK;
}

static semel_status read_version(const reading *r, semel_error *err)
{
    semel_bytes version;
    semel_status status = read_string(&version, r, "specversion", err);
    if (status)
        return status;
    if (!version.data)
        return semel_fail(err, SEMEL_EINVAL, "CloudEvent: specversion is missing");
    if (version.len != 3 || memcmp(version.data, "1.0", 3) != 0)
        return semel_fail(err, SEMEL_EINVAL, "CloudEvent: specversion is \"%.16s\"; 1.0 is known",
                          (const char *)version.data);
    return SEMEL_OK;
}

static semel_status read_time(reading *r, semel_error *err)
{
    semel_bytes when;
    semel_status status = read_string(&when, r, "time", err);
    if (status || !when.data)
        return status;
    if (!rfc3339_parse(&r->message.time_ms, when.data, when.len))
        return semel_fail(
            err, SEMEL_EINVAL,
            "CloudEvent: time is \"%.40s\", not as in 2026-02-28T23:59:59Z (RFC 3339)",
            (const char *)when.data);
    return SEMEL_OK;
}

/* --- the body --------------------------------------------------------------------------------- */

static semel_status read_quoted(reading *r, semel_bytes string, semel_error *err)
{
    text_buffer quoted = {0};
    text_append_json(&quoted, string.data, string.len);
    const void *copy = quoted.failed ? NULL : arena_copy(&r->arena, quoted.bytes, quoted.len);
    mem_free(quoted.bytes);
    if (!copy)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a body of %zu bytes", string.len);
    r->message.body = (semel_bytes){copy, quoted.len};
    return SEMEL_OK;
}

/* JSON's null is a body of JSON, and no body of anything else. */
static semel_status read_data(reading *r, const json_member *data, semel_error *err)
{
    int is_json = event_type_is_json(r->message.content_type);
    if (is_json && data->kind == JSON_STRING)
        return read_quoted(r, data->text, err);
    if (is_json || data->kind != JSON_NULL)
        r->message.body = data->text;
    return SEMEL_OK;
}

static semel_status read_base64(reading *r, semel_bytes text, semel_error *err)
{
    size_t len = 0;
    unsigned char *bytes = arena_alloc(&r->arena, text.len);
    if (!bytes)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a body of %zu bytes", text.len);
    if (!base64_decode(bytes, &len, text.data, text.len))
        return semel_fail(err, SEMEL_EINVAL,
                          "CloudEvent: data_base64 is not base64 with padding (RFC 4648)");
    r->message.body = (semel_bytes){bytes, len};
    return SEMEL_OK;
}

static semel_status read_body(reading *r, semel_error *err)
{
    const json_member *data = find_member(r, "data");
    semel_bytes base64;
    semel_status status = read_string(&base64, r, "data_base64", err);
    if (status)
        return status;
    if (data && base64.data)
        return semel_fail(err, SEMEL_EINVAL, "CloudEvent: both data and data_base64 are there");
    if (base64.data)
        return read_base64(r, base64, err);
    return data ? read_data(r, data, err) : SEMEL_OK;
}

/* --- extensions ------------------------------------------------------------------------------- */

/* "Data" for data is a mistake, not an extension: as a header it would hide that the body is
 * missing. */
static semel_status check_case(const char *name, semel_error *err)
{
    if (!strpbrk(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        return SEMEL_OK;
    return semel_fail(err, SEMEL_EINVAL, "CloudEvent: \"%s\" must be in lower case", name);
}

static semel_status read_extension(reading *r, const json_member *member, semel_error *err)
{
    if (event_name_is_taken(member->name))
        return check_case(member->name, err);
    if (member->kind == JSON_NULL)
        return SEMEL_OK;
    if (member->kind == JSON_CONTAINER)
        return semel_fail(err, SEMEL_EINVAL,
                          "CloudEvent: \"%.64s\" is an object or array; attributes are strings, "
                          "numbers or booleans",
                          member->name);
    if (r->message.header_count == SEMEL_HEADERS_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "CloudEvent: more extension attributes than SEMEL_HEADERS_MAX (%zu)",
                          SEMEL_HEADERS_MAX);
    r->headers[r->message.header_count++] = (semel_header){member->name, member->text};
    return SEMEL_OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

static semel_status read_event(reading *r, semel_error *err)
{
    semel_status status = read_version(r, err);
    for (size_t i = 0; !status && i < EVENT_ATTRIBUTES; i++)
        status = read_attribute(r, &event_attributes[i], err);
    if (!status)
        status = read_time(r, err);
    if (!status)
        status = read_body(r, err);
    for (size_t i = 0; !status && i < r->count; i++)
        status = read_extension(r, &r->members[i], err);
    return status;
}

static semel_status check_input(semel_bytes json, semel_error *err)
{
    if (json.len > EVENT_MAX)
        return semel_fail(err, SEMEL_ELIMIT, "CloudEvent: %zu bytes, over 8 * SEMEL_BODY_MAX",
                          json.len);
    if (json.len && !json.data)
        return semel_fail(err, SEMEL_EINVAL, "CloudEvent: a length of %zu and no data", json.len);
    return SEMEL_OK;
}

semel_status semel_message_read_cloudevent(semel_message **out, semel_bytes json, semel_error *err)
{
    reading r = {.message = {.size = sizeof r.message}};
    r.message.headers = r.headers;
    semel_status status = check_input(json, err);
    if (!status)
        status = json_members(&r.members, &r.count, &r.arena, json, err);
    if (!status)
        status = read_event(&r, err);
    if (!status)
        status = semel_message_copy(out, &r.message, err);
    arena_free(&r.arena);
    return status;
}
