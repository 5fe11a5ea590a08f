/* Reading, of messages of our own and of those of other producers:
 *
 *  - A member comes from its header. The names of headers are compared without regard to case; of
 *    two with one name the first counts.
 *  - The group is the key. A key that is no text (a number, Avro) is written in hexadecimal digits,
 *    so that its messages still are one group.
 *  - A record without ce_id gets an id made of where it lies and of its timestamp: a redelivery has
 *    the same, and a record at the same place of a topic that was made anew does not.
 *  - A record without ce_subject has Kafka's topic as its topic. One without ce_id has Kafka's
 *    timestamp as its time; an event says its time itself.
 *  - Of a CloudEvent in binary mode (ce_specversion), other attributes become headers without the
 *    ce_, unless there is such a header already. One in structured mode (by its content type) wins
 *    over everything else.
 *
 * Everything is copied: the memory of librdkafka is given back at once, whatever a handler does. */
#include "transport/kafka/envelope.h"

#include "base/rfc3339.h"
#include "base/text.h"
#include "transport/common/structured.h"
#include "transport/kafka/envelope_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ID_ROOM = 320, HEX_MAX = 500 };

#define TIME_MS_MAX INT64_C(253402300799999) /* the end of the year 9999 */

typedef struct reading {
    mem_arena *arena;
    const kafka_incoming *incoming;
    semel_message *message;
    semel_header *headers;
    int is_event;
    int has_no_topic;
    int failed; /* out of memory */
} reading;

/* --- members ---------------------------------------------------------------------------------- */

static const void *keep_copy(reading *r, const void *data, size_t len)
{
    const void *copy = arena_copy(r->arena, data, len);
    r->failed |= !copy;
    return copy;
}

/* A C text; NULL if it is empty, too long or none. */
static const char *keep_text(reading *r, semel_bytes text)
{
    if (!text.len || text.len > SEMEL_TEXT_MAX || memchr(text.data, 0, text.len))
        return NULL;
    return keep_copy(r, text.data, text.len);
}

static semel_bytes keep_bytes(reading *r, semel_bytes bytes)
{
    const void *copy = keep_copy(r, bytes.data, bytes.len);
    return (semel_bytes){copy, copy ? bytes.len : 0};
}

static void set_bytes(reading *r, char *member, semel_bytes value)
{
    semel_bytes has;
    memcpy(&has, member, sizeof has);
    if (has.len || !value.len || value.len > SEMEL_TEXT_MAX)
        return;
    has = keep_bytes(r, value);
    memcpy(member, &has, sizeof has);
}

static void set_text(reading *r, char *member, semel_bytes value)
{
    const char *has;
    memcpy(&has, member, sizeof has);
    if (has)
        return;
    has = keep_text(r, value);
    memcpy(member, &has, sizeof has);
}

/* 1 if the header is that of a member, whether or not the member could take it. */
static int read_member(reading *r, const semel_header *header)
{
    for (size_t i = 0; i < KAFKA_FIELDS; i++) {
        const kafka_field *field = &kafka_fields[i];
        char *member = (char *)r->message + field->offset;
        if (!text_same(header->name, field->header))
            continue;
        if (field->is_bytes)
            set_bytes(r, member, header->value);
        else
            set_text(r, member, header->value);
        return 1;
    }
    return 0;
}

static int64_t number_of(semel_bytes text)
{
    char digits[32] = {0};
    if (!text.len || text.len >= sizeof digits)
        return 0;
    memcpy(digits, text.data, text.len);
    return strtoll(digits, NULL, 10);
}

/* 1 if the header is one of ours that is no member. */
static int read_other(reading *r, const semel_header *header)
{
    int64_t ms = 0;
    if (text_same(header->name, kafka_time_header)) {
        if (!r->message->time_ms && rfc3339_parse(&ms, header->value.data, header->value.len))
            r->message->time_ms = ms;
        return 1;
    }
    if (text_same(header->name, kafka_exact_time_header)) {
        if (!r->message->time_ms)
            r->message->time_ms = number_of(header->value);
        return 1;
    }
    if (text_same(header->name, kafka_no_topic_header))
        return r->has_no_topic = 1;
    if (text_same(header->name, "ce_partitionkey")) {
        set_text(r, (char *)&r->message->group, header->value);
        return 1;
    }
    return text_same(header->name, kafka_version_header);
}

/* --- the key ---------------------------------------------------------------------------------- */

static const char *hex_text(reading *r, semel_bytes bytes)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes.data;
    char *text = bytes.len <= HEX_MAX ? arena_alloc(r->arena, 2 * bytes.len + 3) : NULL;
    if (bytes.len > HEX_MAX)
        return NULL;
    r->failed |= !text;
    if (!text)
        return NULL;
    memcpy(text, "0x", 2);
    for (size_t i = 0; i < bytes.len; i++) {
        text[2 + 2 * i] = digits[from[i] >> 4];
        text[3 + 2 * i] = digits[from[i] & 15];
    }
    text[2 + 2 * bytes.len] = 0;
    return text;
}

