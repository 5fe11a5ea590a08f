/* Statements of the application's that are checked or run outside of messages. The text is the same
 * on every SQL store. */
#include "support/conformance/conformance_store.h"

#include "core/store.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXTS = 8, TEXT_ROOM = 256 };

/* Several suites run on one server at a time, so each process has a table of its own: shop_PID. The
 * text is valid until TEXTS more have been made. */
static const char *own(const char *sql)
{
    static char texts[TEXTS][TEXT_ROOM];
    static size_t next;
    char *out = texts[next++ % TEXTS];
    size_t len = 0;
    for (const char *name; (name = strstr(sql, "shop")); sql = name + strlen("shop"))
        len += (size_t)snprintf(out + len, TEXT_ROOM - len, "%.*sshop_%d", (int)(name - sql), sql,
                                (int)getpid());
    len += (size_t)snprintf(out + len, TEXT_ROOM - len, "%s", sql);
    assert_true(len < TEXT_ROOM);
    return out;
}

static void make_shop(store_fixture *f)
{
    const char *const shop[] = {own("CREATE TABLE IF NOT EXISTS shop (id INTEGER PRIMARY KEY, name "
                                    "VARCHAR(20), price DOUBLE PRECISION)"),
                                own("DELETE FROM shop"),
                                own("INSERT INTO shop (id, name) VALUES (1, 'a')")};
    OK(semel_store_run(f->base.store, shop, 3, NULL, &last_error));
}

static semel_status check(store_fixture *f, const char *sql, size_t count, size_t *position)
{
    semel_unit *unit = NULL;
    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    semel_status status = semel_unit_check(unit, sql, count, position, &last_error);
    semel_unit_rollback(unit);
    return status;
}

static void what_is_run_may_be_run_again(void **state)
{
    store_fixture *f = *state;
    make_shop(f);
    make_shop(f);
    OK(check(f, own("SELECT id, name, price FROM shop WHERE id = ?"), 1, NULL));
}

static void the_statement_that_fails_is_named(void **state)
{
    const char *const bad[] = {own("CREATE TABLE IF NOT EXISTS shop_other (id INTEGER)"),
                               "INSERT INTO nowhere (id) VALUES (1)",
                               own("INSERT INTO shop_other (id) VALUES (1)")};
    const char *const twice[] = {own("INSERT INTO shop (id) VALUES (7)"),
                                 own("INSERT INTO shop (id) VALUES (7)"),
                                 own("INSERT INTO shop (id) VALUES (8)")};
    store_fixture *f = *state;
    size_t failed = 9;
    FAILS(SEMEL_EINVAL, semel_store_run(f->base.store, bad, 3, &failed, &last_error));
    assert_int_equal(failed, 1);
    assert_true(last_error.text[0] && !last_error.retryable);
    make_shop(f);
    FAILS(SEMEL_EINVAL, semel_store_run(f->base.store, twice, 3, &failed, &last_error));
    assert_int_equal(failed, 1);
}

static void a_statement_that_ends_the_transaction_is_not_run(void **state)
{
    static const char *const bad[] = {"COMMIT"};
    store_fixture *f = *state;
    FAILS(SEMEL_EINVAL, semel_store_run(f->base.store, bad, 1, NULL, &last_error));
}

/* The key would be taken if a check had run anything. */
static void what_is_checked_is_not_run(void **state)
{
    store_fixture *f = *state;
    char insert[TEXT_ROOM];
    semel_value row[] = {semel_int(5), semel_real(12.34)};
    semel_unit *unit = NULL;
    size_t position = 7;
    make_shop(f);
    (void)snprintf(insert, sizeof insert, "%s",
                   own("INSERT INTO shop (id, name, price) VALUES (?, 'a?', ?)"));
    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    OK(semel_unit_check(unit, own("INSERT INTO shop (id) VALUES (5)"), 0, &position, &last_error));
    assert_int_equal(position, 0);
    OK(semel_unit_check(unit, insert, 2, &position, &last_error));
    OK(semel_unit_queue(unit, insert, row, 2, &last_error));
    OK(semel_unit_check(unit, own("DELETE FROM shop WHERE price = ?"), 1, NULL, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    (void)semel_unit_queue(unit, insert, row, 2, &last_error);
    FAILS(SEMEL_EHANDLER, semel_unit_commit(unit, &last_error));
}

/* The position, which MariaDB alone does not tell, is that of the name in the text as it was given,
 * behind marks that were translated and characters of several bytes. */
static void what_the_database_refuses_is_found(void **state)
{
    store_fixture *f = *state;
    char sql[TEXT_ROOM];
    (void)snprintf(sql, sizeof sql, "%s",
                   own("UPDATE shop SET name = ?, price = ? /* \xc3\xa9 */ WHERE nonesuch = ?"));
    size_t position = 0, expected = (size_t)(strstr(sql, "nonesuch") - sql) + 1;
    make_shop(f);
    FAILS(SEMEL_EINVAL, check(f, sql, 3, &position));
    assert_non_null(strstr(last_error.text, "nonesuch"));
    if (strcmp(f->base.store->driver->scheme, "mariadb") != 0)
        assert_int_equal(position, expected);
    FAILS(SEMEL_EINVAL, check(f, "SELEKT 1", 0, &position));
    FAILS(SEMEL_EINVAL, check(f, "INSERT INTO nowhere VALUES (?)", 1, &position));
}

static void what_could_not_be_queued_is_refused(void **state)
{
    store_fixture *f = *state;
    size_t position = 0;
    make_shop(f);
    FAILS(SEMEL_EINVAL, check(f, own("SELECT ?, ? FROM shop"), 1, &position));
    assert_int_equal(position, sizeof "SELECT ?, ");
    FAILS(SEMEL_EINVAL, check(f, own("SELECT ? FROM shop"), 2, &position));
    FAILS(SEMEL_EINVAL, check(f, "SELECT 1; SELECT 2", 0, &position));
    assert_int_equal(position, sizeof "SELECT 1; ");
    FAILS(SEMEL_EINVAL, check(f, "ROLLBACK", 0, &position));
    FAILS(SEMEL_EINVAL, check(f, "", 0, &position));
    FAILS(SEMEL_EINVAL, check(f, "SELECT 'open", 0, &position));
    assert_int_equal(position, sizeof "SELECT ");
}

static void a_check_needs_a_transaction(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "checked", NULL);
    semel_message message = text_message("m-1", "x");
    semel_outcome out;
    semel_unit *unit = NULL;
    OK(semel_unit_begin(&unit, f->base.store, &last_error));
    OK(semel_unit_claim(&out, unit, inbox, &message, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_check(unit, "SELECT 1", 0, NULL, &last_error));
    semel_unit_rollback(unit);
    FAILS(SEMEL_EMISUSE, semel_unit_check(unit, "SELECT 1", 0, NULL, &last_error));
}

const store_test store_statement_tests[] = {
    STORE_TEST_WITH(what_is_run_may_be_run_again, IN_ANY_MODE),
    STORE_TEST_WITH(the_statement_that_fails_is_named, IN_ANY_MODE),
    STORE_TEST_WITH(a_statement_that_ends_the_transaction_is_not_run, IN_ANY_MODE),
    STORE_TEST_WITH(what_is_checked_is_not_run, IN_ANY_MODE),
    STORE_TEST_WITH(what_the_database_refuses_is_found, IN_ANY_MODE),
    STORE_TEST_WITH(what_could_not_be_queued_is_refused, IN_ANY_MODE),
    STORE_TEST_WITH(a_check_needs_a_transaction, IN_CLAIM_MODE),
    {0}};
