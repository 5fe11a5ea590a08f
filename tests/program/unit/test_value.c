/* The grammar of values: every word, the short forms, the mistakes and where they are; and what the
 * values of a message are. */
#include "program/handler/value.h"
#include "support/fixture/fixture.h"

#include <json-c/json.h>
#include <stdio.h>

static region memory;

static int close_memory(void **state)
{
    (void)state;
    region_free(&memory);
    return 0;
}

/* --- texts ------------------------------------------------------------------------------------ */

static void accepts(const char *text, value_word word, const char *argument)
{
    value_name read;
    value_mistake wrong = {0};
    if (!value_parse(&read, &memory, text, &wrong))
        fail_msg("%s: %s", text, wrong.text);
    assert_int_equal(read.word, word);
    assert_string_equal(read.argument, argument);
    assert_string_equal(read.written, text);
}

static void every_word_has_a_short_and_a_long_form(void **state)
{
    static const struct {
        const char *text;
        value_word word;
    } words[] = {{"id", VALUE_ID},           {"correlation-id", VALUE_CORRELATION_ID},
                 {"source", VALUE_SOURCE},   {"type", VALUE_TYPE},
                 {"digest", VALUE_DIGEST},   {"body", VALUE_BODY},
                 {"key", VALUE_KEY},         {"time", VALUE_TIME},
                 {"topic", VALUE_TOPIC},     {"group", VALUE_GROUP},
                 {"attempt", VALUE_ATTEMPT}, {"inbox", VALUE_INBOX}};
    char text[64];
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        (void)snprintf(text, sizeof text, ":%s", words[i].text);
        accepts(text, words[i].word, "");
        (void)snprintf(text, sizeof text, ":{%s}", words[i].text);
        accepts(text, words[i].word, "");
    }
}

static void arguments_are_read(void **state)
{
    (void)state;
    accepts(":json/order_id", VALUE_JSON, "/order_id");
    accepts(":json/7", VALUE_JSON, "/7");
    accepts(":{json:/a/b/0}", VALUE_JSON, "/a/b/0");
    accepts(":{json:/a~1b~0}", VALUE_JSON, "/a~1b~0");
    accepts(":{json:'/a+b}'}", VALUE_JSON, "/a+b}");
    accepts(":{header:X-Tenant}", VALUE_HEADER, "X-Tenant");
    accepts(":{header:'it''s'}", VALUE_HEADER, "it's");
    accepts(":{header:a:b}", VALUE_HEADER, "a:b");
}

typedef struct bad {
    const char *text;
    size_t offset, len;
    const char *said;
} bad;

