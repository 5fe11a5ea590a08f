/* See webhook_event.h. */
#include "program/gateway/webhook_event.h"

#include "program/config/secret.h"
#include "program/gateway/route.h"
#include "program/gateway/signature_parse.h"
#include "program/support/binary.h"
#include "program/support/encoding.h"
#include "program/support/json_scan.h"
#include "program/support/show.h"
#include "program/support/strict_json.h"

#include <string.h>
#include <strings.h>

enum { JSON_DEPTH_MAX = 64, KEY_ROOM = 4096 };

typedef struct reading {
    webhook_event *out;
    const route_config *route;
    http_request *request;
    const signature_facts *facts;
    region *memory;
    semel_bytes json; /* the body if it is an object; else {NULL, 0} */
} reading;

/* --- the body --------------------------------------------------------------------------------- */

static const char *text_of(const reading *r, semel_bytes object, const char *name)
{
    size_t len = 0;
    semel_bytes value = scan_find(object, name);
    const char *text = value.data ? scan_text(&len, r->memory, value) : NULL;
    return text && len && strlen(text) == len ? text : NULL;
}

static const char *body_text(const reading *r, const char *name)
{
    return r->json.data ? text_of(r, r->json, name) : NULL;
}

/* Seconds since 1970 in the body; 0: there are none. */
static int64_t body_time(const reading *r, const char *name)
{
    semel_bytes value = r->json.data ? scan_find(r->json, name) : (semel_bytes){0};
    int64_t seconds = value.data ? signature_parse_time(scan_trimmed(value)) : -1;
    return seconds > 0 ? seconds : 0;
}

static const char *header(const reading *r, const char *name)
{
    const char *value = http_request_header(r->request, name);
    return value && *value ? value : NULL;
}

/* --- headers ---------------------------------------------------------------------------------- */

static int begins_with(const char *name, const char *beginning)
{
    return strncasecmp(name, beginning, strlen(beginning)) == 0;
}

static int has_word(const char *name, const char *word)
{
    for (; *name; name++)
        if (begins_with(name, word))
            return 1;
    return 0;
}

int webhook_keeps_header(const route_config *route, const char *name)
{
    static const char *const beginnings[] = {"x-", "webhook-", "svix-"};
    static const char *const never[] = {"signature", "hmac", "x-forwarded", "x-real-ip"};
    int keeps = 0;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        keeps |= begins_with(name, beginnings[i]);
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        keeps &= !has_word(name, never[i]);
    if (route->hmac.header && strcasecmp(name, route->hmac.header) == 0)
        return 0;
    return keeps && !secret_is_name(name, strlen(name));
}

static void add_header(webhook_event *out, const char *name, const char *value)
{
    if (out->message.header_count < SEMEL_HEADERS_MAX &&
        strlen(name) + strlen(value) <= SEMEL_HEADER_MAX)
        out->headers[out->message.header_count++] =
            (semel_header){.name = name, .value = semel_str(value)};
}

static void keep_header(void *context, const char *name, const char *value)
{
    reading *r = context;
    if (webhook_keeps_header(r->route, name))
        add_header(r->out, name, value);
}

static void keep_every_header(void *context, const char *name, const char *value)
{
    add_header(context, name, value);
}

/* --- id --------------------------------------------------------------------------------------- */

static const char *preset_id(const reading *r, const char **where)
{
    const char *id = NULL;
    switch (r->route->preset) {
    case WEBHOOK_STANDARD:
        *where = "the header webhook-id";
        return r->facts->id;
    case WEBHOOK_STRIPE:
        *where = "\"id\" of the body";
        return body_text(r, "id");
    case WEBHOOK_GITHUB:
        *where = "the header X-GitHub-Delivery";
        return header(r, "X-GitHub-Delivery");
    case WEBHOOK_SHOPIFY:
        *where = "the header X-Shopify-Webhook-Id";
        id = header(r, "X-Shopify-Webhook-Id");
        return id ? id : header(r, "X-Shopify-Event-Id");
    case WEBHOOK_SLACK:
        *where = "\"event_id\" of the body";
        return body_text(r, "event_id");
    case WEBHOOK_HMAC:
    case WEBHOOK_NONE:
        break;
    }
    *where = "the key of the route";
    return NULL;
}

