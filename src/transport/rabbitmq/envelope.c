/* Writing: a member goes into the AMQP property that means the same, so that foreign consumers find
 * it. A property is a short string of at most 255 bytes; what is longer goes into a header instead
 * (semel-id and so on), and so does what AMQP has no property for. A message's own headers are long
 * strings, which may hold any bytes. They come behind ours in their order; one that has the name of
 * one of ours is left out.
 *
 * AMQP's time is in whole seconds. Where that is not all of it, or where a reader could take the
 * seconds for milliseconds, a header has the milliseconds.
 *
 * With `cloudevents` the message is a CloudEvent in binary mode, too: attributes as headers named
 * cloudEvents_..., under the same rules as core/cloudevent.c has them for the structured mode. A
 * message that is no event, for want of a type, say, is refused: a consumer of events must not get
 * anything else.
 *
 * Nothing of a message is copied but what changes its form. Reading is in envelope_read.c. */
#include "transport/rabbitmq/envelope.h"

#include "base/rfc3339.h"
#include "base/text.h"
#include "base/utf8.h"
#include "transport/common/event.h"
#include "transport/rabbitmq/envelope_fields.h"

#define MEMBER(member)     #member, offsetof(semel_message, member)
#define PROPERTY(property) offsetof(amqp_basic_properties_t, property)

const rabbit_field rabbit_fields[RABBIT_FIELDS] = {
    {MEMBER(id), 1, AMQP_BASIC_MESSAGE_ID_FLAG, PROPERTY(message_id), "semel-id", "id", 0, 1},
    {MEMBER(source), 0, AMQP_BASIC_APP_ID_FLAG, PROPERTY(app_id), "semel-source", "source", 0, 1},
    {MEMBER(type), 0, AMQP_BASIC_TYPE_FLAG, PROPERTY(type), "semel-type", "type", 0, 1},
    {MEMBER(topic), 0, 0, 0, NULL, "subject", 0, 0},
    {MEMBER(group), 0, 0, 0, "semel-group", "partitionkey", 0, 0},
    {MEMBER(correlation_id), 1, AMQP_BASIC_CORRELATION_ID_FLAG, PROPERTY(correlation_id),
     "semel-correlation-id", "correlationid", 0, 0},
    {MEMBER(content_type), 0, AMQP_BASIC_CONTENT_TYPE_FLAG, PROPERTY(content_type),
     "semel-content-type", "datacontenttype", 1, 0}};

const char rabbit_time_header[] = "semel-time-ms";

#define EVENT_PREFIX "cloudEvents_"

/* Headers of ours: every field's, the time's; as events specversion, time, and every field's. */
enum { OWN_HEADERS_MAX = 2 * RABBIT_FIELDS + 3 };

/* A frame's type, channel, length and end; a content header's class, weight, body size and
 * flags. */
enum { FRAME_OVERHEAD = 8, CONTENT_OVERHEAD = 14 };

typedef struct writing {
    rabbit_envelope *out;
    mem_arena *arena;
    const semel_message *message;
    amqp_table_entry_t *entries;
    size_t count;
    size_t size; /* of the frame */
} writing;

/* --- pieces ----------------------------------------------------------------------------------- */

static amqp_bytes_t as_amqp(semel_bytes bytes)
{
    union {
        const void *from;
        void *to; /* AMQP's structs have no const; nothing is written there */
    } data = {bytes.data};
    return (amqp_bytes_t){bytes.len, data.to};
}

static semel_bytes value_of(const semel_message *message, const rabbit_field *field)
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

static void add_entry(writing *w, const char *name, amqp_field_value_t value, size_t value_size)
{
    w->entries[w->count++] = (amqp_table_entry_t){as_amqp(semel_str(name)), value};
    w->size += 1 + strlen(name) + 1 + value_size;
}

static void add_bytes(writing *w, const char *name, semel_bytes bytes)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_UTF8};
    value.value.bytes = as_amqp(bytes);
    add_entry(w, name, value, 4 + bytes.len);
}

static void add_integer(writing *w, const char *name, int64_t number)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_I64};
    value.value.i64 = number;
    add_entry(w, name, value, 8);
}

