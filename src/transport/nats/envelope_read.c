/* Reading: the reverse of envelope.c, and whatever a foreign publisher may have sent. What cannot
 * be understood is left out and never a reason to refuse a delivery.
 *
 *  - Names of headers are compared without regard to case: other clients change it.
 *  - A header ce-... is a member, or one of the message's headers without its prefix, in lower
 *    case. Its value has %-escapes. So it is for CloudEvents in binary mode.
 *  - A body that is a CloudEvent in structured mode (by its content type) wins over everything.
 *  - Headers come from semel-headers if it is there; else all others but the server's own are the
 *    message's.
 *  - The topic is the subject behind the URL's subject= and a dot, unless ce-subject is there.
 *  - A message without ce-id is foreign. Its id is Nats-Msg-Id, or else made of the stream, the
 *    number in the stream and the time at which it was stored: a redelivery has the same, and a
 *    message of a stream that was deleted and made again has another. Its time is when it was
 *    stored, if it says none itself. */
#include "base/rfc3339.h"
#include "base/text.h"
#include "transport/common/structured.h"
#include "transport/nats/envelope.h"
#include "transport/nats/escape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { NS_PER_MS = 1000000, ORIGIN_ROOM = 64 };
#define EVENT_PREFIX_LEN (sizeof JET_HEADER_EVENT - 1)

typedef struct reading {
    mem_arena *arena;
    natsMsg *raw;
    const jet_origin *origin;
    semel_message *message;
    semel_header *headers;
    size_t room;            /* of headers */
    const char *all;        /* semel-headers */
    const char *message_id; /* Nats-Msg-Id */
    int failed;             /* out of memory */
} reading;

/* --- the reply subject ------------------------------------------------------------------------ */

/* $JS.ACK.stream.consumer.delivered.sequence.sequence.time.pending, with a domain and a hash of the
 * account before the stream from some servers, which also append tokens. */
enum { TOKENS_PLAIN = 9, TOKENS_LONG = 11, TOKENS_MAX = 16 };

static size_t split(const char *tokens[TOKENS_MAX], const char *text)
{
    size_t count = 0;
    for (const char *at = text; at && count < TOKENS_MAX; at = strchr(at, '.')) {
        at += *at == '.' && count > 0;
        tokens[count++] = at;
    }
    return count;
}

int jet_origin_read(jet_origin *out, const char *reply)
{
    const char *tokens[TOKENS_MAX];
    if (!reply || strncmp(reply, "$JS.ACK.", 8) != 0)
        return 0;
    size_t count = split(tokens, reply);
    size_t stream = count == TOKENS_PLAIN ? 2 : 4;
    if (count != TOKENS_PLAIN && count < TOKENS_LONG)
        return 0;
    out->stream = (semel_bytes){tokens[stream], strcspn(tokens[stream], ".")};
    out->deliveries = strtoull(tokens[stream + 2], NULL, 10);
    out->sequence = strtoull(tokens[stream + 3], NULL, 10);
    out->stored_ns = strtoll(tokens[stream + 5], NULL, 10);
    return out->deliveries > 0 && out->sequence > 0;
}

/* --- pieces ----------------------------------------------------------------------------------- */

static semel_bytes decode(reading *r, const char *text, size_t text_len)
{
    size_t len = 0;
    const char *bytes = jet_unescape(&len, r->arena, text, text_len);
    r->failed |= !bytes;
    return bytes ? (semel_bytes){bytes, len} : (semel_bytes){"", 0};
}

/* NULL if it is empty, too long, or no C text. */
static const char *as_text(semel_bytes bytes)
{
    return bytes.len && bytes.len <= SEMEL_TEXT_MAX && !memchr(bytes.data, 0, bytes.len)
               ? bytes.data
               : NULL;
}

static void set_member(reading *r, const jet_field *field, semel_bytes value)
{
    char *member = (char *)r->message + field->offset;
    const char *text = as_text(value);
    if (field->is_bytes && value.len && value.len <= SEMEL_TEXT_MAX)
        memcpy(member, &value, sizeof value);
    else if (!field->is_bytes && text)
        memcpy(member, &text, sizeof text);
}

static void make_room(reading *r)
{
    if (r->message->header_count < r->room)
        return;
    size_t room = r->room ? SEMEL_HEADERS_MAX : 8;
    semel_header *more = arena_alloc(r->arena, room * sizeof *more);
    r->failed |= !more;
    if (more && r->room)
        memcpy(more, r->headers, r->room * sizeof *more);
    r->headers = more;
    r->room = more ? room : 0;
}

static void add_header(reading *r, const char *name, semel_bytes value)
{
    if (!name || !*name || !value.data || r->message->header_count >= SEMEL_HEADERS_MAX ||
        strlen(name) + value.len > SEMEL_HEADER_MAX)
        return;
    make_room(r);
    if (!r->failed)
        r->headers[r->message->header_count++] = (semel_header){name, value};
}

/* --- headers ---------------------------------------------------------------------------------- */

static int begins_with(const char *name, const char *prefix)
{
    for (; *prefix; name++, prefix++)
        if (text_lower(*name) != *prefix)
            return 0;
    return 1;
}

static const char *lower_copy(reading *r, const char *name)
{
    char *copy = arena_copy(r->arena, name, strlen(name));
    r->failed |= !copy;
    for (char *at = copy; at && *at; at++)
        *at = text_lower(*at);
    return copy;
}

