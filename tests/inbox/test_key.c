/* Key expressions: what each finds in a message, how several are joined, and that a bad one is refused when
 * the inbox opens, with the position of the mistake. */
#include "core/key.h"
#include "support/fixture/fixture.h"

#include "base/digest.h"

#include <stdio.h>
#include <stdlib.h>

static const char body[] = "{\"order\":{\"id\":\"o-7\",\"count\":42,\"price\":1.50,\"paid\":true,"
                           "\"gift\":false,\"note\":null,\"vast\":18446744073709551616,"
                           "\"lines\":[{\"sku\":\"a\"},{\"sku\":\"b\"},7]},"
                           "\"a/b\":\"slash\",\"m~n\":\"tilde\",\"~1\":\"both\",\"\":\"no name\","
                           "\"text\":\"A\\u00e9\\u0000Z\",\"empty\":\"\"}";

static const semel_header headers[] = {
    {"X-Request-Id", {"r-9", 3}}, {"Empty", {"", 0}}, {"Binary", {"\0\xff", 2}}};

static semel_message full(void)
{
    return (semel_message){.size = sizeof(semel_message),
                           .id = semel_str("i-1"),
                           .source = "/shop",
                           .type = "order.placed",
                           .correlation_id = semel_str("c-1"),
                           .headers = headers,
                           .header_count = 3,
                           .body = semel_str(body)};
}

/* The key in a new inbox with this expression. */
static semel_status key_of(void *room, size_t size, size_t *len, fixture *f, const char *expression,
                           const semel_message *message)
{
    semel_inbox_options options = {.size = sizeof options, .key = expression};
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

/* --- what an expression finds -------------------------------------------------------------------- */

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
                                              "header:Y+id"};
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

/* --- bad expressions ----------------------------------------------------------------------------- */

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
                 {"id+id+id+id+id+id+id+id+id", 25}};
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

/* --- the callback -------------------------------------------------------------------------------- */

typedef struct maker {
    size_t len; /* of the key it makes, all 'k' */
    size_t calls;
    size_t capacity; /* it was given last */
    semel_status fails;
    size_t claims; /* says it wrote so many, whatever it did */
} maker;

static semel_status make_key(void *key, size_t capacity, size_t *len, const semel_message *message,
                             void *context, semel_error *err)
{
    maker *self = context;
    (void)message;
    (void)err;
    self->calls++;
    self->capacity = capacity;
    *len = self->claims ? self->claims : self->len;
    if (self->fails)
        return self->fails;
    if (self->len > capacity)
        return SEMEL_ELIMIT;
    memset(key, 'k', self->len);
    return SEMEL_OK;
}

static semel_inbox *inbox_with_maker(fixture *f, maker *self)
{
    semel_inbox_options options = {
        .size = sizeof options, .key_function = make_key, .key_context = self};
    return fixture_inbox(f, "made", &options);
}

static void a_callback_makes_the_key(void **state)
{
    maker self = {.len = 5};
    semel_message message = full();
    char key[8] = "";
    size_t len;
    OK(semel_inbox_key(key, sizeof key, &len, inbox_with_maker(*state, &self), &message,
                       &last_error));
    assert_int_equal(len, 5);
    assert_string_equal(key, "kkkkk");
    assert_int_equal(self.calls, 1);
}

static void a_callback_that_needs_more_room_is_called_again(void **state)
{
    maker self = {.len = 1000};
    semel_message message = full();
    char key[8];
    size_t len;
    OK(semel_inbox_key(key, sizeof key, &len, inbox_with_maker(*state, &self), &message,
                       &last_error));
    assert_int_equal(len, 1000);
    assert_int_equal(self.calls, 2);
    assert_int_equal(self.capacity, 1000);
}

static void a_callback_without_end_is_refused(void **state)
{
    maker self = {.len = KEY_COMPUTED_MAX + 1};
    semel_message message = full();
    scripted_handler w = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox_with_maker(*state, &self), &message, &w);
    assert_int_equal(self.calls, 1);
    self = (maker){.fails = SEMEL_ELIMIT, .claims = 10}; /* it had that much room */
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox_with_maker(*state, &self), &message, &w);
    assert_int_equal(self.calls, 1);
    assert_int_equal(w.runs, 0);
}

