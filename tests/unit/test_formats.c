/* Small formats: RFC 3339 times, base64, UTF-8, JSON strings. */
#include "base/base64.h"
#include "base/mem.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "base/utf8.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* --- times ------------------------------------------------------------------------------------ */

static void times_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } times[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.001Z", 1},
        {"2026-07-04T12:34:56.789Z", INT64_C(1783168496789)},
        {"2000-02-29T00:00:00Z", INT64_C(951782400000)}, /* a leap year, being a fourth hundred */
        {"2024-02-29T23:59:59Z", INT64_C(1709251199000)},
        {"2024-03-01T00:00:00Z", INT64_C(1709251200000)},
        {"2024-02-29T23:59:59.5+00:00", INT64_C(1709251199500)},
        {"2024-03-01T01:30:00+01:30", INT64_C(1709251200000)},
        {"2024-02-29T16:00:00-08:00", INT64_C(1709251200000)},
        {"2024-03-01T00:00:00-00:00", INT64_C(1709251200000)},
        {"2024-03-01t00:00:00z", INT64_C(1709251200000)},
        {"2024-03-01T00:00:00.9999999999999999999Z", INT64_C(1709251200999)},
        {"1969-12-31T23:59:59.5Z", -500},
        {"1900-03-01T00:00:00Z", INT64_C(-2203891200000)}, /* 1900 was none */
        {"0000-01-01T00:00:00Z", INT64_C(-62167219200000)},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999)},
        {"0000-01-01T00:01:00+00:01", INT64_C(-62167219200000)},
        {"9999-12-31T23:58:59.999-00:01", INT64_C(253402300799999)},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000)}, /* a leap second */
        {"2017-01-01T00:59:60+01:00", INT64_C(1483228800000)}};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t ms = 77;
        assert_true(rfc3339_parse(&ms, times[i].text, strlen(times[i].text)));
        assert_true(ms == times[i].ms);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "2024",
                                      "2024-03-01",
                                      "2024-03-01T00:00:00",
                                      "2024-03-01T00:00Z",
                                      "2024-03-01 00:00:00Z",
                                      "2024-03-01T00:00:00Zx",
                                      " 2024-03-01T00:00:00Z",
                                      "2024-03-01T00:00:00.Z",
                                      "2024-03-01T00:00:00,5Z",
                                      "2024-03-01T00:00:00+0100",
                                      "2024-03-01T00:00:00+1:00",
                                      "2024-03-01T00:00:00+24:00",
                                      "2024-03-01T00:00:00+01:60",
                                      "2024-03-01T00:00:00+",
                                      "2024-03-01T24:00:00Z",
                                      "2024-03-01T00:60:00Z",
                                      "2024-03-01T00:00:61Z",
                                      "2024-03-01T00:00:60Z",
                                      "2024-13-01T00:00:00Z",
                                      "2024-00-01T00:00:00Z",
                                      "2024-03-00T00:00:00Z",
                                      "2024-03-32T00:00:00Z",
                                      "2024-04-31T00:00:00Z",
                                      "2023-02-29T00:00:00Z",
                                      "1900-02-29T00:00:00Z",
                                      "2024-3-01T00:00:00Z",
                                      "24-03-01T00:00:00Z",
                                      "-024-03-01T00:00:00Z",
                                      "+2024-03-01T00:00:00Z",
                                      "2024-03-01T00:00:0\xb2Z",
                                      "0000-01-01T00:00:00+00:01", /* what cannot be written */
                                      "9999-12-31T23:59:59.999-00:01",
                                      "9999-12-31T23:59:60Z"};
    int64_t ms = 77;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(rfc3339_parse(&ms, bad[i], strlen(bad[i])));
    assert_false(rfc3339_parse(&ms, NULL, 0));
    for (size_t len = 0; len < 24; len++)
        assert_false(rfc3339_parse(&ms, "2024-03-01T00:00:00.123Z", len));
    assert_true(ms == 77);
}

static void every_day_of_ten_thousand_years_comes_back(void **state)
{
    const int64_t first = INT64_C(-62167219200000), day = 86400000;
    char text[RFC3339_TEXT + 1];
    (void)state;
    for (int64_t i = 0; i < 3652425; i++) {
        int64_t ms = first + i * day + (i * 7919) % day, back = 0;
        if (!rfc3339_format(text, ms) || !rfc3339_parse(&back, text, RFC3339_TEXT) || back != ms)
            fail_msg("day %ld: %s", (long)i, text);
    }
}

static void times_are_written_in_utc(void **state)
{
    char text[RFC3339_TEXT + 1];
    (void)state;
    assert_true(rfc3339_format(text, INT64_C(1709251199999)));
    assert_string_equal(text, "2024-02-29T23:59:59.999Z");
    assert_true(rfc3339_format(text, -1));
    assert_string_equal(text, "1969-12-31T23:59:59.999Z");
    assert_false(rfc3339_format(text, INT64_C(253402300800000)));
    assert_false(rfc3339_format(text, INT64_C(-62167219200001)));
    assert_false(rfc3339_format(text, INT64_MAX));
    assert_false(rfc3339_format(text, INT64_MIN));
}

