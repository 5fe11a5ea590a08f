/* URLs of stores and transports. */
#include "base/url.h"

#include <setjmp.h> /* cmocka.h wants these before it */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void url_is_split_into_scheme_rest_and_parameters(void **state)
{
    url parsed;
    (void)state;
    assert_int_equal(url_parse(&parsed, "sqlite:a/b.db?mode=full&n=5&empty=", NULL), SEMEL_OK);
    assert_string_equal(parsed.scheme, "sqlite");
    assert_string_equal(parsed.rest, "a/b.db");
    assert_int_equal(parsed.parameter_count, 3);
    assert_string_equal(url_text(&parsed, "mode", "x"), "full");
    assert_string_equal(url_text(&parsed, "empty", "x"), "");
    assert_string_equal(url_text(&parsed, "other", "x"), "x");
}

static void url_may_have_slashes_no_rest_and_no_parameters(void **state)
{
    url parsed;
    (void)state;
    assert_int_equal(url_parse(&parsed, "sqlite:///var/x.db", NULL), SEMEL_OK);
    assert_string_equal(parsed.rest, "/var/x.db");
    assert_int_equal(url_parse(&parsed, "memory:", NULL), SEMEL_OK);
    assert_string_equal(parsed.rest, "");
    assert_int_equal(url_parse(&parsed, "memory:?", NULL), SEMEL_OK);
    assert_int_equal(parsed.parameter_count, 0);
    assert_int_equal(url_parse(&parsed, "x:a=b:c?t=1=2", NULL), SEMEL_OK);
    assert_string_equal(parsed.rest, "a=b:c");
    assert_string_equal(url_text(&parsed, "t", ""), "1=2");
}

static void bad_urls_are_refused_with_a_reason(void **state)
{
    static const char *const bad[] = {"",         "orders.db",   ":x",         "/tmp/a:b",
                                      "a b:c",    "1x:",         "x:?a",       "x:?=1",
                                      "x:?a=1&b", "x:?a=1&&b=2", "x:?a=1&a=2", "x:?a=1?b=2"};
    url parsed;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        semel_error err = {0};
        assert_int_equal(url_parse(&parsed, bad[i], &err), SEMEL_EINVAL);
        assert_int_equal(strncmp(err.text, "URL: ", 5), 0);
    }
    assert_int_equal(url_parse(&parsed, NULL, NULL), SEMEL_EINVAL);
}

static void url_limits_are_kept(void **state)
{
    char text[URL_MAX + 1] = "x:";
    url parsed;
    (void)state;
    memset(text + 2, 'a', URL_MAX - 2);
    assert_int_equal(url_parse(&parsed, text, NULL), SEMEL_ELIMIT);
    text[URL_MAX - 1] = 0;
    assert_int_equal(url_parse(&parsed, text, NULL), SEMEL_OK);
    size_t len = (size_t)snprintf(text, sizeof text, "x:?p0=1");
    for (int i = 1; i < URL_PARAMETERS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "&p%d=1", i);
    assert_int_equal(url_parse(&parsed, text, NULL), SEMEL_OK);
    (void)snprintf(text + len, sizeof text - len, "&more=1");
    assert_int_equal(url_parse(&parsed, text, NULL), SEMEL_ELIMIT);
}

static void only_known_parameters_pass(void **state)
{
    url parsed;
    semel_error err = {0};
    (void)state;
    assert_int_equal(url_parse(&parsed, "x:?busy_ms=1&cache=2", NULL), SEMEL_OK);
    assert_int_equal(url_only(&parsed, "cache,busy_ms", NULL), SEMEL_OK);
    assert_int_equal(url_only(&parsed, "cache,busy_m", &err), SEMEL_EINVAL);
    assert_non_null(strstr(err.text, "\"busy_ms\""));
    assert_non_null(strstr(err.text, "cache,busy_m"));
    assert_int_equal(url_only(&parsed, "busy_ms,cach", NULL), SEMEL_EINVAL);
    assert_int_equal(url_only(&parsed, "busy_ms_max,cache", NULL), SEMEL_EINVAL);
    assert_int_equal(url_only(&parsed, "", &err), SEMEL_EINVAL);
    assert_non_null(strstr(err.text, "none"));
    assert_int_equal(url_parse(&parsed, "x:?a,b=1", NULL), SEMEL_OK);
    assert_int_equal(url_only(&parsed, "a,b,c", NULL), SEMEL_EINVAL);
}

static void numbers_are_read_within_their_bounds(void **state)
{
    static const char *const bad[] = {
        "x:?n=",    "x:?n=9",   "x:?n=21",   "x:?n=-10", "x:?n=+10",
        "x:?n= 10", "x:?n=10 ", "x:?n=0x10", "x:?n=1e1", "x:?n=18446744073709551626",
        "x:?n=ten"};
    url parsed;
    uint32_t number = 7;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        semel_error err = {0};
        assert_int_equal(url_parse(&parsed, bad[i], NULL), SEMEL_OK);
        assert_int_equal(url_number(&number, &parsed, "n", 5, 10, 20, &err), SEMEL_EINVAL);
        assert_non_null(strstr(err.text, "n must be a number from 10 to 20"));
        assert_int_equal(number, 7);
    }
    assert_int_equal(url_parse(&parsed, "x:?n=20", NULL), SEMEL_OK);
    assert_int_equal(url_number(&number, &parsed, "n", 5, 10, 20, NULL), SEMEL_OK);
    assert_int_equal(number, 20);
    assert_int_equal(url_number(&number, &parsed, "other", 5, 10, 20, NULL), SEMEL_OK);
    assert_int_equal(number, 5);
}

