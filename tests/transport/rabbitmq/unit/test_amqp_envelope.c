/* Messages into AMQP's properties and headers and back: nothing is lost on the way, foreign
 * consumers find everything where they look for it, and what AMQP cannot carry is refused. */
#include "amqp_kit.h"
#include "support/fixture/shop.h"

#include "transport/rabbitmq/envelope_fields.h"

#include <stdio.h>

enum { RANDOM_MESSAGES = 4000, RANDOM_HEADERS_MAX = 6 };

/* --- round trips ------------------------------------------------------------------------------ */

static void a_full_message_comes_back(void **state)
{
    semel_message message = kit_full_message();
    (void)state;
    assert_comes_back(&message);
    assert_event_comes_back(&message);
}

static void an_empty_message_comes_back_without_anything(void **state)
{
    semel_message message = {.size = sizeof message, .source = "", .topic = "", .group = ""};
    rabbit_writer writer = {.persistent = 1};
    mem_arena arena = {0};
    rabbit_envelope envelope;
    (void)state;
    message.id = message.correlation_id = (semel_bytes){"", 0};
    assert_comes_back(&message);
    OK(rabbit_envelope_write(&envelope, &writer, &message, KIT_NO_FRAME_MAX, &last_error));
    assert_int_equal(envelope.properties._flags, AMQP_BASIC_DELIVERY_MODE_FLAG);
    assert_int_equal(envelope.routing_key.len, 0);
    rabbit_incoming parcel = {.properties = &envelope.properties};
    const semel_message *back = rabbit_envelope_read(&arena, &parcel);
    assert_null(back->id.data);
    assert_null(back->source);
    assert_null(back->type);
    assert_null(back->topic);
    assert_null(back->group);
    assert_null(back->correlation_id.data);
    assert_null(back->content_type);
    assert_null(back->headers);
    arena_free(&arena);
    arena_free(&writer.arena);
}

static void texts_of_every_length_come_back(void **state)
{
    static const size_t lengths[] = {1, 254, 255, 256, 257, 1024};
    char text[1025] = "";
    (void)state;
    memset(text, 'a', sizeof text - 1);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        semel_message message = {.size = sizeof message};
        char *cut = text + sizeof text - 1 - lengths[i];
        message.id = message.correlation_id = semel_str(cut);
        message.source = message.type = message.group = message.content_type = cut;
        assert_comes_back(&message);
        assert_event_comes_back(&message);
    }
}

static void ids_may_hold_any_bytes(void **state)
{
    semel_message message = {.size = sizeof message, .id = {"\0a\xff\0", 4}};
    (void)state;
    message.correlation_id = (semel_bytes){"\0", 1};
    assert_comes_back(&message);
}

static void times_come_back_to_the_millisecond(void **state)
{
    static const int64_t times[] = {1,
                                    999,
                                    1000,
                                    1001,
                                    -1,
                                    -1000,
                                    -1001,
                                    INT64_C(1772323199000),
                                    INT64_C(1772323199999),
                                    RABBIT_SECONDS_MAX * 1000,
                                    RABBIT_SECONDS_MAX * 1000 + 999,
                                    RABBIT_SECONDS_MAX * 1000 + 1000,
                                    INT64_C(253402300799999),
                                    INT64_C(253402300800000),
                                    INT64_MAX,
                                    INT64_MIN};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        semel_message message = {.size = sizeof message, .time_ms = times[i]};
        assert_comes_back(&message);
    }
}

static void the_largest_headers_come_back(void **state)
{
    static char value[SEMEL_HEADER_MAX];
    static semel_header headers[SEMEL_HEADERS_MAX];
    semel_message message = kit_full_message();
    (void)state;
    memset(value, 'v', sizeof value);
    for (size_t i = 0; i < SEMEL_HEADERS_MAX; i++)
        headers[i] = (semel_header){i ? "again" : "once", {value, sizeof value - 5}};
    message.headers = headers;
    message.header_count = SEMEL_HEADERS_MAX;
    assert_comes_back(&message);
    assert_event_comes_back(&message);
}

/* --- what is where ---------------------------------------------------------------------------- */

