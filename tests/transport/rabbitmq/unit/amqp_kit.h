/* For tests of the AMQP envelope. Properties go through rabbitmq-c's own encoding and back, into memory that
 * ends where they end, so that a sanitizer sees a step too far. */
#ifndef SEMEL_TESTS_AMQP_KIT_H
#define SEMEL_TESTS_AMQP_KIT_H

#include "support/base/check.h"

#include "base/mem.h"
#include "transport/rabbitmq/envelope.h"

#include <stdlib.h>
#include <string.h>

enum { KIT_WIRE_MAX = 4 << 20, KIT_POOL_PAGE = 4096, KIT_NO_FRAME_MAX = 0 };

/* What came over the wire. */
typedef struct kit_wire {
    amqp_pool_t pool;
    void *bytes;
    size_t len; /* of the encoded properties, with their flags */
    amqp_basic_properties_t *properties;
} kit_wire;

static inline void kit_wire_pass(kit_wire *wire, const amqp_basic_properties_t *properties)
{
    amqp_basic_properties_t sent = *properties;
    amqp_bytes_t room = {KIT_WIRE_MAX, malloc(KIT_WIRE_MAX)};
    void *decoded = NULL;
    int len = amqp_encode_properties(AMQP_BASIC_CLASS, &sent, room);
    assert_true(len > 0);
    wire->len = (size_t)len;
    wire->bytes = malloc(wire->len);
    memcpy(wire->bytes, room.bytes, wire->len);
    free(room.bytes);
    init_amqp_pool(&wire->pool, KIT_POOL_PAGE);
    assert_int_equal(amqp_decode_properties(AMQP_BASIC_CLASS, &wire->pool,
                                            (amqp_bytes_t){wire->len, wire->bytes}, &decoded),
                     AMQP_STATUS_OK);
    wire->properties = decoded;
}

static inline void kit_wire_free(kit_wire *wire)
{
    empty_amqp_pool(&wire->pool);
    free(wire->bytes);
}

static inline amqp_bytes_t kit_bytes(const void *data, size_t len)
{
    union {
        const void *from;
        void *to;
    } pointer = {data};
    return (amqp_bytes_t){len, pointer.to};
}

static inline amqp_bytes_t kit_text(const char *text)
{
    return kit_bytes(text, strlen(text));
}

/* --- values of headers --------------------------------------------------------------------------------- */

static inline amqp_field_value_t kit_string(const char *text)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_UTF8};
    value.value.bytes = kit_text(text);
    return value;
}

static inline amqp_field_value_t kit_i64(int64_t number)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_I64};
    value.value.i64 = number;
    return value;
}

static inline amqp_field_value_t kit_array(amqp_field_value_t *values, int count)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_ARRAY};
    value.value.array = (amqp_array_t){count, values};
    return value;
}

static inline amqp_field_value_t kit_table(amqp_table_entry_t *entries, int count)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_TABLE};
    value.value.table = (amqp_table_t){count, entries};
    return value;
}

static inline amqp_table_entry_t kit_entry(const char *name, amqp_field_value_t value)
{
    return (amqp_table_entry_t){kit_text(name), value};
}

/* What every CloudEvent has, in JSON. */
#define KIT_EVENT "\"specversion\":\"1.0\",\"id\":\"e\",\"source\":\"/s\",\"type\":\"t\""

