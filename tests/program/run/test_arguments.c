/* Options of a command by a table: both forms, mistakes, and what is no option. */
#include "program/support/arguments.h"

#include "program/cli.h"
#include "support/base/check.h"

typedef struct read_values {
    int flag;
    const char *type;
    uint32_t copies;
    uint64_t delay;
    argument_list headers, rest;
} read_values;

static int read_words(read_values *v, char *words[], int count)
{
    const argument_option options[] = {
        {"--flag", 'f', ARGUMENT_FLAG, &v->flag},      {"--type", 0, ARGUMENT_TEXT, &v->type},
        {"--copies", 'n', ARGUMENT_COUNT, &v->copies}, {"--delay", 0, ARGUMENT_PERIOD, &v->delay},
        {"--header", 0, ARGUMENT_LIST, &v->headers},   {0}};
    *v = (read_values){0};
    return arguments_read("publish", count, words, options, &v->rest);
}

#define READ(v, ...)                                  \
    read_words(v, (char *[]){"publish", __VA_ARGS__}, \
               (int)(sizeof(char *[]){"publish", __VA_ARGS__} / sizeof(char *)))

static void options_come_in_both_forms(void **state)
{
    read_values v;
    (void)state;
    assert_int_equal(READ(&v, "orders", "--type", "a.b", "-f", "--copies=3", "--delay=2m",
                          "--header", "a=1", "--header=b=2", "--", "--type"),
                     CLI_OK);
    assert_int_equal(v.flag, 1);
    assert_string_equal(v.type, "a.b");
    assert_int_equal(v.copies, 3);
    assert_int_equal(v.delay, 120000);
    assert_int_equal(v.headers.count, 2);
    assert_string_equal(v.headers.items[1], "b=2");
    assert_int_equal(v.rest.count, 2);
    assert_string_equal(v.rest.items[1], "--type");
}

static void mistakes_are_usage_errors(void **state)
{
    read_values v;
    (void)state;
    assert_int_equal(READ(&v, "--tpye", "x"), CLI_USAGE);
    assert_int_equal(READ(&v, "--type"), CLI_USAGE);
    assert_int_equal(READ(&v, "--flag=yes"), CLI_USAGE);
    assert_int_equal(READ(&v, "--copies", "0"), CLI_USAGE);
    assert_int_equal(READ(&v, "--copies", "-1"), CLI_USAGE);
    assert_int_equal(READ(&v, "--copies", "4294967296"), CLI_USAGE);
    assert_int_equal(READ(&v, "--copies", "3x"), CLI_USAGE);
    assert_int_equal(READ(&v, "--delay", "5"), CLI_USAGE);
    assert_int_equal(READ(&v, "-x"), CLI_USAGE);
}

static void a_dash_alone_is_an_argument(void **state)
{
    read_values v;
    (void)state;
    assert_int_equal(READ(&v, "-"), CLI_OK);
    assert_int_equal(v.rest.count, 1);
}

static void periods_are_read(void **state)
{
    static const struct {
        const char *text;
        int good;
        uint64_t ms;
    } cases[] = {{"200ms", 1, 200},
                 {"30s", 1, 30000},
                 {"7d", 1, 604800000},
                 {"2w", 1, 1209600000},
                 {"0s", 1, 0},
                 {"1h30m", 1, 5400000},
                 {"forever", 1, UINT64_MAX},
                 {"5", 0, 0},
                 {"", 0, 0},
                 {"-5s", 0, 0},
                 {"5 s", 0, 0},
                 {"1.5h", 0, 0},
                 {"99999999999999999999s", 0, 0},
                 {"18446744073709551615d", 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        read_values v;
        assert_int_equal(READ(&v, "--delay", (char *)cases[i].text),
                         cases[i].good ? CLI_OK : CLI_USAGE);
        assert_true(v.delay == cases[i].ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_come_in_both_forms),
        cmocka_unit_test(mistakes_are_usage_errors),
        cmocka_unit_test(a_dash_alone_is_an_argument),
        cmocka_unit_test(periods_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
