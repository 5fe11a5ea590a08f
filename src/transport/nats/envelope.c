/* Writing: the members of a message are headers, by the names that the CloudEvents binding for NATS
 * gives them, and in its encoding. With an id, a source and a type it is a CloudEvent in binary
 * mode, and says so (ce-specversion).
 *
 * A message's own headers may hold any bytes, in any order, and names may repeat. nats.c keeps
 * headers in a hash table, and NATS ends a value at the end of a line. So one header has them all,
 * exactly (semel-headers); beside it those that NATS can carry as they are go out under their own
 * names, for consumers that are not semel's. Names that mean something to the server, and those
 * of this file, do not: what an application puts into a message must not command the server.
 *
 * Nats-Msg-Id lets the server drop a second copy of what it has stored in the last two minutes, if
 * the relay sends again because an answer did not come. It is the message's id, and behind it a
 * hash of what else tells messages apart: two events may have one id and different sources or
 * topics, and a dead letter that is replayed must not be dropped. Nats-Expected-Stream keeps a
 * message out of a stream whose limits were not looked at. */
#include "transport/nats/envelope.h"

#include "base/due.h"
#include "base/hash.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "base/utf8.h"
#include "transport/nats/escape.h"
#include "transport/nats/subject.h"

#include <inttypes.h>
#include <stdio.h>

#define MEMBER(member) offsetof(semel_message, member)

const jet_field jet_fields[JET_FIELDS] = {{MEMBER(id), 1, "ce-id"},
                                          {MEMBER(source), 0, "ce-source"},
                                          {MEMBER(type), 0, "ce-type"},
                                          {MEMBER(topic), 0, "ce-subject"},
                                          {MEMBER(group), 0, "ce-partitionkey"},
                                          {MEMBER(correlation_id), 1, "ce-correlationid"}};

enum { HEADERS_MAX = 65535, COPIES_MAX = 16384, LINE_OVERHEAD = 4, FIRST_LINE = 10 };
enum { NUMBER_ROOM = 32 };

typedef struct writing {
    natsMsg *out;
    mem_arena *arena;
    const jet_address *address;
    const semel_message *message;
    size_t size; /* of the headers */
    semel_error *err;
} writing;

/* --- pieces ----------------------------------------------------------------------------------- */

static semel_status no_memory(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message's headers");
}

static semel_bytes value_of(const semel_message *message, const jet_field *field)
{
    const char *member = (const char *)message + field->offset, *text;
    semel_bytes value;
    if (field->is_bytes) {
        memcpy(&value, member, sizeof value);
        return value;
    }
    memcpy(&text, member, sizeof text);
    return semel_str(text);
}

static semel_status put(writing *w, const char *name, const char *value)
{
    if (!value)
        return no_memory(w->err);
    w->size += strlen(name) + strlen(value) + LINE_OVERHEAD;
    if (w->size > HEADERS_MAX)
        return semel_fail(w->err, SEMEL_ELIMIT, "NATS: the message's headers take over %d bytes",
                          HEADERS_MAX);
    return natsMsgHeader_Set(w->out, name, value) == NATS_OK ? SEMEL_OK : no_memory(w->err);
}

static semel_status put_number(writing *w, const char *name, int64_t number)
{
    char digits[NUMBER_ROOM];
    (void)snprintf(digits, sizeof digits, "%" PRId64, number);
    return put(w, name, digits);
}

/* What comes back as it is: printable, without spaces at its ends, which are cut off. */
static int is_plain_value(semel_bytes value)
{
    const unsigned char *at = value.data;
    if (!value.len || at[0] == ' ' || at[value.len - 1] == ' ')
        return 0;
    for (size_t i = 0; i < value.len; i++)
        if (at[i] < ' ' || at[i] >= 0x7f)
            return 0;
    return 1;
}

/* --- members ---------------------------------------------------------------------------------- */

static int is_event(const semel_message *message)
{
    for (size_t i = 0; i < 3; i++) { /* id, source and type */
        semel_bytes value = value_of(message, &jet_fields[i]);
        if (!value.len || !utf8_plain(value.data, value.len))
            return 0;
    }
    return 1;
}

static semel_status write_members(writing *w)
{
    semel_status status = is_event(w->message) ? put(w, JET_HEADER_VERSION, "1.0") : SEMEL_OK;
    for (size_t i = 0; !status && i < JET_FIELDS; i++) {
        semel_bytes value = value_of(w->message, &jet_fields[i]);
        if (value.len)
            status = put(w, jet_fields[i].header, jet_escape_text(w->arena, value));
    }
    return status;
}

static semel_status write_time(writing *w)
{
    char when[RFC3339_TEXT + 1];
    int64_t ms = w->message->time_ms;
    if (!ms)
        return SEMEL_OK;
    return rfc3339_format(when, ms) ? put(w, JET_HEADER_TIME, when)
                                    : put_number(w, JET_HEADER_EXACT_TIME, ms);
}

static semel_status write_content_type(writing *w)
{
    semel_bytes type = semel_str(w->message->content_type);
    if (!type.len)
        return SEMEL_OK;
    return is_plain_value(type) ? put(w, JET_HEADER_CONTENT, w->message->content_type)
                                : put(w, JET_HEADER_EXACT_TYPE, jet_escape_text(w->arena, type));
}

/* --- headers ---------------------------------------------------------------------------------- */

static semel_status write_all_headers(writing *w)
{
    const semel_message *message = w->message;
    size_t room = 1;
    for (size_t i = 0; i < message->header_count; i++)
        room += 3 * (strlen(message->headers[i].name) + message->headers[i].value.len) + 2;
    char *text = arena_alloc(w->arena, room), *at = text;
    for (size_t i = 0; text && i < message->header_count; i++) {
        if (i)
            *at++ = '&';
        at = jet_escape(at, semel_str(message->headers[i].name), "&=");
        *at++ = '=';
        at = jet_escape(at, message->headers[i].value, "&=");
    }
    if (at)
        *at = 0;
    return put(w, JET_HEADER_ALL, text);
}