static void members_are_where_foreign_consumers_look(void **state)
{
    semel_message message = kit_full_message();
    rabbit_writer writer = {.persistent = 1};
    rabbit_envelope envelope;
    kit_wire wire;
    (void)state;
    OK(rabbit_envelope_write(&envelope, &writer, &message, KIT_NO_FRAME_MAX, &last_error));
    kit_wire_pass(&wire, &envelope.properties);
    const amqp_basic_properties_t *p = wire.properties;
    assert_amqp_bytes(envelope.routing_key, "orders.eu");
    assert_amqp_bytes(p->message_id, "order-7");
    assert_amqp_bytes(p->app_id, "/shop");
    assert_amqp_bytes(p->type, "order.placed");
    assert_amqp_bytes(p->correlation_id, "cart-9");
    assert_amqp_bytes(p->content_type, "application/json");
    assert_int_equal(p->timestamp, 1772323199);
    assert_int_equal(p->delivery_mode, 2);
    assert_amqp_header(p, "semel-group", "customer-1");
    assert_int_equal(kit_find(p, "semel-time-ms")->kind, AMQP_FIELD_KIND_I64);
    assert_int_equal(kit_find(p, "semel-time-ms")->value.i64, INT64_C(1772323199999));
    assert_amqp_header(p, "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_int_equal(p->headers.num_entries, 2 + (int)message.header_count);
    assert_null(kit_find(p, "semel-id"));
    kit_wire_free(&wire);
    arena_free(&writer.arena);
}

static void whole_seconds_need_no_header_and_a_writer_may_be_transient(void **state)
{
    semel_message message = {.size = sizeof message, .time_ms = 5000};
    rabbit_writer writer = {0};
    rabbit_envelope envelope;
    (void)state;
    OK(rabbit_envelope_write(&envelope, &writer, &message, KIT_NO_FRAME_MAX, &last_error));
    assert_int_equal(envelope.properties.timestamp, 5);
    assert_false(envelope.properties._flags & AMQP_BASIC_HEADERS_FLAG);
    assert_int_equal(envelope.properties.delivery_mode, 1);
    arena_free(&writer.arena);
}

static void what_is_too_long_for_a_property_is_a_header(void **state)
{
    char text[257] = "";
    semel_message message = {.size = sizeof message};
    rabbit_writer writer = {0};
    rabbit_envelope envelope;
    (void)state;
    memset(text, 'a', 256);
    message.id = message.correlation_id = semel_str(text);
    message.source = message.type = message.content_type = text;
    OK(rabbit_envelope_write(&envelope, &writer, &message, KIT_NO_FRAME_MAX, &last_error));
    assert_int_equal(envelope.properties._flags,
                     AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG);
    assert_amqp_header(&envelope.properties, "semel-id", text);
    assert_amqp_header(&envelope.properties, "semel-source", text);
    assert_amqp_header(&envelope.properties, "semel-type", text);
    assert_amqp_header(&envelope.properties, "semel-correlation-id", text);
    assert_amqp_header(&envelope.properties, "semel-content-type", text);
    arena_free(&writer.arena);
}

static void a_header_with_the_name_of_ours_gives_way(void **state)
{
    const semel_header headers[] = {{"semel-group", {"theirs", 6}}, {"other", {"stays", 5}}};
    semel_message message = {.size = sizeof message, .headers = headers, .header_count = 2};
    rabbit_writer writer = {0};
    rabbit_envelope envelope;
    (void)state;
    message.group = "ours";
    OK(rabbit_envelope_write(&envelope, &writer, &message, KIT_NO_FRAME_MAX, &last_error));
    assert_amqp_header(&envelope.properties, "semel-group", "ours");
    assert_amqp_header(&envelope.properties, "other", "stays");
    assert_int_equal(envelope.properties.headers.num_entries, 2);
    arena_free(&writer.arena);
}

/* A header that looks like ours must not become the id, by which duplicates are known. */
static void a_header_named_like_a_member_that_is_missing_does_not_become_it(void **state)
{
    const semel_header headers[] = {{"semel-group", {"theirs", 6}},
                                    {"semel-id", {"theirs", 6}},
                                    {"semel-time-ms", {"12", 2}},
                                    {"other", {"stays", 5}}};
    semel_message message = {.size = sizeof message, .headers = headers, .header_count = 4};
    rabbit_writer writer = {0};
    rabbit_envelope envelope;
    (void)state;
    OK(rabbit_envelope_write(&envelope, &writer, &message, 0, &last_error));
    assert_int_equal(envelope.properties.headers.num_entries, 1);
    assert_amqp_header(&envelope.properties, "other", "stays");
    arena_free(&writer.arena);
}

static void a_header_named_like_a_member_that_is_there_stays_a_header(void **state)
{
    const semel_header headers[] = {{"semel-id", {"another", 7}},
                                    {"semel-time-ms", {"12", 2}},
                                    {"x-delivery-count", {"7", 1}},
                                    {"x-death", {"slow", 4}}};
    semel_message message = kit_full_message();
    (void)state;
    message.time_ms = 5000; /* which needs no header of ours */
    message.headers = headers;
    message.header_count = 4;
    assert_comes_back(&message);
}

/* --- what AMQP cannot carry ------------------------------------------------------------------- */

static void a_topic_has_255_bytes_at_most(void **state)
{
    char text[257] = "";
    semel_message message = {.size = sizeof message, .topic = text + 1};
    (void)state;
    memset(text, 'a', 256);
    OK(kit_write(&message, 0));
    message.topic = text;
    FAILS(SEMEL_ELIMIT, kit_write(&message, 0));
    SAYS("message.topic has 256 bytes");
}

static void a_name_of_a_header_has_255_bytes_at_most(void **state)
{
    char text[257] = "";
    semel_header header = {text + 1, {"v", 1}};
    semel_message message = kit_full_message();
    (void)state;
    memset(text, 'a', 256);
    message.headers = &header;
    message.header_count = 1;
    assert_comes_back(&message);
    assert_event_comes_back(&message); /* as an attribute the name would be too long */
    header.name = text;
    FAILS(SEMEL_ELIMIT, kit_write(&message, 0));
    SAYS("header");
}

static void headers_that_would_close_the_channel_are_refused(void **state)
{
    static const char *const names[] = {"CC", "BCC"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        semel_header header = {names[i], {"v", 1}};
        semel_message message = {.size = sizeof message, .headers = &header, .header_count = 1};
        FAILS(SEMEL_ELIMIT, kit_write(&message, 0));
        SAYS(names[i]);
    }
}

/* --- at random -------------------------------------------------------------------------------- */

typedef struct random_message {
    char texts[5][SEMEL_TEXT_MAX + 1];
    unsigned char ids[2][SEMEL_TEXT_MAX];
    char names[RANDOM_HEADERS_MAX][64];
    unsigned char values[RANDOM_HEADERS_MAX][512];
    semel_header headers[RANDOM_HEADERS_MAX];
    semel_message message;
} random_message;

/* Mostly short, often around the end of a short string; plain text if it must be an event's. */
static size_t fill(unsigned char *out, size_t most, int plain, uint32_t *seed)
{
    uint32_t kind = shop_random(seed, 4);
    size_t len = kind == 0   ? 0
                 : kind == 1 ? shop_random(seed, 20)
                 : kind == 2 ? 250 + shop_random(seed, 10)
                             : shop_random(seed, (uint32_t)most + 1);
    len = len > most ? most : len;
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)(plain ? 'a' + shop_random(seed, 26) : shop_random(seed, 256));
    return len;
}

