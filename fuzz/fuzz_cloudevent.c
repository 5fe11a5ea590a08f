/* CloudEvents in structured mode: the input is the JSON of one.
 *
 *  - It is refused with a reason, and nothing comes out; or it is a message within all limits that
 *    has what every event has, and no control characters in its attributes.
 *  - A body that claims to be JSON is JSON, unless it came as data_base64.
 *  - What was read can be written: as one line, which is JSON.
 *  - What was written can be read, and is the same message: but for headers that an event has no
 *    room for, and for the form of a JSON body, whose text is normalised once.
 *  - From then on nothing changes any more: written again it is the same text.
 *  - The message survives being stored: its headers as one blob come back.
 *  - The input itself may be such a blob, a base64 text or a time: where it is read, it can be
 *    written again, and of a blob and a base64 text there is one spelling only. */
#include "base/base64.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/message.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "base/utf8.h"
#include "core/cloudevent.h"
#include "property.h"

/* --- reading ---------------------------------------------------------------------------------- */

static void check_plain(semel_bytes text)
{
    HOLDS(utf8_plain(text.data, text.len));
}

static void check_message(const semel_message *message)
{
    HOLDS(message_check(message, NULL) == SEMEL_OK);
    HOLDS(message->size == sizeof *message && !message->delivery && !message->delay_ms);
    HOLDS(message->id.len && message->source && *message->source && message->type &&
          *message->type);
    check_plain(message->id);
    check_plain(message->correlation_id);
    check_plain(semel_str(message->source));
    check_plain(semel_str(message->type));
    check_plain(semel_str(message->topic));
    check_plain(semel_str(message->group));
    check_plain(semel_str(message->content_type));
    for (size_t i = 0; i < message->header_count; i++)
        HOLDS(!event_name_is_taken(message->headers[i].name));
}

/* NULL if it is refused. */
static semel_message *read_event(semel_bytes json)
{
    semel_message *message = NULL;
    semel_error err = {0};
    semel_status status = semel_message_read_cloudevent(&message, json, &err);
    if (status) {
        check_error(status, &err);
        HOLDS(!message);
        HOLDS(status == SEMEL_EINVAL || status == SEMEL_ELIMIT || status == SEMEL_EUNSUPPORTED);
        return NULL;
    }
    check_message(message);
    return message;
}

/* --- writing ---------------------------------------------------------------------------------- */

static char *write_event(const semel_message *message)
{
    json_facts facts;
    char *text = NULL;
    semel_error err = {0};
    semel_status status = semel_message_write_cloudevent(&text, message, &err);
    HOLDS_FOR(err.text, status == SEMEL_OK);
    HOLDS_FOR(text, !strpbrk(text, "\r\n"));
    HOLDS_FOR(text, json_text_check(&facts, semel_str(text), JSON_DEPTH_MAX));
    return text;
}

/* --- comparing -------------------------------------------------------------------------------- */

static int is_written(const semel_message *message, size_t index)
{
    const semel_header *header = &message->headers[index];
    for (const char *c = header->name; *c; c++)
        if (!(text_lower(*c) >= 'a' && text_lower(*c) <= 'z') && !(*c >= '0' && *c <= '9'))
            return 0;
    for (size_t i = 0; i < index; i++)
        if (text_same(message->headers[i].name, header->name))
            return 0;
    return utf8_plain(header->value.data, header->value.len);
}

static void check_headers(const semel_message *first, const semel_message *back)
{
    size_t at = 0;
    for (size_t i = 0; i < first->header_count; i++) {
        if (!is_written(first, i))
            continue;
        HOLDS(at < back->header_count);
        HOLDS(text_same(back->headers[at].name, first->headers[i].name));
        HOLDS(same_bytes(back->headers[at].value, first->headers[i].value));
        at++;
    }
    HOLDS(at == back->header_count);
}

/* Its text may have another form, and the same meaning. */
static int is_json_body(const semel_message *message)
{
    json_facts facts;
    return event_type_is_json(message->content_type) &&
           json_text_check(&facts, message->body, JSON_DEPTH_MAX);
}

static void check_same(const semel_message *first, const semel_message *back)
{
    HOLDS(same_bytes(first->id, back->id));
    HOLDS(same_bytes(first->correlation_id, back->correlation_id));
    HOLDS(same_text(first->source, back->source));
    HOLDS(same_text(first->type, back->type));
    HOLDS(same_text(first->topic, back->topic));
    HOLDS(same_text(first->group, back->group));
    HOLDS(same_text(first->content_type, back->content_type));
    HOLDS(first->time_ms == back->time_ms);
    HOLDS(is_json_body(first) == is_json_body(back));
    HOLDS(is_json_body(first) || same_bytes(first->body, back->body));
    check_headers(first, back);
}

