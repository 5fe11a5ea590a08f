/* JSON: what is JSON and what is not, pointers, and the texts that keys are made of. */
#include "base/json.h"
#include "base/json_text.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* In memory of its own, so that a sanitizer sees a step past the end. */
static int is_json(const char *text, size_t len, json_facts *facts)
{
    char *exact = malloc(len ? len : 1);
    memcpy(exact, text, len);
    int ok = json_text_check(facts, (semel_bytes){exact, len}, JSON_DEPTH_MAX);
    free(exact);
    return ok;
}

static void json_is_json(void **state)
{
    static const char *const good[] = {"0",
                                       "-0",
                                       "1.0",
                                       "-1.5e+10",
                                       "1E5",
                                       "0.1e-0",
                                       "true",
                                       "false",
                                       "null",
                                       "\"\"",
                                       "[]",
                                       "{}",
                                       " \t\r\n[ 1 , 2 ] \n",
                                       "{\"a\":{\"b\":[null,true]},\"c\":\"\"}",
                                       "[[],{}]",
                                       "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uD83D\\uDE00\"",
                                       "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
                                       "\"\x7f\""};
    json_facts facts;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(is_json(good[i], strlen(good[i]), &facts));
        assert_false(facts.beyond_64_bits);
    }
}

static void what_is_not_json_is_refused(void **state)
{
    static const char *const bad[] = {
        "", " ", "nul", "nulll", "True", "NaN", "Infinity", "-Infinity", "-", "+1", "00", "01",
        "-01", "1.", ".5", "1e", "1e+", "01.5", "0x1", "1 2", "[1] x", "[", "]", "[1,]", "[,1]",
        "[1 2]", "{", "{\"a\"}", "{\"a\" 1}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{'a':1}", "{1:2}",
        "'a'", "\"a", "\"\n\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\", "/*x*/1", "1//",
        "\xef\xbb\xbf{}", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
        "\"\xc3", "\xc2\xa0 1",
        /* JSON by the letter, but without an agreed meaning */
        "\"\\ud800\"", "\"\\ud800x\"", "\"\\ud800\\n\"", "\"\\ud800\\ud800\"", "\"\\udc00\"",
        "\"\\udc00\\udc00\"", "{\"a\\u0000\":1}"};
    json_facts facts;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(is_json(bad[i], strlen(bad[i]), &facts));
        assert_false(facts.too_deep);
        assert_in_range(facts.wrong_at, 0, strlen(bad[i]));
    }
    assert_false(is_json("1\0", 2, &facts));
    assert_false(is_json("\0", 1, &facts));
}

static void every_beginning_of_json_is_not_json(void **state)
{
    static const char text[] =
        " {\"a\\u00e9\":[1.5e3,\"\xe2\x82\xac\",true,null],\"b\":{\"c\":-1}}";
    json_facts facts;
    (void)state;
    for (size_t len = 0; len < sizeof text - 1; len++)
        assert_false(is_json(text, len, &facts));
    assert_true(is_json(text, sizeof text - 1, &facts));
}

static void the_place_of_the_mistake_is_told(void **state)
{
    json_facts facts;
    (void)state;
    assert_false(is_json("{\"a\": x}", 8, &facts));
    assert_int_equal(facts.wrong_at, 6);
    assert_false(is_json("[1] 2", 5, &facts));
    assert_int_equal(facts.wrong_at, 4);
    assert_false(is_json("[\"ab\xff\"]", 7, &facts));
    assert_int_equal(facts.wrong_at, 4);
}

static void depth_has_its_limit(void **state)
{
    char text[2 * JSON_DEPTH_MAX + 4];
    json_facts facts;
    (void)state;
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    assert_true(is_json(text, 2 * (size_t)JSON_DEPTH_MAX, &facts));
    memmove(text + 1, text, 2 * (size_t)JSON_DEPTH_MAX);
    text[2 * JSON_DEPTH_MAX + 1] = ']';
    assert_false(is_json(text, 2 * (size_t)JSON_DEPTH_MAX + 2, &facts));
    assert_true(facts.too_deep);
}

