/* Deliveries as other people's publishers make them, and as the broker marks them: read into
 * messages. */
#include "amqp_kit.h"

#include <float.h>
#include <locale.h>
#include <stdio.h>

/* --- other people's publishers ---------------------------------------------------------------- */

/* channel.basic_publish(..., properties=pika.BasicProperties(...)) */
static void a_message_of_pika_is_read(void **state)
{
    mail m = {.routing_key = "orders.eu", .body = {"{}", 2}};
    (void)state;
    mail_set_id(&m, "3f2b7c1e-5d0a-4a8e-9c52-0c1d2e3f4a5b");
    mail_set_content_type(&m, "application/json");
    mail_set(&m, AMQP_BASIC_TYPE_FLAG, &m.properties.type, "order.placed");
    mail_set(&m, AMQP_BASIC_APP_ID_FLAG, &m.properties.app_id, "shop");
    mail_set(&m, AMQP_BASIC_CORRELATION_ID_FLAG, &m.properties.correlation_id, "cart-9");
    mail_set(&m, AMQP_BASIC_REPLY_TO_FLAG, &m.properties.reply_to, "answers");
    mail_set_time(&m, 1772323199);
    mail_add_text(&m, "tenant", "blue");
    mail_add(&m, "retries", kit_i64(3));
    const semel_message *message = mail_deliver(&m);
    BYTES_EQUAL(semel_str("3f2b7c1e-5d0a-4a8e-9c52-0c1d2e3f4a5b"), message->id);
    assert_string_equal(message->topic, "orders.eu");
    assert_string_equal(message->type, "order.placed");
    assert_string_equal(message->source, "shop");
    assert_string_equal(message->content_type, "application/json");
    BYTES_EQUAL(semel_str("cart-9"), message->correlation_id);
    assert_int_equal(message->time_ms, INT64_C(1772323199000));
    assert_null(message->group);
    assert_int_equal(message->header_count, 2);
    assert_message_header(message, "tenant", "blue");
    assert_message_header(message, "retries", "3");
    assert_ptr_equal(message->body.data, m.body.data);
    assert_int_equal(message->delivery, 1);
    mail_discard(&m);
}

/* amqplib for Node.js: {messageId, timestamp: Date.now(), headers: {n: 0.5, ok: true}} */
static void a_message_of_amqplib_is_read_with_its_time_in_milliseconds(void **state)
{
    mail m = {0};
    amqp_field_value_t half = {.kind = AMQP_FIELD_KIND_F64}, ok = {.kind = AMQP_FIELD_KIND_BOOLEAN};
    (void)state;
    half.value.f64 = 0.5;
    ok.value.boolean = 1;
    mail_set_id(&m, "7");
    mail_set_time(&m, UINT64_C(1772323199123));
    mail_add(&m, "n", half);
    mail_add(&m, "ok", ok);
    const semel_message *message = mail_deliver(&m);
    assert_int_equal(message->time_ms, INT64_C(1772323199123));
    assert_message_header(message, "n", "0.5");
    assert_message_header(message, "ok", "true");
    assert_null(message->topic);
    mail_discard(&m);
}

/* MassTransit repeats in headers what is in its JSON envelope. */
static void a_message_of_masstransit_is_read(void **state)
{
    mail m = {.routing_key = ""};
    (void)state;
    mail_set_id(&m, "a1b2c3d4-0000-0000-0000-08dc1a2b3c4d");
    mail_set_content_type(&m, "application/vnd.masstransit+json");
    mail_set(&m, AMQP_BASIC_CORRELATION_ID_FLAG, &m.properties.correlation_id, "c-1");
    mail_add_text(&m, "Content-Type", "application/vnd.masstransit+json");
    mail_add_text(&m, "MT-Activity-Id", "00-11-22-00");
    mail_add_text(&m, "publishId", "1");
    const semel_message *message = mail_deliver(&m);
    BYTES_EQUAL(semel_str("a1b2c3d4-0000-0000-0000-08dc1a2b3c4d"), message->id);
    assert_string_equal(message->content_type, "application/vnd.masstransit+json");
    assert_message_header(message, "MT-Activity-Id", "00-11-22-00");
    assert_int_equal(message->header_count, 3);
    mail_discard(&m);
}

/* RabbitTemplate.convertAndSend: no id unless asked for, the class in a header. */
static void a_message_of_spring_is_read(void **state)
{
    mail m = {.routing_key = "orders"};
    (void)state;
    mail_set_content_type(&m, "application/json");
    mail_set(&m, AMQP_BASIC_CONTENT_ENCODING_FLAG, &m.properties.content_encoding, "UTF-8");
    m.properties._flags |= AMQP_BASIC_PRIORITY_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG;
    m.properties.delivery_mode = 2;
    mail_add_text(&m, "__TypeId__", "com.example.Order");
    const semel_message *message = mail_deliver(&m);
    assert_null(message->id.data);
    assert_null(message->type);
    assert_message_header(message, "__TypeId__", "com.example.Order");
    mail_discard(&m);
}

