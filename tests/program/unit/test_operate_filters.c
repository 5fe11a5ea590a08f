/* Filters: times, keys and patterns as people type them; and how they can be typed again. */
#include "program/cli.h"
#include "program/operate/filters.h"
#include "program/support/show.h"
#include "program/support/typed_key.h"
#include "support/base/check.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MS_PER_S = 1000, HOUR_MS = 3600000, DAY_MS = 24 * HOUR_MS };

static void set_zone(const char *zone)
{
    (void)setenv("TZ", zone, 1);
    tzset();
}

/* The time that the text means at this moment, in UTC; NULL: it is no time. */
static void expect_time(const char *text, const char *now, int utc, const char *expected)
{
    int64_t at = 0, now_ms = 0;
    buffer shown = {0};
    assert_true(filters_time(&now_ms, now, 1, 1));
    int found = filters_time(&at, text, now_ms, utc);
    if (found)
        show_rfc3339(&shown, at);
    assert_string_equal(found ? shown.data : "none", expected);
    buffer_free(&shown);
}

static void times_are_understood(void **state)
{
    static const char now[] = "2026-03-14T02:12:00Z";
    (void)state;
    set_zone("UTC-1"); /* an hour east of Greenwich */
    expect_time("2h", now, 0, "2026-03-14T00:12:00.000Z");
    expect_time("1h30m", now, 0, "2026-03-14T00:42:00.000Z");
    expect_time("200ms", now, 0, "2026-03-14T02:11:59.800Z");
    expect_time("9999w", now, 0, "1970-01-01T00:00:00.001Z");
    expect_time("02:40", now, 0, "2026-03-14T01:40:00.000Z");
    expect_time("02:40:05", now, 0, "2026-03-14T01:40:05.000Z");
    expect_time("02:40", now, 1, "2026-03-13T02:40:00.000Z");
    expect_time("02:12", now, 1, "2026-03-14T02:12:00.000Z");
    expect_time("2026-03-14", now, 0, "2026-03-13T23:00:00.000Z");
    expect_time("2026-03-14", now, 1, "2026-03-14T00:00:00.000Z");
    expect_time("2026-03-14 02:40", now, 0, "2026-03-14T01:40:00.000Z");
    expect_time("2026-03-14T02:40", now, 0, "2026-03-14T01:40:00.000Z");
    expect_time("2026-03-14 02:40:07.5", now, 0, "2026-03-14T01:40:07.500Z");
    expect_time("2026-03-14T01:40:00Z", now, 0, "2026-03-14T01:40:00.000Z");
    expect_time("2026-03-14T01:40:00.402Z", now, 0, "2026-03-14T01:40:00.402Z");
    expect_time("2026-03-14T01:40:00+05:30", now, 0, "2026-03-13T20:10:00.000Z");
    expect_time("2026-03-14T01:40:00-01:00", now, 1, "2026-03-14T02:40:00.000Z");
    expect_time("2028-02-29", now, 1, "2028-02-29T00:00:00.000Z");
}

