/* Units inside a transaction that the caller has open on a connection of its own, on MariaDB. The
 * caller goes on with its connection as if nothing had happened: semel leaves it as it was after
 * every call. Each test is run on a connection that takes several statements in one text, on one
 * that does not, and on one that counts rows in the other way (CLIENT_FOUND_ROWS). */
#include "mariadb_kit.h"

enum { WAIT_MS = 150 };

static const unsigned long all_flags[] = {CLIENT_MULTI_STATEMENTS, 0, CLIENT_FOUND_ROWS};
enum { KINDS = sizeof all_flags / sizeof *all_flags };

static semel_unit *join(server_case *c, MYSQL *my)
{
    semel_unit *unit = NULL;
    OK(semel_unit_join_mariadb(&unit, c->base.store, my, &last_error));
    return unit;
}

static semel_outcome claim(server_case *c, semel_unit *unit, const char *id)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    static semel_message message; /* borrowed until the unit ends */
    message = text_message(id, "10 EUR");
    OK(semel_unit_claim(&outcome, unit, c->inbox, &message, &last_error));
    return outcome;
}

static int is_in_transaction(const MYSQL *my)
{
    return (my->server_status & SERVER_STATUS_IN_TRANS) != 0;
}

/* --- together or not at all ------------------------------------------------------------------- */

static void commit_all(server_case *c, unsigned long flags, const char *id)
{
    MYSQL *my = connect_to(c, c->name, flags);
    semel_message mail = text_message("mail-1", "paid");
    semel_value queued = semel_text("queued");
    int64_t before = effects(c), unsent = case_unsent(c);
    SQL(my, "START TRANSACTION");
    SQL(my, "INSERT INTO effect VALUES ('earlier')");
    semel_unit *unit = join(c, my);
    SQL(my, "INSERT INTO effect VALUES ('joined')"); /* without asking the unit for a handle */
    assert_int_equal(claim(c, unit, id), SEMEL_CLAIMED);
    SQL(my, "INSERT INTO effect VALUES ('claimed')");
    assert_ptr_equal(semel_unit_mariadb(unit), my);
    OK(semel_unit_send(unit, c->outbox, &mail, &last_error));
    OK(semel_unit_queue(unit, "INSERT INTO effect VALUES (?)", &queued, 1, &last_error));
    OK(semel_unit_set_result(unit, "receipt", 7, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    assert_true(is_in_transaction(my)); /* it is still the caller's */
    assert_int_equal(effects(c), before);
    SQL(my, "COMMIT");
    assert_int_equal(effects(c), before + 4);
    assert_int_equal(case_unsent(c), unsent + 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, id, NULL);
    mysql_close(my);
}

static void it_commits_with_the_callers_transaction(void **state)
{
    for (int i = 0; i < KINDS; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        commit_all(*state, all_flags[i], id);
    }
}

static void it_goes_with_the_callers_rollback(void **state)
{
    server_case *c = *state;
    for (int i = 0; i < KINDS; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        MYSQL *my = connect_to(c, c->name, all_flags[i]);
        semel_message mail = text_message("mail-1", "paid");
        SQL(my, "START TRANSACTION");
        semel_unit *unit = join(c, my);
        assert_int_equal(claim(c, unit, id), SEMEL_CLAIMED);
        OK(semel_unit_send(unit, c->outbox, &mail, &last_error));
        OK(semel_unit_commit(unit, &last_error));
        SQL(my, "ROLLBACK");
        assert_int_equal(case_unsent(c), 0);
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, id, NULL);
        mysql_close(my);
    }
}

static void rolling_it_back_leaves_the_callers_earlier_work(void **state)
{
    server_case *c = *state;
    for (int i = 0; i < KINDS; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        MYSQL *my = connect_to(c, c->name, all_flags[i]);
        SQL(my, "START TRANSACTION");
        SQL(my, "INSERT INTO effect VALUES ('earlier')");
        semel_unit *unit = join(c, my);
        assert_int_equal(claim(c, unit, id), SEMEL_CLAIMED);
        SQL(my, "INSERT INTO effect VALUES ('inside')");
        semel_unit_rollback(unit);
        SQL(my, "INSERT INTO effect VALUES ('later')");
        SQL(my, "COMMIT");
        mysql_close(my);
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, id, NULL);
    }
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect WHERE id = 'inside'"), 0);
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect WHERE id = 'earlier'"), KINDS);
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect WHERE id = 'later'"), KINDS);
}