static void mistakes_have_a_place(void **state)
{
    static const bad all[] = {
        {":jason/amount", 0, 13, "unknown value \":jason\"; did you mean \":json\"?"},
        {":heder", 0, 6, "unknown value \":heder\"; did you mean \":header\"?"},
        {":{jsn:/x}", 2, 3, "unknown value \"jsn\"; did you mean \"json\"?"},
        {":{}", 2, 1, "unknown value \"\""},
        {":zzzzzz", 0, 7, "unknown value \":zzzzzz\""},
        {":ID", 0, 3, "unknown value \":ID\""},
        {":", 0, 1, "unknown value \":\""},
        {":id2", 0, 4, "unknown value \":id2\"; did you mean \":id\"?"},
        {"id", 0, 2, "a value begins with a colon"},
        {":json", 0, 5, "\":json\" needs a name, as in :json/order_id"},
        {":json/", 0, 5, "\":json\" needs a name, as in :json/order_id"},
        {":header", 0, 7, "\":header\" needs a name, as in :{header:X-Id}"},
        {":{header}", 0, 8, "header: needs an argument"},
        {":{header:}", 0, 9, "header: needs a name, as in :{header:X-Id}"},
        {":{header:''}", 0, 11, "header: needs a name, as in :{header:X-Id}"},
        {":{id:x}", 0, 4, "id takes no argument"},
        {":{json:a}", 7, 1, "not a JSON Pointer: it begins with / and escapes ~ as ~0"},
        {":{json:/~2}", 7, 3, "not a JSON Pointer: it begins with / and escapes ~ as ~0"},
        {":{header:'x}", 9, 3, "this quote is not closed"},
        {":{header:x", 0, 10, "\":{\" without a closing \"}\""},
        {":{id+type}", 4, 1,
         "\"}\" is expected here; a name with + or } is quoted, as in :{header:'a+b'}"},
        {":json/a/b", 0, 9,
         "\":json/a/b\" can be read in two ways; write :{json:/a/b} for a pointer, :json/a / b for "
         "a division"},
        {":id and more", 3, 9, "unexpected text behind the value \":id\""},
        {":attempt-1", 8, 2, "unexpected text behind the value \":attempt\""},
        {":i\x1b[2Jd", 0, 2, "unknown value \":i\"; did you mean \":id\"?"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        value_name read;
        value_mistake wrong = {0};
        if (value_parse(&read, &memory, all[i].text, &wrong))
            fail_msg("%s is accepted", all[i].text);
        assert_string_equal(wrong.text, all[i].said);
        if (wrong.offset != all[i].offset || wrong.len != all[i].len)
            fail_msg("%s: at %zu, of %zu", all[i].text, wrong.offset, wrong.len);
    }
}

/* --- values ----------------------------------------------------------------------------------- */

static const char body[] =
    "{\"int\": 9223372036854775807, \"least\": -9223372036854775808, \"u\": 18446744073709551615, "
    "\"real\": 12.34, \"e\": 1e2, \"t\": true, \"f\": false, \"n\": null, \"text\": "
    "\"\\u00e9 '; DROP TABLE x; --\", \"object\": {\"a\": [1, 2.50, \"x/y\"]}, \"array\": [], "
    "\"\": 1, \"a/b\": 2, \"long\": \"99999999999999999999\"}";

static semel_header headers[] = {{"X-Tenant", {"shop", 4}}, {"raw", {"\xff\x00", 2}}};

static value_source source_of(semel_message *message)
{
    *message = (semel_message){.size = sizeof *message,
                               .id = semel_str("m-1"),
                               .type = "order.placed",
                               .topic = "orders",
                               .time_ms = INT64_C(1773452577312),
                               .headers = headers,
                               .header_count = 2,
                               .body = semel_str(body)};
    return (value_source){.message = message, .inbox = "payments"};
}

static semel_value get(value_source *source, const char *text)
{
    value_name read;
    value_mistake wrong = {0};
    semel_value out = {.kind = SEMEL_VALUE_BYTES};
    if (!value_parse(&read, &memory, text, &wrong))
        fail_msg("%s: %s", text, wrong.text);
    OK(value_get(&out, &read, source, &last_error));
    return out;
}

static void is_text(value_source *source, const char *text, const char *expected)
{
    semel_value out = get(source, text);
    if (out.kind != SEMEL_VALUE_TEXT || out.bytes.len != strlen(expected) ||
        memcmp(out.bytes.data, expected, out.bytes.len) != 0)
        fail_msg("%s is %.*s", text, (int)out.bytes.len, (const char *)out.bytes.data);
}

static void is_int(value_source *source, const char *text, int64_t expected)
{
    semel_value out = get(source, text);
    assert_int_equal(out.kind, SEMEL_VALUE_INT);
    assert_true(out.integer == expected);
}

static void json_keeps_its_types(void **state)
{
    semel_message message;
    value_source source = source_of(&message);
    (void)state;
    is_int(&source, ":json/int", INT64_MAX);
    is_int(&source, ":json/least", INT64_MIN);
    is_int(&source, ":json/t", 1);
    is_int(&source, ":json/f", 0);
    is_int(&source, ":{json:/}", 1);
    is_int(&source, ":{json:/a~1b}", 2);
    is_text(&source, ":json/u", "18446744073709551615");
    assert_true(get(&source, ":json/real").real == 12.34);
    assert_true(get(&source, ":json/e").real == 100.0);
    assert_int_equal(get(&source, ":json/e").kind, SEMEL_VALUE_REAL);
    assert_int_equal(get(&source, ":json/n").kind, SEMEL_VALUE_NULL);
    assert_int_equal(get(&source, ":json/missing").kind, SEMEL_VALUE_NULL);
    is_text(&source, ":json/text", "\xc3\xa9 '; DROP TABLE x; --");
    is_text(&source, ":json/object", "{\"a\":[1,2.50,\"x/y\"]}");
    value_source_free(&source);
}

static void words_give_what_the_message_has(void **state)
{
    semel_message message;
    value_source source = source_of(&message);
    (void)state;
    is_text(&source, ":id", "m-1");
    is_text(&source, ":type", "order.placed");
    is_text(&source, ":topic", "orders");
    is_text(&source, ":inbox", "payments");
    is_text(&source, ":time", "2026-03-14T01:42:57.312Z");
    is_text(&source, ":body", body);
    is_text(&source, ":{header:x-tenant}", "shop");
    assert_int_equal(get(&source, ":{header:raw}").kind, SEMEL_VALUE_BYTES);
    assert_int_equal(get(&source, ":{header:none}").kind, SEMEL_VALUE_NULL);
    assert_int_equal(get(&source, ":group").kind, SEMEL_VALUE_NULL);
    assert_int_equal(get(&source, ":source").kind, SEMEL_VALUE_NULL);
    assert_int_equal(get(&source, ":correlation-id").kind, SEMEL_VALUE_NULL);
    assert_int_equal(get(&source, ":key").kind, SEMEL_VALUE_NULL);
    is_int(&source, ":attempt", 1);
    assert_int_equal(get(&source, ":digest").bytes.len, 64);
    value_source_free(&source);
}

static void gives_up(const char *json, const char *text, const char *said)
{
    semel_message message;
    value_source source = source_of(&message);
    value_name read;
    value_mistake wrong = {0};
    semel_value out;
    message.body = semel_str(json);
    assert_true(value_parse(&read, &memory, text, &wrong));
    FAILS(SEMEL_EGIVEUP, value_get(&out, &read, &source, &last_error));
    assert_string_equal(last_error.text, said);
    value_source_free(&source);
}

static void what_would_be_changed_is_refused(void **state)
{
    char deep[200] = {0};
    (void)state;
    memset(deep, '[', 60);
    memset(deep + 60, ']', 60);
    gives_up("not json", ":json/a", ":json/a: the body of the message is not JSON");
    gives_up("", ":json/a", ":json/a: the body of the message is not JSON");
    gives_up("{\"a\":1} x", ":json/a", ":json/a: the body of the message is not JSON");
    gives_up("{'a':1}", ":json/a", ":json/a: the body of the message is not JSON");
    gives_up("{\"a\":\"\xff\"}", ":json/a", ":json/a: the body of the message is not JSON");
    gives_up(deep, ":json/a", ":json/a: the body of the message is not JSON");
    gives_up("{\"a\":18446744073709551616}", ":json/a",
             ":json/a: an integer of more than 64 bits would be changed; send it as a string");
    gives_up("{\"a\":{\"b\":-9223372036854775809}}", ":json/a",
             ":json/a: an integer of more than 64 bits would be changed; send it as a string");
    gives_up("{\"a\":1e999}", ":json/a", ":json/a: the number is too large for a database");
}

static void a_scalar_body_is_json(void **state)
{
    semel_message message;
    value_source source = source_of(&message);
    value_name read;
    value_mistake wrong = {0};
    struct json_object *out = NULL;
    (void)state;
    message.body = semel_str(" 42 ");
    assert_true(value_parse(&read, &memory, ":body", &wrong));
    OK(value_get_json(&out, &read, &source, &last_error));
    assert_true(json_object_is_type(out, json_type_int));
    json_object_put(out);
    value_source_free(&source);
}

static void texts_are_texts(void **state)
{
    static const struct {
        const char *text, *expected;
    } all[] = {{":json/int", "9223372036854775807"},
               {":json/real", "12.34"},
               {":json/t", "true"},
               {":json/object", "{\"a\":[1,2.50,\"x/y\"]}"},
               {":attempt", "1"},
               {":id", "m-1"},
               {":json/n", NULL},
               {":group", NULL}};
    semel_message message;
    value_source source = source_of(&message);
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        value_name read;
        value_mistake wrong = {0};
        semel_bytes out = {"", 0};
        assert_true(value_parse(&read, &memory, all[i].text, &wrong));
        OK(value_get_text(&out, &read, &source, &last_error));
        if (all[i].expected)
            assert_string_equal(out.data, all[i].expected);
        else
            assert_null(out.data);
    }
    value_source_free(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_word_has_a_short_and_a_long_form),
        cmocka_unit_test(arguments_are_read),
        cmocka_unit_test(mistakes_have_a_place),
        cmocka_unit_test(json_keeps_its_types),
        cmocka_unit_test(words_give_what_the_message_has),
        cmocka_unit_test(what_would_be_changed_is_refused),
        cmocka_unit_test(a_scalar_body_is_json),
        cmocka_unit_test(texts_are_texts),
    };
    return cmocka_run_group_tests_name("value", tests, NULL, close_memory);
}
