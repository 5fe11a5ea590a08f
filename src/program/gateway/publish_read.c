/* See publish_read.h.
 *
 * The attributes of binary mode are written as a CloudEvent without data and read by the library,
 * so that there is one set of rules for both modes. A request that does not say that it is a
 * CloudEvent (Ce-Specversion) may leave out what an event must have. */
#include "program/gateway/publish_read.h"

#include "program/gateway/delivery.h"
#include "program/gateway/proxy.h"
#include "program/support/binary.h"
#include "program/support/encoding.h"
#include "program/support/json_scan.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"
#include "program/support/unique_id.h"
#include "program/support/unsaid.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { JSON_DEPTH_MAX = 64, ERRORS_MAX = 20 };

static const char prefix[] = "ce-";

/* --- errors ----------------------------------------------------------------------------------- */

/* `index` is the place in a batch; -1: there is none. */
static void add_error(publish_read *out, int64_t index, const char *text)
{
    if (out->wrong++ >= ERRORS_MAX)
        return;
    buffer_text(&out->errors, out->wrong > 1 ? ",{" : "{");
    if (index >= 0)
        buffer_printf(&out->errors, "\"index\":%lld,", (long long)index);
    buffer_text(&out->errors, "\"detail\":");
    show_json(&out->errors, text, strlen(text));
    buffer_text(&out->errors, "}");
}

/* --- attributes in headers -------------------------------------------------------------------- */

typedef struct attributes {
    publish_read *out;
    http_request *request;
    region *memory;
    buffer json; /* the event without data */
    int is_event, has_source, has_type, has_time, has_trace;
    const char *id;
} attributes;

static void add_attribute(attributes *a, const char *name, const char *value, size_t len)
{
    buffer_text(&a->json, a->json.len > 1 ? "," : "");
    show_json(&a->json, name, strlen(name));
    buffer_text(&a->json, ":");
    show_json(&a->json, value, len);
}

/* %XX in a value, as the HTTP binding has it. What is not that stays as it is. */
static char *decoded(region *memory, const char *value)
{
    char *text = region_copy(memory, value, strlen(value)), *to = text;
    for (const char *at = text; *at; at++) {
        int high = *at == '%' ? binary_hex_digit(at[1]) : -1;
        int low = high >= 0 ? binary_hex_digit(at[2]) : -1;
        *to++ = low >= 0 ? (char)(high << 4 | low) : *at;
        at += low >= 0 ? 2 : 0;
    }
    *to = 0;
    return text;
}

static void note(attributes *a, const char *name, const char *value)
{
    a->is_event |= strcmp(name, "specversion") == 0;
    a->has_source |= strcmp(name, "source") == 0;
    a->has_type |= strcmp(name, "type") == 0;
    a->has_time |= strcmp(name, "time") == 0;
    a->has_trace |= strcmp(name, "traceparent") == 0;
    if (strcmp(name, "id") == 0)
        a->id = value;
}

