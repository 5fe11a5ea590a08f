/* A message as a record, and records of other producers as messages. */
#include "support/base/check.h"

#include "support/fixture/scripted_handler.h"
#include "transport/kafka/envelope.h"

#include <string.h>

static mem_arena arena;

static int forget(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

static kafka_record write(const semel_message *message, int cloudevents)
{
    kafka_record record;
    OK(kafka_envelope_write(&record, &arena, message, cloudevents, &last_error));
    return record;
}

static const semel_message *read(const kafka_record *record)
{
    kafka_incoming incoming = {
        .record = *record, .topic = "orders.v1", .partition = 3, .offset = 1042};
    const semel_message *message = kafka_envelope_read(&arena, &incoming);
    assert_non_null(message);
    return message;
}

static const semel_bytes *header(const kafka_record *record, const char *name)
{
    for (size_t i = 0; i < record->header_count; i++)
        if (strcmp(record->headers[i].name, name) == 0)
            return &record->headers[i].value;
    return NULL;
}

#define HEADER_IS(record, name, text) BYTES_EQUAL(semel_str(text), *header(record, name))

static void an_event_has_the_headers_of_the_binding(void **state)
{
    semel_message message = text_message("m-1", "10 EUR");
    (void)state;
    message.group = "customer 17";
    message.content_type = "text/plain";
    message.time_ms = INT64_C(1767225600123);
    kafka_record record = write(&message, 0);
    HEADER_IS(&record, "ce_specversion", "1.0");
    HEADER_IS(&record, "ce_id", "m-1");
    HEADER_IS(&record, "ce_source", "shop");
    HEADER_IS(&record, "ce_type", "order.paid");
    HEADER_IS(&record, "ce_subject", "orders");
    HEADER_IS(&record, "ce_time", "2026-01-01T00:00:00.123Z");
    HEADER_IS(&record, "content-type", "text/plain");
    BYTES_EQUAL(semel_str("customer 17"), record.key);
    assert_int_equal(record.timestamp_ms, message.time_ms);
    MESSAGE_EQUAL(&message, read(&record));
}

static void every_message_comes_back_as_it_was(void **state)
{
    semel_message bare = {.size = sizeof bare, .id = {"\0", 1}};
    semel_message old = text_message("m-1", "");
    (void)state;
    old.time_ms = INT64_C(-400000000000000); /* beyond RFC 3339 */
    const semel_message *const messages[] = {full_message(), &bare, &old};
    for (size_t i = 0; i < 3; i++) {
        kafka_record record = write(messages[i], 0);
        assert_non_null(record.body.data);
        record.timestamp_ms = 77; /* as a broker would set it */
        MESSAGE_EQUAL(messages[i], read(&record));
        assert_null(header(&record, "ce_specversion"));
    }
}

/* Found by fuzz/fuzz_kafka.c: the last time counted. */
static void of_two_headers_with_one_name_the_first_counts(void **state)
{
    static const semel_header headers[] = {{"ce_id", {"m-1", 3}},
                                           {"CE_ID", {"m-2", 3}},
                                           {"ce_source", {"shop", 4}},
                                           {"ce_source", {"bank", 4}},
                                           {"ce_time", {"2026-01-01T00:00:00.123Z", 24}},
                                           {"ce_time", {"2027-01-01T00:00:00.123Z", 24}},
                                           {"semel-time-ms", {"5", 1}}};
    const kafka_record record = {.headers = headers, .header_count = 7};
    (void)state;
    const semel_message *message = read(&record);
    BYTES_EQUAL(semel_str("m-1"), message->id);
    assert_string_equal(message->source, "shop");
    assert_true(message->time_ms == INT64_C(1767225600123));
}

static void what_is_no_event_is_refused_where_events_are_asked_for(void **state)
{
    kafka_record record;
    (void)state;
    FAILS(SEMEL_EINVAL, kafka_envelope_write(&record, &arena, full_message(), 1, &last_error));
    SAYS("message.id");
    semel_message message = text_message("m-1", "");
    message.type = NULL;
    FAILS(SEMEL_EINVAL, kafka_envelope_write(&record, &arena, &message, 1, &last_error));
    SAYS("message.type is missing");
}

static void headers_are_extensions_where_events_are_asked_for(void **state)
{
    static const semel_header headers[] = {
        {"Colour", {"red", 3}}, {"not-one", {"x", 1}}, {"ce_id", {"another", 7}}};
    semel_message message = text_message("m-1", "10 EUR");
    (void)state;
    message.headers = headers;
    message.header_count = 3;
    kafka_record record = write(&message, 1);
    HEADER_IS(&record, "ce_colour", "red");
    HEADER_IS(&record, "ce_id", "m-1");
    assert_null(header(&record, "ce_not-one"));
    message.header_count = 2; /* that one would be taken for the id */
    MESSAGE_EQUAL(&message, read(&record));
}

/* --- of other producers ----------------------------------------------------------------------- */

static void a_record_without_headers_has_an_id_that_stays(void **state)
{
    kafka_record record = {
        .key = semel_str("k-1"), .body = semel_str("{}"), .timestamp_ms = INT64_C(1767225600123)};
    (void)state;
    const semel_message *message = read(&record);
    BYTES_EQUAL(semel_str("orders.v1/3/1042/1767225600123"), message->id);
    assert_string_equal(message->topic, "orders.v1");
    assert_string_equal(message->group, "k-1");
    assert_int_equal(message->time_ms, INT64_C(1767225600123));
    BYTES_EQUAL(semel_str("{}"), message->body);
    assert_null(message->type);
}

static void a_key_that_is_no_text_is_a_group_all_the_same(void **state)
{
    kafka_record record = {.key = {"\0\0\x01\xff", 4}};
    (void)state;
    assert_string_equal(read(&record)->group, "0x000001ff");
}

static void attributes_of_an_event_become_headers(void **state)
{
    static const semel_header headers[] = {{"CE_SpecVersion", {"1.0", 3}},
                                           {"ce_id", {"e-1", 3}},
                                           {"ce_Colour", {"red", 3}},
                                           {"ce_size", {"9", 1}},
                                           {"size", {"10", 2}},
                                           {"ce_partitionkey", {"p-1", 3}},
                                           {"Content-Type", {"text/plain", 10}}};
    kafka_record record = {.headers = headers, .header_count = 7, .timestamp_ms = 5};
    (void)state;
    const semel_message *message = read(&record);
    BYTES_EQUAL(semel_str("e-1"), message->id);
    assert_string_equal(message->group, "p-1");
    assert_string_equal(message->content_type, "text/plain");
    assert_int_equal(message->header_count, 2);
    BYTES_EQUAL(semel_str("red"), semel_message_header(message, "colour"));
    BYTES_EQUAL(semel_str("10"), semel_message_header(message, "size"));
    assert_int_equal(message->time_ms, 0); /* an event says its time itself */
}

static void an_event_in_structured_mode_wins(void **state)
{
    static const semel_header headers[] = {
        {"content-type", {"application/cloudevents+json; charset=utf-8", 43}}};
    kafka_record record = {
        .key = semel_str("k-1"),
        .body = semel_str("{\"specversion\":\"1.0\",\"id\":\"e-7\",\"source\":\"s\",\"type\":\"t\","
                          "\"datacontenttype\":\"text/plain\",\"data\":\"hello\"}"),
        .headers = headers,
        .header_count = 1};
    (void)state;
    const semel_message *message = read(&record);
    BYTES_EQUAL(semel_str("e-7"), message->id);
    BYTES_EQUAL(semel_str("hello"), message->body);
    assert_string_equal(message->group, "k-1");
}

/* Better a message without it than none. */
static void what_is_over_a_limit_is_left_out(void **state)
{
    static char large[SEMEL_BODY_MAX + 1];
    static char name[SEMEL_HEADER_MAX + 1];
    (void)state;
    memset(name, 'n', SEMEL_HEADER_MAX);
    const semel_header headers[] = {{name, {"x", 1}},
                                    {"ce_id", {large, SEMEL_TEXT_MAX + 1}},
                                    {"ce_type", {"a\0b", 3}},
                                    {"fine", {"x", 1}}};
    kafka_record record = {
        .body = {large, sizeof large}, .headers = headers, .header_count = 4, .timestamp_ms = 5};
    const semel_message *message = read(&record);
    BYTES_EQUAL(semel_str("orders.v1/3/1042/5"), message->id);
    assert_null(message->type);
    assert_int_equal(message->header_count, 1);
    BYTES_EQUAL(((semel_bytes){large, sizeof large}), message->body); /* for a dead letter */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_event_has_the_headers_of_the_binding, forget),
        cmocka_unit_test_teardown(every_message_comes_back_as_it_was, forget),
        cmocka_unit_test_teardown(of_two_headers_with_one_name_the_first_counts, forget),
        cmocka_unit_test_teardown(what_is_no_event_is_refused_where_events_are_asked_for, forget),
        cmocka_unit_test_teardown(headers_are_extensions_where_events_are_asked_for, forget),
        cmocka_unit_test_teardown(a_record_without_headers_has_an_id_that_stays, forget),
        cmocka_unit_test_teardown(a_key_that_is_no_text_is_a_group_all_the_same, forget),
        cmocka_unit_test_teardown(attributes_of_an_event_become_headers, forget),
        cmocka_unit_test_teardown(an_event_in_structured_mode_wins, forget),
        cmocka_unit_test_teardown(what_is_over_a_limit_is_left_out, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
