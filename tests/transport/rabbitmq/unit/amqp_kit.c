/* See amqp_kit.h. */
#include "amqp_kit.h"

void kit_wire_pass(kit_wire *wire, const amqp_basic_properties_t *properties)
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

void kit_wire_free(kit_wire *wire)
{
    empty_amqp_pool(&wire->pool);
    free(wire->bytes);
}

amqp_bytes_t kit_bytes(const void *data, size_t len)
{
    union {
        const void *from;
        void *to;
    } pointer = {data};
    return (amqp_bytes_t){len, pointer.to};
}

amqp_bytes_t kit_text(const char *text)
{
    return kit_bytes(text, strlen(text));
}

/* --- values of headers ------------------------------------------------------------------------ */

amqp_field_value_t kit_string(const char *text)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_UTF8};
    value.value.bytes = kit_text(text);
    return value;
}

amqp_field_value_t kit_i64(int64_t number)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_I64};
    value.value.i64 = number;
    return value;
}

amqp_field_value_t kit_array(amqp_field_value_t *values, int count)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_ARRAY};
    value.value.array = (amqp_array_t){count, values};
    return value;
}

amqp_field_value_t kit_table(amqp_table_entry_t *entries, int count)
{
    amqp_field_value_t value = {.kind = AMQP_FIELD_KIND_TABLE};
    value.value.table = (amqp_table_t){count, entries};
    return value;
}

amqp_table_entry_t kit_entry(const char *name, amqp_field_value_t value)
{
    return (amqp_table_entry_t){kit_text(name), value};
}

/* --- what was sent ---------------------------------------------------------------------------- */

const amqp_field_value_t *kit_find(const amqp_basic_properties_t *properties, const char *name)
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

void assert_amqp_bytes(amqp_bytes_t bytes, const char *text)
{
    BYTES_EQUAL(semel_str(text), ((semel_bytes){bytes.bytes, bytes.len}));
}

void assert_amqp_header(const amqp_basic_properties_t *properties, const char *name,
                        const char *text)
{
    const amqp_field_value_t *value = kit_find(properties, name);
    if (!value || value->kind != AMQP_FIELD_KIND_UTF8)
        fail_msg("there is no header %s of text", name);
    assert_amqp_bytes(value->value.bytes, text);
}

/* --- there and back --------------------------------------------------------------------------- */

/* As many bytes as the frame of the last message written has. */
static size_t kit_frame_size(const kit_wire *wire)
{
    enum { FRAME = 8, CLASS_WEIGHT_AND_BODY_SIZE = 12 };
    return wire->len + FRAME + CLASS_WEIGHT_AND_BODY_SIZE;
}

static void assert_comes_back_by(rabbit_writer *writer, const semel_message *message)
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

void assert_comes_back(const semel_message *message)
{
    rabbit_writer writer = {.persistent = 1};
    assert_comes_back_by(&writer, message);
    arena_free(&writer.arena);
}

void assert_event_comes_back(const semel_message *message)
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

semel_message kit_full_message(void)
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

semel_status kit_write(const semel_message *message, int cloudevents)
{
    rabbit_writer writer = {.cloudevents = cloudevents};
    rabbit_envelope envelope;
    semel_status status =
        rabbit_envelope_write(&envelope, &writer, message, KIT_NO_FRAME_MAX, &last_error);
    arena_free(&writer.arena);
    return status;
}

/* --- what is received ------------------------------------------------------------------------- */

void mail_add(mail *m, const char *name, amqp_field_value_t value)
{
    m->properties._flags |= AMQP_BASIC_HEADERS_FLAG;
    m->properties.headers.entries = m->entries;
    m->entries[m->properties.headers.num_entries++] = kit_entry(name, value);
}

void mail_add_text(mail *m, const char *name, const char *text)
{
    mail_add(m, name, kit_string(text));
}

void mail_set(mail *m, amqp_flags_t flag, amqp_bytes_t *property, const char *text)
{
    m->properties._flags |= flag;
    *property = kit_text(text);
}

void mail_set_id(mail *m, const char *id)
{
    mail_set(m, AMQP_BASIC_MESSAGE_ID_FLAG, &m->properties.message_id, id);
}

void mail_set_content_type(mail *m, const char *type)
{
    mail_set(m, AMQP_BASIC_CONTENT_TYPE_FLAG, &m->properties.content_type, type);
}

void mail_set_time(mail *m, uint64_t timestamp)
{
    m->properties._flags |= AMQP_BASIC_TIMESTAMP_FLAG;
    m->properties.timestamp = timestamp;
}

static rabbit_incoming mail_parcel(const mail *m)
{
    return (rabbit_incoming){.properties = m->wire.properties,
                             .routing_key = kit_text(m->routing_key ? m->routing_key : ""),
                             .queue = kit_text(m->queue ? m->queue : "stock"),
                             .redelivered = m->redelivered,
                             .counted = !m->classic,
                             .body = m->body};
}

const semel_message *mail_deliver(mail *m)
{
    kit_wire_pass(&m->wire, &m->properties);
    rabbit_incoming parcel = mail_parcel(m);
    m->message = rabbit_envelope_read(&m->arena, &parcel);
    assert_non_null(m->message);
    return m->message;
}

void mail_discard(mail *m)
{
    arena_free(&m->arena);
    kit_wire_free(&m->wire);
}

void assert_message_header(const semel_message *message, const char *name, const char *text)
{
    semel_bytes value = semel_message_header(message, name);
    if (!value.data)
        fail_msg("there is no header %s", name);
    BYTES_EQUAL(semel_str(text), value);
}

long mail_starve(mail *m)
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
