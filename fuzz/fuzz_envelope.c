/* Deliveries of RabbitMQ, from any publisher; envelope_input.h says how the input describes one. It
 * goes through rabbitmq-c's own encoding and back, into memory that ends where it ends.
 *
 *  - Every delivery is a message: within all limits but that of the body, which is passed on as it
 *    is, unless it is an event in structured mode.
 *  - Numbers in headers become texts that mean the same number.
 *  - A timestamp in seconds is believed: a header may add milliseconds to it, and no more.
 *  - The count of deliveries is at least 1, at least 2 for a redelivery, and never beyond reason.
 *  - What was read can be written, unless AMQP has no room for it; what rabbitmq-c makes of that
 *    fits into the frame that was calculated and not into one less, and read again it is the same
 *    message. The same in the CloudEvents envelope. Left out are headers that have the name of one
 *    of ours. Not so for what would mean something else the second time: an event's attributes
 *    within an event's attributes, and an event in an event. */
#include "base/text.h"
#include "envelope_input.h"
#include "transport/rabbitmq/envelope_fields.h"
#include "trip.h"

#include <math.h>
#include <strings.h>

enum { POOL_PAGE = 4096, WIRE_MAX = 4 << 20 };

/* --- what was read ---------------------------------------------------------------------------- */

/* An event has a time of its own, and headers that are none. */
static int speaks_of_events(const uint8_t *data, size_t size)
{
    static const char word[] = "cloudevents";
    for (; size >= sizeof word - 1; data++, size--)
        if (strncasecmp((const char *)data, word, sizeof word - 1) == 0)
            return 1;
    return 0;
}

static void check_message(const semel_message *message, const envelope_input *input)
{
    check_limits(message);
    HOLDS(message->delivery >= (input->redelivered ? 2 : 1));
    HOLDS(message->delivery <= RABBIT_DELIVERY_MAX && !message->delay_ms);
}

