/* Key expressions: what each finds in a message, how several are joined, and that a bad one is
 * refused when the inbox opens, with the position of the mistake. */
#include "core/key.h"
#include "support/fixture/fixture.h"

#include "base/digest.h"

#include <stdio.h>

static const char body[] = "{\"order\":{\"id\":\"o-7\",\"count\":42,\"price\":1.50,\"paid\":true,"
                           "\"gift\":false,\"note\":null,\"vast\":18446744073709551616,"
                           "\"lines\":[{\"sku\":\"a\"},{\"sku\":\"b\"},7]},"
                           "\"a/b\":\"slash\",\"m~n\":\"tilde\",\"~1\":\"both\",\"\":\"no name\","
                           "\"text\":\"A\\u00e9\\u0000Z\",\"empty\":\"\","
                           "\"c+d\":\"plus\",\"it's\":\"quote\"}";

static const semel_header headers[] = {{"X-Request-Id", {"r-9", 3}},
                                       {"Empty", {"", 0}},
                                       {"Binary", {"\0\xff", 2}},
                                       {"x+y", {"plus", 4}},
                                       {"'q", {"quote", 5}}};

static semel_message full(void)
{
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str("i-1"),
                           .source = "/shop",
                           .type = "order.placed",
                           .correlation_id = semel_str("c-1"),
                           .headers = headers,
                           .header_count = sizeof headers / sizeof *headers,
                           .body = semel_str(body)};
}

/* The key in a new inbox with this expression. */
static semel_status key_of(void *room, size_t size, size_t *len, fixture *f, const char *expression,
                           const semel_message *message)
{
    semel_inbox_options options = {.size = sizeof options, .key = expression, .accept_changes = 1};
    semel_inbox *inbox = NULL;
    OK(semel_inbox_open(&inbox, f->store, "keys", &options, &last_error));
    semel_status status = semel_inbox_key(room, size, len, inbox, message, &last_error);
    semel_inbox_close(inbox);
    return status;
}

static void assert_key(fixture *f, const char *expression, const semel_message *message,
                       const void *expected, size_t expected_len)
{
    unsigned char key[1024];
    size_t len = 0;
    semel_status status = key_of(key, sizeof key, &len, f, expression, message);
    if (status || len != expected_len || memcmp(key, expected, len) != 0)
        fail_msg("%s: %s, %zu bytes: \"%.*s\"", expression, semel_status_name(status), len,
                 (int)len, (const char *)key);
}

/* --- what an expression finds ----------------------------------------------------------------- */

static void each_expression_finds_its_part(void **state)
{
    static const struct {
        const char *expression, *key;
    } cases[] = {{"id", "i-1"},
                 {"correlation-id", "c-1"},
                 {"source", "/shop"},
                 {"type", "order.placed"},
                 {"header:X-Request-Id", "r-9"},
                 {"header:x-rEQUEST-iD", "r-9"},
                 {"json:/order/id", "o-7"},
                 {"json:/order/count", "42"},
                 {"json:/order/price", "1.50"},
                 {"json:/order/paid", "true"},
                 {"json:/order/gift", "false"},
                 {"json:/order/lines/0/sku", "a"},
                 {"json:/order/lines/1/sku", "b"},
                 {"json:/order/lines/2", "7"},
                 {"json:/a~1b", "slash"},
                 {"json:/m~0n", "tilde"},
                 {"json:/~01", "both"},
                 {"json:/", "no name"},
                 {"source+id", "5:/shop,3:i-1,"},
                 {"type+json:/order/id+header:X-Request-Id", "12:order.placed,3:o-7,3:r-9,"}};
    semel_message message = full();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_key(*state, cases[i].expression, &message, cases[i].key, strlen(cases[i].key));
    assert_key(*state, "header:Binary", &message, "\0\xff", 2);
    assert_key(*state, "json:/text", &message, "A\xc3\xa9\0Z", 5);
}

static void quoted_text_stands_for_itself(void **state)
{
    static const struct {
        const char *expression, *key;
    } cases[] = {{"'payment:'+json:/order/id", "payment:o-7"},
                 {"id+'/v1'", "i-1/v1"},
                 {"'<'+id+'>'", "<i-1>"},
                 {"'a+b '+id", "a+b i-1"},
                 {"'it''s '+id", "it's i-1"},
                 {"''''+id", "'i-1"},
                 {"'id'+id", "idi-1"},
                 {"'p'+source+id", "1:p,5:/shop,3:i-1,"},
                 {"source+'p+'+id", "5:/shop,2:p+,3:i-1,"}};
    semel_message message = full();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_key(*state, cases[i].expression, &message, cases[i].key, strlen(cases[i].key));
}

static void an_argument_may_be_quoted(void **state)
{
    static const struct {
        const char *expression, *key;
    } cases[] = {{"header:'x+y'", "plus"},
                 {"header:'X-Request-Id'", "r-9"},
                 {"header:'''q'", "quote"},
                 {"json:'/c+d'", "plus"},
                 {"json:'/it''s'", "quote"},
                 {"json:/it's", "quote"}, /* a quote further in needs none */
                 {"json:'/order/id'+header:'x+y'", "3:o-7,4:plus,"}};
    semel_message message = full();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_key(*state, cases[i].expression, &message, cases[i].key, strlen(cases[i].key));
}