/* --- base64 ----------------------------------------------------------------------------------- */

static void base64_has_the_vectors_of_rfc_4648(void **state)
{
    static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const coded[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                        "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        char text[9] = {0};
        unsigned char bytes[6];
        size_t len = 99, coded_len = strlen(coded[i]);
        assert_int_equal(base64_size(strlen(plain[i])), coded_len);
        base64_encode(text, plain[i], strlen(plain[i]));
        assert_string_equal(text, coded[i]);
        assert_true(base64_decode(bytes, &len, coded[i], coded_len));
        assert_int_equal(len, strlen(plain[i]));
        assert_memory_equal(bytes, plain[i], len);
    }
}

static void base64_keeps_all_bytes(void **state)
{
    unsigned char bytes[256], back[256];
    char text[344];
    size_t len = 0;
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(255 - i);
    for (size_t count = 0; count <= sizeof bytes; count++) {
        base64_encode(text, bytes, count);
        assert_true(base64_decode(back, &len, text, base64_size(count)));
        assert_int_equal(len, count);
        assert_memory_equal(back, bytes, count);
    }
}

static void base64_is_strict(void **state)
{
    static const char *const bad[] = {
        "Z",        "Zg",   "Zg=",   "Zg===", "Zh==", "Zm9=",    "====",   "Z===", "=Zg=",
        "Zg==Zg==", "Zm 9", "Zm\n9", "Zm9-",  "Zm9_", "Zm9\xc3", "Zm9v\n", "Z=9v", "Zg==\n\n\n\n"};
    unsigned char bytes[32];
    size_t len;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(base64_decode(bytes, &len, bad[i], strlen(bad[i])));
    assert_false(base64_decode(bytes, &len, "Zm9\0", 4));
}

/* --- UTF-8 ------------------------------------------------------------------------------------ */

static void utf8_is_what_rfc_3629_says(void **state)
{
    static const char *const good[] = {"",
                                       "a",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\xaf",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2\x7f",
                                      "\xe0\x9f\xbf",
                                      "\xe1\x80",
                                      "\xe1\x80\xc0",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf0\x90\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(utf8_valid(bad[i], strlen(bad[i])));
    assert_true(utf8_valid("a\0b", 3));
    assert_true(utf8_plain("a\xc2\xa0z", 4));
    assert_false(utf8_plain("a\0b", 3));
    assert_false(utf8_plain("\n", 1));
    assert_false(utf8_plain("\x7f", 1));
    assert_false(utf8_plain("\xc2\x9f", 2));
}

/* --- text ------------------------------------------------------------------------------------- */

static void text_is_compared_without_regard_to_ascii_case(void **state)
{
    (void)state;
    assert_true(text_same("", ""));
    assert_true(text_same("Content-Type", "cONTENT-tYPE"));
    assert_false(text_same("a", "ab"));
    assert_false(text_same("ab", "a"));
    assert_false(text_same("@[", "`{")); /* 0x20 apart, as letters are */
    assert_false(text_same("\xc3\x89", "\xc3\xa9"));
}

static void text_grows_and_is_escaped_as_json(void **state)
{
    text_buffer t = {0};
    (void)state;
    text_append_json(&t, "\"\\\b\f\n\r\t\0\x1f/\x7f\xc3\xa9", 13);
    text_append_json(&t, NULL, 0);
    for (int i = 0; i < 1000; i++)
        text_append_z(&t, "x");
    text_append(&t, "", 1);
    assert_false(t.failed);
    assert_int_equal(strlen(t.bytes), t.len - 1);
    assert_int_equal(strspn(t.bytes + t.len - 1001, "x"), 1000);
    t.bytes[t.len - 1001] = 0;
    assert_string_equal(t.bytes, "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f/\x7f\xc3\xa9\"\"\"");
    mem_free(t.bytes);
}

static void text_without_memory_stays_as_it_was(void **state)
{
    text_buffer t = {0};
    (void)state;
    text_append_z(&t, "kept");
    mem_fail_at(1);
    assert_null(text_extend(&t, 10000));
    mem_fail_at(0);
    text_append_z(&t, "lost"); /* there would be room: but half a text is none */
    assert_true(t.failed);
    assert_int_equal(t.len, 4);
    assert_memory_equal(t.bytes, "kept", 4);
    mem_free(t.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(every_day_of_ten_thousand_years_comes_back),
        cmocka_unit_test(times_are_written_in_utc),
        cmocka_unit_test(base64_has_the_vectors_of_rfc_4648),
        cmocka_unit_test(base64_keeps_all_bytes),
        cmocka_unit_test(base64_is_strict),
        cmocka_unit_test(utf8_is_what_rfc_3629_says),
        cmocka_unit_test(text_is_compared_without_regard_to_ascii_case),
        cmocka_unit_test(text_grows_and_is_escaped_as_json),
        cmocka_unit_test(text_without_memory_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