static void width_is_not_depth(void **state)
{
    char text[3 * JSON_DEPTH_MAX + 1] = "[";
    json_facts facts;
    (void)state;
    for (size_t i = 1; i < sizeof text; i += 3)
        memcpy(text + i, "[],", 3);
    text[sizeof text - 1] = ']';
    assert_true(is_json(text, sizeof text, &facts));
}

static void integers_beyond_64_bits_are_noticed(void **state)
{
    static const struct {
        const char *text;
        int beyond;
    } all[] = {{"18446744073709551615", 0},
               {"18446744073709551616", 1},
               {"-9223372036854775808", 0},
               {"-9223372036854775809", 1},
               {"[1,99999999999999999999]", 1},
               {"99999999999999999999.0", 0},
               {"1e99", 0},
               {"\"99999999999999999999\"", 0}};
    json_facts facts;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_true(is_json(all[i].text, strlen(all[i].text), &facts));
        assert_int_equal(facts.beyond_64_bits, all[i].beyond);
    }
}

/* --- pointers --------------------------------------------------------------------------------- */

static void pointers_are_checked_and_the_mistake_found(void **state)
{
    size_t position = 99;
    (void)state;
    assert_true(json_pointer_valid("", &position));
    assert_true(json_pointer_valid("/", &position));
    assert_true(json_pointer_valid("/a/0/b~0c~1d//", &position));
    assert_int_equal(position, 99);
    assert_false(json_pointer_valid("a", &position));
    assert_int_equal(position, 0);
    assert_false(json_pointer_valid("/a~2", &position));
    assert_int_equal(position, 2);
    assert_false(json_pointer_valid("/ab/~", &position));
    assert_int_equal(position, 4);
}

/* --- looking up ------------------------------------------------------------------------------- */

static void assert_found(const char *body, const char *pointer, const char *expected)
{
    mem_arena arena = {0};
    size_t len = strlen(body);
    char *exact = malloc(len); /* no NUL behind it */
    semel_bytes found = {"untouched", 9};
    memcpy(exact, body, len);
    assert_int_equal(json_lookup(&found, &arena, (semel_bytes){exact, len}, pointer, NULL),
                     SEMEL_OK);
    free(exact);
    if (expected)
        assert_string_equal(found.data, expected);
    else
        assert_null(found.data);
    assert_int_equal(found.len, expected ? strlen(expected) : 0);
    arena_free(&arena);
}

static void scalars_are_found_by_pointer(void **state)
{
    static const char body[] =
        "{\"a\":{\"b\":[10,\"x\",true,false]},\"\":\"empty\",\"m~n\":1,\"o/p\":2,"
        "\"e\":\"\",\"u\":\"\\u00e9\\/\"}";
    (void)state;
    assert_found(body, "/a/b/0", "10");
    assert_found(body, "/a/b/1", "x");
    assert_found(body, "/a/b/2", "true");
    assert_found(body, "/a/b/3", "false");
    assert_found(body, "/", "empty");
    assert_found(body, "/m~0n", "1");
    assert_found(body, "/o~1p", "2");
    assert_found(body, "/e", "");
    assert_found(body, "/u", "\xc3\xa9/");
    assert_found("12", "", "12");
    assert_found("\"x\"", "", "x");
    assert_found(" true", "", "true");
}

static void what_is_no_scalar_is_not_found(void **state)
{
    static const char body[] = "{\"a\":{\"b\":[10,null]},\"n\":null}";
    static const char *const pointers[] = {"",       "/a",     "/a/b",    "/a/b/1",
                                           "/a/b/2", "/a/b/-", "/a/b/00", "/a/b/x",
                                           "/n",     "/n/x",   "/x",      "/a/b/0/c"};
    (void)state;
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++)
        assert_found(body, pointers[i], NULL);
    assert_found("null", "", NULL);
    assert_found("null", "/a", NULL);
    assert_found("7", "/a", NULL);
    assert_found("[]", "/0", NULL);
}