static int begins_with(const char *name, const char *prefix)
{
    for (; *prefix; name++, prefix++)
        if (text_lower(*name) != *prefix)
            return 0;
    return 1;
}

static int is_reserved(const char *name)
{
    return begins_with(name, JET_HEADER_SERVERS) || begins_with(name, JET_HEADER_EVENT) ||
           begins_with(name, "semel-") || text_same(name, JET_HEADER_CONTENT) ||
           text_same(name, "status") || text_same(name, "description");
}

static int is_plain_name(const char *name)
{
    for (const char *at = name; *at; at++)
        if (*at <= ' ' || *at >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", *at))
            return 0;
    return *name && !is_reserved(name);
}

static int is_first_of_name(const semel_message *message, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (text_same(message->headers[i].name, message->headers[index].name))
            return 0;
    return 1;
}

/* As many as there is room for: nothing depends on them. */
static semel_status write_copies(writing *w)
{
    const semel_message *message = w->message;
    semel_status status = SEMEL_OK;
    size_t used = 0;
    for (size_t i = 0; !status && i < message->header_count; i++) {
        const semel_header *header = &message->headers[i];
        if (!is_plain_name(header->name) || !is_plain_value(header->value) ||
            !is_first_of_name(message, i))
            continue;
        used += strlen(header->name) + header->value.len + LINE_OVERHEAD;
        if (used > COPIES_MAX || w->size + used > HEADERS_MAX)
            break;
        status = put(w, header->name, arena_copy(w->arena, header->value.data, header->value.len));
    }
    return status;
}

static semel_status write_headers(writing *w)
{
    if (!w->message->header_count)
        return SEMEL_OK;
    semel_status status = write_all_headers(w);
    return status ? status : write_copies(w);
}

/* --- for the server --------------------------------------------------------------------------- */

static uint64_t identity_of(const semel_message *message)
{
    static const hash_key key = {UINT64_C(0x73656d656c2d6e61), UINT64_C(0x74732d6d73672d69)};
    semel_bytes parts[] = {semel_str(message->source), semel_str(message->topic)};
    int64_t due = due_get(message);
    hash_state state;
    hash_begin(&state, key);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        hash_add(&state, &parts[i].len, sizeof parts[i].len);
        hash_add(&state, parts[i].data, parts[i].len);
    }
    hash_add(&state, &due, sizeof due);
    return hash_end(&state);
}

static semel_status write_message_id(writing *w)
{
    semel_bytes id = w->message->id;
    if (!w->address->message_ids || !id.len)
        return SEMEL_OK;
    char *text = arena_alloc(w->arena, 3 * id.len + NUMBER_ROOM);
    if (!text)
        return no_memory(w->err);
    char *end = jet_escape(text, id, "");
    (void)snprintf(end, NUMBER_ROOM, "@%016" PRIx64, identity_of(w->message));
    return put(w, JET_HEADER_MESSAGE_ID, text);
}

static semel_status write_for_server(writing *w)
{
    semel_status status = write_message_id(w);
    if (!status && w->address->stream[0])
        status = put(w, JET_HEADER_STREAM, w->address->stream);
    return status;
}

/* --- the subject ------------------------------------------------------------------------------ */

static semel_status find_subject(const char **out, mem_arena *arena, const jet_address *a,
                                 const char *topic, semel_error *err)
{
    size_t prefix = strlen(a->subject), len = topic ? strlen(topic) : 0;
    if (len && !jet_subject_is_plain(topic))
        return semel_fail(err, SEMEL_ELIMIT,
                          "NATS: message.topic is no subject: tokens between dots, without spaces, "
                          "control characters and wildcards");
    if (!len && !prefix)
        return semel_fail(err, SEMEL_EINVAL,
                          "NATS: the message has no topic, and the URL no subject=");
    if (!len || !prefix) {
        *out = len ? topic : a->subject;
        return SEMEL_OK;
    }
    char *subject = arena_alloc(arena, prefix + len + 2);
    if (!subject)
        return no_memory(err);
    (void)snprintf(subject, prefix + len + 2, "%s.%s", a->subject, topic);
    *out = subject;
    return SEMEL_OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

static semel_status write_all(writing *w, int64_t payload_max)
{
    semel_status (*const steps[])(writing *) = {write_members, write_time, write_content_type,
                                                write_headers, write_for_server};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof steps / sizeof *steps; i++)
        status = steps[i](w);
    if (!status && (int64_t)(w->size + w->message->body.len) > payload_max)
        return semel_fail(w->err, SEMEL_ELIMIT,
                          "NATS: the message takes %zu bytes; the server's max_payload is %" PRId64,
                          w->size + w->message->body.len, payload_max);
    return status;
}

semel_status jet_envelope_write(natsMsg **out, mem_arena *arena, const jet_address *address,
                                const semel_message *message, const char *reply,
                                int64_t payload_max, semel_error *err)
{
    const char *subject = NULL;
    writing w = {.arena = arena, .address = address, .message = message, .err = err};
    w.size = FIRST_LINE + 2;
    arena_reset(arena);
    semel_status status = find_subject(&subject, arena, address, message->topic, err);
    if (status)
        return status;
    if (natsMsg_Create(&w.out, subject, reply, message->body.data, (int)message->body.len) !=
        NATS_OK)
        return no_memory(err);
    status = write_all(&w, payload_max);
    if (status)
        natsMsg_Destroy(w.out);
    else
        *out = w.out;
    return status;
}
