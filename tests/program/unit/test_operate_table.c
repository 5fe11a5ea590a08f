/* Tables: for people in columns, for programs as JSON; and what hostile content becomes. */
#include "program/operate/table.h"
#include "program/support/memory.h"
#include "support/base/check.h"

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { TEXT_MAX = 65536 };

static const table_column letters[] = {{"LETTER", "letter", 1, 0},
                                       {"INBOX", "inbox", 0, 0},
                                       {"KEY", "key", 0, 0},
                                       {NULL, "took_ms", 0, 0},
                                       {"SINCE", "at", 0, 0},
                                       {"ERROR", "error", 0, 1},
                                       {0}};

static void add_letter(table *t, int64_t number, const char *inbox, const char *key,
                       const char *error)
{
    table_number(t, number);
    table_text(t, inbox);
    table_key(t, semel_str(key));
    table_duration(t, 38);
    table_moment(t, 1773452475402);
    table_text(t, error);
    table_end_row(t);
}

/* What the table prints into a file, as a text that the caller frees. */
static char *printed(table *t)
{
    char *text = NULL;
    size_t len = 0;
    FILE *to = tmpfile();
    assert_non_null(to);
    table_print(t, to);
    rewind(to);
    text = must_alloc(TEXT_MAX);
    len = fread(text, 1, TEXT_MAX - 1, to);
    text[len] = 0;
    (void)fclose(to);
    return text;
}

static void expect_printed(table *t, const char *expected)
{
    char *text = printed(t);
    assert_string_equal(text, expected);
    free(text);
}

static void columns_are_as_wide_as_what_they_hold(void **state)
{
    table t = {.columns = letters, .utc = 1};
    (void)state;
    add_letter(&t, 2126, "invoices", "20713", "http 422");
    add_letter(&t, 1000000, "a", "hex:1", NULL);
    assert_int_equal(table_rows(&t), 2);
    expect_printed(&t, "   LETTER  INBOX     KEY         SINCE                ERROR\n"
                       "    2,126  invoices  20713       2026-03-14 01:41:15  http 422\n"
                       "1,000,000  a         text:hex:1  2026-03-14 01:41:15  -\n");
}

static void an_empty_table_prints_nothing(void **state)
{
    table people = {.columns = letters}, json = {.columns = letters, .json = 1};
    (void)state;
    expect_printed(&people, "");
    expect_printed(&json, "");
}

static void json_has_types_and_leaves_out_what_is_not_there(void **state)
{
    table t = {.columns = letters, .json = 1};
    (void)state;
    add_letter(&t, 2126, "invoices", "20713", "a \"quoted\"\nline\x1b[31m \xff");
    table_number(&t, -1);
    table_text(&t, NULL);
    table_key(&t, (semel_bytes){"\0\xff:", 3});
    table_duration(&t, -1);
    table_moment(&t, 0);
    table_cell(&t, "people", "[1,2]");
    table_end_row(&t);
    expect_printed(&t, "{\"letter\":2126,\"inbox\":\"invoices\",\"key\":\"20713\",\"took_ms\":38,"
                       "\"at\":\"2026-03-14T01:41:15.402Z\","
                       "\"error\":\"a \\\"quoted\\\"\\nline\\u001b[31m \xef\xbf\xbd\"}\n"
                       "{\"key\":\"hex:00ff3a\",\"error\":[1,2]}\n");
}

static void hostile_text_is_one_line_that_no_terminal_obeys(void **state)
{
    table t = {.columns = letters, .utc = 1};
    (void)state;
    add_letter(&t, 1, "a\x1b[2J", "x\ny",
               "\xc2\x9b"
               "31m\r\xff");
    expect_printed(&t,
                   "LETTER  INBOX     KEY         SINCE                ERROR\n"
                   "     1  a\\x1b[2J  hex:780a79  2026-03-14 01:41:15  \\xc2\\x9b31m\\x0d\\xff\n");
}

static void a_long_key_is_shown_by_its_digest(void **state)
{
    static const table_column columns[] = {{"KEY", "key", 0, 0}, {0}};
    unsigned char stored[33] = {0xff, 0x9f, 0x86};
    table t = {.columns = columns};
    (void)state;
    table_key(&t, (semel_bytes){stored, sizeof stored});
    table_end_row(&t);
    expect_printed(&t,
                   "KEY\nsha256:9f86000000000000000000000000000000000000000000000000000000000000"
                   "\n");
}

/* --- pages ------------------------------------------------------------------------------------ */

static void pages_have_one_heading_and_no_narrower_columns(void **state)
{
    static const table_column columns[] = {{"KEY", "key", 0, 0}, {"N", "n", 1, 0}, {0}};
    table t = {.columns = columns};
    char text[256];
    FILE *to = tmpfile();
    (void)state;
    table_text(&t, "a long one");
    table_number(&t, 1);
    assert_true(table_page(&t, to));
    table_text(&t, "b");
    table_number(&t, 2);
    assert_true(table_page(&t, to));
    assert_int_equal(table_rows(&t), 2);
    rewind(to);
    text[fread(text, 1, sizeof text - 1, to)] = 0;
    assert_string_equal(text, "KEY         N\na long one  1\nb           2\n");
    (void)fclose(to);
}

static void a_closed_output_is_told(void **state)
{
    static const table_column columns[] = {{"KEY", "key", 0, 0}, {0}};
    table t = {.columns = columns};
    FILE *full = fopen("/dev/full", "w");
    (void)state;
    assert_non_null(full);
    table_text(&t, "a");
    assert_false(table_page(&t, full));
    (void)fclose(full);
}