#define KIT_VALUE(name, member, number) \
    ((amqp_field_value_t){.kind = AMQP_FIELD_KIND_##name, .value.member = (number)})

/* --- what was sent ----------------------------------------------------------------------------------------- */

static inline const amqp_field_value_t *kit_find(const amqp_basic_properties_t *properties,
                                                 const char *name)
{
    const amqp_field_value_t *found = NULL;
    for (int i = 0; i < properties->headers.num_entries; i++) {
        const amqp_table_entry_t *entry = &properties->headers.entries[i];
        if (entry->key.len == strlen(name) && memcmp(entry->key.bytes, name, entry->key.len) == 0) {
            assert_null(found); /* AMQP knows no doubles */
            found = &entry->value;
        }
    }
    return found;
}

static inline void assert_amqp_bytes(amqp_bytes_t bytes, const char *text)
{
    BYTES_EQUAL(semel_str(text), ((semel_bytes){bytes.bytes, bytes.len}));
}

static inline void assert_amqp_header(const amqp_basic_properties_t *properties, const char *name,
                                      const char *text)
{
    const amqp_field_value_t *value = kit_find(properties, name);
    if (!value || value->kind != AMQP_FIELD_KIND_UTF8)
        fail_msg("there is no header %s of text", name);
    assert_amqp_bytes(value->value.bytes, text);
}

/* --- there and back -------------------------------------------------------------------------------------------- */

/* As many bytes as the frame of the last message written has. */
static inline size_t kit_frame_size(const kit_wire *wire)
{
    enum { FRAME = 8, CLASS_WEIGHT_AND_BODY_SIZE = 12 };
    return wire->len + FRAME + CLASS_WEIGHT_AND_BODY_SIZE;
}

static inline void assert_comes_back_by(rabbit_writer *writer, const semel_message *message)
{
    mem_arena arena = {0};
    rabbit_envelope envelope;
    kit_wire wire;
    OK(rabbit_envelope_write(&envelope, writer, message, KIT_NO_FRAME_MAX, &last_error));
    kit_wire_pass(&wire, &envelope.properties);
    OK(rabbit_envelope_write(&envelope, writer, message, kit_frame_size(&wire), &last_error));
    FAILS(SEMEL_ELIMIT, rabbit_envelope_write(&envelope, writer, message, kit_frame_size(&wire) - 1,
                                              &last_error));
    rabbit_incoming parcel = {.properties = wire.properties,
                              .routing_key = kit_text(message->topic ? message->topic : ""),
                              .body = message->body};
    semel_message *back = rabbit_envelope_read(&arena, &parcel);
    assert_non_null(back);
    MESSAGE_EQUAL(message, back);
    assert_ptr_equal(back->body.data, message->body.data); /* not copied */
    assert_int_equal(back->delivery, 1);
    assert_int_equal(back->size, sizeof *back);
    arena_free(&arena);
    kit_wire_free(&wire);
}

static inline void assert_comes_back(const semel_message *message)
{
    rabbit_writer writer = {.persistent = 1};
    assert_comes_back_by(&writer, message);
    arena_free(&writer.arena);
}

static inline void assert_event_comes_back(const semel_message *message)
{
    rabbit_writer writer = {.cloudevents = 1};
    assert_comes_back_by(&writer, message);
    arena_free(&writer.arena);
}

static const semel_header some_headers[] = {
    {"traceparent", {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 55}},
    {"Tenant", {"blue", 4}},
    {"tenant", {"the second of its name", 22}},
    {"x-retry", {"3", 1}},
    {"blob", {"\0\xff\x80", 3}},
    {"nothing", {"", 0}},
    {"semel-other", {"is not ours", 11}}};

static inline semel_message full_message(void)
{
    return (semel_message){.size = sizeof(semel_message),
                           .id = {"order-7", 7},
                           .source = "/shop",
                           .type = "order.placed",
                           .topic = "orders.eu",
                           .group = "customer-1",
                           .correlation_id = {"cart-9", 6},
                           .content_type = "application/json",
                           .time_ms = INT64_C(1772323199999),
                           .headers = some_headers,
                           .header_count = sizeof some_headers / sizeof *some_headers,
                           .body = {"{\"item\":1}", 10}};
}

static inline semel_status kit_write(const semel_message *message, int cloudevents)
{
    rabbit_writer writer = {.cloudevents = cloudevents};
    rabbit_envelope envelope;
    semel_status status =
        rabbit_envelope_write(&envelope, &writer, message, KIT_NO_FRAME_MAX, &last_error);
    arena_free(&writer.arena);
    return status;
}

/* --- what is received ---------------------------------------------------------------------------------------- */

/* A delivery in the making, and what was read of it. */
typedef struct mail {
    amqp_basic_properties_t properties;
    amqp_table_entry_t entries[16];
    const char *routing_key, *queue;
    int redelivered;
    int classic; /* the queue, which does not count */
    semel_bytes body;
    kit_wire wire;
    mem_arena arena;
    const semel_message *message;
} mail;

static inline void mail_add(mail *m, const char *name, amqp_field_value_t value)
{
    m->properties._flags |= AMQP_BASIC_HEADERS_FLAG;
    m->properties.headers.entries = m->entries;
    m->entries[m->properties.headers.num_entries++] = kit_entry(name, value);
}

static inline void mail_add_text(mail *m, const char *name, const char *text)
{
    mail_add(m, name, kit_string(text));
}

static inline void mail_set(mail *m, amqp_flags_t flag, amqp_bytes_t *property, const char *text)
{
    m->properties._flags |= flag;
    *property = kit_text(text);
}

static inline void mail_set_id(mail *m, const char *id)
{
    mail_set(m, AMQP_BASIC_MESSAGE_ID_FLAG, &m->properties.message_id, id);
}

static inline void mail_set_content_type(mail *m, const char *type)
{
    mail_set(m, AMQP_BASIC_CONTENT_TYPE_FLAG, &m->properties.content_type, type);
}

static inline void mail_set_time(mail *m, uint64_t timestamp)
{
    m->properties._flags |= AMQP_BASIC_TIMESTAMP_FLAG;
    m->properties.timestamp = timestamp;
}

static inline rabbit_incoming mail_parcel(const mail *m)
{
    return (rabbit_incoming){.properties = m->wire.properties,
                             .routing_key = kit_text(m->routing_key ? m->routing_key : ""),
                             .queue = kit_text(m->queue ? m->queue : "stock"),
                             .redelivered = m->redelivered,
                             .counted = !m->classic,
                             .body = m->body};
}

static inline const semel_message *mail_deliver(mail *m)
{
    kit_wire_pass(&m->wire, &m->properties);
    rabbit_incoming parcel = mail_parcel(m);
    m->message = rabbit_envelope_read(&m->arena, &parcel);
    assert_non_null(m->message);
    return m->message;
}

static inline void mail_discard(mail *m)
{
    arena_free(&m->arena);
    kit_wire_free(&m->wire);
}

static inline void assert_message_header(const semel_message *message, const char *name,
                                         const char *text)
{
    semel_bytes value = semel_message_header(message, name);
    if (!value.data)
        fail_msg("there is no header %s", name);
    BYTES_EQUAL(semel_str(text), value);
}

/* Returns how many allocations failed before one reading had all it needed. */
static inline long mail_starve(mail *m)
{
    long failures = 0;
    kit_wire_pass(&m->wire, &m->properties);
    rabbit_incoming parcel = mail_parcel(m);
    for (; !m->message; failures++) {
        arena_free(&m->arena);
        mem_fail_at(failures + 1);
        m->message = rabbit_envelope_read(&m->arena, &parcel);
        mem_fail_at(0);
    }
    return failures - 1;
}

#endif