static void a_choice_is_one_of_its_words(void **state)
{
    static const char *const three[] = {"off", "on", "verify", NULL}, *const two[] = {"a", "b",
                                                                                      NULL};
    url parsed;
    semel_error err = {0};
    int choice = 7;
    (void)state;
    assert_int_equal(url_parse(&parsed, "x:?t=verify&u=c", NULL), SEMEL_OK);
    assert_int_equal(url_choice(&choice, &parsed, "t", three, 0, NULL), SEMEL_OK);
    assert_int_equal(choice, 2);
    assert_int_equal(url_choice(&choice, &parsed, "absent", three, -1, NULL), SEMEL_OK);
    assert_int_equal(choice, -1);
    assert_int_equal(url_choice(&choice, &parsed, "u", three, 0, &err), SEMEL_EINVAL);
    assert_string_equal(err.text, "URL: u is off, on or verify, not \"c\"");
    assert_int_equal(url_choice(&choice, &parsed, "u", two, 0, &err), SEMEL_EINVAL);
    assert_string_equal(err.text, "URL: u is a or b, not \"c\"");
}

/* Half of the password would be the host. */
static void a_mark_in_a_password_is_not_taken_for_the_end_of_it(void **state)
{
    static const struct {
        const char *text;
        semel_status status;
    } urls[] = {{"p://u:a/s3cret@h/", SEMEL_EINVAL},
                {"p:///u:s3cret@h", SEMEL_EINVAL},
                {"p://u:a@s3cret@h/db", SEMEL_EINVAL},
                {"p://u:a@s3cret@h", SEMEL_EINVAL},
                {"p://@s3cret@h", SEMEL_EINVAL},
                {"p://u:s3cret@@", SEMEL_EINVAL},
                {"p://u:a#s3cret@h/db", SEMEL_EINVAL},
                {"p://u:a%23s3cret%40@h/db#b?c=#", SEMEL_OK},
                {"p://@", SEMEL_OK},
                {"p://u:a%2Fs3cret@h/db", SEMEL_OK},
                {"p://h/db", SEMEL_OK},
                {"p://u@h", SEMEL_OK}};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        url parsed;
        semel_error err = {0};
        assert_int_equal(url_parse(&parsed, urls[i].text, NULL), SEMEL_OK);
        assert_int_equal(url_one_place(&parsed, &err), urls[i].status);
        assert_null(strstr(err.text, "s3cret"));
    }
}

static void no_error_repeats_a_password(void **state)
{
    static const char *const urls[] = {"postgres://u:s3cret@h/db?odd",
                                       "u:s3cret@h?odd",
                                       "//u:s3cret@h/db",
                                       "host=h password=s3cret:5432",
                                       "postgres://u:s3cret@h/db?x=1",
                                       "p://u:s3cret@h/?n=x",
                                       "p://u:s3cret@h/?x=1&x=2",
                                       "p://u:a?s3cret=1@h/",
                                       "p://u:a?n=s3cret@h/",
                                       "p://u:a?s3cret=1&s3cret=2@h/",
                                       "p://u:5/a?s3cret=1@h/",
                                       "p://u:b@a?s3cret=1@h/"};
    url parsed;
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        semel_error err = {0};
        uint32_t number;
        semel_status status = url_parse(&parsed, urls[i], &err);
        if (!status)
            status = url_number(&number, &parsed, "n", 0, 0, 9, &err);
        if (!status)
            status = url_only(&parsed, "n", &err);
        assert_int_equal(status, SEMEL_EINVAL);
        assert_null(strstr(err.text, "s3cret"));
    }
}

static void what_is_shown_of_a_url_holds_no_secret(void **state)
{
    static const char *const cases[][2] = {
        {"sqlite:/var/shop.db?synchronous=full", "sqlite:/var/shop.db"},
        {"memory:", "memory:"},
        {"postgres://shop:hunter2@host:5432/db?password=hunter2", "postgres://host:5432/db"},
        {"postgres:shop:hunter2@host/db", "postgres:host/db"},
        {"amqp://hunt@er2:hunter2@[::1]:5672/v", "amqp://[::1]:5672/v"},
        {"amqp://user:hunt/er2@host/v", "amqp://host/v"},
        {"amqp://user:hunt?er2@host/v", "amqp://"},
        {"hunter2", ""},
        {"", ""},
    };
    char shown[URL_MAX], longest[3 * URL_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        url_shown(shown, cases[i][0], strlen(cases[i][0]));
        assert_string_equal(shown, cases[i][1]);
    }
    memset(longest, ':', sizeof longest);
    url_shown(shown, longest, sizeof longest);
    assert_int_equal(strlen(shown), URL_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(url_is_split_into_scheme_rest_and_parameters),
        cmocka_unit_test(url_may_have_slashes_no_rest_and_no_parameters),
        cmocka_unit_test(bad_urls_are_refused_with_a_reason),
        cmocka_unit_test(url_limits_are_kept),
        cmocka_unit_test(only_known_parameters_pass),
        cmocka_unit_test(numbers_are_read_within_their_bounds),
        cmocka_unit_test(a_choice_is_one_of_its_words),
        cmocka_unit_test(a_mark_in_a_password_is_not_taken_for_the_end_of_it),
        cmocka_unit_test(no_error_repeats_a_password),
        cmocka_unit_test(what_is_shown_of_a_url_holds_no_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
