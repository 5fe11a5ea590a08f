/* Queued statements on SQLite when the store is in trouble, and what is kept of them:
 * test_sqlite_queue.c has the rest. */
#include "base/mem.h"
#include "base/wait.h"
#include "store/sqlite/statement.h"
#include "support/base/sanitizer.h"
#include "support/fixture/queue_plan.h"
#include "support/scenario/oom.h"

#include <stdio.h>
#include <string.h>

/* --- the store's own trouble ------------------------------------------------------------------ */

static void a_full_disk_is_not_the_handlers_failure(void **state)
{
    sqlite_case *c = *state;
    semel_unit *unit = plan_begin(c);
    SQL(semel_unit_sqlite(unit), "PRAGMA max_page_count = 1"); /* is raised to what there is */
    FAILS(SEMEL_ESTORE, semel_unit_queue(unit, "INSERT INTO effect VALUES (zeroblob(1000000))",
                                         NULL, 0, &last_error));
    assert_int_equal(last_error.native, SQLITE_FULL);
    FAILS(SEMEL_ESTORE, semel_unit_commit(unit, &last_error));
    assert_int_equal(lite_effects(c), 0);
}

static void a_lock_of_another_process_is_not_the_handlers_failure(void **state)
{
    sqlite_case *c = *state;
    semel_unit *joined = NULL;
    SQL(lite_other(c), "BEGIN"); /* not IMMEDIATE, as it should be */
    OK(semel_unit_join_sqlite(&joined, c->base.store, lite_other(c), &last_error));
    semel_unit *writing = plan_begin(c);
    FAILS(SEMEL_EBUSY,
          semel_unit_queue(joined, "INSERT INTO effect VALUES ('x')", NULL, 0, &last_error));
    assert_int_equal(last_error.native & 0xff, SQLITE_BUSY);
    semel_unit_rollback(joined);
    semel_unit_rollback(writing);
    SQL(lite_other(c), "ROLLBACK");
}

static void a_transaction_that_is_over_takes_no_more(void **state)
{
    sqlite_case *c = *state;
    semel_unit *unit = plan_begin(c);
    SQL(semel_unit_sqlite(unit), "ROLLBACK");
    FAILS(SEMEL_EMISUSE,
          semel_unit_queue(unit, "INSERT INTO effect VALUES ('x')", NULL, 0, &last_error));
    FAILS(SEMEL_EMISUSE, semel_unit_commit(unit, &last_error));
    assert_int_equal(lite_effects(c), 0);
}

enum { PATIENCE_MS = 60000 };

/* In claim mode the claim may be left behind, until its lease ends. */
static void receive_until_done(semel_inbox *inbox, const semel_message *message, plan *p)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    for (int64_t end = wait_clock_ms() + PATIENCE_MS;
         semel_inbox_receive(&outcome, inbox, message, queue_plan, p, &last_error);) {
        if (wait_clock_ms() > end)
            fail_msg("it is not received: %s", last_error.text);
        wait_nap_us(1000);
    }
    assert_int_equal(outcome, SEMEL_PROCESSED);
}

/* The nth allocation fails, for all n: then it is as if nothing had been tried, or all is done. */
static void survive(sqlite_case *c, semel_inbox *inbox, const char *prefix,
                    const oom_source *source)
{
    int struck = 1;
    for (long n = 1; struck; n += SANITIZER_SLOWDOWN) {
        semel_outcome outcome = SEMEL_UNDECIDED;
        char id[32], sql[96];
        (void)snprintf(id, sizeof id, "%s-%ld", prefix, n);
        (void)snprintf(sql, sizeof sql, "INSERT INTO twin VALUES ('%s')",
                       id); /* is prepared each time */
        semel_message message = text_message(id, "10 EUR");
        plan p = {.sql = sql};
        source->arm(n);
        semel_status status =
            semel_inbox_receive(&outcome, inbox, &message, queue_plan, &p, &last_error);
        struck = source->disarm();
        if (status && status != SEMEL_ELOST) /* the lease is short */
            assert_int_equal(status, source->status);
        assert_true(struck || !status || status == SEMEL_ELOST);
        assert_int_equal(plan_effects_of(c, id), !status);
        if (status)
            receive_until_done(inbox, &message, &p);
        assert_int_equal(plan_effects_of(c, id), 1);
    }
    assert_int_equal(plan_number(c, "SELECT count(*) FROM twin"), lite_effects(c));
}

static void survive_all(sqlite_case *c, semel_mode mode, const char *name, const oom_source *source)
{
    semel_inbox_options options = {
        .size = sizeof options, .mode = mode, .lease_ms = 100, .attempts_max = 1000};
    semel_inbox *inbox = NULL;
    SQL(lite_other(c), "CREATE TABLE twin (id TEXT)");
    OK(semel_inbox_open(&inbox, c->base.store, name, mode == SEMEL_CLAIM ? &options : NULL,
                        &last_error));
    survive(c, inbox, name, source);
    semel_inbox_close(inbox);
}

static void without_memory_nothing_is_half_done(void **state)
{
    survive_all(*state, SEMEL_TRANSACTION, "transaction", &oom_library);
}

static void without_memory_no_claim_is_half_done(void **state)
{
    survive_all(*state, SEMEL_CLAIM, "claim", &oom_library);
}

static void when_sqlite_has_no_memory_nothing_is_half_done(void **state)
{
    survive_all(*state, SEMEL_TRANSACTION, "transaction", &oom_sqlite_once);
}