/* It would be read as a member that this message does not have. */
static int is_misleading(const semel_message *message, const char *name)
{
    for (size_t i = 0; i < RABBIT_FIELDS; i++)
        if (rabbit_fields[i].header && strcmp(rabbit_fields[i].header, name) == 0)
            return value_of(message, &rabbit_fields[i]).len == 0;
    return strcmp(rabbit_time_header, name) == 0 && !message->time_ms;
}

static int is_ours(const writing *w, size_t own_count, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < own_count; i++)
        if (w->entries[i].key.len == len && memcmp(w->entries[i].key.bytes, name, len) == 0)
            return 1;
    return 0;
}

static semel_status no_memory(semel_error *err)
{
    return semel_fail(err, SEMEL_ENOMEM, "out of memory for a message's AMQP headers");
}

/* --- members ---------------------------------------------------------------------------------- */

static void write_field(writing *w, const rabbit_field *field)
{
    semel_bytes value = value_of(w->message, field);
    if (!value.len)
        return;
    if (!field->flag || value.len > RABBIT_SHORT_MAX) {
        if (field->header)
            add_bytes(w, field->header, value);
        return;
    }
    amqp_bytes_t property = as_amqp(value);
    memcpy((char *)&w->out->properties + field->property, &property, sizeof property);
    w->out->properties._flags |= field->flag;
    w->size += 1 + value.len;
}

static void write_time(writing *w)
{
    int64_t ms = w->message->time_ms, seconds = rabbit_seconds(ms);
    int fits = seconds >= 0 && seconds <= RABBIT_SECONDS_MAX;
    if (!ms)
        return;
    if (fits) {
        w->out->properties.timestamp = (uint64_t)seconds;
        w->out->properties._flags |= AMQP_BASIC_TIMESTAMP_FLAG;
        w->size += 8;
    }
    if (!fits || ms % 1000)
        add_integer(w, rabbit_time_header, ms);
}

static semel_status write_routing_key(writing *w, semel_error *err)
{
    semel_bytes topic = semel_str(w->message->topic);
    if (topic.len > RABBIT_SHORT_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "AMQP: message.topic has %zu bytes; a routing key has at most %d",
                          topic.len, RABBIT_SHORT_MAX);
    w->out->routing_key = topic.len ? as_amqp(topic) : amqp_empty_bytes;
    return SEMEL_OK;
}

static void write_delivery_mode(writing *w, int persistent)
{
    w->out->properties.delivery_mode =
        persistent ? AMQP_DELIVERY_PERSISTENT : AMQP_DELIVERY_NONPERSISTENT;
    w->out->properties._flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
    w->size += 1;
}

/* --- CloudEvents ------------------------------------------------------------------------------ */

/* "cloudEvents_" and the name in lower case, in the arena; NULL when out of memory. */
static const char *event_key(mem_arena *arena, const char *name)
{
    const size_t prefix = sizeof EVENT_PREFIX - 1, len = strlen(name);
    char *key = arena_alloc(arena, prefix + len + 1);
    if (!key)
        return NULL;
    memcpy(key, EVENT_PREFIX, prefix);
    for (size_t i = 0; i <= len; i++)
        key[prefix + i] = text_lower(name[i]);
    return key;
}

static semel_status add_attribute(writing *w, const char *name, semel_bytes value, semel_error *err)
{
    const char *key = event_key(w->arena, name);
    if (!key)
        return no_memory(err);
    add_bytes(w, key, value);
    return SEMEL_OK;
}

static semel_status write_event_field(writing *w, const rabbit_field *field, semel_error *err)
{
    semel_bytes value = value_of(w->message, field);
    if (!value.len && field->event_wants_it)
        return semel_fail(err, SEMEL_EINVAL, "CloudEvent: message.%s is missing", field->member);
    if (!utf8_plain(value.data, value.len))
        return semel_fail(err, SEMEL_EINVAL,
                          "CloudEvent: message.%s is not UTF-8 text without control characters",
                          field->member);
    return value.len && !field->event_has_it ? add_attribute(w, field->event, value, err)
                                             : SEMEL_OK;
}