/* --- terminals -------------------------------------------------------------------------------- */

/* What a terminal of this width gets, without carriage returns. */
static char *on_terminal(table *t, unsigned short columns)
{
    int master, slave;
    struct winsize size = {.ws_row = 24, .ws_col = columns};
    char *text = must_alloc(TEXT_MAX);
    size_t len = 0;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
    FILE *to = fdopen(slave, "w");
    table_print(t, to);
    (void)fprintf(to, "\x04");
    (void)fflush(to);
    for (char c = 0; c != 4 && read(master, &c, 1) == 1;)
        if (c != '\r' && c != 4)
            text[len++] = c;
    (void)fclose(to);
    (void)close(master);
    return text;
}

static void expect_on_terminal(table *t, unsigned short columns, const char *expected)
{
    char *text = on_terminal(t, columns);
    assert_string_equal(text, expected);
    free(text);
}

static void errors_are_cut_on_a_terminal_only(void **state)
{
    static const char error[] = "http 422: no tax rate for order 20713 of customer 17";
    table wide = {.columns = letters, .utc = 1}, narrow = {.columns = letters, .utc = 1},
          piped = {.columns = letters, .utc = 1};
    (void)state;
    (void)unsetenv("COLUMNS");
    add_letter(&wide, 2126, "invoices", "20713", error);
    add_letter(&narrow, 2126, "invoices", "20713", error);
    add_letter(&piped, 2126, "invoices", "20713", error);
    char *whole = printed(&piped);
    expect_on_terminal(&wide, 120, whole);
    free(whole);
    expect_on_terminal(&narrow, 70,
                       "LETTER  INBOX     KEY    SINCE                ERROR\n"
                       " 2,126  invoices  20713  2026-03-14 01:41:15  http 422: no tax rate...\n");
}

static void keys_are_never_cut_but_go_on_in_a_second_line(void **state)
{
    static const table_column columns[] = {
        {"ID", "id", 0, 0}, {"TYPE", "type", 0, 0}, {"TRIES", "tries", 1, 0}, {0}};
    table t = {.columns = columns};
    (void)state;
    (void)setenv("COLUMNS", "40", 1);
    table_text(&t, "019cea1b-6d80-7a4e-9b0c-5d2f8e6a1c37");
    table_text(&t, "order.paid");
    table_number(&t, 9);
    table_end_row(&t);
    table_text(&t, "short");
    table_text(&t, "x");
    table_number(&t, 10);
    expect_on_terminal(&t, 200,
                       "ID                     TYPE        TRIES\n"
                       "019cea1b-6d80-7a4e-9b0c-5d2f8e6a1c37\n"
                       "                       order.paid      9\n"
                       "short                  x              10\n");
    (void)unsetenv("COLUMNS");
}

/* Times would not fit beside an id and an error: the error has a line of its own, and more room. */
static void the_last_columns_go_on_in_a_second_line(void **state)
{
    static const table_column columns[] = {
        {"ID", "id", 0, 0}, {"SINCE", "at", 0, 0}, {"N", "n", 1, 0}, {"ERROR", "error", 0, 1}, {0}};
    table t = {.columns = columns, .utc = 1};
    (void)state;
    table_text(&t, "019cea1b-6d80-7a4e");
    table_moment(&t, 1773452475402);
    table_number(&t, 9);
    table_text(&t, "no queue is bound for this message, and none will be");
    expect_on_terminal(&t, 48,
                       "ID                  SINCE                N\n"
                       "    ERROR\n"
                       "019cea1b-6d80-7a4e  2026-03-14 01:41:15  9\n"
                       "    no queue is bound for this message, and n...\n");
}

static void characters_are_counted_and_not_bytes(void **state)
{
    static const table_column columns[] = {{"KEY", "key", 0, 0}, {"ERROR", "error", 0, 1}, {0}};
    table t = {.columns = columns};
    (void)state;
    table_text(&t, "\xc3\xa4\xc3\xb6\xc3\xbc");
    table_text(&t, "\xc3\xa4 12345678901234567890");
    table_end_row(&t);
    table_text(&t, "abcd");
    table_text(&t, "b");
    expect_on_terminal(&t, 24,
                       "KEY   ERROR\n"
                       "\xc3\xa4\xc3\xb6\xc3\xbc   \xc3\xa4 1234567890123...\n"
                       "abcd  b\n");
}

int main(void)
{
    (void)setenv("NO_COLOR", "1", 1); /* check_colour.py looks at colours */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_what_they_hold),
        cmocka_unit_test(an_empty_table_prints_nothing),
        cmocka_unit_test(json_has_types_and_leaves_out_what_is_not_there),
        cmocka_unit_test(hostile_text_is_one_line_that_no_terminal_obeys),
        cmocka_unit_test(a_long_key_is_shown_by_its_digest),
        cmocka_unit_test(pages_have_one_heading_and_no_narrower_columns),
        cmocka_unit_test(a_closed_output_is_told),
        cmocka_unit_test(errors_are_cut_on_a_terminal_only),
        cmocka_unit_test(keys_are_never_cut_but_go_on_in_a_second_line),
        cmocka_unit_test(the_last_columns_go_on_in_a_second_line),
        cmocka_unit_test(characters_are_counted_and_not_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
