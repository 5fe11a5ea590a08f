/* Old copies and sweeps on one SQLite file: another process may be about to commit a sweep, and a
 * transaction that a unit joins may have begun before it. */
#include "support/fixture/sqlite_case.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <stdio.h>

static const int64_t eight_days_ms = INT64_C(691200000);

static semel_message made_eight_days_ago(const char *id)
{
    semel_message message = text_message(id, "10 EUR");
    message.time_ms = process_wall_ms() - eight_days_ms;
    return message;
}

static void receives(sqlite_case *c, semel_status status, semel_outcome outcome, const char *id)
{
    scripted_handler todo = {0};
    semel_message message = made_eight_days_ago(id);
    check_receive(status, outcome, c->inbox, &message, lite_handle, &todo, __FILE__, __LINE__);
}

static void handle_and_age(sqlite_case *c, const char *id)
{
    char sql[128];
    receives(c, SEMEL_OK, SEMEL_PROCESSED, id);
    (void)snprintf(sql, sizeof sql, "UPDATE semel_marker SET at_ms = at_ms - %lld",
                   (long long)eight_days_ms);
    SQL(lite_other(c), sql);
}

static void sweep(sqlite_case *c)
{
    size_t swept;
    int more;
    do
        OK(semel_inbox_sweep(&swept, &more, c->inbox, 0, &last_error));
    while (more);
}

/* --- a copy that waits for a sweep ------------------------------------------------------------ */

typedef struct copy {
    sqlite_case *c;
    test_thread thread;
    scripted_handler todo;
    semel_status status;
    semel_outcome outcome;
    semel_error err;
} copy;

static void receive_copy(test_thread *member)
{
    copy *self = member->context;
    semel_message message = made_eight_days_ago("m");
    do
        self->status = semel_inbox_receive(&self->outcome, self->c->inbox, &message, lite_handle,
                                           &self->todo, &self->err);
    while (self->status && self->err.retryable);
}

enum { WHILE_WAITING_MS = 300, END_MS = 60000 };

/* What sqlite/sweep.c does in its transaction, by another process. */
static void a_copy_that_waits_for_a_sweep_is_stale(void **state)
{
    sqlite_case *c = *state;
    copy second = {.c = c};
    handle_and_age(c, "m");
    SQL(lite_other(c), "BEGIN IMMEDIATE; "
                       "UPDATE semel_note SET number = (SELECT max(at_ms) FROM semel_marker) "
                       "WHERE note = 2; DELETE FROM semel_marker");
    test_thread_start(&second.thread, receive_copy, &second);
    assert_false(test_thread_join(&second.thread, WHILE_WAITING_MS));
    SQL(lite_other(c), "COMMIT");
    assert_true(test_thread_join(&second.thread, END_MS));
    OUTCOME(SEMEL_STALE, second.outcome);
    assert_int_equal(second.todo.runs, 0);
    assert_int_equal(lite_effects(c), 1);
    assert_int_equal(lite_markers(c), 0);
}

/* --- joined units ----------------------------------------------------------------------------- */

/* The caller's transaction goes on; nothing of the unit is in it. */
static void a_stale_message_leaves_the_callers_transaction_alone(void **state)
{
    sqlite_case *c = *state;
    sqlite3 *db = lite_other(c);
    semel_unit *unit = NULL;
    semel_outcome outcome;
    handle_and_age(c, "m");
    sweep(c);
    semel_message message = made_eight_days_ago("m");
    SQL(db, "BEGIN IMMEDIATE; INSERT INTO effect VALUES ('earlier')");
    OK(semel_unit_join_sqlite(&unit, c->base.store, db, &last_error));
    FAILS(SEMEL_EREJECTED, semel_unit_claim(&outcome, unit, c->inbox, &message, &last_error));
    OUTCOME(SEMEL_STALE, outcome);
    semel_unit_rollback(unit);
    SQL(db, "INSERT INTO effect VALUES ('later'); COMMIT");
    assert_int_equal(lite_effects(c), 3);
    assert_int_equal(lite_markers(c), 0);
}