static void a_queued_statement_that_fails_undoes_the_unit_only(void **state)
{
    server_case *c = *state;
    for (int i = 0; i < KINDS; i++) {
        MYSQL *my = connect_to(c, c->name, all_flags[i]);
        SQL(my, "START TRANSACTION");
        SQL(my, "INSERT INTO effect VALUES ('earlier')");
        semel_unit *unit = join(c, my);
        assert_int_equal(claim(c, unit, "m"), SEMEL_CLAIMED);
        OK(semel_unit_queue(unit, "INSERT INTO nowhere VALUES (1)", NULL, 0, &last_error));
        FAILS(SEMEL_EHANDLER, semel_unit_commit(unit, &last_error));
        assert_int_equal(last_error.native, 1146);
        SQL(my, "COMMIT");
        mysql_close(my);
    }
    assert_int_equal(effects(c), KINDS);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", NULL);
}

static void what_is_there_is_told(void **state)
{
    server_case *c = *state;
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "done", NULL);
    for (int i = 0; i < KINDS; i++) {
        MYSQL *my = connect_to(c, c->name, all_flags[i]);
        SQL(my, "START TRANSACTION");
        semel_unit *unit = join(c, my);
        assert_int_equal(claim(c, unit, "done"), SEMEL_DUPLICATE);
        semel_unit_rollback(unit);
        unit = join(c, my);
        assert_int_equal(claim(c, unit, "new"), SEMEL_CLAIMED);
        semel_unit_rollback(unit);
        SQL(my, "COMMIT");
        mysql_close(my);
    }
}

static void several_units_join_one_transaction_one_after_the_other(void **state)
{
    server_case *c = *state;
    semel_unit *second = NULL;
    MYSQL *my = connect_to(c, c->name, 0);
    SQL(my, "START TRANSACTION");
    for (int i = 0; i < 4; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        semel_unit *unit = join(c, my);
        FAILS(SEMEL_EMISUSE, semel_unit_join_mariadb(&second, c->base.store, my, &last_error));
        assert_int_equal(claim(c, unit, id), SEMEL_CLAIMED);
        if (i % 2)
            semel_unit_rollback(unit);
        else
            OK(semel_unit_commit(unit, &last_error));
    }
    SQL(my, "COMMIT");
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m0", NULL);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m1", NULL);
    mysql_close(my);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void only_an_open_transaction_is_joined(void **state)
{
    server_case *c = *state;
    semel_unit *unit = NULL;
    MYSQL *my = connect_to(c, c->name, CLIENT_MULTI_STATEMENTS);
    FAILS(SEMEL_EMISUSE, semel_unit_join_mariadb(&unit, c->base.store, my, &last_error));
    SAYS("START TRANSACTION");
    FAILS(SEMEL_EMISUSE, semel_unit_join_mariadb(&unit, c->base.store, NULL, &last_error));
    SQL(my, "START TRANSACTION");
    assert_int_equal(mysql_query(my, "SELECT 1"), 0);
    MYSQL_RES *result = mysql_use_result(my);
    FAILS(SEMEL_EMISUSE, semel_unit_join_mariadb(&unit, c->base.store, my, &last_error));
    mysql_free_result(result);
    unit = join(c, my);
    semel_unit_rollback(unit);
    SQL(my, "COMMIT");
    SQL(my, "SET autocommit = 0"); /* the next statement begins one */
    unit = join(c, my);
    assert_int_equal(claim(c, unit, "m"), SEMEL_CLAIMED);
    OK(semel_unit_commit(unit, &last_error));
    SQL(my, "COMMIT");
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", NULL);
    mysql_close(my);
}

/* The same server, but not the same tables; and tables of the same name in another server. */
static void another_database_is_refused(void **state)
{
    server_case *c = *state;
    server_own own;
    semel_unit *unit = NULL;
    MYSQL *my = connect_to(c, "mysql", 0);
    /* Its default database is another one, but it can reach the store's tables: that is enough. */
    SQL(my, "START TRANSACTION");
    unit = join(c, my);
    assert_int_equal(claim(c, unit, "m"), SEMEL_CLAIMED);
    OK(semel_unit_commit(unit, &last_error));
    SQL(my, "COMMIT");
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m", NULL);
    mysql_close(my);

    char sql[128], url[SERVER_URL_ROOM];
    server_own_start(&own, SERVER_MARIADB);
    my = mysql_init(NULL);
    assert_non_null(
        mysql_real_connect(my, own.at.host, "root", NULL, "semel", own.at.port, NULL, 0));
    SQL(my, "START TRANSACTION");
    FAILS(SEMEL_EINVAL, semel_unit_join_mariadb(&unit, c->base.store, my, &last_error));
    SAYS("another server");
    assert_true(is_in_transaction(my));
    SQL(my, "ROLLBACK");
    (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s", c->name);
    server_run(own.at.url, sql);
    (void)snprintf(url, sizeof url, "mariadb://root@127.0.0.1:%u/%s", own.at.port, c->name);
    semel_store *twin = NULL;
    OK(semel_store_open(&twin, url, NULL, &last_error));
    OK(semel_store_migrate(twin, &last_error));
    SQL(my, "START TRANSACTION");
    FAILS(SEMEL_EINVAL, semel_unit_join_mariadb(&unit, c->base.store, my, &last_error));
    SQL(my, "ROLLBACK");
    mysql_close(my);
    semel_store_close(twin);
    server_own_stop(&own);
}

static void a_claim_inbox_cannot_take_part(void **state)
{
    server_case *c = *state;
    semel_outcome out;
    semel_message message = text_message("m", "10 EUR");
    MYSQL *my = connect_to(c, c->name, 0);
    SQL(my, "START TRANSACTION");
    semel_unit *unit = join(c, my);
    FAILS(SEMEL_EINVAL, semel_unit_claim(&out, unit, c->inbox, &message, &last_error));
    semel_unit_rollback(unit);
    SQL(my, "COMMIT");
    mysql_close(my);
}

static void a_caller_that_ends_its_transaction_is_told_so(void **state)
{
    static const char *const ends[] = {"COMMIT", "ROLLBACK",
                                       "CREATE OR REPLACE TABLE by_the_way (id int)"};
    server_case *c = *state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        semel_message mail = text_message("mail-1", "paid");
        MYSQL *my = connect_to(c, c->name, all_flags[i]);
        SQL(my, "START TRANSACTION");
        semel_unit *unit = join(c, my);
        assert_int_equal(claim(c, unit, id), SEMEL_CLAIMED);
        OK(semel_unit_send(unit, c->outbox, &mail, &last_error));
        SQL(my, ends[i]);
        FAILS(SEMEL_EMISUSE, semel_unit_commit(unit, &last_error));
        SQL(my, "SELECT 1"); /* the connection is as usable as before */
        mysql_close(my);
        assert_int_equal(case_unsent(c), 0);
    }
}

