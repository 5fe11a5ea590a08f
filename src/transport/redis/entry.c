/* The fields of an entry, in this order:
 *
 *     id source type subject partitionkey correlationid datacontenttype   those that there are, by
 *     time                                    their names in CloudEvents; time as in RFC 3339
 *     NAME                                    every header, under its own name
 *     data                                    the body
 *
 * A header whose name is one of these, or begins with "header:", is written as header:NAME, so
 * that it is read as a header again. A time outside the years 0 to 9999 is in time_ms, as a number.
 *
 * Reading takes whatever another program may have written: a field that is not in the list, or
 * whose value does not fit there, is a header; of two fields with one name the first counts, and
 * the second is a header. A text or a header's name with a NUL byte in it is no C text, and left
 * out, as is a header without a name. */
#include "transport/redis/entry.h"

#include "base/rfc3339.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry_field {
    const char *name;
    size_t offset; /* in semel_message */
    int is_bytes;  /* the member is a semel_bytes, else a text */
} entry_field;

enum { FIELDS = 7, NUMBER_ROOM = 24 };
static const entry_field fields_of[FIELDS] = {
    {"id", offsetof(semel_message, id), 1},
    {"source", offsetof(semel_message, source), 0},
    {"type", offsetof(semel_message, type), 0},
    {"subject", offsetof(semel_message, topic), 0},
    {"partitionkey", offsetof(semel_message, group), 0},
    {"correlationid", offsetof(semel_message, correlation_id), 1},
    {"datacontenttype", offsetof(semel_message, content_type), 0}};

static const char time_field[] = "time", exact_field[] = "time_ms", data_field[] = "data";
static const char version_field[] = "specversion", escape[] = "header:";
enum { ESCAPE_LEN = sizeof escape - 1 };

static semel_bytes member_of(const semel_message *message, const entry_field *field)
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

static int is_ours(const char *name)
{
    static const char *const others[] = {time_field, exact_field, data_field, version_field};
    for (size_t i = 0; i < FIELDS; i++)
        if (strcmp(name, fields_of[i].name) == 0)
            return 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0)
            return 1;
    return strncmp(name, escape, ESCAPE_LEN) == 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

static size_t count_words(const semel_message *message)
{
    size_t pairs = 1 + message->header_count + (message->time_ms != 0);
    for (size_t i = 0; i < FIELDS; i++)
        pairs += member_of(message, &fields_of[i]).len > 0;
    return 2 * pairs;
}

static void write_time(redis_request *r, int64_t time_ms)
{
    char when[RFC3339_TEXT + 1];
    if (!time_ms)
        return;
    if (rfc3339_format(when, time_ms)) {
        redis_word_z(r, time_field);
        redis_word(r, when, RFC3339_TEXT);
    } else {
        redis_word_z(r, exact_field);
        redis_word_number(r, time_ms);
    }
}

static void write_header(redis_request *r, const semel_header *header)
{
    size_t len = strlen(header->name);
    int escaped = is_ours(header->name);
    redis_word_len(r, len + (escaped ? ESCAPE_LEN : 0));
    if (escaped)
        redis_word_part(r, escape, ESCAPE_LEN);
    redis_word_part(r, header->name, len);
    redis_word_end(r);
    redis_word(r, header->value.data, header->value.len);
}

void stream_entry_write(redis_request *r, const semel_message *message)
{
    redis_word_number(r, (int64_t)count_words(message));
    for (size_t i = 0; i < FIELDS; i++) {
        semel_bytes value = member_of(message, &fields_of[i]);
        if (value.len) {
            redis_word_z(r, fields_of[i].name);
            redis_word(r, value.data, value.len);
        }
    }
    write_time(r, message->time_ms);
    for (size_t i = 0; i < message->header_count; i++)
        write_header(r, &message->headers[i]);
    redis_word_z(r, data_field);
    redis_word(r, message->body.data, message->body.len);
}

size_t stream_entry_size(const semel_message *message)
{
    enum { FIXED = 512 };
    size_t size = FIXED + message->body.len;
    for (size_t i = 0; i < message->header_count; i++)
        size += strlen(message->headers[i].name) + message->headers[i].value.len;
    return size;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A C text, as hiredis ends it. */
static const char *text_of(const redisReply *reply)
{
    return memchr(reply->str, 0, reply->len) ? NULL : reply->str;
}

static int is_named(const redisReply *name, const char *text)
{
    return name->len == strlen(text) && memcmp(name->str, text, name->len) == 0;
}

/* 1 if the member took it. */
static int set_member(semel_message *out, const entry_field *field, const redisReply *value)
{
    char *member = (char *)out + field->offset;
    if (member_of(out, field).len || !value->len || value->len > SEMEL_TEXT_MAX)
        return 0;
    if (field->is_bytes) {
        semel_bytes bytes = {value->str, value->len};
        memcpy(member, &bytes, sizeof bytes);
        return 1;
    }
    const char *text = text_of(value);
    if (text)
        memcpy(member, &text, sizeof text);
    return text != NULL;
}

/* As write_time() writes it. */
static int read_number(int64_t *out, const redisReply *value)
{
    char *end = NULL;
    if (!value->len || value->len > NUMBER_ROOM || !strchr("-0123456789", value->str[0]))
        return 0;
    *out = strtoll(value->str, &end, 10);
    return end == value->str + value->len;
}

static int read_time(semel_message *out, const redisReply *name, const redisReply *value)
{
    int64_t ms = 0;
    if (out->time_ms)
        return 0;
    int known = is_named(name, time_field)    ? rfc3339_parse(&ms, value->str, value->len)
                : is_named(name, exact_field) ? read_number(&ms, value)
                                              : 0;
    if (known)
        out->time_ms = ms;
    return known;
}

static int read_member(semel_message *out, const redisReply *name, const redisReply *value)
{
    for (size_t i = 0; i < FIELDS; i++)
        if (is_named(name, fields_of[i].name))
            return set_member(out, &fields_of[i], value);
    if (is_named(name, data_field) && !out->body.data) {
        out->body = (semel_bytes){value->str, value->len};
        return 1;
    }
    if (is_named(name, version_field))
        return is_named(value, "1.0");
    return read_time(out, name, value);
}

static void add_header(semel_message *out, semel_header headers[], const redisReply *name,
                       const redisReply *value)
{
    const char *text = text_of(name);
    if (text && strncmp(text, escape, ESCAPE_LEN) == 0)
        text += ESCAPE_LEN;
    if (text && *text && out->header_count < SEMEL_HEADERS_MAX &&
        strlen(text) + value->len <= SEMEL_HEADER_MAX)
        headers[out->header_count++] = (semel_header){text, {value->str, value->len}};
}

size_t stream_entry_headers(const redisReply *fields)
{
    return fields->type == REDIS_REPLY_ARRAY ? fields->elements / 2 : 0;
}

void stream_entry_read(semel_message *out, semel_header headers[], const redisReply *fields)
{
    *out = (semel_message){.size = sizeof *out};
    for (size_t i = 0; i < stream_entry_headers(fields); i++) {
        const redisReply *name = fields->element[2 * i], *value = fields->element[2 * i + 1];
        if (name->type == REDIS_REPLY_STRING && value->type == REDIS_REPLY_STRING &&
            !read_member(out, name, value))
            add_header(out, headers, name, value);
    }
    out->headers = out->header_count ? headers : NULL;
}