static void when_sqlite_has_no_memory_no_claim_is_half_done(void **state)
{
    survive_all(*state, SEMEL_CLAIM, "claim", &oom_sqlite_once);
}

static void a_unit_that_ran_out_of_memory_does_not_commit(void **state)
{
    sqlite_case *c = *state;
    semel_value id = semel_text("x");
    semel_unit *unit = plan_begin(c);
    mem_fail_at(1);
    FAILS(SEMEL_ENOMEM, semel_unit_queue(unit, insert_effect, &id, 1, &last_error));
    mem_fail_at(0);
    FAILS(SEMEL_ENOMEM, semel_unit_commit(unit, &last_error));
    assert_int_equal(lite_effects(c), 0);
}

/* --- prepared statements ---------------------------------------------------------------------- */

static int prepared(sqlite3 *db, const char *text)
{
    int count = 0;
    for (sqlite3_stmt *at = sqlite3_next_stmt(db, NULL); at; at = sqlite3_next_stmt(db, at))
        count += strncmp(sqlite3_sql(at), text, strlen(text)) == 0;
    return count;
}

static void queue_numbered(semel_unit *unit, int which)
{
    char sql[64];
    (void)snprintf(sql, sizeof sql, "UPDATE effect SET id = %d", 1000 + which);
    OK(semel_unit_queue(unit, sql, NULL, 0, &last_error));
}

static void a_text_is_prepared_once(void **state)
{
    sqlite_case *c = *state;
    plan p = {0};
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &p);
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-2", &p);
    semel_unit *unit = plan_begin(c);
    sqlite3 *db = semel_unit_sqlite(unit);
    assert_int_equal(prepared(db, insert_effect), 1);
    OK(semel_unit_queue(unit, "DELETE FROM effect ; -- x", NULL, 0, &last_error));
    OK(semel_unit_queue(unit, "DELETE FROM effect ;", NULL, 0, &last_error));
    assert_int_equal(prepared(db, "DELETE FROM effect"), 1);
    semel_unit_rollback(unit);
}

static void those_used_last_are_kept(void **state)
{
    sqlite_case *c = *state;
    semel_unit *unit = plan_begin(c);
    sqlite3 *db = semel_unit_sqlite(unit);
    for (int i = 0; i < QUEUED_KEPT; i++)
        queue_numbered(unit, i);
    assert_int_equal(prepared(db, "UPDATE effect"), QUEUED_KEPT);
    queue_numbered(unit, 0); /* so that 1 is the oldest */
    queue_numbered(unit, QUEUED_KEPT);
    assert_int_equal(prepared(db, "UPDATE effect"), QUEUED_KEPT);
    assert_int_equal(prepared(db, "UPDATE effect SET id = 1000"), 1);
    assert_int_equal(prepared(db, "UPDATE effect SET id = 1001"), 0);
    for (int i = 0; i < 100; i++)
        queue_numbered(unit, i);
    assert_int_equal(prepared(db, "UPDATE effect"), QUEUED_KEPT);
    semel_unit_rollback(unit);
}

static void what_is_prepared_costs_no_memory(void **state)
{
    sqlite_case *c = *state;
    semel_value id = semel_text("x");
    semel_unit *unit = plan_begin(c);
    OK(semel_unit_queue(unit, insert_effect, &id, 1, &last_error));
    long before = mem_allocations();
    for (int i = 0; i < 2000; i++)
        OK(semel_unit_queue(unit, insert_effect, &id, 1, &last_error));
    assert_int_equal(mem_allocations(), before);
    semel_unit_rollback(unit);
}

static void what_cannot_be_prepared_or_run_leaves_no_trace(void **state)
{
    sqlite_case *c = *state;
    plan bad = {.sql = "INSERT INTO nowhere VALUES (1)"}, good = {0};
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-1", &bad);
    bad.sql = "INSERT INTO effect (id) SELECT abs(-9223372036854775807 - 1)";
    for (int i = 0; i < 3; i++)
        QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-2", &bad);
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-3", &good);
    semel_unit *unit = plan_begin(c);
    for (sqlite3_stmt *at = sqlite3_next_stmt(semel_unit_sqlite(unit), NULL); at;
         at = sqlite3_next_stmt(semel_unit_sqlite(unit), at))
        assert_false(sqlite3_stmt_busy(at));
    semel_unit_rollback(unit);
}

static void a_kept_statement_follows_the_schema(void **state)
{
    sqlite_case *c = *state;
    plan p = {0};
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &p);
    SQL(lite_other(c), "DROP TABLE effect");
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-2", &p);
    SQL(lite_other(c), "CREATE TABLE effect (other, id)");
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-2", &p);
    assert_int_equal(plan_effects_of(c, "m-2"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_full_disk_is_not_the_handlers_failure, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(a_lock_of_another_process_is_not_the_handlers_failure,
                                        lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(a_transaction_that_is_over_takes_no_more, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(without_memory_nothing_is_half_done, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(without_memory_no_claim_is_half_done, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(when_sqlite_has_no_memory_nothing_is_half_done, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(when_sqlite_has_no_memory_no_claim_is_half_done, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(a_unit_that_ran_out_of_memory_does_not_commit, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(a_text_is_prepared_once, lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(those_used_last_are_kept, lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(what_is_prepared_costs_no_memory, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_prepared_or_run_leaves_no_trace, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(a_kept_statement_follows_the_schema, lite_setup,
                                        lite_teardown),
    };
    oom_watch_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
