/* A message comes from the caller, which may have been built against another header: its `size`
 * says which members it has. Those of version 0.1, up to `delay_ms`, are there always, so they may
 * be read in place once message_check() has passed; a member that is added later must be read with
 * regard to `size`. The struct has no padding at its end, where a later member would meet the
 * garbage of an old caller.
 *
 * A copy is one block: the message, its headers, then all texts and bytes one behind the other,
 * each with a NUL behind it. */
#include "base/message.h"

#include "base/text.h"

#include <stdalign.h>

#define MESSAGE_SIZE_MIN (offsetof(semel_message, delay_ms) + sizeof(uint32_t))

_Static_assert(sizeof(semel_message) == offsetof(semel_message, delay_ms) + sizeof(uint32_t),
               "no padding at the end: see above");
_Static_assert(sizeof(semel_message) % alignof(semel_header) == 0,
               "headers stand right behind the message in a copy");

/* --- checking --------------------------------------------------------------------------------- */

static semel_status check_size(const semel_message *message, semel_error *err)
{
    if (!message)
        return semel_fail(err, SEMEL_EINVAL, "message is NULL");
    if (message->size < MESSAGE_SIZE_MIN)
        return semel_fail(err, SEMEL_EINVAL,
                          "message.size is not set: write {.size = sizeof message}");
    if (message->size > sizeof *message)
        return semel_fail(
            err, SEMEL_EINVAL,
            "message.size is %zu, this library knows %zu: the program was built for a "
            "newer semel, or size is not set",
            message->size, sizeof *message);
    return SEMEL_OK;
}

static semel_status check_text(const char *text, const char *member, semel_error *err)
{
    if (!text || strnlen(text, SEMEL_TEXT_MAX + 1) <= SEMEL_TEXT_MAX)
        return SEMEL_OK;
    return semel_fail(err, SEMEL_ELIMIT, "message.%s is longer than SEMEL_TEXT_MAX (%zu bytes)",
                      member, SEMEL_TEXT_MAX);
}

static semel_status check_bytes(semel_bytes bytes, const char *member, size_t max,
                                const char *max_name, semel_error *err)
{
    if (bytes.len > max)
        return semel_fail(err, SEMEL_ELIMIT, "message.%s has %zu bytes, over %s (%zu)", member,
                          bytes.len, max_name, max);
    if (!bytes.data && bytes.len)
        return semel_fail(err, SEMEL_EINVAL, "message.%s has a length of %zu and no data", member,
                          bytes.len);
    return SEMEL_OK;
}

static semel_status check_header(const semel_header *header, size_t index, semel_error *err)
{
    if (!header->name || !*header->name)
        return semel_fail(err, SEMEL_EINVAL, "message.headers[%zu] has no name", index);
    if (!header->value.data && header->value.len)
        return semel_fail(err, SEMEL_EINVAL,
                          "message.headers[%zu].value has a length of %zu and no data", index,
                          header->value.len);
    size_t name_len = strnlen(header->name, SEMEL_HEADER_MAX + 1);
    if (name_len > SEMEL_HEADER_MAX || header->value.len > SEMEL_HEADER_MAX - name_len)
        return semel_fail(
            err, SEMEL_ELIMIT,
            "message.headers[%zu]: name and value have over SEMEL_HEADER_MAX (%zu) bytes", index,
            SEMEL_HEADER_MAX);
    return SEMEL_OK;
}

static semel_status check_headers(const semel_message *message, semel_error *err)
{
    if (!message->headers && message->header_count)
        return semel_fail(err, SEMEL_EINVAL,
                          "message.header_count is %zu and message.headers is NULL",
                          message->header_count);
    if (message->header_count > SEMEL_HEADERS_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "message.header_count is %zu, over SEMEL_HEADERS_MAX (%zu)",
                          message->header_count, SEMEL_HEADERS_MAX);
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < message->header_count; i++)
        status = check_header(&message->headers[i], i, err);
    return status;
}

