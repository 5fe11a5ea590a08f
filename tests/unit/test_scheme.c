/* URLs with a scheme that this library does not have: the error lists the schemes that it has, and
 * proposes the one that was probably meant. */
#include "base/scheme.h"
#include "support/base/check.h"

#include "generated/backends.h"

#include <semel/semel.h>
#include <string.h>

static const char *const some[] = {"memory", "sqlite", "postgres", "mariadb", "mysql"};
enum { SOME = sizeof some / sizeof *some };

static void every_scheme_is_listed(void **state)
{
    (void)state;
    FAILS(SEMEL_EINVAL, scheme_unknown("store", "file", 4, some, SOME, &last_error));
    assert_string_equal(last_error.text,
                        "\"file:\" is not a store; known are memory:, sqlite:, postgres:, mariadb: "
                        "and mysql:");
    FAILS(SEMEL_EINVAL, scheme_unknown("transport", "x", 1, some, 1, &last_error));
    assert_string_equal(last_error.text, "\"x:\" is not a transport; known are memory:");
    FAILS(SEMEL_EUNSUPPORTED, scheme_left_out("redis", some, 2, &last_error));
    SAYS("redis: support was not built into this libsemel; it has memory: and sqlite:");
}

static void a_near_miss_is_proposed(void **state)
{
    static const struct {
        const char *given, *meant;
    } cases[] = {{"mysq", "mysql"},
                 {"mqsyl", "mysql"},
                 {"sqlite3", "sqlite"},
                 {"sqllite", "sqlite"},
                 {"sql", "sqlite"},
                 {"maria", "mariadb"},
                 {"mairadb", "mariadb"},
                 {"memroy", "memory"},
                 {"pgsql", NULL},
                 {"postgre", "postgres"},
                 {"pastgrez", "postgres"},
                 {"http", NULL},
                 {"db", NULL},
                 {"m", NULL},
                 {"oracle", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *given = cases[i].given;
        char expected[64] = "maybe ";
        (void)scheme_unknown("store", given, strlen(given), some, SOME, &last_error);
        if (cases[i].meant)
            strcat(strcat(expected, cases[i].meant), ": is meant");
        if (!strstr(last_error.text, expected) != !cases[i].meant)
            fail_msg("%s: %s", given, last_error.text);
    }
}

/* Far longer than a list may be: cut, and in bounds. */
static void a_list_without_end_is_cut(void **state)
{
    const char *many[60];
    char given[500];
    (void)state;
    for (size_t i = 0; i < 60; i++)
        many[i] = "scheme-of-a-backend";
    memset(given, 'g', sizeof given);
    FAILS(SEMEL_EINVAL, scheme_unknown("store", given, sizeof given, many, 60, &last_error));
    assert_in_range(strlen(last_error.text), 100, 400);
}

#define LISTED(scheme, name) SAYS(scheme ":");
#define NOT_LISTED(scheme)   assert_null(strstr(last_error.text, scheme ":"));

static void stores_and_transports_of_this_build_are_listed(void **state)
{
    semel_store *store = NULL;
    semel_transport *transport = NULL;
    (void)state;
    FAILS(SEMEL_EINVAL, semel_store_open(&store, "nosuch://u:secret@host/db", NULL, &last_error));
    SAYS("\"nosuch:\" is not a store");
    STORE_SCHEMES(LISTED, NOT_LISTED)
    assert_null(strstr(last_error.text, "secret"));
    FAILS(SEMEL_EINVAL,
          semel_transport_open(&transport, "nosuch://u:secret@host/q", NULL, &last_error));
    SAYS("\"nosuch:\" is not a transport");
    TRANSPORT_SCHEMES(LISTED, NOT_LISTED)
    assert_null(strstr(last_error.text, "secret"));
    FAILS(SEMEL_EINVAL, semel_store_open(&store, "sqllite:shop.db", NULL, &last_error));
    SAYS("maybe sqlite: is meant");
    FAILS(SEMEL_EINVAL, semel_transport_open(&transport, "stor:memory:#q", NULL, &last_error));
    SAYS("maybe store: is meant");
}

#define REFUSED(scheme)                                                                      \
    FAILS(SEMEL_EUNSUPPORTED, semel_store_open(&store, scheme "://h/x", NULL, &last_error)); \
    SAYS("not built into this libsemel; it has memory:");
#define OPENED(scheme, name)

static void a_scheme_that_was_left_out_is_told_what_there_is(void **state)
{
    semel_store *store = NULL;
    (void)state;
    STORE_SCHEMES(OPENED, REFUSED)
    assert_null(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scheme_is_listed),
        cmocka_unit_test(a_near_miss_is_proposed),
        cmocka_unit_test(a_list_without_end_is_cut),
        cmocka_unit_test(stores_and_transports_of_this_build_are_listed),
        cmocka_unit_test(a_scheme_that_was_left_out_is_told_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