static void assert_no_key(fixture *f, const char *expression, const semel_message *message)
{
    unsigned char key[64];
    size_t len;
    semel_status status = key_of(key, sizeof key, &len, f, expression, message);
    if (status != SEMEL_ENOTFOUND)
        fail_msg("%s: %s, not SEMEL_ENOTFOUND", expression, semel_status_name(status));
}

static void what_is_not_there_is_no_key(void **state)
{
    static const char *const expressions[] = {"header:Y",
                                              "header:Empty",
                                              "json:/order/none",
                                              "json:/order",
                                              "json:/order/lines",
                                              "json:/order/note",
                                              "json:/order/vast",
                                              "json:/order/lines/3",
                                              "json:/order/lines/00",
                                              "json:/order/lines/-",
                                              "json:/order/lines/x",
                                              "json:/order/id/deeper",
                                              "json:/empty",
                                              "id+header:Y",
                                              "header:Y+id",
                                              "'payment:'+header:Y",
                                              "header:'Y'+'payment'"};
    semel_message message = full(), nothing = {.size = sizeof nothing};
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++)
        assert_no_key(*state, expressions[i], &message);
    assert_no_key(*state, "id", &nothing);
    assert_no_key(*state, "correlation-id", &nothing);
    assert_no_key(*state, "source", &nothing);
    assert_no_key(*state, "type", &nothing);
}

static void a_body_that_is_not_json_has_no_json_key(void **state)
{
    static const char *const bodies[] = {
        "", "order", "{\"order\":", "{\"order\":{\"id\":1}} x", "{'order':{'id':1}}", "\xff"};
    semel_message message = full();
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        message.body = semel_str(bodies[i]);
        assert_no_key(*state, "json:/order/id", &message);
    }
    message.body = (semel_bytes){NULL, 0};
    assert_no_key(*state, "json:/order/id", &message);
}

static void digest_is_sha256_of_type_and_body(void **state)
{
    static const unsigned char expected[] = {0xf5, 0x1e, 0xa5, 0xa8, 0x77, 0x3c, 0x39, 0x18,
                                             0x72, 0xcf, 0xea, 0x96, 0x32, 0x9b, 0x44, 0x86,
                                             0x63, 0xd5, 0xfe, 0x3b, 0xb5, 0x36, 0x34, 0xec,
                                             0x24, 0xd7, 0x95, 0xf1, 0xd2, 0xe5, 0xb6, 0x5a};
    semel_message message = full(), other = full();
    unsigned char one[DIGEST_SIZE], two[DIGEST_SIZE];
    size_t len;
    message.body = semel_str("{\"a\":1}");
    assert_key(*state, "digest", &message, expected, sizeof expected);

    other.body = message.body;
    other.id = semel_str("another id");
    other.headers = NULL;
    other.header_count = 0;
    assert_key(*state, "digest", &other, expected, sizeof expected);

    other.body = semel_str("{\"a\": 1}"); /* a space more: other bytes, another key */
    OK(key_of(one, sizeof one, &len, *state, "digest", &message));
    OK(key_of(two, sizeof two, &len, *state, "digest", &other));
    assert_memory_not_equal(one, two, sizeof one);
}

static void joined_parts_are_unambiguous(void **state)
{
    static const char *const pairs[][2] = {{"ab", "c"},    {"a", "bc"},   {"a,1:b", "c"},
                                           {"a", "b,1:c"}, {"1:a", ",,"}, {"1:a,", ","},
                                           {"abc", "d"},   {"ab", "cd"}};
    enum { COUNT = sizeof pairs / sizeof *pairs };
    char keys[COUNT][64] = {{0}};
    for (size_t i = 0; i < COUNT; i++) {
        semel_message message = {.size = sizeof message,
                                 .id = semel_str(pairs[i][0]),
                                 .correlation_id = semel_str(pairs[i][1])};
        size_t len;
        OK(key_of(keys[i], sizeof keys[i] - 1, &len, *state, "id+correlation-id", &message));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(keys[i], keys[j]);
    }
}

static void a_short_room_gets_the_beginning_and_the_whole_length(void **state)
{
    semel_message message = full();
    char key[4] = "....";
    size_t len = 0;
    OK(key_of(key, 2, &len, *state, "type", &message));
    assert_int_equal(len, strlen("order.placed"));
    assert_memory_equal(key, "or..", 4);
    len = 0;
    OK(key_of(NULL, 0, &len, *state, "type", &message));
    assert_int_equal(len, strlen("order.placed"));
}