static void other_texts_are_no_times(void **state)
{
    static const char *const texts[] = {"",
                                        "yesterday",
                                        "2",
                                        "2 h",
                                        "2:40",
                                        "24:00",
                                        "02:60",
                                        "02:40:60",
                                        "02:40Z",
                                        "2026-03",
                                        "2026-13-01",
                                        "2026-02-29",
                                        "2026-04-31",
                                        "2026-00-01",
                                        "2026-03-14 ",
                                        "1969-12-31",
                                        "2026-03-14 02:4",
                                        "2026-03-14x02:40",
                                        "2026-03-14T01:40:00Zx",
                                        "2026-03-14T01:40:00+1",
                                        "2026-03-14 02:40:07.",
                                        "-2h",
                                        "hex:00",
                                        "0x10:20"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_time(texts[i], "2026-03-14T02:12:00Z", 1, "none");
}

/* Shortly after midnight a time of the day is one of yesterday; the day of the person counts. */
static void a_time_of_the_day_is_the_last_one(void **state)
{
    (void)state;
    set_zone("UTC0");
    expect_time("23:50", "2026-03-01T00:10:00Z", 0, "2026-02-28T23:50:00.000Z");
    expect_time("00:05", "2026-03-01T00:10:00Z", 0, "2026-03-01T00:05:00.000Z");
    set_zone("UTC-1");
    expect_time("23:50", "2026-02-28T23:10:00Z", 0, "2026-02-28T22:50:00.000Z");
    expect_time("00:05", "2026-02-28T23:10:00Z", 0, "2026-02-28T23:05:00.000Z");
    expect_time("00:05", "2026-02-28T23:10:00Z", 1, "2026-02-28T00:05:00.000Z");
}

/* The clocks of Berlin went from 02:00 to 03:00 on 2026-03-29. */
static void the_zone_is_that_of_the_time_and_not_of_now(void **state)
{
    (void)state;
    set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
    expect_time("2026-03-28 12:00", "2026-03-30T10:00:00Z", 0, "2026-03-28T11:00:00.000Z");
    expect_time("2026-03-30 12:00", "2026-03-30T10:00:00Z", 0, "2026-03-30T10:00:00.000Z");
    expect_time("23:30", "2026-03-29T10:00:00Z", 0, "2026-03-28T22:30:00.000Z");
}

/* --- keys ------------------------------------------------------------------------------------- */

static void expect_key(const char *text, const void *expected, size_t len)
{
    region memory = {0};
    semel_bytes key = {0};
    assert_null(typed_key_stored(&key, &memory, text));
    BYTES_EQUAL(((semel_bytes){expected, len}), key);
    region_free(&memory);
}

static void keys_are_understood(void **state)
{
    (void)state;
    expect_key("20713", "20713", 5);
    expect_key("hex:00ff3a", "\0\xff:", 3);
    expect_key("base64:AP86", "\0\xff:", 3);
    expect_key("text:hex:1", "hex:1", 5);
    expect_key("sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
               "\xff\x9f\x86\xd0\x81\x88\x4c\x7d\x65\x9a\x2f\xea\xa0\xc5\x5a\xd0\x15\xa3\xbf\x4f"
               "\x1b\x2b\x0b\x82\x2c\xd1\x5d\x6c\x15\xb0\xf0\x0a\x08",
               33);
}

/* What is shown can be typed, and finds the same marker. */
static void a_key_that_is_shown_can_be_typed(void **state)
{
    static const semel_bytes keys[] = {{"20713", 5},    {"\0\xff", 2},   {" a", 2},
                                       {"sha256:x", 8}, {"\xc3\xa4", 2}, {"a\x1b[2J", 5}};
    unsigned char digest[33] = {0xff, 1, 2, 3};
    region memory = {0};
    (void)state;
    for (size_t i = 0; i <= sizeof keys / sizeof *keys; i++) {
        semel_bytes key =
            i < sizeof keys / sizeof *keys ? keys[i] : (semel_bytes){digest, sizeof digest};
        semel_bytes again = {0};
        buffer shown = {0};
        show_stored_key(&shown, key);
        assert_null(typed_key_stored(&again, &memory, shown.data));
        BYTES_EQUAL(key, again);
        buffer_free(&shown);
    }
    region_free(&memory);
}

/* As the library stores it: the digest of a long key, and of one that looks like a digest. */
static void long_keys_are_digests(void **state)
{
    char text[300];
    (void)state;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    expect_key(
        text,
        "\xff\x49\xbf\xb9\x8c\x7e\x55\x8d\x1e\x77\xa9\xb0\x5c\xdd\xfb\xb4\xa6\xff\x49\x76\x7e"
        "\x55\x0f\x7c\x14\x2d\x50\xef\x04\x4b\xa6\xfb\x81",
        33);
}

static void wrong_keys_are_refused(void **state)
{
    static const char *const texts[] = {"",         "hex:",  "hex:0",       "hex:xy",
                                        "base64:A", "text:", "sha256:9f86", "sha256:"};
    region memory = {0};
    semel_bytes key;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_non_null(typed_key_stored(&key, &memory, texts[i]));
    region_free(&memory);
}

static void parts_are_joined_with_their_lengths(void **state)
{
    static const char *const parts[] = {"shop-eu", "hex:3230373133"};
    region memory = {0};
    semel_bytes key = {0};
    (void)state;
    assert_null(typed_key_parts(&key, &memory, parts, 2));
    BYTES_EQUAL(semel_str("7:shop-eu,5:20713,"), key);
    assert_null(typed_key_parts(&key, &memory, parts, 1));
    BYTES_EQUAL(semel_str("shop-eu"), key);
    region_free(&memory);
}

/* --- filters ---------------------------------------------------------------------------------- */

static int read_filters(filters *out, filter_options *given)
{
    static const tool_options options = {.utc = 1};
    const tool t = {.command = "test", .options = &options, .now_ms = DAY_MS};
    return filters_read(out, &t, given);
}

static void filters_are_read(void **state)
{
    filters f;
    filter_options given = {.state = "failed",
                            .key = "hex:00ff",
                            .since = "2h",
                            .until = "1h",
                            .cause = "7f3a",
                            .up_to = "2006",
                            .limit = 7,
                            .after = "12"};
    static const tool_options options = {.utc = 1};
    const tool t = {.command = "test", .options = &options};
    (void)state;
    assert_int_equal(read_filters(&f, &given), CLI_OK);
    assert_int_equal(f.state, SEMEL_MARKER_OPEN);
    assert_int_equal(f.since_ms, DAY_MS - 2 * HOUR_MS);
    assert_int_equal(f.until_ms, DAY_MS - HOUR_MS);
    assert_int_equal(f.cause, 0x7f3a);
    assert_int_equal(f.last_id, 2006);
    assert_int_equal(f.limit, 7);
    BYTES_EQUAL(((semel_bytes){"\0\xff", 2}), ((semel_bytes){f.key.data, f.key.len}));
    assert_int_equal(filters_read_after_id(&f, &t), CLI_OK);
    assert_int_equal(f.after_id, 12);
    filters_free(&f);
}

static void wrong_filters_are_usage_errors(void **state)
{
    filter_options wrong[] = {{.state = "finished"}, {.key = "hex:x"}, {.since = "yesterday"},
                              {.until = "25:00"},    {.cause = "xyz"}, {.cause = "123456789"},
                              {.cause = "0"},        {.up_to = "-1"},  {.up_to = "12x"}};
    (void)state;
    int before = dup(STDERR_FILENO); /* what they say is not looked at */
    assert_non_null(freopen("/dev/null", "w", stderr));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        filters f;
        assert_int_equal(read_filters(&f, &wrong[i]), CLI_USAGE);
        filters_free(&f);
    }
    (void)fflush(stderr);
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    (void)close(before);
}

