/* Handlers that end the transaction themselves and then fail; and what the server forgets between
 * two messages. In the first case half of the work is committed, with the marker: that is told,
 * instead of being taken for a failure that would be tried again and be a duplicate. */
#include "support/servers/sql/server_case.h"

#include <stdio.h>
#include <string.h>

/* --- ended, then failed ----------------------------------------------------------------------- */

/* After the effect has been written. */
static void run_and_fail(case_work *self, semel_unit *unit, const semel_message *message)
{
    const char *const *sql = self->context;
    (void)message;
    for (; *sql; sql++)
        (void)case_sql(unit, *sql);
    self->wrong = SEMEL_EHANDLER;
}

static void a_handler_that_commits_and_fails_has_not_failed(void **state)
{
    server_case *c = *state;
    static const char *const ends[][4] = {
        {"COMMIT"},
        {"COMMIT", "INSERT INTO nowhere VALUES (1)"},
        {"COMMIT", "BEGIN", "INSERT INTO effect VALUES ('stray')"},
        {"COMMIT", "BEGIN", "INSERT INTO nowhere VALUES (1)"}};
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "warm", NULL);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        case_work todo = {.after = run_and_fail, .context = (void *)(uintptr_t)ends[i]};
        CASE_RECEIVES(SEMEL_EMISUSE, SEMEL_UNDECIDED, c, id, &todo);
        assert_false(last_error.retryable);
        SAYS("is committed");
        CASE_RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, c, id, NULL);
        assert_int_equal(case_times(c, id), 1);
    }
    assert_int_equal(case_times(c, "stray"), 0);
    assert_int_equal(case_open_transactions(c), 0);
}

static semel_status commit_and_fail(semel_unit *unit, const semel_message *message, void *context,
                                    semel_error *err)
{
    unsigned *runs = context;
    (void)message;
    ++*runs;
    (void)case_sql(unit, "COMMIT");
    return semel_fail(err, SEMEL_EHANDLER, "failed, after a COMMIT");
}

/* In a batch the markers of all were committed with it. The call must say so: to receive each by
 * itself would find duplicates, and hide that two of them were never handled. */
static void in_a_batch_it_is_told_and_not_taken_for_duplicates(void **state)
{
    server_case *c = *state;
    unsigned runs = 0;
    semel_message messages[3] = {text_message("1", "a"), text_message("2", "a"),
                                 text_message("3", "a")};
    const semel_message *all[3] = {&messages[0], &messages[1], &messages[2]};
    semel_outcome out[3];
    FAILS(SEMEL_EMISUSE,
          semel_inbox_receive_batch(out, c->inbox, all, 3, commit_and_fail, &runs, &last_error));
    assert_int_equal(runs, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(out[i], SEMEL_UNDECIDED);
}

/* It has rolled back, to a savepoint of its own or all of it: a failure, of which nothing is
 * left. */
static void one_that_rolls_back_and_fails_has_failed(void **state)
{
    server_case *c = *state;
    static const char *const ends[][4] = {
        {"SAVEPOINT mine", "INSERT INTO effect VALUES ('stray')", "ROLLBACK TO SAVEPOINT mine"},
        {"SAVEPOINT mine", "INSERT INTO nowhere VALUES (1)", "ROLLBACK TO SAVEPOINT mine"},
        {"SAVEPOINT mine", "ROLLBACK TO SAVEPOINT mine", "INSERT INTO nowhere VALUES (1)"},
        {"ROLLBACK"},
        {"ROLLBACK", "INSERT INTO nowhere VALUES (1)"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char id[] = {'m', (char)('0' + i), 0};
        case_work todo = {.after = run_and_fail, .context = (void *)(uintptr_t)ends[i]};
        CASE_RECEIVES(SEMEL_EHANDLER, SEMEL_FAILED, c, id, &todo);
        assert_int_equal(case_times(c, id), 0);
        case_work fine = {.wrong = SEMEL_OK};
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, id, &fine);
        assert_int_equal(fine.work.attempt, 2);
    }
    assert_int_equal(case_times(c, "stray"), 0);
}

/* --- a table that changes --------------------------------------------------------------------- */

/* Rows of the table are asked for, in whatever columns it has: a statement that was prepared before
 * knows others. */
static void queue_a_look(case_work *self, semel_unit *unit, const semel_message *message)
{
    (void)message;
    if (semel_unit_queue(unit, "SELECT * FROM wide", NULL, 0, NULL))
        self->wrong = SEMEL_EGIVEUP;
}

static void a_table_that_changed_costs_no_attempt(void **state)
{
    static const char *const changes[] = {"ALTER TABLE wide ADD COLUMN b int",
                                          "ALTER TABLE wide ADD COLUMN c int"};
    server_case *c = *state;
    server_run(c->base.place.url, "CREATE TABLE wide (a int)");
    for (int i = 0; i < 2; i++) {
        char id[] = {'m', (char)('0' + i), 0}, next[] = {'n', (char)('0' + i), 0};
        case_work before = {.after = queue_a_look}, after = {.after = queue_a_look};
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, id, &before);
        server_run(c->base.place.url, changes[i]);
        CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, next, &after);
        assert_int_equal(after.work.attempt, 1);
        assert_int_equal(case_times(c, next), 1);
    }
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(a_handler_that_commits_and_fails_has_not_failed, IN_TRANSACTION),
        SERVER_TEST(in_a_batch_it_is_told_and_not_taken_for_duplicates, IN_TRANSACTION),
        SERVER_TEST(one_that_rolls_back_and_fails_has_failed, IN_TRANSACTION),
        SERVER_TEST(a_table_that_changed_costs_no_attempt, IN_TRANSACTION | IN_QUEUE)};
    return SERVER_TESTS(tests);
}