static void see_header(void *context, const char *name, const char *value)
{
    attributes *a = context;
    if (strncasecmp(name, prefix, sizeof prefix - 1) != 0)
        return;
    char *attribute = region_copy(a->memory, name + 3, strlen(name + 3));
    for (char *at = attribute; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    char *text = decoded(a->memory, value);
    if (http_request_header_count(a->request, name) > 1)
        add_error(a->out, -1, region_printf(a->memory, "the header %s was sent twice", name));
    else if (!encoding_is_text(text, strlen(text)))
        add_error(a->out, -1, region_printf(a->memory, "the header %s is not UTF-8", name));
    else if (strcmp(attribute, "data") == 0 || strcmp(attribute, "data_base64") == 0)
        add_error(a->out, -1, region_printf(a->memory, "the header %s is no attribute", name));
    else {
        note(a, attribute, text);
        add_attribute(a, attribute, text, strlen(text));
    }
}

/* The key of the request; NULL: there is none. */
static const char *key_of(publish_read *out, http_request *request)
{
    const char *header = http_request_header(request, "Idempotency-Key");
    char *key = region_alloc(http_request_memory(request), PROXY_KEY_MAX + 1);
    if (!header)
        return NULL;
    if (proxy_key_parse(key, header) == KEY_FOUND)
        return key;
    add_error(out, -1,
              "Idempotency-Key has 1 to 255 visible ASCII characters, bare or in double quotes");
    return NULL;
}

static void complete_id(attributes *a)
{
    const char *key = key_of(a->out, a->request);
    char made[UNIQUE_ID_SIZE];
    if (a->id && key && strcmp(a->id, key) != 0)
        add_error(a->out, -1, "Ce-Id and Idempotency-Key differ; one of them is enough");
    if (a->id || (a->is_event && !key))
        return;
    unique_id(made);
    add_attribute(a, "id", key ? key : made, strlen(key ? key : made));
}

/* What the event of a message that need not be one lacks, and is taken away again afterwards. */
static void complete_attributes(attributes *a)
{
    const char *trace = route_traceparent(a->request), *state = route_tracestate(a->request);
    complete_id(a);
    if (!a->is_event) {
        add_attribute(a, "specversion", "1.0", 3);
        if (!a->has_source)
            add_attribute(a, "source", "-", 1);
        if (!a->has_type)
            add_attribute(a, "type", "-", 1);
    }
    if (trace && !a->has_trace) {
        add_attribute(a, "traceparent", trace, strlen(trace));
        if (state)
            add_attribute(a, "tracestate", state, strlen(state));
    }
    buffer_text(&a->json, "}");
}

static void keep(publish_read *out, semel_message *read)
{
    out->owned[out->owned_count++] = read;
    out->messages[out->count++] = *read;
}

static void allocate(publish_read *out, size_t count)
{
    out->owned = must_alloc((count + 1) * sizeof(semel_message *));
    out->messages = must_alloc((count + 1) * sizeof *out->messages);
}

static void read_binary(publish_read *out, http_request *request)
{
    attributes a = {.out = out, .request = request, .memory = http_request_memory(request)};
    semel_error why = {0};
    semel_message *read = NULL;
    const char *type = http_request_header(request, "Content-Type");
    buffer_text(&a.json, "{");
    http_request_headers(request, see_header, &a);
    complete_attributes(&a);
    if (!out->wrong &&
        semel_message_read_cloudevent(&read, (semel_bytes){a.json.data, a.json.len}, &why))
        add_error(out, -1, why.text);
    if (type && strlen(type) > SEMEL_TEXT_MAX)
        add_error(out, -1, "Content-Type is longer than 1024 bytes");
    buffer_free(&a.json);
    allocate(out, 1);
    if (!read)
        return;
    keep(out, read);
    semel_message *m = &out->messages[0];
    m->body = http_request_body(request);
    m->content_type = type && *type ? type : m->content_type;
    m->source = a.is_event || a.has_source ? m->source : NULL;
    m->type = a.is_event || a.has_type ? m->type : NULL;
    m->time_ms = a.has_time ? m->time_ms : wall_clock_ms();
}

/* --- events in JSON --------------------------------------------------------------------------- */

/* Unless the event has a context of its own. */
static void add_trace(semel_message *to, semel_header *headers, http_request *request)
{
    const char *trace = route_traceparent(request), *state = route_tracestate(request);
    if (!trace || semel_message_header(to, "traceparent").data ||
        to->header_count + 2 > SEMEL_HEADERS_MAX)
        return;
    if (to->headers != headers)
        memcpy(headers, to->headers, to->header_count * sizeof *headers);
    headers[to->header_count++] = (semel_header){"traceparent", semel_str(trace)};
    if (state)
        headers[to->header_count++] = (semel_header){"tracestate", semel_str(state)};
    to->headers = headers;
}

static void read_event(publish_read *out, http_request *request, semel_bytes json, int64_t index)
{
    semel_error why = {0};
    semel_message *read = NULL;
    if (semel_message_read_cloudevent(&read, json, &why)) {
        add_error(out, index, why.text);
        return;
    }
    semel_header *headers =
        region_alloc(http_request_memory(request), SEMEL_HEADERS_MAX * sizeof *headers);
    keep(out, read);
    unsaid_take(&out->messages[out->count - 1], headers);
    add_trace(&out->messages[out->count - 1], headers, request);
}

static void read_structured(publish_read *out, http_request *request)
{
    const char *key = key_of(out, request);
    allocate(out, 1);
    read_event(out, request, http_request_body(request), -1);
    if (key && out->count &&
        (out->messages[0].id.len != strlen(key) ||
         memcmp(out->messages[0].id.data, key, strlen(key)) != 0))
        add_error(out, -1, "\"id\" of the event and Idempotency-Key differ; leave the header out");
}

static size_t count_events(semel_bytes array)
{
    const char *at = NULL;
    scan_member next;
    size_t count = 0;
    while (scan_next(&next, &at, array))
        count++;
    return count;
}

static void read_batch(publish_read *out, http_request *request)
{
    semel_bytes array = scan_trimmed(http_request_body(request));
    const char *at = NULL;
    scan_member next;
    int64_t index = 0;
    if (!array.len || *(const char *)array.data != '[' ||
        !strict_json_check(array, JSON_DEPTH_MAX, NULL)) {
        add_error(out, -1, "a batch is a JSON array of CloudEvents");
        return;
    }
    size_t count = count_events(array);
    out->too_many = count > DELIVERY_MAX;
    if (out->too_many)
        return;
    allocate(out, count);
    for (; scan_next(&next, &at, array); index++)
        read_event(out, request, next.value, index);
}

/* --- all of it -------------------------------------------------------------------------------- */

static int is_type(const char *type, const char *wanted)
{
    size_t len = strlen(wanted);
    return strncasecmp(type, wanted, len) == 0 && (!type[len] || strchr("; \t", type[len]));
}

/* UTF-8 is the only one that JSON has. */
static int has_other_charset(const char *type)
{
    const char *charset = strcasestr(type, "charset=");
    if (!charset)
        return 0;
    charset += strlen("charset=");
    charset += *charset == '"';
    return strncasecmp(charset, "utf-8", 5) != 0 && strncasecmp(charset, "us-ascii", 8) != 0;
}

void publish_read_request(publish_read *out, http_request *request)
{
    const char *type = http_request_header(request, "Content-Type");
    const char *encoding = http_request_header(request, "Content-Encoding");
    int is_batch = type && is_type(type, "application/cloudevents-batch+json");
    int is_event = type && is_type(type, "application/cloudevents+json");
    if (encoding && *encoding && strcasecmp(encoding, "identity") != 0)
        out->unsupported = "Send the body without a Content-Encoding.";
    else if ((is_batch || is_event) && has_other_charset(type))
        out->unsupported = "JSON is in UTF-8.";
    else if (is_batch)
        read_batch(out, request);
    else if (is_event)
        read_structured(out, request);
    else if (type && strncasecmp(type, "application/cloudevents", 23) == 0)
        out->unsupported = "Of CloudEvents, application/cloudevents+json and "
                           "application/cloudevents-batch+json are understood.";
    else
        read_binary(out, request);
}

void publish_read_free(publish_read *all)
{
    for (size_t i = 0; i < all->owned_count; i++)
        semel_message_free(all->owned[i]);
    free(all->owned);
    free(all->messages);
    buffer_free(&all->errors);
}