static void names_match_exactly_or_by_a_prefix(void **state)
{
    const argument_list none = {.count = 0}, list = {.items = {"invoices", "mail.*"}, .count = 2},
                        all = {.items = {"*"}, .count = 1};
    (void)state;
    assert_true(filters_match(&none, "x"));
    assert_true(filters_match(&list, "invoices"));
    assert_true(filters_match(&list, "mail.receipt"));
    assert_false(filters_match(&list, "mail"));
    assert_false(filters_match(&list, "invoices2"));
    assert_false(filters_match(&list, NULL));
    assert_true(filters_match(&all, NULL));
}

static semel_dead letter_of(semel_dead_origin origin, const char *name)
{
    return (semel_dead){.size = sizeof(semel_dead), .origin = origin, .name = name};
}

static void letters_match_by_origin_name_and_type(void **state)
{
    filter_options given = {.inboxes = {.items = {"mail.*"}, .count = 1}};
    filters f;
    (void)state;
    assert_int_equal(read_filters(&f, &given), CLI_OK);
    semel_dead inbox = letter_of(SEMEL_DEAD_INBOX, "mail.x"),
               outbox = letter_of(SEMEL_DEAD_OUTBOX, "mail.x");
    assert_true(filters_match_letter(&f, &inbox));
    assert_false(filters_match_letter(&f, &outbox));
    assert_int_equal(filters_for_letters(&f).origin, SEMEL_DEAD_INBOX);
    assert_null(filters_for_letters(&f).name);
    given.inboxes.items[0] = "invoices";
    assert_string_equal(filters_for_letters(&f).name, "invoices");
    filters_free(&f);
}

static void filters_can_be_typed_again(void **state)
{
    filter_options given = {.inboxes = {.items = {"mail.*", "invoices"}, .count = 2},
                            .error = "it's a tax \x1b rate",
                            .since = "02:40",
                            .limit = 5};
    buffer text = {0};
    (void)state;
    filters_text(&text, &given);
    assert_string_equal(text.data, "--inbox 'mail.*' --inbox invoices --error "
                                   "'it'\\''s a tax \\x1b rate' --since 02:40 --limit 5");
    buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_understood),
        cmocka_unit_test(other_texts_are_no_times),
        cmocka_unit_test(a_time_of_the_day_is_the_last_one),
        cmocka_unit_test(the_zone_is_that_of_the_time_and_not_of_now),
        cmocka_unit_test(keys_are_understood),
        cmocka_unit_test(a_key_that_is_shown_can_be_typed),
        cmocka_unit_test(long_keys_are_digests),
        cmocka_unit_test(wrong_keys_are_refused),
        cmocka_unit_test(parts_are_joined_with_their_lengths),
        cmocka_unit_test(filters_are_read),
        cmocka_unit_test(wrong_filters_are_usage_errors),
        cmocka_unit_test(names_match_exactly_or_by_a_prefix),
        cmocka_unit_test(letters_match_by_origin_name_and_type),
        cmocka_unit_test(filters_can_be_typed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