static void a_message_of_nothing_but_a_body_is_read(void **state)
{
    mail m = {.body = {"hello", 5}};
    (void)state;
    const semel_message *message = mail_deliver(&m);
    assert_int_equal(message->size, sizeof *message);
    assert_null(message->id.data);
    assert_int_equal(message->time_ms, 0);
    assert_int_equal(message->header_count, 0);
    BYTES_EQUAL(semel_str("hello"), message->body);
    mail_discard(&m);
}

/* --- values ----------------------------------------------------------------------------------- */

static void numbers_become_text(void **state)
{
    const struct {
        amqp_field_value_t value;
        const char *text;
    } values[] = {{KIT_VALUE(BOOLEAN, boolean, 0), "false"},
                  {KIT_VALUE(I8, i8, -128), "-128"},
                  {KIT_VALUE(U8, u8, 255), "255"},
                  {KIT_VALUE(I16, i16, INT16_MIN), "-32768"},
                  {KIT_VALUE(U16, u16, UINT16_MAX), "65535"},
                  {KIT_VALUE(I32, i32, INT32_MIN), "-2147483648"},
                  {KIT_VALUE(U32, u32, UINT32_MAX), "4294967295"},
                  {KIT_VALUE(I64, i64, INT64_MIN), "-9223372036854775808"},
                  {KIT_VALUE(U64, u64, UINT64_MAX), "18446744073709551615"},
                  {KIT_VALUE(TIMESTAMP, u64, 1772323199), "1772323199"},
                  {KIT_VALUE(F32, f32, 0.1F), "0.1"},
                  {KIT_VALUE(F32, f32, -1.5F), "-1.5"},
                  {KIT_VALUE(F64, f64, 0.1), "0.1"},
                  {KIT_VALUE(F64, f64, 1.0 / 3), "0.3333333333333333"},
                  {KIT_VALUE(F64, f64, 0.1 + 0.2), "0.30000000000000004"},
                  {KIT_VALUE(F64, f64, 1e300), "1e+300"},
                  {KIT_VALUE(F64, f64, 2), "2"},
                  {KIT_VALUE(F64, f64, DBL_MAX), "1.7976931348623157e+308"},
                  {KIT_VALUE(DECIMAL, decimal, ((amqp_decimal_t){2, 12345})), "123.45"},
                  {KIT_VALUE(DECIMAL, decimal, ((amqp_decimal_t){2, 5})), "0.05"},
                  {KIT_VALUE(DECIMAL, decimal, ((amqp_decimal_t){0, 5})), "5"},
                  {KIT_VALUE(BYTES, bytes, kit_text("raw")), "raw"},
                  {KIT_VALUE(UTF8, bytes, kit_text("")), ""}};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        mail m = {0};
        mail_add(&m, "value", values[i].value);
        assert_message_header(mail_deliver(&m), "value", values[i].text);
        mail_discard(&m);
    }
}

static void a_decimal_of_255_places_has_them_all(void **state)
{
    mail m = {0};
    (void)state;
    mail_add(&m, "value", KIT_VALUE(DECIMAL, decimal, ((amqp_decimal_t){255, UINT32_MAX})));
    semel_bytes value = semel_message_header(mail_deliver(&m), "value");
    assert_int_equal(value.len, 257);
    assert_memory_equal((const char *)value.data + 247, "4294967295", 10);
    mail_discard(&m);
}

/* Asserts more where such a locale is installed. */
static void a_locale_with_a_comma_changes_nothing(void **state)
{
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                          "nl_NL.UTF-8"};
    mail m = {0};
    (void)state;
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
        if (setlocale(LC_NUMERIC, locales[i]))
            break;
    mail_add(&m, "value", KIT_VALUE(F64, f64, -1234.5));
    assert_message_header(mail_deliver(&m), "value", "-1234.5");
    (void)setlocale(LC_NUMERIC, "C");
    mail_discard(&m);
}

static void tables_arrays_and_void_are_left_out(void **state)
{
    mail m = {0};
    amqp_field_value_t one = kit_i64(1);
    amqp_table_entry_t inner = kit_entry("a", one);
    (void)state;
    mail_add(&m, "table", kit_table(&inner, 1));
    mail_add(&m, "array", kit_array(&one, 1));
    mail_add(&m, "void", (amqp_field_value_t){.kind = AMQP_FIELD_KIND_VOID});
    mail_add_text(&m, "x-other", "stays");
    const semel_message *message = mail_deliver(&m);
    assert_int_equal(message->header_count, 1);
    assert_message_header(message, "x-other", "stays");
    mail_discard(&m);
}