static void nothing_is_found_in_what_is_not_json(void **state)
{
    static const char *const bodies[] = {"",           "{\"a\":1",        "{\"a\":1}x",
                                         "{\"a\":1}}", "{'a':1}",         "{\"a\":NaN,\"b\":1}",
                                         "{\"a\":1,}", "{\"a\":\"\xff\"}"};
    semel_bytes found = {"x", 1};
    mem_arena arena = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        assert_found(bodies[i], "/a", NULL);
    assert_int_equal(json_lookup(&found, &arena, (semel_bytes){"{\"a\":1}\0", 8}, "/a", NULL),
                     SEMEL_OK);
    assert_null(found.data);
    assert_int_equal(json_lookup(&found, &arena, (semel_bytes){NULL, 0}, "/a", NULL), SEMEL_OK);
    arena_free(&arena);
}

static void numbers_are_kept_as_written(void **state)
{
    static const char *const numbers[] = {"0",
                                          "-1",
                                          "1.0",
                                          "1.10",
                                          "1.1",
                                          "100",
                                          "1e2",
                                          "1E+2",
                                          "1.00e-07",
                                          "0.1",
                                          "-0.0",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "18446744073709551615",
                                          "-9223372036854775808",
                                          "1e999",
                                          "123456789012345678901234.5",
                                          "3.14159265358979323846264338327950288"};
    char body[100];
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_found(numbers[i], "", numbers[i]);
        (void)memcpy(body, "{\"n\": ", 6);
        (void)memcpy(body + 6, numbers[i], strlen(numbers[i]));
        (void)memcpy(body + 6 + strlen(numbers[i]), " }", 3);
        assert_found(body, "/n", numbers[i]);
    }
    assert_found("-0", "", "0");
}

/* A limit that others were cut to would be the same key for all of them. */
static void integers_beyond_64_bits_have_no_text(void **state)
{
    (void)state;
    assert_found("{\"n\":18446744073709551616}", "/n", NULL);
    assert_found("{\"n\":99999999999999999999999}", "/n", NULL);
    assert_found("{\"n\":-9223372036854775809}", "/n", NULL);
    assert_found("{\"n\":99999999999999999999999,\"id\":7,\"t\":\"x\"}", "/id", "7");
    assert_found("{\"n\":99999999999999999999999,\"id\":7,\"t\":\"x\"}", "/t", "x");
}

static void strings_keep_nul_bytes(void **state)
{
    mem_arena arena = {0};
    semel_bytes found;
    (void)state;
    assert_int_equal(json_lookup(&found, &arena, semel_str("[\"a\\u0000b\"]"), "/0", NULL),
                     SEMEL_OK);
    assert_int_equal(found.len, 3);
    assert_memory_equal(found.data, "a\0b", 4);
    arena_free(&arena);
}

static void of_members_with_one_name_the_last_counts(void **state)
{
    (void)state;
    assert_found("{\"a\":1,\"a\":2}", "/a", "2");
}

static void the_deepest_scalar_is_found(void **state)
{
    char body[2 * JSON_DEPTH_MAX], pointer[2 * JSON_DEPTH_MAX] = "";
    size_t arrays = JSON_DEPTH_MAX - 1;
    (void)state;
    memset(body, '[', arrays);
    body[arrays] = '7';
    memset(body + arrays + 1, ']', arrays);
    body[2 * arrays + 1] = 0;
    for (size_t i = 0; i < arrays; i++)
        memcpy(pointer + 2 * i, "/0", 3);
    assert_found(body, pointer, "7");
}

static void a_lookup_without_memory_is_reported(void **state)
{
    mem_arena arena = {0};
    semel_bytes found = {"untouched", 9};
    (void)state;
    mem_fail_at(1);
    assert_int_equal(json_lookup(&found, &arena, semel_str("[1]"), "/0", NULL), SEMEL_ENOMEM);
    assert_string_equal(found.data, "untouched");
    mem_fail_at(0);
    arena_free(&arena);
}