static semel_status check_texts(const semel_message *message, semel_error *err)
{
    const struct {
        const char *text;
        const char *member;
    } texts[] = {{message->source, "source"},
                 {message->type, "type"},
                 {message->topic, "topic"},
                 {message->group, "group"},
                 {message->content_type, "content_type"}};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < sizeof texts / sizeof *texts; i++)
        status = check_text(texts[i].text, texts[i].member, err);
    return status;
}

semel_status message_check(const semel_message *message, semel_error *err)
{
    semel_status status = check_size(message, err);
    if (!status)
        status = check_bytes(message->id, "id", SEMEL_TEXT_MAX, "SEMEL_TEXT_MAX", err);
    if (!status)
        status = check_bytes(message->correlation_id, "correlation_id", SEMEL_TEXT_MAX,
                             "SEMEL_TEXT_MAX", err);
    if (!status)
        status = check_bytes(message->body, "body", SEMEL_BODY_MAX, "SEMEL_BODY_MAX", err);
    if (!status)
        status = check_texts(message, err);
    return status ? status : check_headers(message, err);
}

/* --- copying ---------------------------------------------------------------------------------- */

static size_t room_for(semel_bytes bytes)
{
    return bytes.data ? bytes.len + 1 : 0;
}

static size_t block_size(const semel_message *message)
{
    size_t size = sizeof *message + message->header_count * sizeof *message->headers;
    for (size_t i = 0; i < message->header_count; i++)
        size += room_for(semel_str(message->headers[i].name)) + room_for(message->headers[i].value);
    size += room_for(message->id) + room_for(message->correlation_id) + room_for(message->body);
    size += room_for(semel_str(message->source)) + room_for(semel_str(message->type));
    size += room_for(semel_str(message->topic)) + room_for(semel_str(message->group));
    return size + room_for(semel_str(message->content_type));
}

static semel_bytes put_bytes(unsigned char **at, semel_bytes bytes)
{
    if (!bytes.data)
        return bytes;
    unsigned char *copy = *at;
    memcpy(copy, bytes.data, bytes.len);
    copy[bytes.len] = 0;
    *at += bytes.len + 1;
    return (semel_bytes){copy, bytes.len};
}

static const char *put_text(unsigned char **at, const char *text)
{
    return put_bytes(at, semel_str(text)).data;
}

static const semel_header *put_headers(semel_header *copies, unsigned char **at,
                                       const semel_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        copies[i].name = put_text(at, headers[i].name);
        copies[i].value = put_bytes(at, headers[i].value);
    }
    return count ? copies : NULL;
}

/* Fills a block of block_size(message) bytes. */
static semel_message *lay_out(void *block, const semel_message *message)
{
    semel_message *copy = block;
    semel_header *headers = (semel_header *)(copy + 1);
    unsigned char *at = (unsigned char *)(headers + message->header_count);
    *copy = *message;
    copy->id = put_bytes(&at, message->id);
    copy->source = put_text(&at, message->source);
    copy->type = put_text(&at, message->type);
    copy->topic = put_text(&at, message->topic);
    copy->group = put_text(&at, message->group);
    copy->correlation_id = put_bytes(&at, message->correlation_id);
    copy->content_type = put_text(&at, message->content_type);
    copy->headers = put_headers(headers, &at, message->headers, message->header_count);
    copy->body = put_bytes(&at, message->body);
    return copy;
}

semel_message *message_copy_into(mem_arena *arena, const semel_message *message)
{
    void *block = arena_alloc(arena, block_size(message));
    return block ? lay_out(block, message) : NULL;
}

semel_status semel_message_copy(semel_message **out, const semel_message *message, semel_error *err)
{
    semel_status status = message_check(message, err);
    if (status)
        return status;
    size_t size = block_size(message);
    void *block = mem_alloc(size);
    if (!block)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message of %zu bytes", size);
    *out = lay_out(block, message);
    return SEMEL_OK;
}

void semel_message_free(semel_message *message)
{
    mem_free(message);
}