/* A key that is no text (digest) becomes hexadecimal digits: brokers and logs show it, too. */
static semel_bytes as_id(const reading *r, semel_bytes key)
{
    if (encoding_is_text(key.data, key.len))
        return key;
    buffer digits = {0};
    for (size_t i = 0; i < key.len; i++)
        buffer_printf(&digits, "%02x", ((const unsigned char *)key.data)[i]);
    semel_bytes id = {region_copy(r->memory, digits.data, digits.len), digits.len};
    buffer_free(&digits);
    return id;
}

/* By the key expression, which sees every header and the body. */
static semel_bytes expressed_id(const reading *r, const semel_inbox *keys)
{
    size_t len = 0;
    webhook_event *all = region_alloc(r->memory, sizeof *all);
    char *key = region_alloc(r->memory, KEY_ROOM);
    all->message = r->out->message;
    all->message.headers = all->headers;
    all->message.header_count = 0;
    http_request_headers(r->request, keep_every_header, all);
    if (semel_inbox_key(key, KEY_ROOM, &len, keys, &all->message, NULL) || len > KEY_ROOM)
        return (semel_bytes){0};
    return as_id(r, (semel_bytes){key, len});
}

static void find_id(const reading *r, const semel_inbox *keys)
{
    const char *where = "the key of the route";
    semel_bytes id = keys ? expressed_id(r, keys) : semel_str(preset_id(r, &where));
    r->out->message.id = id;
    if (!id.len)
        r->out->missing = where;
    else if (id.len > SEMEL_TEXT_MAX)
        r->out->wrong = "it is longer than 1024 bytes";
    else if (!encoding_is_text(id.data, id.len) || encoding_has_controls(id.data, id.len))
        r->out->wrong = "it is not UTF-8, or has control characters";
}

/* --- the rest --------------------------------------------------------------------------------- */

static const char *type_of(const reading *r)
{
    const char *type = NULL;
    if (r->route->preset == WEBHOOK_GITHUB)
        return header(r, "X-GitHub-Event");
    if (r->route->preset == WEBHOOK_SHOPIFY)
        return header(r, "X-Shopify-Topic");
    if (r->route->preset == WEBHOOK_SLACK && r->json.data)
        type = text_of(r, scan_find(r->json, "event"), "type");
    return type ? type : body_text(r, "type");
}

/* When the event happened, where the sender says so: an inbox that has forgotten keys of that age
 * can tell that it may be a copy. The time of a signature is that of the attempt. */
static int64_t time_of(const reading *r)
{
    int64_t seconds = r->route->preset == WEBHOOK_STRIPE  ? body_time(r, "created")
                      : r->route->preset == WEBHOOK_SLACK ? body_time(r, "event_time")
                                                          : 0;
    if (!seconds)
        seconds = r->facts->time_s;
    return seconds ? seconds * 1000 : wall_clock_ms();
}

static const char *short_text(const char *text)
{
    return text && strlen(text) <= SEMEL_TEXT_MAX && encoding_is_text(text, strlen(text)) ? text
                                                                                          : NULL;
}

void webhook_event_read(webhook_event *out, const route_config *route, http_request *request,
                        const signature_facts *facts, const semel_inbox *keys)
{
    semel_bytes body = http_request_body(request);
    reading r = {out, route, request, facts, http_request_memory(request), {0}};
    semel_bytes trimmed = scan_trimmed(body);
    if (trimmed.len && *(const char *)trimmed.data == '{' &&
        strict_json_check(body, JSON_DEPTH_MAX, NULL))
        r.json = trimmed;
    *out = (webhook_event){.message = {.size = sizeof out->message,
                                       .source = route->name,
                                       .type = short_text(type_of(&r)),
                                       .content_type = short_text(header(&r, "Content-Type")),
                                       .time_ms = time_of(&r),
                                       .headers = out->headers,
                                       .body = body}};
    if (route_traceparent(request))
        add_header(out, "traceparent", route_traceparent(request));
    if (route_tracestate(request))
        add_header(out, "tracestate", route_tracestate(request));
    http_request_headers(request, keep_header, &r);
    if (route->preset == WEBHOOK_SLACK && out->message.type &&
        strcmp(out->message.type, "url_verification") == 0)
        out->challenge = body_text(&r, "challenge");
    if (!out->challenge)
        find_id(&r, keys);
}