static void members_come_with_their_kind(void **state)
{
    static const json_kind kinds[] = {JSON_NULL,   JSON_STRING,    JSON_SCALAR,
                                      JSON_SCALAR, JSON_CONTAINER, JSON_CONTAINER};
    static const char *const texts[] = {"null", "x/\"",        "true",
                                        "1.50", "[1,\"a/b\"]", "{\"k\":{}}"};
    mem_arena arena = {0};
    const json_member *members = NULL;
    size_t count = 0;
    (void)state;
    semel_bytes text = semel_str(
        "{\"a\":null,\"b\":\"x/\\\"\",\"c\":true,\"d\":1.50,\"e\":[1, \"a/b\"],\"f\":{\"k\":{}}}");
    assert_int_equal(json_members(&members, &count, &arena, text, NULL), SEMEL_OK);
    assert_int_equal(count, 6);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(members[i].name[0], "abcdef"[i]);
        assert_int_equal(members[i].kind, kinds[i]);
        assert_string_equal(members[i].text.data, texts[i]);
        assert_int_equal(members[i].text.len, strlen(texts[i]));
    }
    arena_free(&arena);
}

static void members_are_those_of_an_object_only(void **state)
{
    static const struct {
        const char *text;
        semel_status status;
    } all[] = {{"[]", SEMEL_EINVAL},
               {"null", SEMEL_EINVAL},
               {"7", SEMEL_EINVAL},
               {"{", SEMEL_EINVAL},
               {"{\"a\":99999999999999999999}", SEMEL_EUNSUPPORTED},
               {"{}", SEMEL_OK}};
    mem_arena arena = {0};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const json_member *members = NULL;
        size_t count = 9;
        semel_error err = {0};
        assert_int_equal(json_members(&members, &count, &arena, semel_str(all[i].text), &err),
                         all[i].status);
        assert_int_equal(count, all[i].status ? 9 : 0);
        assert_int_equal(!*err.text, !all[i].status);
    }
    arena_free(&arena);
}

static void without_json_it_says_so(void **state)
{
    mem_arena arena = {0};
    semel_bytes found;
    semel_error err = {0};
    (void)state;
    assert_int_equal(json_lookup(&found, &arena, semel_str("[1]"), "/0", &err), SEMEL_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "SEMEL_JSON=ON"));
}

int main(void)
{
    const struct CMUnitTest text_tests[] = {
        cmocka_unit_test(json_is_json),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(every_beginning_of_json_is_not_json),
        cmocka_unit_test(the_place_of_the_mistake_is_told),
        cmocka_unit_test(depth_has_its_limit),
        cmocka_unit_test(width_is_not_depth),
        cmocka_unit_test(integers_beyond_64_bits_are_noticed),
        cmocka_unit_test(pointers_are_checked_and_the_mistake_found),
    };
    const struct CMUnitTest lookup_tests[] = {
        cmocka_unit_test(scalars_are_found_by_pointer),
        cmocka_unit_test(what_is_no_scalar_is_not_found),
        cmocka_unit_test(nothing_is_found_in_what_is_not_json),
        cmocka_unit_test(numbers_are_kept_as_written),
        cmocka_unit_test(integers_beyond_64_bits_have_no_text),
        cmocka_unit_test(strings_keep_nul_bytes),
        cmocka_unit_test(of_members_with_one_name_the_last_counts),
        cmocka_unit_test(the_deepest_scalar_is_found),
        cmocka_unit_test(a_lookup_without_memory_is_reported),
        cmocka_unit_test(members_come_with_their_kind),
        cmocka_unit_test(members_are_those_of_an_object_only),
    };
    const struct CMUnitTest not_built_in_tests[] = {cmocka_unit_test(without_json_it_says_so)};
    int failed = cmocka_run_group_tests(text_tests, NULL, NULL);
    return failed + (json_built_in() ? cmocka_run_group_tests(lookup_tests, NULL, NULL)
                                     : cmocka_run_group_tests(not_built_in_tests, NULL, NULL));
}