static semel_status write_event_time(writing *w, semel_error *err)
{
    if (!w->message->time_ms)
        return SEMEL_OK;
    char *when = arena_alloc(w->arena, RFC3339_TEXT + 1);
    if (!when)
        return no_memory(err);
    if (!rfc3339_format(when, w->message->time_ms))
        return semel_fail(err, SEMEL_EINVAL,
                          "CloudEvent: message.time_ms is outside years 0 to 9999");
    return add_attribute(w, "time", (semel_bytes){when, RFC3339_TEXT}, err);
}

/* Its name must not be too long behind the prefix. */
static int is_extension(const semel_message *message, size_t index)
{
    return event_header_is_extension(message, index) &&
           strlen(message->headers[index].name) <= RABBIT_SHORT_MAX - (sizeof EVENT_PREFIX - 1);
}

static semel_status write_extensions(writing *w, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < w->message->header_count; i++) {
        const semel_header *header = &w->message->headers[i];
        if (is_extension(w->message, i))
            status = add_attribute(w, header->name, header->value, err);
    }
    return status;
}

static semel_status write_event(writing *w, semel_error *err)
{
    semel_status status = add_attribute(w, "specversion", semel_str("1.0"), err);
    for (size_t i = 0; !status && i < RABBIT_FIELDS; i++)
        status = write_event_field(w, &rabbit_fields[i], err);
    if (!status)
        status = write_event_time(w, err);
    return status ? status : write_extensions(w, err);
}

/* --- headers and all of it -------------------------------------------------------------------- */

/* CC and BCC are the broker's: it adds the routing keys in them, and where they are no arrays it
 * closes the channel, with all that is in flight on it. */
static semel_status check_name(const char *name, semel_error *err)
{
    if (strlen(name) > RABBIT_SHORT_MAX)
        return semel_fail(err, SEMEL_ELIMIT,
                          "AMQP: the header \"%.32s...\" has a name of over %d bytes", name,
                          RABBIT_SHORT_MAX);
    if (strcmp(name, "CC") == 0 || strcmp(name, "BCC") == 0)
        return semel_fail(err, SEMEL_ELIMIT,
                          "AMQP: a header cannot be named %s, which RabbitMQ keeps for itself",
                          name);
    return SEMEL_OK;
}

static semel_status write_headers(writing *w, semel_error *err)
{
    const size_t own_count = w->count;
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < w->message->header_count; i++) {
        const semel_header *header = &w->message->headers[i];
        status = check_name(header->name, err);
        if (!status && !is_ours(w, own_count, header->name) &&
            !is_misleading(w->message, header->name))
            add_bytes(w, header->name, header->value);
    }
    return status;
}

static semel_status close_headers(writing *w, size_t frame_max, semel_error *err)
{
    if (w->count) {
        w->out->properties.headers = (amqp_table_t){(int)w->count, w->entries};
        w->out->properties._flags |= AMQP_BASIC_HEADERS_FLAG;
        w->size += 4;
    }
    if (frame_max && w->size > frame_max)
        return semel_fail(err, SEMEL_ELIMIT,
                          "AMQP: the message's properties and headers take %zu bytes; a frame of "
                          "this connection has %zu",
                          w->size, frame_max);
    return SEMEL_OK;
}

static semel_status write_all(writing *w, const rabbit_writer *writer, size_t frame_max,
                              semel_error *err)
{
    semel_status status = write_routing_key(w, err);
    write_delivery_mode(w, writer->persistent);
    for (size_t i = 0; i < RABBIT_FIELDS; i++)
        write_field(w, &rabbit_fields[i]);
    write_time(w);
    if (!status && writer->cloudevents)
        status = write_event(w, err);
    if (!status)
        status = write_headers(w, err);
    return status ? status : close_headers(w, frame_max, err);
}

semel_status rabbit_envelope_write(rabbit_envelope *out, rabbit_writer *writer,
                                   const semel_message *message, size_t frame_max, semel_error *err)
{
    writing w = {.out = out, .arena = &writer->arena, .message = message};
    w.size = FRAME_OVERHEAD + CONTENT_OVERHEAD;
    *out = (rabbit_envelope){.routing_key = amqp_empty_bytes};
    arena_reset(&writer->arena);
    w.entries = arena_alloc(&writer->arena,
                            (OWN_HEADERS_MAX + 2 * message->header_count) * sizeof *w.entries);
    return w.entries ? write_all(&w, writer, frame_max, err) : no_memory(err);
}