/* --- headers ---------------------------------------------------------------------------------- */

semel_bytes semel_message_header(const semel_message *message, const char *name)
{
    const semel_bytes none = {NULL, 0};
    if (!message || !name || message->size < MESSAGE_SIZE_MIN || !message->headers)
        return none;
    for (size_t i = 0; i < message->header_count; i++)
        if (message->headers[i].name && text_same(message->headers[i].name, name))
            return message->headers[i].value;
    return none;
}

enum { LENGTH_SIZE = 4 };

size_t headers_size(const semel_message *message)
{
    size_t size = 0;
    for (size_t i = 0; i < message->header_count; i++)
        size += 2 * LENGTH_SIZE + strlen(message->headers[i].name) + message->headers[i].value.len;
    return size;
}

static unsigned char *write_part(unsigned char *out, const void *data, size_t len)
{
    for (int i = 0; i < LENGTH_SIZE; i++)
        out[i] = (unsigned char)(len >> (8 * i));
    if (len)
        memcpy(out + LENGTH_SIZE, data, len);
    return out + LENGTH_SIZE + len;
}

void headers_write(unsigned char *out, const semel_message *message)
{
    for (size_t i = 0; i < message->header_count; i++) {
        const semel_header *header = &message->headers[i];
        out = write_part(out, header->name, strlen(header->name));
        out = write_part(out, header->value.data, header->value.len);
    }
}

/* The part at *position, which moves behind it; 0 if the blob ends before the part does. */
static int next_part(semel_bytes *part, size_t *position, semel_bytes blob)
{
    const unsigned char *at = (const unsigned char *)blob.data + *position;
    size_t left = blob.len - *position;
    if (left < LENGTH_SIZE)
        return 0;
    size_t len = 0;
    for (int i = 0; i < LENGTH_SIZE; i++)
        len |= (size_t)at[i] << (8 * i);
    if (len > left - LENGTH_SIZE)
        return 0;
    *part = (semel_bytes){at + LENGTH_SIZE, len};
    *position += LENGTH_SIZE + len;
    return 1;
}

/* How many headers there are; on damage 0, with *position where it begins. */
static size_t count_headers(size_t *position, semel_bytes blob)
{
    size_t count = 0, at = 0;
    semel_bytes name, value;
    for (; at < blob.len; count++) {
        *position = at;
        if (!next_part(&name, &at, blob) || !name.len || memchr(name.data, 0, name.len) ||
            !next_part(&value, &at, blob))
            return 0;
    }
    return count;
}

/* The headers point into the blob's copy. Every part is followed by the length of the next one (the
 * last by the NUL that arena_copy() adds); once read, a length gives its first byte for the NUL of
 * the part before it. */
static void read_headers(semel_header *headers, unsigned char *copy, size_t len)
{
    semel_bytes blob = {copy, len}, name = {NULL, 0};
    for (size_t at = 0; at < len; headers++) {
        size_t name_at = at;
        (void)next_part(&name, &at, blob);
        copy[name_at] = 0;
        size_t value_at = at;
        (void)next_part(&headers->value, &at, blob);
        copy[value_at] = 0;
        headers->name = name.data;
    }
}

semel_status headers_read(const semel_header **out, size_t *count, mem_arena *arena,
                          semel_bytes blob, semel_error *err)
{
    size_t position = 0;
    size_t found = count_headers(&position, blob);
    if (blob.len && !found)
        return semel_fail(
            err, SEMEL_ESTORE,
            "stored headers (%zu bytes) are damaged from byte %zu on: restore the row, or "
            "discard it",
            blob.len, position);
    semel_header *headers = found ? arena_alloc(arena, found * sizeof *headers) : NULL;
    unsigned char *copy = found ? arena_copy(arena, blob.data, blob.len) : NULL;
    if (found && (!headers || !copy))
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for %zu headers", found);
    read_headers(headers, copy, blob.len);
    *out = found ? headers : NULL;
    *count = found;
    return SEMEL_OK;
}