static const char *random_text(char *out, size_t most, int plain, uint32_t *seed)
{
    size_t len = fill((unsigned char *)out, most, plain, seed);
    for (size_t i = 0; i < len; i++)
        out[i] = out[i] ? out[i] : 'z';
    out[len] = 0;
    return len ? out : NULL;
}

static semel_bytes random_bytes(unsigned char *out, size_t most, int plain, uint32_t *seed)
{
    size_t len = fill(out, most, plain, seed);
    return (semel_bytes){len ? out : NULL, len};
}

static void random_headers(random_message *r, uint32_t *seed)
{
    r->message.headers = r->headers;
    r->message.header_count = shop_random(seed, RANDOM_HEADERS_MAX + 1);
    for (size_t i = 0; i < r->message.header_count; i++) {
        (void)snprintf(r->names[i], sizeof r->names[i], "%s%u",
                       shop_random(seed, 2) ? "Header" : "x-header-", shop_random(seed, 4));
        r->headers[i].name = r->names[i];
        r->headers[i].value = random_bytes(r->values[i], sizeof r->values[i], 0, seed);
    }
}

static void make_random(random_message *r, int event, uint32_t *seed)
{
    semel_message *m = &r->message;
    *m = (semel_message){.size = sizeof *m};
    m->id = random_bytes(r->ids[0], SEMEL_TEXT_MAX, event, seed);
    m->correlation_id = random_bytes(r->ids[1], SEMEL_TEXT_MAX, event, seed);
    m->source = random_text(r->texts[0], SEMEL_TEXT_MAX, event, seed);
    m->type = random_text(r->texts[1], SEMEL_TEXT_MAX, event, seed);
    m->topic = random_text(r->texts[2], RABBIT_SHORT_MAX, event, seed);
    m->group = random_text(r->texts[3], SEMEL_TEXT_MAX, event, seed);
    m->content_type = random_text(r->texts[4], SEMEL_TEXT_MAX, event, seed);
    m->time_ms = (int64_t)shop_random(seed, 4) * shop_random(seed, UINT32_MAX) * 500;
    random_headers(r, seed);
    if (event && !m->id.len)
        m->id = semel_str("1");
    m->source = event && !m->source ? "s" : m->source;
    m->type = event && !m->type ? "t" : m->type;
}

