/* CloudEvents, there and back; and what becomes of them when memory runs out. */
#include "base/json.h"
#include "base/mem.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static semel_message small_message(void)
{
    return (semel_message){
        .size = sizeof(semel_message), .id = {"7", 1}, .source = "/shop", .type = "order.placed"};
}

static void assert_comes_back(const semel_message *message)
{
    char *first = NULL, *second = NULL;
    semel_message *back = NULL;
    assert_int_equal(semel_message_write_cloudevent(&first, message, NULL), SEMEL_OK);
    assert_int_equal(semel_message_read_cloudevent(&back, semel_str(first), NULL), SEMEL_OK);
    assert_int_equal(back->body.len, message->body.len);
    if (message->body.len)
        assert_memory_equal(back->body.data, message->body.data, message->body.len);
    assert_true(back->time_ms == message->time_ms);
    assert_int_equal(semel_message_write_cloudevent(&second, back, NULL), SEMEL_OK);
    assert_string_equal(first, second);
    semel_text_free(first);
    semel_text_free(second);
    semel_message_free(back);
}

static void all_bodies_come_back_whatever_they_claim_to_be(void **state)
{
    static const char *const types[] = {NULL, "application/json", "text/plain",
                                        "application/octet-stream"};
    static const semel_bytes bodies[] = {{"", 0},
                                         {"x", 1},
                                         {"\"x\"", 3},
                                         {"{\"a\":[1,2.50]}", 14},
                                         {"null", 4},
                                         {"true", 4},
                                         {"\0", 1},
                                         {"\xff\xfe", 2},
                                         {"\xe2\x82\xac\r\n\t\x01", 7},
                                         {"99999999999999999999", 20},
                                         {"NaN", 3},
                                         {"{\"a\":1", 6},
                                         {"\"a\\nb\\\\\\u0001\"", 14},
                                         {"\"\\ud800\"", 8}};
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) {
            semel_message message = small_message();
            message.content_type = types[t];
            message.body = bodies[b];
            assert_comes_back(&message);
        }
}

static void every_depth_comes_back(void **state)
{
    char body[2 * JSON_DEPTH_MAX + 8];
    (void)state;
    for (size_t depth = JSON_DEPTH_MAX - 3; depth < JSON_DEPTH_MAX + 3; depth++) {
        semel_message message = small_message();
        memset(body, '[', depth);
        memset(body + depth, ']', depth);
        message.body = (semel_bytes){body, 2 * depth};
        assert_comes_back(&message);
    }
}

static semel_message rich_message(void)
{
    static const semel_header headers[] = {{"one", {"1", 1}}, {"two", {"2", 1}}};
    semel_message message = small_message();
    message.topic = "orders";
    message.correlation_id = semel_str("c");
    message.content_type = "application/octet-stream";
    message.time_ms = INT64_C(1709251199999);
    message.headers = headers;
    message.header_count = 2;
    return message;
}

static void a_rich_message_comes_back(void **state)
{
    semel_message message = rich_message();
    (void)state;
    message.body = (semel_bytes){"\x00\xff", 2};
    assert_comes_back(&message);
}

/* A producer that is not semel may write the attribute as a number. */
static void the_header_of_a_delayed_message_comes_back(void **state)
{
    static const semel_header due = {SEMEL_HEADER_DUE, {"1700000000000", 13}};
    static const char foreign[] = "{\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/shop\","
                                  "\"type\":\"order.placed\",\"semeldue\":1700000000000}";
    semel_message message = small_message(), *back = NULL;
    char *text = NULL;
    (void)state;
    message.headers = &due;
    message.header_count = 1;
    assert_comes_back(&message);
    assert_int_equal(semel_message_write_cloudevent(&text, &message, NULL), SEMEL_OK);
    assert_non_null(strstr(text, "\"semeldue\""));
    for (int i = 0; i < 2; i++) {
        const char *event = i ? foreign : text;
        assert_int_equal(semel_message_read_cloudevent(&back, semel_str(event), NULL), SEMEL_OK);
        semel_bytes value = semel_message_header(back, SEMEL_HEADER_DUE);
        assert_int_equal(value.len, 13);
        assert_memory_equal(value.data, "1700000000000", 13);
        semel_message_free(back);
    }
    semel_text_free(text);
}

static void the_largest_body_comes_back(void **state)
{
    char *body = malloc(SEMEL_BODY_MAX);
    semel_message message = small_message();
    (void)state;
    memset(body, 1, SEMEL_BODY_MAX); /* six characters for each */
    message.content_type = "text/plain";
    message.body = (semel_bytes){body, SEMEL_BODY_MAX};
    assert_comes_back(&message);
    free(body);
}

/* --- without memory --------------------------------------------------------------------------- */

static void writing_survives_the_failure_of_any_allocation(void **state)
{
    static unsigned char body[40000];
    semel_message message = rich_message();
    long failures = 0;
    (void)state;
    memset(body, 0xff, sizeof body);
    message.body = (semel_bytes){body, sizeof body};
    for (semel_status status = SEMEL_ENOMEM; status; failures++) {
        char *text = NULL;
        semel_error err = {0};
        mem_fail_at(failures + 1);
        status = semel_message_write_cloudevent(&text, &message, &err);
        mem_fail_at(0);
        assert_int_equal(status, status ? SEMEL_ENOMEM : SEMEL_OK);
        assert_int_equal(err.status, status);
        assert_int_equal(!text, status != SEMEL_OK);
        semel_text_free(text);
    }
    assert_true(failures > 2);
}

#define REST "\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/shop\",\"type\":\"t\""

/* The filler is longer than a chunk of an arena, so that its parts need allocations of their
 * own. */
static void reading_survives_the_failure_of_any_allocation(void **state)
{
    static const char *const forms[] = {
        "{" REST ",\"one\":1,\"data\":\"%s\"}", "{" REST ",\"data_base64\":\"%s\"}",
        "{" REST ",\"data\":[\"%s\"]}",
        "{" REST ",\"datacontenttype\":\"text/plain\",\"data\":\"%s\"}"};
    static char filler[40001], json[41000];
    (void)state;
    memset(filler, 'x', sizeof filler - 1);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        long failures = 0;
        (void)snprintf(json, sizeof json, forms[i], filler);
        for (semel_status status = SEMEL_ENOMEM; status; failures++) {
            semel_message *message = NULL;
            semel_error err = {0};
            mem_fail_at(failures + 1);
            status = semel_message_read_cloudevent(&message, semel_str(json), &err);
            mem_fail_at(0);
            assert_int_equal(status, status ? SEMEL_ENOMEM : SEMEL_OK);
            assert_int_equal(err.status, status);
            assert_int_equal(!message, status != SEMEL_OK);
            semel_message_free(message);
        }
        assert_true(failures > 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_bodies_come_back_whatever_they_claim_to_be),
        cmocka_unit_test(every_depth_comes_back),
        cmocka_unit_test(a_rich_message_comes_back),
        cmocka_unit_test(the_header_of_a_delayed_message_comes_back),
        cmocka_unit_test(the_largest_body_comes_back),
        cmocka_unit_test(writing_survives_the_failure_of_any_allocation),
        cmocka_unit_test(reading_survives_the_failure_of_any_allocation),
    };
    return json_built_in() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