static void read_key(reading *r)
{
    semel_bytes key = r->incoming->record.key;
    if (key.len)
        r->message->group = memchr(key.data, 0, key.len) ? hex_text(r, key) : keep_text(r, key);
}

/* --- headers ---------------------------------------------------------------------------------- */

/* What is over a limit of message.h is left out: better a message without it than none. */
static void add_header(reading *r, const char *name, semel_bytes value)
{
    size_t len = strlen(name);
    if (!len || r->message->header_count >= SEMEL_HEADERS_MAX || len + value.len > SEMEL_HEADER_MAX)
        return;
    const char *copy = keep_copy(r, name, len);
    r->headers[r->message->header_count++] = (semel_header){copy, keep_bytes(r, value)};
}

/* The name of an attribute of an event; NULL if the header is none. */
static const char *attribute_of(const reading *r, const char *name)
{
    size_t start = strlen(kafka_event_prefix);
    if (!r->is_event || strlen(name) <= start)
        return NULL;
    for (size_t i = 0; i < start; i++)
        if (text_lower(name[i]) != kafka_event_prefix[i])
            return NULL;
    return name + start;
}

static void read_headers(reading *r)
{
    const kafka_record *record = &r->incoming->record;
    for (size_t i = 0; i < record->header_count && !r->failed; i++) {
        const semel_header *header = &record->headers[i];
        if (!read_member(r, header) && !read_other(r, header) && !attribute_of(r, header->name))
            add_header(r, header->name, header->value);
    }
}

static void add_attribute(reading *r, const char *name, semel_bytes value)
{
    size_t before = r->message->header_count;
    if (semel_message_header(r->message, name).data)
        return;
    add_header(r, name, value);
    if (r->message->header_count == before || r->failed)
        return;
    size_t len = strlen(name);
    char *lower = arena_alloc(r->arena, len + 1);
    r->failed |= !lower;
    for (size_t i = 0; lower && i <= len; i++)
        lower[i] = text_lower(name[i]);
    r->headers[before].name = lower;
}

/* Behind the headers, so that those are known. */
static void read_attributes(reading *r)
{
    const kafka_record *record = &r->incoming->record;
    for (size_t i = 0; i < record->header_count && !r->failed; i++) {
        const semel_header *header = &record->headers[i];
        const char *name = attribute_of(r, header->name);
        if (name && !kafka_header_is_ours(header->name))
            add_attribute(r, name, header->value);
    }
}

/* --- what other producers leave out ----------------------------------------------------------- */

static void make_id(reading *r)
{
    char *id = arena_alloc(r->arena, ID_ROOM);
    r->failed |= !id;
    if (!id)
        return;
    (void)snprintf(id, ID_ROOM, "%s/%" PRId32 "/%" PRId64 "/%" PRId64, r->incoming->topic,
                   r->incoming->partition, r->incoming->offset, r->incoming->record.timestamp_ms);
    r->message->id = semel_str(id);
}

static void complete(reading *r)
{
    int64_t timestamp = r->incoming->record.timestamp_ms;
    if (!r->message->id.len) {
        make_id(r);
        if (!r->message->time_ms && timestamp > 0 && timestamp <= TIME_MS_MAX)
            r->message->time_ms = timestamp;
    }
    if (!r->message->topic && !r->has_no_topic)
        r->message->topic = keep_text(r, semel_str(r->incoming->topic));
    if (!r->message->header_count)
        r->message->headers = NULL;
}

static int is_event(const kafka_record *record)
{
    for (size_t i = 0; i < record->header_count; i++)
        if (text_same(record->headers[i].name, kafka_version_header))
            return 1;
    return 0;
}

semel_message *kafka_envelope_read(mem_arena *arena, const kafka_incoming *incoming)
{
    const kafka_record *record = &incoming->record;
    reading r = {.arena = arena, .incoming = incoming, .is_event = is_event(record)};
    r.message = arena_alloc(arena, sizeof *r.message);
    r.headers = arena_alloc(arena, (record->header_count + 1) * sizeof *r.headers);
    if (!r.message || !r.headers)
        return NULL;
    *r.message = (semel_message){.size = sizeof *r.message, .headers = r.headers};
    if (record->body.len) /* one that is too large, too: a dead letter has all of it */
        r.message->body = keep_bytes(&r, record->body);
    read_key(&r);
    read_headers(&r);
    if (r.is_event)
        read_attributes(&r);
    complete(&r);
    if (r.failed)
        return NULL;
    return structured_read(arena, r.message);
}
