/* Writing, as the CloudEvents binding for Kafka says it for the binary mode: attributes are headers
 * named ce_..., the content type is a header, the data is the value of the record. The group is the
 * key, so that Kafka keeps its messages in one partition, in order. A message's own headers come
 * behind ours, in their order; one that has the name of one of ours is left out.
 *
 * A message that lacks what a CloudEvent must have (id, source, type, all of it text) is written in
 * the same way but without ce_specversion, so that no reader takes it for an event. With
 * envelope=cloudevents it is refused instead, and the headers that may be extension attributes are
 * written as such, too.
 *
 * Nothing of a message is copied but what changes its form. Reading is in envelope_read.c. */
#include "transport/kafka/envelope.h"

#include "base/rfc3339.h"
#include "base/text.h"
#include "base/utf8.h"
#include "transport/common/event.h"
#include "transport/kafka/envelope_fields.h"

#include <inttypes.h>
#include <stdio.h>

#define MEMBER(member) #member, offsetof(semel_message, member)

const kafka_field kafka_fields[KAFKA_FIELDS] = {{MEMBER(id), "ce_id", 1, 1},
                                                {MEMBER(source), "ce_source", 0, 1},
                                                {MEMBER(type), "ce_type", 0, 1},
                                                {MEMBER(topic), "ce_subject", 0, 0},
                                                {MEMBER(correlation_id), "ce_correlationid", 1, 0},
                                                {MEMBER(content_type), "content-type", 0, 0}};

const char kafka_event_prefix[] = "ce_";
const char kafka_version_header[] = "ce_specversion";
const char kafka_time_header[] = "ce_time";
const char kafka_exact_time_header[] = "semel-time-ms";
const char kafka_no_topic_header[] = "semel-no-topic";

/* specversion, time and that of no topic; every field's. */
enum { OWN_HEADERS_MAX = KAFKA_FIELDS + 3, TIME_ROOM = 32 };

typedef struct writing {
    mem_arena *arena;
    const semel_message *message;
    semel_header *headers;
    size_t count;
} writing;

static semel_status no_memory(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message's headers");
}

static semel_bytes value_of(const semel_message *message, const kafka_field *field)
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

static void add(writing *w, const char *name, semel_bytes value)
{
    w->headers[w->count++] = (semel_header){name, value};
}

/* --- is it an event? -------------------------------------------------------------------------- */

static semel_status check_event_field(const semel_message *message, const kafka_field *field,
                                      semel_error *err)
{
    semel_bytes value = value_of(message, field);
    if (!value.len && field->event_wants_it)
        return semel_fail(err, SEMEL_EINVAL, "CloudEvent: message.%s is missing", field->member);
    if (!utf8_plain(value.data, value.len))
        return semel_fail(err, SEMEL_EINVAL,
                          "CloudEvent: message.%s is not UTF-8 text without control characters",
                          field->member);
    return SEMEL_OK;
}

static semel_status check_event(const semel_message *message, semel_error *err)
{
    char when[RFC3339_TEXT + 1];
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < KAFKA_FIELDS; i++)
        status = check_event_field(message, &kafka_fields[i], err);
    if (!status && message->time_ms && !rfc3339_format(when, message->time_ms))
        return semel_fail(err, SEMEL_EINVAL,
                          "CloudEvent: message.time_ms is outside years 0 to 9999");
    return status;
}

/* --- members ---------------------------------------------------------------------------------- */

static semel_status write_time(writing *w, semel_error *err)
{
    int64_t ms = w->message->time_ms;
    if (!ms)
        return SEMEL_OK;
    char *when = arena_alloc(w->arena, TIME_ROOM);
    if (!when)
        return no_memory(err);
    if (rfc3339_format(when, ms)) {
        add(w, kafka_time_header, (semel_bytes){when, RFC3339_TEXT});
        return SEMEL_OK;
    }
    (void)snprintf(when, TIME_ROOM, "%" PRId64, ms);
    add(w, kafka_exact_time_header, semel_str(when));
    return SEMEL_OK;
}

static semel_status write_members(writing *w, int is_event, semel_error *err)
{
    if (is_event)
        add(w, kafka_version_header, semel_str("1.0"));
    for (size_t i = 0; i < KAFKA_FIELDS; i++) {
        semel_bytes value = value_of(w->message, &kafka_fields[i]);
        if (value.len)
            add(w, kafka_fields[i].header, value);
    }
    if (!w->message->topic || !*w->message->topic)
        add(w, kafka_no_topic_header, semel_str(""));
    return write_time(w, err);
}

/* --- headers ---------------------------------------------------------------------------------- */

int kafka_header_is_ours(const char *name)
{
    static const char *const others[] = {kafka_version_header, kafka_time_header,
                                         kafka_exact_time_header, kafka_no_topic_header,
                                         "ce_partitionkey"};
    for (size_t i = 0; i < KAFKA_FIELDS; i++)
        if (text_same(name, kafka_fields[i].header))
            return 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (text_same(name, others[i]))
            return 1;
    return 0;
}

/* "ce_" and the name in lower case. */
static semel_status add_extension(writing *w, const semel_header *header, semel_error *err)
{
    size_t start = strlen(kafka_event_prefix), len = strlen(header->name);
    char *name = arena_alloc(w->arena, start + len + 1);
    if (!name)
        return no_memory(err);
    memcpy(name, kafka_event_prefix, start);
    for (size_t i = 0; i <= len; i++)
        name[start + i] = text_lower(header->name[i]);
    add(w, name, header->value);
    return SEMEL_OK;
}

static semel_status write_headers(writing *w, int extensions, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < w->message->header_count; i++) {
        const semel_header *header = &w->message->headers[i];
        if (kafka_header_is_ours(header->name))
            continue;
        add(w, header->name, header->value);
        if (extensions && event_header_is_extension(w->message, i))
            status = add_extension(w, header, err);
    }
    return status;
}

/* --- all of it -------------------------------------------------------------------------------- */

semel_status kafka_envelope_write(kafka_record *out, mem_arena *arena, const semel_message *message,
                                  int cloudevents, semel_error *err)
{
    writing w = {.arena = arena, .message = message};
    semel_status status = check_event(message, cloudevents ? err : NULL);
    int is_event = status == SEMEL_OK;
    if (status && cloudevents)
        return status;
    w.headers =
        arena_alloc(arena, (OWN_HEADERS_MAX + 2 * message->header_count) * sizeof *w.headers);
    if (!w.headers)
        return no_memory(err);
    status = write_members(&w, is_event, err);
    if (!status)
        status = write_headers(&w, cloudevents, err);
    *out = (kafka_record){.key = semel_str(message->group),
                          .body = message->body,
                          .headers = w.headers,
                          .header_count = w.count,
                          .timestamp_ms = message->time_ms > 0 ? message->time_ms : 0};
    if (!out->key.len)
        out->key.data = NULL;
    if (!out->body.data) /* one that was too large to be kept still says how long it was */
        out->body = (semel_bytes){"", 0};
    return status;
}
