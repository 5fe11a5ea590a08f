/* How the program shows values: what comes from others cannot break a line or drive a terminal. */
#include "program/support/show.h"

#include "support/base/check.h"

#include <stdlib.h>
#include <time.h>

static void assert_shown(buffer *b, const char *expected)
{
    assert_string_equal(b->data, expected);
    buffer_free(b);
}

static void texts_are_one_line_and_no_commands(void **state)
{
    static const struct {
        const char *text;
        size_t most;
        const char *shown;
    } cases[] = {{"plain", 0, "plain"},
                 {"", 0, ""},
                 {"a\nb", 0, "a\\nb"},
                 {"\x1b[2J", 0, "\\x1b[2J"},
                 {"tab\there", 0, "tab\\x09here"},
                 {"caf\xc3\xa9", 0, "caf\xc3\xa9"},
                 {"\xff\xfe", 0, "\\xff\\xfe"},
                 {"\xc2\x9b"
                  "31m",
                  0, "\\xc2\\x9b31m"},                   /* CSI of the C1 controls */
                 {"\xed\xa0\x80", 0, "\\xed\\xa0\\x80"}, /* a surrogate */
                 {"\xc0\x80", 0, "\\xc0\\x80"},          /* overlong */
                 {"\x7f", 0, "\\x7f"},
                 {"0123456789", 4, "0123..."},
                 {"caf\xc3\xa9s", 4, "caf..."}}; /* no half of a character */
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buffer b = {0};
        show_text(&b, cases[i].text, strlen(cases[i].text), cases[i].most);
        assert_shown(&b, cases[i].shown);
    }
}

static void keys_can_be_entered_again(void **state)
{
    static const struct {
        const char *key;
        size_t len;
        const char *shown;
    } cases[] = {
        {"1042", 4, "1042"},       {"a b", 3, "a b"},          {" a", 2, "hex:2061"},
        {"a\0b", 3, "hex:610062"}, {"hex:1", 5, "text:hex:1"}, {"base64:x", 8, "text:base64:x"},
        {"", 0, "hex:"},           {"\x1b", 1, "hex:1b"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buffer b = {0};
        show_key(&b, (semel_bytes){cases[i].key, cases[i].len});
        assert_shown(&b, cases[i].shown);
    }
}

static void json_is_json(void **state)
{
    buffer b = {0};
    (void)state;
    show_json(&b, "a\"b\\c\n\x01\xff", 8);
    assert_shown(&b, "\"a\\\"b\\\\c\\n\\u0001\xef\xbf\xbd\"");
}

static void numbers_durations_and_times(void **state)
{
    static const struct {
        int64_t ns;
        const char *shown;
    } durations[] = {{34000, "0.03 ms"},         {2100000, "2.1 ms"},
                     {14000000, "14 ms"},        {999999999, "999 ms"},
                     {47800000000, "47.8 s"},    {860000000000, "14m 20s"},
                     {64800000000000, "18h 0m"}, {273600000000000, "3d 4h"}};
    (void)state;
    for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
        buffer b = {0};
        show_duration(&b, durations[i].ns);
        assert_shown(&b, durations[i].shown);
    }
    buffer number = {0}, moment = {0}, clock = {0}, stamp = {0};
    show_number(&number, 1204007);
    assert_shown(&number, "1,204,007");
    assert_int_equal(setenv("TZ", "UTC-1", 1), 0);
    tzset();
    show_moment(&moment, INT64_C(1773452475402));
    assert_shown(&moment, "2026-03-14 02:41:15");
    show_clock(&clock, INT64_C(1773452475402));
    assert_shown(&clock, "02:41:15.402");
    show_rfc3339(&stamp, INT64_C(1773452475402));
    assert_shown(&stamp, "2026-03-14T01:41:15.402Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_one_line_and_no_commands),
        cmocka_unit_test(keys_can_be_entered_again),
        cmocka_unit_test(json_is_json),
        cmocka_unit_test(numbers_durations_and_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
