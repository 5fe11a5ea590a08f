/* sql handlers on every SQL store: types, injection, checks before the first message, setup. */
#include "inbox_kit.h"
#include "program/handler/sql.h"
#include "support/servers/server_each.h"

#include <stdio.h>

static const char *const tables[] = {
    "CREATE TABLE IF NOT EXISTS ledger (order_id BIGINT PRIMARY KEY, amount NUMERIC(30,10), "
    "flag SMALLINT, name VARCHAR(200), whole TEXT, attempt INT)"};
static const config_list setup = {tables, 1};

static void declare(inbox_kit *k, const char *const *statements, size_t count)
{
    size_t failed = 0;
    OK(sql_setup(k->base.store, &setup, &failed, &last_error));
    OK(sql_setup(k->base.store, &setup, &failed, &last_error));
    k->declared.handler = HANDLER_SQL;
    k->declared.sql = (config_list){statements, count};
}

/* --- messages --------------------------------------------------------------------------------- */

static void types_are_kept(void **state)
{
    static const char *const statements[] = {
        "INSERT INTO ledger (order_id, amount, flag, name, whole, attempt) VALUES (:json/order_id, "
        ":json/amount, :json/flag, :json/name, :json/whole, :attempt)"};
    inbox_kit *k = *state;
    declare(k, statements, 1);
    inbox_kit_start(k);
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k,
                 "{\"order_id\": 9223372036854775807, \"amount\": 12.34, \"flag\": true, "
                 "\"name\": \"\\u00e9\\u20ac x\", \"whole\": {\"a\": [1, 2.50]}}");
    KIT_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, k, "{\"order_id\": 9223372036854775807}");
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{\"order_id\": -1, \"flag\": false}");
    assert_int_equal(
        inbox_kit_number(k, "SELECT count(*) FROM ledger WHERE order_id = 9223372036854775807 AND "
                            "amount = 12.34 AND flag = 1 AND name = '\xc3\xa9\xe2\x82\xac x' "
                            "AND whole = '{\"a\":[1,2.50]}' AND attempt = 1"),
        1);
    assert_int_equal(inbox_kit_number(k, "SELECT count(*) FROM ledger WHERE order_id = -1 AND "
                                         "amount IS NULL AND flag = 0 AND name IS NULL AND whole "
                                         "IS NULL"),
                     1);
}

/* A NUMERIC of PostgreSQL keeps every digit that it is given. */
static void a_real_gets_no_digits_that_it_had_not(void **state)
{
    static const char *const amounts[] = {"CREATE TABLE amounts (amount NUMERIC)"};
    static const char *const statements[] = {"INSERT INTO amounts VALUES (:json/amount)"};
    inbox_kit *k = *state;
    declare(k, statements, 1);
    OK(semel_store_run(k->base.store, amounts, 1, NULL, &last_error));
    inbox_kit_start(k);
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{\"order_id\": 1, \"amount\": 12.34}");
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{\"order_id\": 2, \"amount\": 0.1}");
    assert_int_equal(inbox_kit_number(k, "SELECT count(*) FROM amounts WHERE "
                                         "CAST(amount AS TEXT) IN ('12.34', '0.1')"),
                     2);
}

static void what_a_message_says_is_never_sql(void **state)
{
    static const char *const statements[] = {
        "INSERT INTO ledger (order_id, name) VALUES (:json/order_id, :json/name)"};
    static const char *const names[] = {"'); DROP TABLE ledger; --",
                                        "\\\\'); DROP TABLE ledger; --",
                                        "\\\" OR 1=1",
                                        "? ?? $1 :id :{id}",
                                        "/* */ -- #",
                                        "\\n\\r\\t\\u001a\\u0008",
                                        "$$ $a$",
                                        "%s%n"};
    inbox_kit *k = *state;
    char body[200];
    declare(k, statements, 1);
    inbox_kit_start(k);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(body, sizeof body, "{\"order_id\": %zu, \"name\": \"%s\"}", i + 1, names[i]);
        KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, body);
    }
    assert_int_equal(inbox_kit_number(k, "SELECT count(*) FROM ledger"),
                     (int64_t)(sizeof names / sizeof *names));
    assert_int_equal(inbox_kit_number(k, "SELECT count(*) FROM ledger WHERE name = '? ?? $1 :id "
                                         ":{id}' OR name = '''); DROP TABLE ledger; --'"),
                     2);
}

static void all_statements_or_none_take_effect(void **state)
{
    static const char *const statements[] = {
        "INSERT INTO ledger (order_id) VALUES (:json/order_id)",
        "INSERT INTO ledger (order_id) VALUES (:json/other)"};
    inbox_kit *k = *state;
    declare(k, statements, 2);
    inbox_kit_start(k);
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{\"order_id\": 1, \"other\": 2}");
    KIT_RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, k, "{\"order_id\": 3, \"other\": 3}");
    assert_int_equal(inbox_kit_number(k, "SELECT count(*) FROM ledger"), 2);
    KIT_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, k, "{\"order_id\": 3, \"other\": 4}");
    assert_int_equal(inbox_kit_number(k, "SELECT count(*) FROM ledger"), 4);
}