static void check_time(const semel_message *message, const amqp_basic_properties_t *properties)
{
    if (!(properties->_flags & AMQP_BASIC_TIMESTAMP_FLAG) ||
        properties->timestamp > RABBIT_SECONDS_MAX)
        return;
    HOLDS(rabbit_seconds(message->time_ms) == (int64_t)properties->timestamp);
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* 12345 with two decimals is 123.45. */
static int is_decimal(const char *text, amqp_decimal_t decimal)
{
    const char *point = strchr(text, '.');
    char digits[512] = "";
    size_t whole = point ? (size_t)(point - text) : strlen(text);
    (void)snprintf(digits, sizeof digits, "%.*s%s", (int)whole, text, point ? point + 1 : "");
    return whole && strlen(point ? point + 1 : "") == decimal.decimals &&
           strspn(digits, "0123456789") == strlen(digits) &&
           strtoull(digits, NULL, 10) == decimal.value;
}

static int means(const char *text, const amqp_field_value_t *value)
{
    switch (value->kind) {
    case AMQP_FIELD_KIND_F32:
        return isnan(value->value.f32) ? isnan(strtod(text, NULL))
                                       : (float)strtod(text, NULL) == value->value.f32;
    case AMQP_FIELD_KIND_F64:
        return isnan(value->value.f64) ? isnan(strtod(text, NULL))
                                       : strtod(text, NULL) == value->value.f64;
    case AMQP_FIELD_KIND_DECIMAL:
        return is_decimal(text, value->value.decimal);
    case AMQP_FIELD_KIND_I64:
        return strtoll(text, NULL, 10) == value->value.i64;
    case AMQP_FIELD_KIND_U64:
        return strtoull(text, NULL, 10) == value->value.u64;
    case AMQP_FIELD_KIND_I8:
        return strtoll(text, NULL, 10) == value->value.i8;
    case AMQP_FIELD_KIND_U16:
        return strtoll(text, NULL, 10) == value->value.u16;
    default:
        return 1;
    }
}

/* If there are as many headers as came, none was a member, and they are in the same order. */
static void check_numbers(const semel_message *message, const amqp_table_t *table)
{
    if (message->header_count != (size_t)table->num_entries)
        return;
    for (size_t i = 0; i < message->header_count; i++)
        HOLDS_FOR(message->headers[i].value.data,
                  means(message->headers[i].value.data, &table->entries[i].value));
}

/* --- there and back --------------------------------------------------------------------------- */

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

static int is_whole_second(int64_t time_ms)
{
    return time_ms > 0 && time_ms % 1000 == 0 && time_ms / 1000 <= RABBIT_SECONDS_MAX;
}

/* A header with the name of one of ours comes back only if the member is there, and in its
 * property. */
static int is_sent(const semel_message *message, const char *name)
{
    for (size_t i = 0; i < RABBIT_FIELDS; i++)
        if (rabbit_fields[i].header && strcmp(rabbit_fields[i].header, name) == 0) {
            size_t len = value_of(message, &rabbit_fields[i]).len;
            return rabbit_fields[i].flag && len && len <= RABBIT_SHORT_MAX;
        }
    return strcmp(rabbit_time_header, name) != 0 || is_whole_second(message->time_ms);
}

/* In memory that ends where the encoded properties end. */
static amqp_bytes_t encode(const amqp_basic_properties_t *properties)
{
    static unsigned char room[WIRE_MAX];
    amqp_basic_properties_t sent = *properties;
    int len = amqp_encode_properties(AMQP_BASIC_CLASS, &sent, (amqp_bytes_t){sizeof room, room});
    HOLDS(len > 0);
    return (amqp_bytes_t){(size_t)len, exact_copy(room, (size_t)len)};
}

/* A frame has these bytes besides: its own 8, and class, weight and size of the body. */
static void check_frame_size(rabbit_writer *writer, const semel_message *message, size_t encoded)
{
    enum { FRAME_AND_CONTENT = 8 + 12 };
    rabbit_envelope envelope;
    size_t size = encoded + FRAME_AND_CONTENT;
    HOLDS(rabbit_envelope_write(&envelope, writer, message, size - 1, NULL) == SEMEL_ELIMIT);
    HOLDS(rabbit_envelope_write(&envelope, writer, message, size, NULL) == SEMEL_OK);
}

/* What arrived over the wire. */
typedef struct arrival {
    amqp_pool_t pool;
    amqp_bytes_t encoded;
    amqp_basic_properties_t *properties;
} arrival;

static void arrive(arrival *out, const amqp_basic_properties_t *properties)
{
    void *decoded = NULL;
    init_amqp_pool(&out->pool, POOL_PAGE);
    out->encoded = encode(properties);
    HOLDS(amqp_decode_properties(AMQP_BASIC_CLASS, &out->pool, out->encoded, &decoded) ==
          AMQP_STATUS_OK);
    out->properties = decoded;
}

static void discard(arrival *a)
{
    empty_amqp_pool(&a->pool);
    free(a->encoded.bytes);
}

static void check_arrival(const semel_message *message, const arrival *a)
{
    mem_arena arena = {0};
    semel_bytes topic = semel_str(message->topic);
    amqp_bytes_t routing_key = {topic.len, exact_copy(topic.data, topic.len)};
    rabbit_incoming parcel = {
        .properties = a->properties, .routing_key = routing_key, .body = message->body};
    const semel_message *back = rabbit_envelope_read(&arena, &parcel);
    HOLDS(back && back->delivery == 1);
    check_same(message, back, is_sent);
    free(routing_key.bytes);
    arena_free(&arena);
}

/* Some readers take the first of two, some the last. */
static void check_attributes(const amqp_table_t *table)
{
    for (int i = 0; i < table->num_entries; i++)
        for (int k = 0; k < i; k++) {
            amqp_bytes_t a = table->entries[i].key, b = table->entries[k].key;
            int same = a.len == b.len && memcmp(a.bytes, b.bytes, a.len) == 0;
            HOLDS(!same || !begins_with(a.bytes, "cloudEvents_"));
        }
}

static void check_trip(const semel_message *message, int cloudevents)
{
    rabbit_writer writer = {.persistent = 1, .cloudevents = cloudevents};
    rabbit_envelope envelope;
    semel_error err = {0};
    semel_status status = rabbit_envelope_write(&envelope, &writer, message, 0, &err);
    if (status) {
        check_error(status, &err);
        HOLDS(status == SEMEL_ELIMIT || (cloudevents && status == SEMEL_EINVAL));
    } else {
        arrival a;
        arrive(&a, &envelope.properties);
        check_attributes(&envelope.properties.headers);
        check_frame_size(&writer, message, a.encoded.len);
        check_arrival(message, &a);
        discard(&a);
    }
    arena_free(&writer.arena);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void check_delivery(const envelope_input *input, const arrival *a, int plain)
{
    mem_arena arena = {0};
    rabbit_incoming parcel = {.properties = a->properties,
                              .routing_key = input->routing_key,
                              .queue = amqp_cstring_bytes("stock"),
                              .redelivered = input->redelivered,
                              .counted = input->counted,
                              .body = input->body};
    const semel_message *message = rabbit_envelope_read(&arena, &parcel);
    HOLDS(message);
    check_message(message, input);
    if (plain) {
        check_time(message, a->properties);
        check_numbers(message, &a->properties->headers);
    }
    if (!is_event_in_body(message) && !has_header_of(message, "cloudevents")) {
        check_trip(message, 0);
        check_trip(message, 1);
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static envelope_input input;
    arrival a;
    envelope_input_read(&input, data, size);
    arrive(&a, &input.properties);
    check_delivery(&input, &a, !speaks_of_events(data, size));
    discard(&a);
    envelope_input_free(&input);
    return 0;
}