static void read_event(reading *r, const char *name, const char *value)
{
    semel_bytes bytes = decode(r, value, strlen(value));
    if (text_same(name, JET_HEADER_VERSION) || r->failed)
        return;
    if (text_same(name, JET_HEADER_TIME)) {
        (void)rfc3339_parse(&r->message->time_ms, bytes.data, bytes.len); /* else it has none */
        return;
    }
    for (size_t i = 0; i < JET_FIELDS; i++)
        if (text_same(name, jet_fields[i].header)) {
            set_member(r, &jet_fields[i], bytes);
            return;
        }
    if (text_same(name, "ce-datacontenttype"))
        r->message->content_type = as_text(bytes);
    else
        add_header(r, lower_copy(r, name + EVENT_PREFIX_LEN), bytes);
}

static void read_content_type(reading *r, semel_bytes value)
{
    const char *text = as_text(value);
    if (text)
        r->message->content_type = text;
}

static semel_bytes copy_of(reading *r, const char *text)
{
    semel_bytes value = {arena_copy(r->arena, text, strlen(text)), strlen(text)};
    r->failed |= !value.data;
    return value;
}

/* The raw message stays with the delivery, so its texts need no copy. */
static void read_value(reading *r, const char *name, const char *value)
{
    if (begins_with(name, JET_HEADER_EVENT))
        read_event(r, name, value);
    else if (text_same(name, JET_HEADER_ALL))
        r->all = value;
    else if (text_same(name, JET_HEADER_MESSAGE_ID))
        r->message_id = value;
    else if (text_same(name, JET_HEADER_CONTENT))
        read_content_type(r, copy_of(r, value));
    else if (text_same(name, JET_HEADER_EXACT_TYPE))
        read_content_type(r, decode(r, value, strlen(value)));
    else if (text_same(name, JET_HEADER_EXACT_TIME))
        r->message->time_ms = strtoll(value, NULL, 10);
    else if (!begins_with(name, JET_HEADER_SERVERS))
        add_header(r, name, semel_str(value));
}

/* 0: there are none, or none that can be read; or there is no memory for them, which is not the
 * same: the message would have another id. */
static int has_headers(reading *r, natsStatus code)
{
    r->failed |= code == NATS_NO_MEMORY;
    return code == NATS_OK;
}

static void read_raw_headers(reading *r)
{
    const char **names = NULL;
    int count = 0;
    if (!has_headers(r, natsMsgHeader_Keys(r->raw, &names, &count)))
        return;
    for (int i = 0; i < count && !r->failed; i++) {
        const char **values = NULL;
        int value_count = 0;
        if (!has_headers(r, natsMsgHeader_Values(r->raw, names[i], &values, &value_count)))
            continue;
        for (int j = 0; j < value_count && !r->failed; j++)
            read_value(r, names[i], values[j]);
        free((void *)values); /* allowed: nats.c allocated it */
    }
    free((void *)names); /* allowed: nats.c allocated it */
}

/* In place of those that were found one by one. */
static void read_all_headers(reading *r)
{
    r->message->header_count = 0;
    for (const char *at = r->all; *at && !r->failed;) {
        size_t len = strcspn(at, "&"), name_len = strcspn(at, "=&");
        semel_bytes name = decode(r, at, name_len), value = {"", 0};
        if (name_len < len)
            value = decode(r, at + name_len + 1, len - name_len - 1);
        if (name.len && !memchr(name.data, 0, name.len))
            add_header(r, name.data, value);
        at += len + (at[len] == '&');
    }
}

/* --- what the server knows -------------------------------------------------------------------- */

static void read_topic(reading *r, const char *prefix)
{
    const char *subject = natsMsg_GetSubject(r->raw);
    size_t len = strlen(prefix);
    if (r->message->topic)
        return;
    if (!len || strncmp(subject, prefix, len) != 0 || (subject[len] && subject[len] != '.'))
        r->message->topic = as_text(semel_str(subject));
    else if (subject[len])
        r->message->topic = as_text(semel_str(subject + len + 1));
}

static void read_foreign_id(reading *r)
{
    const jet_origin *origin = r->origin;
    size_t room = origin->stream.len + ORIGIN_ROOM;
    if (r->message_id && *r->message_id && strlen(r->message_id) <= SEMEL_TEXT_MAX) {
        r->message->id = semel_str(r->message_id);
        return;
    }
    char *id = arena_alloc(r->arena, room);
    r->failed |= !id;
    if (id) {
        (void)snprintf(id, room, "%.*s:%" PRIu64 ":%" PRId64, (int)origin->stream.len,
                       (const char *)origin->stream.data, origin->sequence, origin->stored_ns);
        r->message->id = semel_str(id);
    }
}

static void read_origin(reading *r)
{
    uint64_t deliveries = r->origin->deliveries;
    r->message->delivery = deliveries > JET_DELIVERY_MAX ? JET_DELIVERY_MAX : (uint32_t)deliveries;
    if (r->message->id.len)
        return;
    read_foreign_id(r);
    if (!r->message->time_ms)
        r->message->time_ms = r->origin->stored_ns / NS_PER_MS;
}

semel_message *jet_envelope_read(mem_arena *arena, natsMsg *raw, const jet_origin *origin,
                                 const char *subject)
{
    reading r = {.arena = arena, .raw = raw, .origin = origin};
    r.message = arena_alloc(arena, sizeof *r.message);
    if (!r.message)
        return NULL;
    *r.message =
        (semel_message){.size = sizeof *r.message,
                        .body = {natsMsg_GetData(raw), (size_t)natsMsg_GetDataLength(raw)}};
    read_raw_headers(&r);
    if (r.all && !r.failed)
        read_all_headers(&r);
    read_topic(&r, subject);
    read_origin(&r);
    r.message->headers = r.message->header_count ? r.headers : NULL;
    return r.failed ? NULL : structured_read(arena, r.message);
}