static void a_body_without_json_is_a_dead_letter(void **state)
{
    static const char *const statements[] = {
        "INSERT INTO ledger (order_id) VALUES (:json/order_id)"};
    inbox_kit *k = *state;
    declare(k, statements, 1);
    k->declared.options.key = "id";
    inbox_kit_start(k);
    KIT_RECEIVES(SEMEL_OK, SEMEL_DEAD, k, "secret, not json");
    letter only = fixture_only_letter(&k->base);
    assert_string_equal(only.error, ":json/order_id: the body of the message is not JSON");
}

/* --- before ----------------------------------------------------------------------------------- */

static void good_statements_pass_and_change_nothing(void **state)
{
    static const char *const statements[] = {
        "INSERT INTO ledger (order_id, amount) VALUES (:json/order_id, :json/amount)",
        "UPDATE ledger SET name = :type WHERE order_id = :json/order_id"};
    inbox_kit *k = *state;
    config_list all = {statements, 2};
    sql_mistake wrong;
    declare(k, statements, 2);
    OK(sql_check(k->base.store, k->all.store_url, &setup, &all, &wrong, &last_error));
    assert_int_equal(inbox_kit_number(k, "SELECT count(*) FROM ledger"), 0);
}

/* The place is that of the column as it was written, behind values. */
static void a_wrong_name_is_found_at_the_start(void **state)
{
    static const char *const statements[] = {
        "INSERT INTO ledger (order_id) VALUES (:json/order_id)",
        "UPDATE ledger SET name = :json/name, amount = :{json:/a/b} WHERE amnt = :json/amount"};
    inbox_kit *k = *state;
    config_list all = {statements, 2};
    sql_mistake wrong;
    declare(k, statements, 2);
    FAILS(SEMEL_EINVAL,
          sql_check(k->base.store, k->all.store_url, &setup, &all, &wrong, &last_error));
    assert_int_equal(wrong.statement, 1);
    assert_non_null(strstr(wrong.what.text, "amnt"));
    assert_string_equal(wrong.what.text, last_error.text);
    assert_true(wrong.has_place || strncmp(k->all.store_url, "mariadb", 7) == 0);
    if (wrong.has_place) {
        assert_int_equal(wrong.what.offset, strstr(statements[1], "amnt") - statements[1]);
        assert_int_equal(wrong.what.len, 4);
    }
}

static void a_wrong_value_is_found_without_a_store(void **state)
{
    static const char *const statements[] = {"SELECT 1", "SELECT :jason/a"};
    inbox_kit *k = *state;
    config_list all = {statements, 2};
    sql_mistake wrong = {0};
    assert_false(sql_read(&all, k->all.store_url, &wrong));
    assert_int_equal(wrong.statement, 1);
    assert_int_equal(wrong.what.offset, 7);
    k->declared.handler = HANDLER_SQL;
    k->declared.sql = all;
    FAILS(SEMEL_EINVAL, handler_open(&k->handler, &k->all, &k->declared, &last_error));
    assert_string_equal(last_error.text,
                        "statement 2, at byte 8: unknown value \":jason\"; did you "
                        "mean \":json\"?");
}

/* `semel check` on a store on which nothing has run yet. MariaDB cannot run `setup` only to see. */
static void tables_of_setup_are_there_for_the_check_alone(void **state)
{
    static const char *const later[] = {"CREATE TABLE later (id BIGINT)"};
    static const char *const statements[] = {"INSERT INTO later VALUES (:json/id)"};
    inbox_kit *k = *state;
    config_list first = {later, 1}, all = {statements, 1};
    sql_mistake wrong;
    semel_status expected =
        strncmp(k->all.store_url, "mariadb", 7) == 0 ? SEMEL_EUNSUPPORTED : SEMEL_OK;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            sql_check(k->base.store, k->all.store_url, &first, &all, &wrong, &last_error),
            expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_ON_EACH(types_are_kept),
#ifdef SEMEL_WITH_POSTGRES
        ON_POSTGRES(a_real_gets_no_digits_that_it_had_not, inbox_kit_setup, inbox_kit_teardown),
#endif
        KIT_ON_EACH(what_a_message_says_is_never_sql),
        KIT_ON_EACH(all_statements_or_none_take_effect),
        KIT_ON_EACH(a_body_without_json_is_a_dead_letter),
        KIT_ON_EACH(good_statements_pass_and_change_nothing),
        KIT_ON_EACH(a_wrong_name_is_found_at_the_start),
        KIT_ON_EACH(a_wrong_value_is_found_without_a_store),
        KIT_ON_EACH(tables_of_setup_are_there_for_the_check_alone),
    };
    return cmocka_run_group_tests_name("sql_handler", tests, NULL, NULL);
}