static void a_late_message_runs_in_the_callers_transaction(void **state)
{
    sqlite_case *c = *state;
    sqlite3 *db = lite_other(c);
    semel_unit *unit = NULL;
    semel_outcome outcome;
    semel_message message = made_eight_days_ago("m");
    SQL(db, "BEGIN");
    OK(semel_unit_join_sqlite(&unit, c->base.store, db, &last_error));
    OK(semel_unit_claim(&outcome, unit, c->inbox, &message, &last_error));
    OUTCOME(SEMEL_CLAIMED, outcome);
    OK(semel_unit_commit(unit, &last_error));
    SQL(db, "COMMIT");
    receives(c, SEMEL_OK, SEMEL_DUPLICATE, "m");
}

/* SQLite lets no transaction write that reads an older state than the last. */
static void a_transaction_from_before_the_sweep_is_not_fooled(void **state)
{
    sqlite_case *c = *state;
    sqlite3 *db = lite_other(c);
    semel_unit *unit = NULL;
    semel_outcome outcome = SEMEL_UNDECIDED;
    handle_and_age(c, "m");
    semel_message message = made_eight_days_ago("m");
    SQL(db, "BEGIN");
    assert_int_equal(lite_number(db, "SELECT count(*) FROM semel_marker"), 1);
    sweep(c);
    OK(semel_unit_join_sqlite(&unit, c->base.store, db, &last_error));
    semel_status status = semel_unit_claim(&outcome, unit, c->inbox, &message, &last_error);
    assert_true(status == SEMEL_ECONFLICT || status == SEMEL_EBUSY || outcome == SEMEL_DUPLICATE);
    assert_int_not_equal(outcome, SEMEL_CLAIMED);
    semel_unit_rollback(unit);
    SQL(db, "ROLLBACK");
    receives(c, SEMEL_EREJECTED, SEMEL_STALE, "m");
}

/* --- a file from before version 3 ------------------------------------------------------------- */

/* Its sweeps have noted nothing: what is old and has no marker may have been handled. */
static void in_an_older_file_everything_old_is_stale(void **state)
{
    sqlite_case *c = *state;
    lite_close(c);
    SQL(lite_other(c), "DROP TABLE semel_note; DROP TABLE semel_sent;"
                       "ALTER TABLE semel_marker DROP COLUMN first_ms;"
                       "ALTER TABLE semel_marker DROP COLUMN type;"
                       "ALTER TABLE semel_marker DROP COLUMN source;"
                       "ALTER TABLE semel_marker DROP COLUMN received_ms;"
                       "ALTER TABLE semel_outbox DROP COLUMN error;"
                       "ALTER TABLE semel_dead DROP COLUMN first_ms;"
                       "DROP TABLE semel_audit; DROP TABLE semel_process; DROP TABLE semel_history;"
                       "DROP INDEX semel_dead_cause; DROP INDEX semel_dead_retry;"
                       "ALTER TABLE semel_dead DROP COLUMN cause;"
                       "ALTER TABLE semel_dead DROP COLUMN retry;"
                       "DROP INDEX semel_dead_name;"
                       "ALTER TABLE semel_schema DROP COLUMN needs;"
                       "DELETE FROM semel_schema WHERE version >= 3");
    lite_open(c, 2000);
    receives(c, SEMEL_EREJECTED, SEMEL_STALE, "m");
    semel_message fresh = text_message("fresh", "10 EUR");
    scripted_handler todo = {0};
    fresh.time_ms = process_wall_ms();
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, &fresh, &todo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_that_waits_for_a_sweep_is_stale, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(a_stale_message_leaves_the_callers_transaction_alone,
                                        lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(a_late_message_runs_in_the_callers_transaction, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(a_transaction_from_before_the_sweep_is_not_fooled,
                                        lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(in_an_older_file_everything_old_is_stale, lite_setup,
                                        lite_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