static void a_callback_without_a_key_is_a_missing_key(void **state)
{
    maker self = {.len = 0};
    semel_message message = full();
    scripted_handler w = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox_with_maker(*state, &self), &message, &w);
    assert_int_equal(w.runs, 0);
}

/* It need not fill the error: the status is enough, as for handlers. */
static void a_callback_that_fails_is_a_missing_key(void **state)
{
    maker self = {.fails = SEMEL_EHANDLER};
    semel_message message = full();
    const semel_message *const both[] = {&message, &message};
    semel_inbox *inbox = inbox_with_maker(*state, &self);
    semel_outcome out[2];
    scripted_handler w = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox, &message, &w);
    SAYS("the key function failed");
    OK(semel_inbox_receive_batch(out, inbox, both, 2, scripted_handler_run, &w, &last_error));
    OUTCOME(SEMEL_MISSING_KEY, out[0]);
    OUTCOME(SEMEL_MISSING_KEY, out[1]);
    assert_int_equal(w.runs, 0);
}

static void a_callback_without_memory_decides_nothing(void **state)
{
    maker self = {.fails = SEMEL_ENOMEM};
    semel_message message = full();
    scripted_handler w = {0};
    RECEIVES(SEMEL_ENOMEM, SEMEL_UNDECIDED, inbox_with_maker(*state, &self), &message, &w);
    assert_int_equal(w.runs, 0);
}

static void a_callback_that_lies_about_its_length_is_caught(void **state)
{
    maker self = {.len = 1, .claims = 100000};
    semel_message message = full();
    scripted_handler w = {0};
    RECEIVES(SEMEL_EREJECTED, SEMEL_MISSING_KEY, inbox_with_maker(*state, &self), &message, &w);
    SAYS("reports 100000 bytes in a room of 255");
}

static void a_callback_and_an_expression_exclude_each_other(void **state)
{
    fixture *f = *state;
    semel_inbox_options options = {.size = sizeof options, .key = "id", .key_function = make_key};
    semel_inbox *inbox = NULL;
    FAILS(SEMEL_EINVAL, semel_inbox_open(&inbox, f->store, "made", &options, &last_error));
    SAYS("not both");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY("each expression finds its part", each_expression_finds_its_part),
        ON_MEMORY("what is not there is no key", what_is_not_there_is_no_key),
        ON_MEMORY("a body that is not JSON has no json: key",
                  a_body_that_is_not_json_has_no_json_key),
        ON_MEMORY("digest is SHA-256 of type and body", digest_is_sha256_of_type_and_body),
        ON_MEMORY("joined parts are unambiguous", joined_parts_are_unambiguous),
        ON_MEMORY("a short room gets the beginning, and the whole length",
                  a_short_room_gets_the_beginning_and_the_whole_length),
        ON_MEMORY("a bad expression is refused with its position",
                  a_bad_expression_is_refused_with_its_position),
        ON_MEMORY("an expression over the limit is refused",
                  an_expression_over_the_limit_is_refused),
        ON_MEMORY("a callback makes the key", a_callback_makes_the_key),
        ON_MEMORY("a callback that needs more room is called again",
                  a_callback_that_needs_more_room_is_called_again),
        ON_MEMORY("a callback that asks without end is refused", a_callback_without_end_is_refused),
        ON_MEMORY("a callback without a key is a missing key",
                  a_callback_without_a_key_is_a_missing_key),
        ON_MEMORY("a callback that fails is a missing key", a_callback_that_fails_is_a_missing_key),
        ON_MEMORY("a callback without memory decides nothing",
                  a_callback_without_memory_decides_nothing),
        ON_MEMORY("a callback that lies about its length is caught",
                  a_callback_that_lies_about_its_length_is_caught),
        ON_MEMORY("a callback and an expression exclude each other",
                  a_callback_and_an_expression_exclude_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