/* An id is bytes and keeps them. */
static void a_text_with_a_nul_byte_is_left_out(void **state)
{
    mail m = {0};
    (void)state;
    m.properties._flags = AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG;
    m.properties.type = kit_bytes("a\0b", 3);
    m.properties.message_id = kit_bytes("a\0b", 3);
    mail_add_text(&m, "first", "1");
    m.entries[0].key = kit_bytes("fi\0rst", 6);
    mail_add(&m, "", kit_string("has no name"));
    mail_add_text(&m, "second", "2");
    const semel_message *message = mail_deliver(&m);
    assert_null(message->type);
    BYTES_EQUAL(((semel_bytes){"a\0b", 3}), message->id);
    assert_int_equal(message->header_count, 1);
    assert_message_header(message, "second", "2");
    mail_discard(&m);
}

static void absurd_times_are_ignored(void **state)
{
    static const uint64_t absurd[] = {UINT64_MAX, INT64_MAX, UINT64_C(253402300800000)};
    (void)state;
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        mail m = {0};
        mail_set_time(&m, absurd[i]);
        assert_int_equal(mail_deliver(&m)->time_ms, 0);
        mail_discard(&m);
    }
}

static void an_exact_time_counts_if_it_is_in_the_second_of_the_timestamp(void **state)
{
    static const struct {
        uint64_t timestamp;
        int64_t exact, time_ms;
        size_t headers; /* that are left */
    } times[] = {{5, 5999, 5999, 0}, {5, 6000, 5000, 1}, {5, 4999, 5000, 1}, {0, -1, 0, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        mail m = {0};
        mail_set_time(&m, times[i].timestamp);
        mail_add(&m, "semel-time-ms", kit_i64(times[i].exact));
        assert_int_equal(mail_deliver(&m)->time_ms, times[i].time_ms);
        assert_int_equal(m.message->header_count, times[i].headers);
        mail_discard(&m);
    }
}

/* --- how often it was delivered --------------------------------------------------------------- */

static void a_first_delivery_is_the_first_and_a_redelivery_at_least_the_second(void **state)
{
    mail first = {0}, again = {.redelivered = 1}, third = {.redelivered = 1};
    mail claimed = {.classic = 1};
    (void)state;
    mail_add(&claimed, "x-delivery-count", kit_i64(2)); /* by a publisher */
    assert_int_equal(mail_deliver(&claimed)->delivery, 1);
    mail_discard(&claimed);
    assert_int_equal(mail_deliver(&first)->delivery, 1);
    assert_int_equal(mail_deliver(&again)->delivery, 2);
    mail_add(&third, "x-delivery-count", kit_i64(2));
    assert_int_equal(mail_deliver(&third)->delivery, 3);
    assert_int_equal(third.message->header_count, 0);
    mail_discard(&first);
    mail_discard(&again);
    mail_discard(&third);
}

static void the_count_of_a_quorum_queue_may_be_of_any_type(void **state)
{
    const struct {
        amqp_field_value_t value;
        uint32_t delivery;
    } counts[] = {{KIT_VALUE(I8, i8, 4), 5},
                  {KIT_VALUE(U8, u8, 4), 5},
                  {KIT_VALUE(I16, i16, 4), 5},
                  {KIT_VALUE(U16, u16, 4), 5},
                  {KIT_VALUE(I32, i32, 4), 5},
                  {KIT_VALUE(U32, u32, UINT32_MAX), RABBIT_DELIVERY_MAX},
                  {KIT_VALUE(U64, u64, UINT64_MAX), RABBIT_DELIVERY_MAX},
                  {KIT_VALUE(I64, i64, INT64_MAX), RABBIT_DELIVERY_MAX},
                  {KIT_VALUE(I64, i64, -7), 2}};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        mail m = {.redelivered = 1};
        mail_add(&m, "x-delivery-count", counts[i].value);
        assert_int_equal(mail_deliver(&m)->delivery, counts[i].delivery);
        assert_int_equal(m.message->header_count, 0);
        mail_discard(&m);
    }
}

static amqp_field_value_t death(amqp_table_entry_t room[3], const char *queue, const char *reason,
                                int64_t count)
{
    room[0] = kit_entry("queue", kit_string(queue));
    room[1] = kit_entry("reason", kit_string(reason));
    room[2] = kit_entry("count", kit_i64(count));
    return kit_table(room, 3);
}

