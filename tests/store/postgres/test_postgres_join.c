/* Units inside a transaction that the caller has open on a connection of its own, on PostgreSQL.
 * The caller goes on with its connection as if nothing had happened: semel leaves it as it was
 * after every call. */
#include "support/process/threads.h"
#include "support/servers/sql/server_case.h"

#include <libpq-fe.h>
#include <semel/postgres.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 150 };

static PGconn *connect_to(const server_case *c, const char *database)
{
    char text[512], host[SERVER_HOST_ROOM];
    unsigned port;
    server_address(c->base.place.url, host, &port);
    (void)snprintf(text, sizeof text,
                   "host=%s port=%u user=postgres dbname=%s options='-csearch_path=%s'", host, port,
                   database, c->name);
    PGconn *conn = PQconnectdb(text);
    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(conn));
    return conn;
}

#define SQL(conn, sql) run((conn), (sql), __LINE__)
static void run(PGconn *conn, const char *sql, int line)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("line %d, %s: %s", line, sql, PQerrorMessage(conn));
}

static void read_text(char out[64], PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    (void)snprintf(out, 64, "%s", PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
}

static semel_unit *join(server_case *c, PGconn *conn)
{
    semel_unit *unit = NULL;
    OK(semel_unit_join_postgres(&unit, c->base.store, conn, &last_error));
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

static int64_t effects(const server_case *c)
{
    return case_number(c, "SELECT count(*) FROM effect");
}

/* --- together or not at all ------------------------------------------------------------------- */

static void it_commits_with_the_callers_transaction(void **state)
{
    server_case *c = *state;
    PGconn *conn = connect_to(c, "postgres");
    semel_message mail = text_message("mail-1", "paid");
    semel_value id = semel_text("queued");
    SQL(conn, "BEGIN");
    SQL(conn, "INSERT INTO effect VALUES ('earlier')");
    semel_unit *unit = join(c, conn);
    SQL(conn, "INSERT INTO effect VALUES ('joined')"); /* without asking the unit for a handle */
    assert_int_equal(claim(c, unit, "m-1"), SEMEL_CLAIMED);
    SQL(conn, "INSERT INTO effect VALUES ('m-1')");
    assert_ptr_equal(semel_unit_postgres(unit), conn);
    OK(semel_unit_send(unit, c->outbox, &mail, &last_error));
    OK(semel_unit_queue(unit, "INSERT INTO effect VALUES (?)", &id, 1, &last_error));
    OK(semel_unit_set_result(unit, "receipt", 7, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(PQtransactionStatus(conn), PQTRANS_INTRANS); /* it is still the caller's */
    assert_int_equal(effects(c), 0);
    assert_int_equal(case_unsent(c), 0);
    SQL(conn, "COMMIT");
    assert_int_equal(effects(c), 4);
    assert_int_equal(case_unsent(c), 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, "m-1", NULL);
    PQfinish(conn);
}

static void it_goes_with_the_callers_rollback(void **state)
{
    server_case *c = *state;
    PGconn *conn = connect_to(c, "postgres");
    semel_message mail = text_message("mail-1", "paid");
    SQL(conn, "BEGIN");
    semel_unit *unit = join(c, conn);
    assert_int_equal(claim(c, unit, "m-1"), SEMEL_CLAIMED);
    OK(semel_unit_send(unit, c->outbox, &mail, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    SQL(conn, "ROLLBACK");
    assert_int_equal(case_unsent(c), 0);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m-1", NULL);
    PQfinish(conn);
}

static void rolling_it_back_leaves_the_callers_earlier_work(void **state)
{
    server_case *c = *state;
    PGconn *conn = connect_to(c, "postgres");
    SQL(conn, "BEGIN; INSERT INTO effect VALUES ('earlier')");
    semel_unit *unit = join(c, conn);
    assert_int_equal(claim(c, unit, "m-1"), SEMEL_CLAIMED);
    SQL(conn, "INSERT INTO effect VALUES ('m-1')");
    semel_unit_rollback(unit);
    SQL(conn, "INSERT INTO effect VALUES ('later'); COMMIT");
    assert_int_equal(effects(c), 2);
    assert_int_equal(case_times(c, "m-1"), 0);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m-1", NULL);
    PQfinish(conn);
}

/* A failed statement of the caller's inside the unit goes with the unit, and with nothing more. */
static void rolling_it_back_mends_a_failed_transaction(void **state)
{
    server_case *c = *state;
    PGconn *conn = connect_to(c, "postgres");
    SQL(conn, "BEGIN; INSERT INTO effect VALUES ('earlier')");
    semel_unit *unit = join(c, conn);
    assert_int_equal(claim(c, unit, "m-1"), SEMEL_CLAIMED);
    PQclear(PQexec(conn, "SELECT 1 / 0"));
    assert_int_equal(PQtransactionStatus(conn), PQTRANS_INERROR);
    FAILS(SEMEL_EMISUSE, semel_unit_commit(unit, &last_error));
    assert_int_equal(PQtransactionStatus(conn), PQTRANS_INTRANS);
    SQL(conn, "COMMIT");
    assert_int_equal(effects(c), 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m-1", NULL);
    PQfinish(conn);
}

static void a_queued_statement_that_fails_undoes_the_unit_only(void **state)
{
    server_case *c = *state;
    PGconn *conn = connect_to(c, "postgres");
    SQL(conn, "BEGIN; INSERT INTO effect VALUES ('earlier')");
    semel_unit *unit = join(c, conn);
    assert_int_equal(claim(c, unit, "m-1"), SEMEL_CLAIMED);
    OK(semel_unit_queue(unit, "INSERT INTO nowhere VALUES (1)", NULL, 0, &last_error));
    FAILS(SEMEL_EHANDLER, semel_unit_commit(unit, &last_error));
    SQL(conn, "COMMIT");
    assert_int_equal(effects(c), 1);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m-1", NULL);
    PQfinish(conn);
}

static void several_units_join_one_transaction_one_after_the_other(void **state)
{
    server_case *c = *state;
    PGconn *conn = connect_to(c, "postgres");
    static const char *const ids[] = {"a", "b", "a"};
    static const semel_outcome expected[] = {SEMEL_CLAIMED, SEMEL_CLAIMED, SEMEL_DUPLICATE};
    SQL(conn, "BEGIN");
    for (int i = 0; i < 3; i++) {
        semel_unit *unit = join(c, conn), *second = NULL;
        assert_int_equal(claim(c, unit, ids[i]), expected[i]);
        FAILS(SEMEL_EMISUSE, semel_unit_join_postgres(&second, c->base.store, conn, &last_error));
        if (expected[i] == SEMEL_CLAIMED)
            OK(semel_unit_commit(unit, &last_error));
        else
            semel_unit_rollback(unit);
    }
    SQL(conn, "COMMIT");
    assert_int_equal(case_number(c, "SELECT count(*) FROM semel_marker"), 2);
    PQfinish(conn);
}

static void join_in_thread(test_thread *member)
{
    server_case *c = member->context;
    PGconn *conn = connect_to(c, "postgres");
    semel_unit *unit = NULL;
    semel_outcome out = SEMEL_UNDECIDED;
    semel_message message = text_message("m-1", "10 EUR");
    int good = PQtransactionStatus(conn) == PQTRANS_IDLE;
    PQclear(PQexec(conn, "BEGIN"));
    good = good && !semel_unit_join_postgres(&unit, c->base.store, conn, NULL) &&
           !semel_unit_claim(&out, unit, c->inbox, &message, NULL);
    if (good && out == SEMEL_CLAIMED) {
        PQclear(PQexec(conn, "INSERT INTO effect VALUES ('m-1')"));
        good = !semel_unit_commit(unit, NULL);
    } else {
        semel_unit_rollback(unit);
    }
    PQclear(PQexec(conn, "COMMIT"));
    PQfinish(conn);
    if (!good)
        abort();
}

/* The store's first joined units, all at the same moment, and all for one key. */
static void many_join_at_once(void **state)
{
    server_case *c = *state;
    assert_true(threads_run(8, join_in_thread, c));
    assert_int_equal(case_times(c, "m-1"), 1);
}

/* --- refused ---------------------------------------------------------------------------------- */

static void only_an_open_and_healthy_transaction_is_joined(void **state)
{
    server_case *c = *state;
    PGconn *conn = connect_to(c, "postgres");
    semel_unit *unit = NULL;
    FAILS(SEMEL_EMISUSE, semel_unit_join_postgres(&unit, c->base.store, conn, &last_error));
    SQL(conn, "BEGIN");
    PQclear(PQexec(conn, "SELECT 1 / 0"));
    FAILS(SEMEL_EMISUSE, semel_unit_join_postgres(&unit, c->base.store, conn, &last_error));
    SQL(conn, "ROLLBACK; BEGIN");
    assert_true(PQenterPipelineMode(conn));
    FAILS(SEMEL_EMISUSE, semel_unit_join_postgres(&unit, c->base.store, conn, &last_error));
    assert_true(PQexitPipelineMode(conn));
    assert_true(PQsendQuery(conn, "SELECT 1"));
    FAILS(SEMEL_EMISUSE, semel_unit_join_postgres(&unit, c->base.store, conn, &last_error));
    for (PGresult *result; (result = PQgetResult(conn));)
        PQclear(result);
    unit = join(c, conn);
    semel_unit_rollback(unit);
    SQL(conn, "COMMIT");
    PQfinish(conn);
}

static void another_database_is_refused(void **state)
{
    server_case *c = *state;
    char sql[128], other[96];
    semel_unit *unit = NULL;
    (void)snprintf(other, sizeof other, "%s_other", c->name);
    (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s", other);
    server_run(c->base.place.url, sql);
    PGconn *conn = connect_to(c, other);
    SQL(conn, "BEGIN");
    semel_status status = semel_unit_join_postgres(&unit, c->base.store, conn, &last_error);
    assert_true(status == SEMEL_EINVAL || status == SEMEL_ESCHEMA); /* it has no tables of ours */
    assert_int_equal(PQtransactionStatus(conn), PQTRANS_INTRANS);
    (void)snprintf(sql, sizeof sql, "CREATE SCHEMA %s", c->name);
    SQL(conn, sql);
    SQL(conn, "CREATE TABLE semel_meta (one boolean, identity uuid);"
              "INSERT INTO semel_meta VALUES (true, gen_random_uuid())");
    FAILS(SEMEL_EINVAL, semel_unit_join_postgres(&unit, c->base.store, conn, &last_error));
    SAYS("another database");
    SQL(conn, "COMMIT");
    PQfinish(conn);
    (void)snprintf(sql, sizeof sql, "DROP DATABASE %s WITH (FORCE)", other);
    server_run(c->base.place.url, sql);
}

static void a_claim_inbox_cannot_take_part(void **state)
{
    server_case *c = *state;
    PGconn *conn = connect_to(c, "postgres");
    semel_message message = text_message("m-1", "10 EUR");
    semel_outcome out;
    SQL(conn, "BEGIN");
    semel_unit *unit = join(c, conn);
    FAILS(SEMEL_EINVAL, semel_unit_claim(&out, unit, c->inbox, &message, &last_error));
    semel_unit_rollback(unit);
    SQL(conn, "COMMIT");
    PQfinish(conn);
}

/* --- callers that misbehave ------------------------------------------------------------------- */

static void a_caller_that_ends_its_transaction_is_told_so(void **state)
{
    server_case *c = *state;
    static const char *const ends[] = {"COMMIT", "ROLLBACK", "ROLLBACK AND CHAIN"};
    for (int i = 0; i < 3; i++) {
        PGconn *conn = connect_to(c, "postgres");
        char id[16];
        (void)snprintf(id, sizeof id, "m-%d", i);
        SQL(conn, "BEGIN");
        semel_unit *unit = join(c, conn);
        assert_int_equal(claim(c, unit, id), SEMEL_CLAIMED);
        SQL(conn, ends[i]);
        FAILS(SEMEL_EMISUSE, semel_unit_commit(unit, &last_error));
        PQfinish(conn);
        CASE_RECEIVES(SEMEL_OK, i ? SEMEL_PROCESSED : SEMEL_DUPLICATE, c, id, NULL);
    }
}

static void a_caller_whose_connection_breaks_gets_an_error(void **state)
{
    server_case *c = *state;
    PGconn *conn = connect_to(c, "postgres");
    SQL(conn, "BEGIN");
    semel_unit *unit = join(c, conn);
    assert_int_equal(claim(c, unit, "m-1"), SEMEL_CLAIMED);
    PQclear(PQexec(conn, "SELECT pg_terminate_backend(pg_backend_pid())"));
    check_forget();
    semel_status status = semel_unit_commit(unit, &last_error);
    assert_true(status == SEMEL_EUNAVAILABLE || status == SEMEL_EUNKNOWN);
    PQfinish(conn);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m-1", NULL);
}

/* --- a copy in flight ------------------------------------------------------------------------- */

/* Reported at once, or after a wait: the caller's transaction and settings are as they were. */
static void in_flight(server_case *c, const semel_inbox_options *options)
{
    semel_unit *first = NULL;
    semel_outcome out;
    char setting[64];
    semel_message message = text_message("m-1", "10 EUR"), copy = message;
    PGconn *conn = connect_to(c, "postgres");
    case_close(c);
    case_open(c, CASE_BUSY_MS, options);
    OK(semel_unit_begin(&first, c->base.store, &last_error));
    OK(semel_unit_claim(&out, first, c->inbox, &message, &last_error));
    SQL(conn, "SET lock_timeout = '1234ms'; BEGIN; INSERT INTO effect VALUES ('earlier')");
    semel_unit *unit = join(c, conn);
    FAILS(SEMEL_EBUSY, semel_unit_claim(&out, unit, c->inbox, &copy, &last_error));
    assert_int_equal(out, SEMEL_IN_PROGRESS);
    read_text(setting, conn, "SHOW lock_timeout");
    assert_string_equal(setting, "1234ms");
    semel_unit_rollback(unit);
    assert_int_equal(PQtransactionStatus(conn), PQTRANS_INTRANS);
    OK(semel_unit_commit(first, &last_error));
    unit = join(c, conn);
    OK(semel_unit_claim(&out, unit, c->inbox, &copy, &last_error));
    assert_int_equal(out, SEMEL_DUPLICATE);
    read_text(setting, conn, "SHOW lock_timeout");
    assert_string_equal(setting, "1234ms");
    semel_unit_rollback(unit);
    unit = join(c, conn);
    assert_int_equal(claim(c, unit, "m-2"), SEMEL_CLAIMED);
    OK(semel_unit_commit(unit, &last_error));
    read_text(setting, conn, "SHOW lock_timeout");
    assert_string_equal(setting, "1234ms");
    SQL(conn, "INSERT INTO effect VALUES ('later'); COMMIT");
    assert_int_equal(effects(c), 2);
    PQfinish(conn);
}

static void a_copy_in_flight_is_reported_and_spoils_nothing(void **state)
{
    semel_inbox_options options = {.size = sizeof options, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    in_flight(*state, &options);
}

static void a_copy_in_flight_is_waited_for_and_spoils_nothing(void **state)
{
    semel_inbox_options options = {.size = sizeof options, .wait_ms = WAIT_MS};
    in_flight(*state, &options);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(it_commits_with_the_callers_transaction, POSTGRES_ONLY),
        SERVER_TEST(it_goes_with_the_callers_rollback, POSTGRES_ONLY),
        SERVER_TEST(rolling_it_back_leaves_the_callers_earlier_work, POSTGRES_ONLY),
        SERVER_TEST(rolling_it_back_mends_a_failed_transaction, POSTGRES_ONLY),
        SERVER_TEST(a_queued_statement_that_fails_undoes_the_unit_only, POSTGRES_ONLY),
        SERVER_TEST(several_units_join_one_transaction_one_after_the_other, POSTGRES_ONLY),
        SERVER_TEST(many_join_at_once, POSTGRES_ONLY),
        SERVER_TEST(only_an_open_and_healthy_transaction_is_joined, POSTGRES_ONLY),
        SERVER_TEST(another_database_is_refused, POSTGRES_ONLY),
        SERVER_TEST(a_claim_inbox_cannot_take_part, IN_CLAIM | POSTGRES_ONLY),
        SERVER_TEST(a_caller_that_ends_its_transaction_is_told_so, POSTGRES_ONLY),
        SERVER_TEST(a_caller_whose_connection_breaks_gets_an_error, POSTGRES_ONLY),
        SERVER_TEST(a_copy_in_flight_is_reported_and_spoils_nothing, POSTGRES_ONLY),
        SERVER_TEST(a_copy_in_flight_is_waited_for_and_spoils_nothing, POSTGRES_ONLY)};
    return SERVER_TESTS(tests);
}