static void the_digest_that_stands_in_for_a_missing_key_is_the_key(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options,
                                   .on_missing_key = SEMEL_MISSING_KEY_DIGEST};
    semel_inbox *inbox = fixture_inbox(f, "digests", &options);
    semel_message message = full(), keyless = full();
    unsigned char expected[DIGEST_SIZE], key[64] = {0};
    size_t len = 0;
    keyless.id = (semel_bytes){NULL, 0};
    OK(key_of(expected, sizeof expected, &len, f, "digest", &keyless));
    OK(semel_inbox_key(key, sizeof key, &len, inbox, &keyless, &last_error));
    assert_int_equal(len, DIGEST_SIZE);
    assert_memory_equal(key, expected, DIGEST_SIZE);
    OK(semel_inbox_key(key, sizeof key, &len, inbox, &message, &last_error));
    BYTES_EQUAL(message.id, ((semel_bytes){key, len}));
}

/* --- bad expressions -------------------------------------------------------------------------- */

static void a_bad_expression_is_refused_with_its_position(void **state)
{
    static const struct {
        const char *expression;
        int position;
    } cases[] = {{"", 1},
                 {"+", 1},
                 {"+id", 1},
                 {"id+", 4},
                 {"id++type", 4},
                 {"idd", 1},
                 {"ID", 1},
                 {" id", 1},
                 {"id ", 1},
                 {"id,type", 1},
                 {"id+typ", 4},
                 {"header", 7},
                 {"header:", 8},
                 {"id+header:", 11},
                 {"header:+id", 8},
                 {"json", 5},
                 {"json:", 6},
                 {"json:order", 6},
                 {"json:/a~", 8},
                 {"json:/a~2b", 8},
                 {"json:/~/a", 7},
                 {"id+json:x", 9},
                 {"id:", 3},
                 {"id:x", 3},
                 {"digest:sha1", 7},
                 {"type+digest:x", 12},
                 {"xml:/a", 1},
                 {":x", 1},
                 {"id+id+id+id+id+id+id+id+id", 25},
                 {"'payment", 1},
                 {"id+'payment", 4},
                 {"id+'payment''", 4},
                 {"'a'id", 4},
                 {"'a'b'+id", 4},
                 {"''+id", 1},
                 {"id+''", 4},
                 {"id'a'", 1},
                 {"'payment'", 1},
                 {"'a'+'b'", 1},
                 {"header:'a", 8},
                 {"header:''", 8},
                 {"header:'a'b", 11},
                 {"id+json:'/a'/b", 13},
                 {"json:''", 6},
                 {"json:'a'", 7},
                 {"json:'/a~'", 9},
                 {"json:'/it''s~'", 13},
                 {"id:'x'", 3},
                 {"id+header:\xff", 11},
                 {"'\xc3'+id", 2}};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        semel_inbox_options options = {.size = sizeof options, .key = cases[i].expression};
        semel_inbox *inbox = NULL;
        char position[40];
        (void)snprintf(position, sizeof position, "at character %d:", cases[i].position);
        semel_status status = semel_inbox_open(&inbox, f->store, "bad", &options, &last_error);
        if (status != SEMEL_EINVAL || !strstr(last_error.text, position))
            fail_msg("\"%s\": %s, not \"%s\"", cases[i].expression, last_error.text, position);
        assert_null(inbox);
    }
}

static void quoted_text_alone_is_refused_with_a_reason(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .key = "'a'+'b'"};
    semel_inbox *inbox = NULL;
    FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, "bad", &options, &last_error));
    SAYS("key expression");
    SAYS("the same for every message");
}

static void an_expression_over_the_limit_is_refused(void **state)
{
    fixture *f = *state;
    char expression[KEY_EXPRESSION_MAX + 2] = "header:";
    semel_inbox_options options = {.size = sizeof options, .key = expression};
    semel_inbox *inbox = NULL;
    memset(expression + 7, 'h', sizeof expression - 8);
    FAILS(SEMEL_ELIMIT, semel_inbox_open(&inbox, f->store, "long", &options, &last_error));
    expression[KEY_EXPRESSION_MAX] = 0;
    OK(semel_inbox_open(&inbox, f->store, "long", &options, &last_error));
    semel_inbox_close(inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY("each expression finds its part", each_expression_finds_its_part),
        ON_MEMORY("quoted text stands for itself", quoted_text_stands_for_itself),
        ON_MEMORY("an argument may be quoted", an_argument_may_be_quoted),
        ON_MEMORY("what is not there is no key", what_is_not_there_is_no_key),
        ON_MEMORY("a body that is not JSON has no json: key",
                  a_body_that_is_not_json_has_no_json_key),
        ON_MEMORY("digest is SHA-256 of type and body", digest_is_sha256_of_type_and_body),
        ON_MEMORY("joined parts are unambiguous", joined_parts_are_unambiguous),
        ON_MEMORY("a short room gets the beginning, and the whole length",
                  a_short_room_gets_the_beginning_and_the_whole_length),
        ON_MEMORY("a bad expression is refused with its position",
                  a_bad_expression_is_refused_with_its_position),
        ON_MEMORY("quoted text alone is refused with a reason",
                  quoted_text_alone_is_refused_with_a_reason),
        ON_MEMORY("the digest that stands in for a missing key is the key",
                  the_digest_that_stands_in_for_a_missing_key_is_the_key),
        ON_MEMORY("an expression over the limit is refused",
                  an_expression_over_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