static void check_trip(const semel_message *message)
{
    char *text = write_event(message);
    semel_message *back = read_event(semel_str(text));
    HOLDS_FOR(text, back);
    check_same(message, back);
    char *again = write_event(back);
    semel_message *settled = read_event(semel_str(again));
    HOLDS_FOR(again, settled && same_bytes(settled->body, back->body));
    HOLDS_FOR(again, is_json_body(message) || strcmp(text, again) == 0);
    char *last = write_event(settled);
    HOLDS_FOR(last, strcmp(again, last) == 0);
    semel_text_free(text);
    semel_text_free(again);
    semel_text_free(last);
    semel_message_free(back);
    semel_message_free(settled);
}

/* --- headers as they are stored --------------------------------------------------------------- */

static void check_stored_headers(const semel_message *message)
{
    mem_arena arena = {0};
    const semel_header *headers = NULL;
    size_t count = 0, size = headers_size(message);
    unsigned char *blob = malloc(size + 1);
    HOLDS(blob);
    headers_write(blob, message);
    semel_bytes stored = {blob, size};
    HOLDS(headers_read(&headers, &count, &arena, stored, NULL) == SEMEL_OK);
    HOLDS(count == message->header_count);
    for (size_t i = 0; i < count; i++) {
        HOLDS(strcmp(headers[i].name, message->headers[i].name) == 0);
        HOLDS(same_bytes(headers[i].value, message->headers[i].value));
    }
    arena_free(&arena);
    free(blob);
}

/* What is read from any blob at all can be written, and is that blob. */
static void check_blob(semel_bytes blob)
{
    mem_arena arena = {0};
    semel_message message = {.size = sizeof message};
    semel_error err = {0};
    semel_status status = headers_read(&message.headers, &message.header_count, &arena, blob, &err);
    if (status) {
        check_error(status, &err);
        HOLDS(status == SEMEL_ESTORE);
    } else {
        unsigned char *again = arena_alloc(&arena, blob.len + 1);
        HOLDS(again && headers_size(&message) == blob.len);
        headers_write(again, &message);
        HOLDS(same_bytes((semel_bytes){again, blob.len}, blob));
    }
    arena_free(&arena);
}

/* --- the formats in it ------------------------------------------------------------------------ */

static void check_base64(semel_bytes text)
{
    size_t len = 0, coded_len = base64_size(text.len);
    unsigned char *bytes = exact_copy(text.data, text.len);
    if (base64_decode(bytes, &len, text.data, text.len)) {
        char *again = malloc(text.len + 1);
        HOLDS(again && base64_size(len) == text.len);
        base64_encode(again, bytes, len);
        HOLDS(same_bytes((semel_bytes){again, text.len}, text));
        free(again);
    }
    char *coded = malloc(coded_len + 1);
    unsigned char *back = malloc(coded_len + 1);
    HOLDS(coded && back);
    base64_encode(coded, text.data, text.len);
    HOLDS(base64_decode(back, &len, coded, coded_len));
    HOLDS(same_bytes((semel_bytes){back, len}, text));
    free(back);
    free(coded);
    free(bytes);
}

static void check_time(semel_bytes text)
{
    char again[RFC3339_TEXT + 1];
    int64_t ms = 0, back = 0;
    if (!text.len || !rfc3339_parse(&ms, text.data, text.len))
        return;
    HOLDS(rfc3339_format(again, ms));
    HOLDS(rfc3339_parse(&back, again, RFC3339_TEXT) && back == ms);
}

/* The name may be written with escapes. */
static void check_body(const semel_message *message, semel_bytes input)
{
    static const char name[] = "data_base64";
    HOLDS(!message->body.len || !event_type_is_json(message->content_type) ||
          is_json_body(message) || memchr(input.data, '\\', input.len) ||
          memmem(input.data, input.len, name, sizeof name - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *copy = exact_copy(data, size);
    semel_bytes input = {copy, size};
    check_blob(input);
    check_base64(input);
    check_time(input);
    semel_message *message = read_event(input);
    if (message) {
        check_body(message, input);
        check_trip(message);
        check_stored_headers(message);
    }
    semel_message_free(message);
    free(copy);
    return 0;
}