static void a_caller_whose_connection_breaks_gets_an_error(void **state)
{
    server_case *c = *state;
    char sql[64];
    MYSQL *my = connect_to(c, c->name, 0);
    SQL(my, "START TRANSACTION");
    semel_unit *unit = join(c, my);
    assert_int_equal(claim(c, unit, "m"), SEMEL_CLAIMED);
    (void)snprintf(sql, sizeof sql, "KILL %lu", mysql_thread_id(my));
    server_run(c->base.place.url, sql);
    FAILS(SEMEL_EUNAVAILABLE, semel_unit_commit(unit, &last_error));
    mysql_close(my);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", NULL);
}

/* --- copies in flight ------------------------------------------------------------------------- */

static void expect_busy(server_case *c, const semel_inbox_options *options)
{
    semel_message first, copy = text_message("m", "10 EUR");
    semel_outcome out;
    case_close(c);
    case_open(c, CASE_BUSY_MS, options);
    for (int i = 0; i < KINDS; i++) {
        semel_unit *holder = take(c, &first, "m");
        MYSQL *my = connect_to(c, c->name, all_flags[i]);
        SQL(my, "START TRANSACTION");
        SQL(my, "INSERT INTO effect VALUES ('earlier')");
        semel_unit *unit = join(c, my);
        FAILS(SEMEL_EBUSY, semel_unit_claim(&out, unit, c->inbox, &copy, &last_error));
        assert_int_equal(out, SEMEL_IN_PROGRESS);
        semel_unit_rollback(unit);
        semel_unit_rollback(holder);
        SQL(my, "COMMIT"); /* the caller's work is not spoilt by the wait */
        mysql_close(my);
    }
    assert_int_equal(effects(c), KINDS);
}

static void a_copy_in_flight_is_reported_and_spoils_nothing(void **state)
{
    semel_inbox_options options = {.size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    expect_busy(*state, &options);
}

static void a_copy_in_flight_is_waited_for_and_spoils_nothing(void **state)
{
    semel_inbox_options options = {.size = sizeof options, .wait_ms = WAIT_MS};
    expect_busy(*state, &options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(it_commits_with_the_callers_transaction, by_transaction),
        CASE(it_goes_with_the_callers_rollback, by_transaction),
        CASE(rolling_it_back_leaves_the_callers_earlier_work, by_transaction),
        CASE(a_queued_statement_that_fails_undoes_the_unit_only, by_transaction),
        CASE(what_is_there_is_told, by_transaction),
        CASE(several_units_join_one_transaction_one_after_the_other, by_transaction),
        CASE(only_an_open_transaction_is_joined, by_transaction),
        CASE(another_database_is_refused, by_transaction),
        CASE(a_claim_inbox_cannot_take_part, by_claim),
        CASE(a_caller_that_ends_its_transaction_is_told_so, by_transaction),
        CASE(a_caller_whose_connection_breaks_gets_an_error, by_transaction),
        CASE(a_copy_in_flight_is_reported_and_spoils_nothing, by_transaction),
        CASE(a_copy_in_flight_is_waited_for_and_spoils_nothing, by_transaction),
    };
    return cmocka_run_group_tests_name("mariadb: joined", tests, NULL, NULL);
}
