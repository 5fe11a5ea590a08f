/* A message as the fields of an entry, and back; and what other programs may have written. */
#include "support/base/check.h"
#include "support/fixture/scripted_handler.h"

#include "base/mem.h"
#include "transport/redis/entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the server would answer, made by hiredis of the bytes that would be sent. */
static redisReply *as_reply(const redis_request *r, size_t words)
{
    redisReader *reader = redisReaderCreate();
    char head[32];
    void *reply = NULL;
    int len = snprintf(head, sizeof head, "*%zu\r\n", words);
    assert_int_equal(redisReaderFeed(reader, head, (size_t)len), REDIS_OK);
    assert_int_equal(redisReaderFeed(reader, r->bytes.bytes, r->bytes.len), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

typedef struct entry {
    redisReply *fields;
    semel_header headers[200];
    semel_message message;
} entry;

static void read_back(entry *out, redisReply *fields)
{
    assert_true(stream_entry_headers(fields) <= 200);
    out->fields = fields;
    stream_entry_read(&out->message, out->headers, fields);
}

/* Of the words that are written the first is their number. */
static void write_and_read(entry *out, const semel_message *message)
{
    redis_request r = {0};
    stream_entry_write(&r, message);
    redisReply *all = as_reply(&r, r.arguments);
    assert_int_equal(strtoul(all->element[0]->str, NULL, 10), r.arguments - 1);
    freeReplyObject(all->element[0]);
    memmove(all->element, all->element + 1, (all->elements - 1) * sizeof(redisReply *));
    all->elements--;
    mem_free(r.bytes.bytes);
    read_back(out, all);
}

static void round_trip(const semel_message *message)
{
    static entry e;
    write_and_read(&e, message);
    MESSAGE_EQUAL(message, &e.message);
    freeReplyObject(e.fields);
}

static void a_message_comes_back_as_it_was(void **state)
{
    semel_message bare = {.size = sizeof bare, .id = {"\0", 1}};
    (void)state;
    round_trip(full_message());
    round_trip(&bare);
}

static void times_come_back_exactly(void **state)
{
    static const int64_t times[] = {
        1, -1, 1700000000123, 253402300799999, 253402300800000, INT64_MAX, INT64_MIN + 1};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        semel_message message = {.size = sizeof message, .id = {"m", 1}, .time_ms = times[i]};
        round_trip(&message);
    }
}

/* A header may have any name, also those of other fields. */
static void headers_are_not_taken_for_members(void **state)
{
    static const char *const names[] = {"id",
                                        "source",
                                        "type",
                                        "subject",
                                        "partitionkey",
                                        "time",
                                        "data",
                                        "specversion",
                                        "time_ms",
                                        "header:",
                                        "Id",
                                        "header:header:id",
                                        "correlationid",
                                        "datacontenttype",
                                        "x",
                                        "x"};
    enum { MANY = sizeof names / sizeof *names };
    semel_header headers[MANY];
    (void)state;
    for (size_t i = 0; i < MANY; i++)
        headers[i] = (semel_header){names[i], {names[i], i % 3}};
    semel_message message = {
        .size = sizeof message, .id = {"m", 1}, .headers = headers, .header_count = MANY};
    round_trip(&message);
    message.topic = "order.placed";
    message.group = "7";
    message.body = semel_str("10 EUR");
    round_trip(&message);
}

/* --- of other programs ------------------------------------------------------------------------ */

static void read_words(entry *out, const char *const words[], size_t count)
{
    redis_request r = {0};
    for (size_t i = 0; i < count; i++)
        redis_word_z(&r, words[i]);
    read_back(out, as_reply(&r, count));
    mem_free(r.bytes.bytes);
}

#define READ(out, ...)                                             \
    do {                                                           \
        static const char *const words_[] = {__VA_ARGS__};         \
        read_words((out), words_, sizeof words_ / sizeof *words_); \
    } while (0)

static void unknown_fields_are_headers(void **state)
{
    static entry e;
    (void)state;
    READ(&e, "sku", "A-7", "quantity", "3");
    assert_int_equal(e.message.header_count, 2);
    BYTES_EQUAL(semel_str("A-7"), semel_message_header(&e.message, "sku"));
    BYTES_EQUAL(semel_str("3"), semel_message_header(&e.message, "quantity"));
    assert_int_equal(e.message.id.len, 0);
    assert_int_equal(e.message.body.len, 0);
    freeReplyObject(e.fields);
}

static void cloudevents_are_read(void **state)
{
    static entry e;
    (void)state;
    READ(&e, "specversion", "1.0", "id", "17", "type", "order.placed", "time",
         "2026-02-28T23:59:59.5Z", "subject", "orders", "data", "{}", "level", "high");
    BYTES_EQUAL(semel_str("17"), e.message.id);
    assert_string_equal(e.message.type, "order.placed");
    assert_string_equal(e.message.topic, "orders");
    assert_int_equal(e.message.time_ms, 1772323199500);
    BYTES_EQUAL(semel_str("{}"), e.message.body);
    assert_int_equal(e.message.header_count, 1);
    freeReplyObject(e.fields);
}

/* What does not fit stays readable as a header. */
static void odd_values_are_headers(void **state)
{
    static entry e;
    (void)state;
    READ(&e, "id", "1", "id", "2", "time", "yesterday", "time_ms", "12x", "specversion", "2.0",
         "type", "");
    BYTES_EQUAL(semel_str("1"), e.message.id);
    BYTES_EQUAL(semel_str("2"), semel_message_header(&e.message, "id"));
    BYTES_EQUAL(semel_str("yesterday"), semel_message_header(&e.message, "time"));
    BYTES_EQUAL(semel_str("12x"), semel_message_header(&e.message, "time_ms"));
    BYTES_EQUAL(semel_str("2.0"), semel_message_header(&e.message, "specversion"));
    assert_null(e.message.type);
    assert_int_equal(e.message.time_ms, 0);
    freeReplyObject(e.fields);
}

static void what_is_over_a_limit_is_left_out(void **state)
{
    static entry e;
    static char text[SEMEL_HEADER_MAX + 1];
    redis_request r = {0};
    (void)state;
    memset(text, 'a', sizeof text);
    redis_word_z(&r, "id");
    redis_word(&r, text, SEMEL_TEXT_MAX + 1); /* a header, then */
    redis_word_z(&r, "big");
    redis_word(&r, text, SEMEL_HEADER_MAX);
    redis_word(&r, "a\0b", 3); /* no C text */
    redis_word_z(&r, "value");
    redis_word_z(&r, "source");
    redis_word(&r, "a\0b", 3);
    for (size_t i = 0; i < SEMEL_HEADERS_MAX + 9; i++) {
        redis_word_z(&r, "x");
        redis_word_z(&r, "y");
    }
    read_back(&e, as_reply(&r, 2 * (SEMEL_HEADERS_MAX + 13)));
    mem_free(r.bytes.bytes);
    assert_int_equal(e.message.id.len, 0);
    assert_null(e.message.source);
    assert_null(semel_message_header(&e.message, "big").data);
    assert_int_equal(semel_message_header(&e.message, "id").len, SEMEL_TEXT_MAX + 1);
    assert_int_equal(e.message.header_count, SEMEL_HEADERS_MAX);
    freeReplyObject(e.fields);
}

/* Found by fuzz/fuzz_redis.c: such a message would be refused for ever. */
static void a_header_without_a_name_is_left_out(void **state)
{
    static entry e;
    (void)state;
    READ(&e, "", "1", "header:", "2", "sku", "A-7");
    assert_int_equal(e.message.header_count, 1);
    BYTES_EQUAL(semel_str("A-7"), semel_message_header(&e.message, "sku"));
    freeReplyObject(e.fields);
}

static void no_fields_at_all_are_an_empty_message(void **state)
{
    static entry e;
    (void)state;
    READ(&e, "odd");
    assert_int_equal(e.message.header_count, 0);
    freeReplyObject(e.fields);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_message_comes_back_as_it_was),
                                       cmocka_unit_test(times_come_back_exactly),
                                       cmocka_unit_test(headers_are_not_taken_for_members),
                                       cmocka_unit_test(unknown_fields_are_headers),
                                       cmocka_unit_test(cloudevents_are_read),
                                       cmocka_unit_test(odd_values_are_headers),
                                       cmocka_unit_test(what_is_over_a_limit_is_left_out),
                                       cmocka_unit_test(a_header_without_a_name_is_left_out),
                                       cmocka_unit_test(no_fields_at_all_are_an_empty_message)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