static void thousands_of_random_messages_come_back(void **state)
{
    static random_message random;
    uint32_t seed = 20260216;
    (void)state;
    for (int i = 0; i < RANDOM_MESSAGES; i++) {
        make_random(&random, i % 2, &seed);
        if (i % 2)
            assert_event_comes_back(&random.message);
        else
            assert_comes_back(&random.message);
    }
}

/* --- without memory --------------------------------------------------------------------------- */

/* More than a chunk of the arena has, so that it needs several. */
static void writing_survives_the_failure_of_any_allocation(void **state)
{
    static semel_header headers[SEMEL_HEADERS_MAX];
    static char names[SEMEL_HEADERS_MAX][128];
    semel_message message = kit_full_message();
    long failures = 0;
    (void)state;
    for (unsigned i = 0; i < SEMEL_HEADERS_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "name%0100u", i);
        headers[i] = (semel_header){names[i], {"value", 5}};
    }
    message.headers = headers;
    message.header_count = SEMEL_HEADERS_MAX;
    for (semel_status status = SEMEL_ENOMEM; status; failures++) {
        rabbit_writer writer = {.cloudevents = 1};
        rabbit_envelope envelope;
        semel_error err = {0};
        mem_fail_at(failures + 1);
        status = rabbit_envelope_write(&envelope, &writer, &message, KIT_NO_FRAME_MAX, &err);
        mem_fail_at(0);
        assert_int_equal(status, status ? SEMEL_ENOMEM : SEMEL_OK);
        assert_int_equal(err.status, status);
        arena_free(&writer.arena);
    }
    assert_true(failures > 2);
}

static void a_writer_that_has_written_needs_no_more_memory(void **state)
{
    semel_message message = kit_full_message();
    rabbit_writer writer = {.cloudevents = 1};
    rabbit_envelope envelope;
    (void)state;
    OK(rabbit_envelope_write(&envelope, &writer, &message, KIT_NO_FRAME_MAX, &last_error));
    long before = mem_allocations();
    OK(rabbit_envelope_write(&envelope, &writer, &message, KIT_NO_FRAME_MAX, &last_error));
    assert_int_equal(mem_allocations(), before);
    arena_free(&writer.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_message_comes_back),
        cmocka_unit_test(an_empty_message_comes_back_without_anything),
        cmocka_unit_test(texts_of_every_length_come_back),
        cmocka_unit_test(ids_may_hold_any_bytes),
        cmocka_unit_test(times_come_back_to_the_millisecond),
        cmocka_unit_test(the_largest_headers_come_back),
        cmocka_unit_test(members_are_where_foreign_consumers_look),
        cmocka_unit_test(whole_seconds_need_no_header_and_a_writer_may_be_transient),
        cmocka_unit_test(what_is_too_long_for_a_property_is_a_header),
        cmocka_unit_test(a_header_with_the_name_of_ours_gives_way),
        cmocka_unit_test(a_header_named_like_a_member_that_is_missing_does_not_become_it),
        cmocka_unit_test(a_header_named_like_a_member_that_is_there_stays_a_header),
        cmocka_unit_test(a_topic_has_255_bytes_at_most),
        cmocka_unit_test(a_name_of_a_header_has_255_bytes_at_most),
        cmocka_unit_test(headers_that_would_close_the_channel_are_refused),
        cmocka_unit_test(thousands_of_random_messages_come_back),
        cmocka_unit_test(writing_survives_the_failure_of_any_allocation),
        cmocka_unit_test(a_writer_that_has_written_needs_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