static void the_deaths_in_this_queue_count_and_no_others(void **state)
{
    mail m = {.queue = "stock", .redelivered = 1};
    amqp_table_entry_t room[5][3];
    amqp_field_value_t deaths[] = {
        death(room[0], "stock", "rejected", 3),        death(room[1], "stock.retry", "expired", 30),
        death(room[2], "stock", "delivery_limit", 40), death(room[3], "stock", "expired", 500),
        death(room[4], "stoc", "rejected", 5000),      kit_i64(6)};
    (void)state;
    mail_add(&m, "x-delivery-count", kit_i64(100));
    mail_add(&m, "x-death", kit_array(deaths, sizeof deaths / sizeof *deaths));
    mail_add_text(&m, "x-first-death-queue", "stock");
    assert_int_equal(mail_deliver(&m)->delivery, 1 + 100 + 3 + 40);
    assert_int_equal(m.message->header_count, 1);
    assert_message_header(m.message, "x-first-death-queue", "stock");
    mail_discard(&m);
}

static void deaths_that_make_no_sense_count_for_nothing(void **state)
{
    mail m = {.queue = "stock"}, many = {.queue = "stock"};
    amqp_table_entry_t room[3][3];
    amqp_field_value_t deaths[] = {death(room[0], "stock", "rejected", -9), kit_table(NULL, 0),
                                   death(room[1], "stock", "rejected", INT64_MAX),
                                   death(room[2], "stock", "rejected", INT64_MAX)};
    (void)state;
    mail_add(&m, "x-death", kit_array(deaths, 2));
    assert_int_equal(mail_deliver(&m)->delivery, 1);
    mail_add(&many, "x-death", kit_array(deaths, 4));
    assert_int_equal(mail_deliver(&many)->delivery, RABBIT_DELIVERY_MAX);
    mail_discard(&m);
    mail_discard(&many);
}

/* --- without memory --------------------------------------------------------------------------- */

/* Texts as long as they may be, so many that the arena needs several chunks. */
static void reading_survives_the_failure_of_any_allocation(void **state)
{
    static char text[SEMEL_HEADER_MAX - 15];
    mail m = {0};
    (void)state;
    memset(text, 'a', sizeof text - 1);
    mail_set_id(&m, "7");
    mail_add_text(&m, "semel-group", "customer 17");
    mail_add_text(&m, "cloudEvents_specversion", "1.0");
    mail_add_text(&m, "cloudEvents_colour", text);
    for (int i = 0; i < 4; i++)
        mail_add_text(&m, "header", text);
    assert_true(mail_starve(&m) >= 4);
    BYTES_EQUAL(semel_str("7"), m.message->id);
    assert_message_header(m.message, "colour", text);
    mail_discard(&m);
}

/* So many that their array is more than a chunk of the arena has left. What is over the limit is
 * left out. */
static void of_a_thousand_headers_as_many_as_may_be_are_read_or_none_for_want_of_memory(
    void **state)
{
    enum { MANY = 1000 };
    static amqp_table_entry_t entries[MANY];
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_HEADERS_FLAG};
    rabbit_incoming parcel = {.properties = &properties};
    (void)state;
    for (size_t i = 0; i < MANY; i++)
        entries[i] = kit_entry("name", kit_string("value"));
    properties.headers = (amqp_table_t){MANY, entries};
    for (long nth = 0; nth <= 2; nth++) {
        mem_arena arena = {0};
        mem_fail_at(nth);
        const semel_message *message = rabbit_envelope_read(&arena, &parcel);
        mem_fail_at(0);
        assert_int_equal(message ? message->header_count : 0, nth ? 0 : SEMEL_HEADERS_MAX);
        arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_pika_is_read),
        cmocka_unit_test(a_message_of_amqplib_is_read_with_its_time_in_milliseconds),
        cmocka_unit_test(a_message_of_masstransit_is_read),
        cmocka_unit_test(a_message_of_spring_is_read),
        cmocka_unit_test(a_message_of_nothing_but_a_body_is_read),
        cmocka_unit_test(numbers_become_text),
        cmocka_unit_test(a_decimal_of_255_places_has_them_all),
        cmocka_unit_test(a_locale_with_a_comma_changes_nothing),
        cmocka_unit_test(tables_arrays_and_void_are_left_out),
        cmocka_unit_test(a_text_with_a_nul_byte_is_left_out),
        cmocka_unit_test(absurd_times_are_ignored),
        cmocka_unit_test(an_exact_time_counts_if_it_is_in_the_second_of_the_timestamp),
        cmocka_unit_test(a_first_delivery_is_the_first_and_a_redelivery_at_least_the_second),
        cmocka_unit_test(the_count_of_a_quorum_queue_may_be_of_any_type),
        cmocka_unit_test(the_deaths_in_this_queue_count_and_no_others),
        cmocka_unit_test(deaths_that_make_no_sense_count_for_nothing),
        cmocka_unit_test(reading_survives_the_failure_of_any_allocation),
        cmocka_unit_test(
            of_a_thousand_headers_as_many_as_may_be_are_read_or_none_for_want_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
