/* Queued statements on SQLite, through the public API: they commit with the marker, go with it, and
 * their failure is the handler's. */
#include "support/fixture/queue_plan.h"

#include <stdio.h>
#include <string.h>

/* --- with the marker, or not at all ----------------------------------------------------------- */

static void effects_commit_with_the_marker(void **state)
{
    sqlite_case *c = *state;
    plan p = {0};
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &p);
    assert_int_equal(plan_effects_of(c, "m-1"), 1);
    assert_int_equal(lite_markers(c), 1);
    QUEUES(SEMEL_OK, SEMEL_DUPLICATE, c->inbox, "m-1", &p);
    assert_int_equal(lite_effects(c), 1);
    assert_int_equal(p.runs, 1);
}

static void effects_go_with_the_handlers_failure(void **state)
{
    sqlite_case *c = *state;
    plan p = {.then = SEMEL_EHANDLER};
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-1", &p);
    assert_int_equal(lite_effects(c), 0);
    assert_int_equal(plan_attempts(c), 1);
    p.then = SEMEL_OK;
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &p);
    assert_int_equal(lite_effects(c), 1);
}

static void queued_mode_is_the_same_here(void **state)
{
    sqlite_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .mode = SEMEL_QUEUED};
    semel_inbox *inbox = NULL;
    plan p = {0}, bad = {.sql = "INSERT INTO nowhere VALUES (1)"};
    OK(semel_inbox_open(&inbox, c->base.store, "queued", &options, &last_error));
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, inbox, "m-1", &p);
    QUEUES(SEMEL_OK, SEMEL_DUPLICATE, inbox, "m-1", &p);
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "m-2", &bad);
    assert_int_equal(lite_effects(c), 1);
    semel_inbox_close(inbox);
}

static void a_unit_without_a_message_can_queue(void **state)
{
    sqlite_case *c = *state;
    semel_value id = semel_text("by hand");
    semel_unit *unit = plan_begin(c);
    OK(semel_unit_queue(unit, insert_effect, &id, 1, &last_error));
    semel_unit_rollback(unit);
    assert_int_equal(lite_effects(c), 0);
    unit = plan_begin(c);
    OK(semel_unit_queue(unit, insert_effect, &id, 1, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(lite_effects(c), 1);
}

/* --- statements that fail --------------------------------------------------------------------- */

static void make_charges(sqlite_case *c)
{
    SQL(lite_other(c), "CREATE TABLE charge (id TEXT PRIMARY KEY, cents CHECK (cents > 0));"
                       "INSERT INTO charge VALUES ('secret-7', 1)");
}

static void a_statement_that_fails_is_the_handlers_failure(void **state)
{
    sqlite_case *c = *state;
    semel_value row[] = {semel_text("secret-7"), semel_int(2)};
    plan p = {"INSERT INTO charge (id, cents) VALUES (?, ?)", row, 2, .then = SEMEL_OK};
    make_charges(c);
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-1", &p);
    assert_int_equal(last_error.native, SQLITE_CONSTRAINT_PRIMARYKEY);
    assert_true(last_error.retryable);
    SAYS("(INSERT INTO charge): UNIQUE constraint failed");
    assert_null(strstr(last_error.text, "secret"));
    assert_int_equal(lite_effects(c), 0);
    assert_int_equal(lite_markers(c), 0);
    assert_int_equal(plan_attempts(c), 1);
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-1", &p);
    assert_int_equal(plan_attempts(c), 2);
    SQL(lite_other(c), "DELETE FROM charge");
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &p);
    assert_int_equal(plan_number(c, "SELECT count(*) FROM charge"), 1);
}

static void it_becomes_a_dead_letter_in_the_end(void **state)
{
    sqlite_case *c = *state;
    semel_inbox_options options = {.size = sizeof options, .attempts_max = 2};
    semel_inbox *inbox = NULL;
    plan p = {.sql = "INSERT INTO nowhere VALUES (1)"};
    OK(semel_inbox_open(&inbox, c->base.store, "impatient", &options, &last_error));
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, inbox, "m-1", &p);
    QUEUES(SEMEL_OK, SEMEL_DEAD, inbox, "m-1", &p);
    assert_int_equal(plan_number(c, "SELECT count(*) FROM semel_dead WHERE error LIKE '%nowhere%'"),
                     1);
    assert_int_equal(lite_effects(c), 0);
    semel_inbox_close(inbox);
}

/* Even if the handler does not care. */
static void half_of_the_work_is_never_kept(void **state)
{
    sqlite_case *c = *state;
    plan p = {.sql = "INSERT INTO nowhere VALUES (1)", .passes_over = 1};
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-1", &p);
    SAYS("(INSERT INTO nowhere VALUES): no such table");
    assert_int_equal(p.heard, SEMEL_EHANDLER);
    assert_int_equal(lite_effects(c), 0);
    assert_int_equal(plan_attempts(c), 1);
}

static void after_a_failure_nothing_more_is_done(void **state)
{
    sqlite_case *c = *state;
    semel_value id = semel_text("late");
    semel_unit *unit = plan_begin(c);
    OK(semel_unit_queue(unit, insert_effect, &id, 1, &last_error));
    FAILS(SEMEL_EHANDLER,
          semel_unit_queue(unit, "INSERT INTO nowhere VALUES (1)", NULL, 0, &last_error));
    FAILS(SEMEL_EHANDLER, semel_unit_queue(unit, insert_effect, &id, 1, &last_error));
    SAYS("nowhere");
    assert_int_equal(semel_unit_queue(unit, insert_effect, &id, 1, NULL), SEMEL_EHANDLER);
    FAILS(SEMEL_EHANDLER, semel_unit_commit(unit, &last_error));
    SAYS("nowhere");
    assert_int_equal(lite_effects(c), 0);
    SQL(lite_other(c), "DELETE FROM effect"); /* nothing is locked any more */
    unit = plan_begin(c);                     /* and the next one is whole again */
    OK(semel_unit_queue(unit, insert_effect, &id, 1, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(lite_effects(c), 1);
}

static const struct failing {
    const char *sql;
    int native;
} failings[] = {
    {"INSERT INTO nowhere VALUES (1)", SQLITE_ERROR},
    {"INSERT INTO effect (nothing) VALUES (1)", SQLITE_ERROR},
    {"INSRT INTO effect VALUES (1)", SQLITE_ERROR},
    {"SELECT", SQLITE_ERROR},
    {"INSERT INTO charge VALUES ('a', 0)", SQLITE_CONSTRAINT_CHECK},
    {"INSERT INTO charge VALUES ('secret-7', 1)", SQLITE_CONSTRAINT_PRIMARYKEY},
    {"INSERT OR ROLLBACK INTO charge VALUES ('secret-7', 1)", SQLITE_CONSTRAINT_PRIMARYKEY},
    {"UPDATE charge SET rowid = 'x'", SQLITE_MISMATCH},
    {"SELECT abs(-9223372036854775807 - 1)", SQLITE_ERROR},
    {"SELECT zeroblob(2000000000) || 'x'", SQLITE_TOOBIG},
    {"WITH v (n) AS (VALUES (1), (-9223372036854775807 - 1)) SELECT abs(n) FROM v", SQLITE_ERROR},
};

static void whatever_is_wrong_with_a_statement_is_the_handlers(void **state)
{
    sqlite_case *c = *state;
    make_charges(c);
    for (size_t i = 0; i < sizeof failings / sizeof *failings; i++) {
        char id[16];
        plan p = {.sql = failings[i].sql};
        (void)snprintf(id, sizeof id, "m-%zu", i);
        QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, id, &p);
        assert_int_equal(last_error.native, failings[i].native);
        assert_int_equal(plan_attempts(c), (int64_t)i + 1);
        assert_null(strstr(last_error.text, "secret"));
    }
    assert_int_equal(lite_effects(c), 0);
}

static void a_constraint_of_the_commit_is_the_handlers_too(void **state)
{
    sqlite_case *c = *state;
    plan p = {.sql = "INSERT INTO child VALUES (7)"};
    SQL(lite_other(c),
        "CREATE TABLE parent (id INTEGER PRIMARY KEY);"
        "CREATE TABLE child (parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED)");
    semel_unit *unit = plan_begin(c);
    sqlite3 *db = semel_unit_sqlite(unit);
    semel_unit_rollback(unit);
    SQL(db, "PRAGMA foreign_keys = ON");
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-1", &p);
    SAYS("FOREIGN KEY");
    assert_int_equal(last_error.native, SQLITE_CONSTRAINT_FOREIGNKEY);
    assert_int_equal(plan_attempts(c), 1);
    assert_int_equal(lite_effects(c), 0);
    SQL(lite_other(c), "INSERT INTO parent VALUES (7)");
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &p);
}

static void what_must_not_be_queued_changes_nothing(void **state)
{
    sqlite_case *c = *state;
    semel_value id = semel_text("m-1"), odd = {.kind = (semel_value_kind)77};
    semel_unit *unit = plan_begin(c);
    OK(semel_unit_queue(unit, insert_effect, &id, 1, &last_error));
    FAILS(SEMEL_EINVAL, semel_unit_queue(unit, "COMMIT", NULL, 0, &last_error));
    FAILS(SEMEL_EINVAL, semel_unit_queue(unit, insert_effect, NULL, 0, &last_error));
    FAILS(SEMEL_EINVAL, semel_unit_queue(unit, "SELECT 1; SELECT 2", NULL, 0, &last_error));
    FAILS(SEMEL_EINVAL, semel_unit_queue(unit, "SELECT :a", &id, 1, &last_error));
    FAILS(SEMEL_EINVAL, semel_unit_queue(unit, "\xef\xbb\xbf", NULL, 0, &last_error));
    FAILS(SEMEL_EINVAL, semel_unit_queue(unit, insert_effect, &odd, 1, &last_error));
    SAYS("value 1 is of no kind");
    FAILS(SEMEL_ELIMIT, semel_unit_queue(unit, "SELECT 1", &id, SEMEL_VALUES_MAX + 1, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(lite_effects(c), 1);
    plan p = {.sql = "ROLLBACK"};
    QUEUES(SEMEL_EINVAL, SEMEL_FAILED, c->inbox, "m-2", &p);
    assert_int_equal(lite_effects(c), 1);
}

/* --- values ----------------------------------------------------------------------------------- */

static const char insert_kinds[] = "INSERT INTO kinds VALUES (?, ?)";

static void queue_kind(semel_unit *unit, int number, semel_value value)
{
    semel_value row[] = {semel_int(number), value};
    OK(semel_unit_queue(unit, insert_kinds, row, 2, &last_error));
}

static semel_status handle_kinds(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err)
{
    (void)message, (void)context, (void)err;
    static const char bytes[] = {0, 'a', 0, (char)0xff};
    queue_kind(unit, 1, semel_null());
    queue_kind(unit, 2, semel_int(INT64_MIN));
    queue_kind(unit, 3, semel_int(INT64_MAX));
    queue_kind(unit, 4, semel_real(-0.1));
    queue_kind(unit, 5, semel_text("gr\xc3\xbcn"));
    queue_kind(unit, 6, semel_text(""));
    queue_kind(unit, 7, semel_text(NULL));
    queue_kind(unit, 8, semel_blob((semel_bytes){bytes, sizeof bytes}));
    queue_kind(unit, 9, semel_blob((semel_bytes){"", 0}));
    queue_kind(unit, 10, semel_blob((semel_bytes){NULL, 0}));
    queue_kind(unit, 11, (semel_value){.kind = SEMEL_VALUE_TEXT, .bytes = {"cut off", 3}});
    queue_kind(unit, 12, (semel_value){.kind = SEMEL_VALUE_TEXT});
    queue_kind(unit, 13, (semel_value){.kind = SEMEL_VALUE_BYTES});
    queue_kind(unit, 14, semel_null()); /* after a value in the same place */
    return SEMEL_OK;
}

static void assert_kind(sqlite_case *c, int number, const char *literal)
{
    char sql[160];
    (void)snprintf(sql, sizeof sql,
                   "SELECT typeof(v) = typeof(%s) AND v IS %s FROM kinds WHERE n = %d", literal,
                   literal, number);
    if (plan_number(c, sql) != 1)
        fail_msg("value %d is not %s", number, literal);
}

static void assert_kinds(sqlite_case *c)
{
    static const char *const literals[] = {"NULL",
                                           "-9223372036854775807 - 1",
                                           "9223372036854775807",
                                           "-0.1",
                                           "'gr\xc3\xbcn'",
                                           "''",
                                           "NULL",
                                           "x'006100ff'",
                                           "x''",
                                           "NULL",
                                           "'cut'",
                                           "''",
                                           "x''",
                                           "NULL"};
    enum { KINDS = sizeof literals / sizeof *literals };
    assert_int_equal(plan_number(c, "SELECT count(*) FROM kinds"), KINDS);
    for (int i = 0; i < KINDS; i++)
        assert_kind(c, i + 1, literals[i]);
}

static void every_kind_of_value_arrives_as_it_is(void **state)
{
    sqlite_case *c = *state;
    SQL(lite_other(c), "CREATE TABLE kinds (n, v)");
    HANDLES_BY(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", handle_kinds, NULL);
    assert_kinds(c);
    SQL(lite_other(c), "DELETE FROM kinds");
    HANDLES_BY(SEMEL_OK, SEMEL_PROCESSED, c->claims, "m-1", handle_kinds, NULL);
    assert_kinds(c);
}

static void rows_are_thrown_away(void **state)
{
    sqlite_case *c = *state;
    plan p = {0};
    p.sql = "WITH v (value) AS (VALUES (1), (2), (3)) INSERT INTO effect SELECT value FROM v "
            "RETURNING id";
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &p);
    assert_int_equal(lite_effects(c), 4);
    p.sql = "SELECT * FROM effect";
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-2", &p);
}

/* --- batches ---------------------------------------------------------------------------------- */

static void receive_three(sqlite_case *c, semel_outcome outcomes[3], plan *p)
{
    semel_message messages[3] = {text_message("a", "1"), text_message("b", "2"),
                                 text_message("c", "3")};
    const semel_message *pointers[3] = {&messages[0], &messages[1], &messages[2]};
    OK(semel_inbox_receive_batch(outcomes, c->inbox, pointers, 3, queue_plan, p, &last_error));
}

static void in_a_batch_only_the_failed_ones_effects_go(void **state)
{
    static const char *const failures[] = {"INSERT INTO nowhere VALUES (1)",
                                           "INSERT OR ROLLBACK INTO charge VALUES ('secret-7', 1)"};
    sqlite_case *c = *state;
    make_charges(c);
    for (int i = 0; i < 4; i++) {
        semel_outcome outcomes[3];
        plan p = {.sql = failures[i / 2], .only = "b", .passes_over = i % 2};
        receive_three(c, outcomes, &p);
        assert_int_equal(outcomes[0], SEMEL_PROCESSED);
        assert_int_equal(outcomes[1], SEMEL_FAILED);
        assert_int_equal(outcomes[2], SEMEL_PROCESSED);
        assert_int_equal(lite_effects(c), 2);
        assert_int_equal(plan_effects_of(c, "b"), 0);
        assert_int_equal(plan_attempts(c), 1);
        assert_int_equal(p.runs,
                         i / 2 ? 5 : 3); /* a transaction that is over is begun anew, one by one */
        SQL(lite_other(c), "DELETE FROM effect; DELETE FROM semel_marker");
    }
}

static void a_batch_without_trouble_is_one_transaction(void **state)
{
    sqlite_case *c = *state;
    semel_outcome outcomes[3];
    plan p = {0};
    receive_three(c, outcomes, &p);
    assert_int_equal(lite_effects(c), 3);
    receive_three(c, outcomes, &p);
    for (int i = 0; i < 3; i++)
        assert_int_equal(outcomes[i], SEMEL_DUPLICATE);
    assert_int_equal(p.runs, 3);
}

/* --- claims ----------------------------------------------------------------------------------- */

static semel_status look_then_queue(semel_unit *unit, const semel_message *message, void *context,
                                    semel_error *err)
{
    plan p = {0};
    semel_status status = queue_plan(unit, message, &p, err);
    if (!status && lite_effects(context) != 0)
        return semel_fail(err, SEMEL_EGIVEUP, "it was there too early");
    return status;
}

static void in_claim_mode_they_run_with_the_completion(void **state)
{
    sqlite_case *c = *state;
    plan p = {0};
    HANDLES_BY(SEMEL_OK, SEMEL_PROCESSED, c->claims, "m-1", look_then_queue, c);
    assert_int_equal(plan_effects_of(c, "m-1"), 1);
    QUEUES(SEMEL_OK, SEMEL_DUPLICATE, c->claims, "m-1", &p);
    assert_int_equal(lite_effects(c), 1);
    p.then = SEMEL_EHANDLER;
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->claims, "m-2", &p);
    assert_int_equal(lite_effects(c), 1);
}

static void in_claim_mode_a_failing_one_counts_as_well(void **state)
{
    sqlite_case *c = *state;
    semel_value row[] = {semel_text("secret-7"), semel_int(2)};
    plan p = {"INSERT INTO charge (id, cents) VALUES (?, ?)", row, 2, .then = SEMEL_OK};
    make_charges(c);
    QUEUES(SEMEL_EHANDLER, SEMEL_FAILED, c->claims, "m-1", &p);
    assert_int_equal(p.heard, SEMEL_OK); /* it was only kept then */
    assert_int_equal(last_error.native, SQLITE_CONSTRAINT_PRIMARYKEY);
    assert_int_equal(lite_effects(c), 0);
    assert_int_equal(plan_attempts(c), 1);
    SQL(lite_other(c), "DELETE FROM charge");
    QUEUES(SEMEL_OK, SEMEL_PROCESSED, c->claims, "m-1", &p);
    assert_int_equal(lite_effects(c), 1);
}

/* --- joined units ----------------------------------------------------------------------------- */

/* A transaction of the caller's, with a write of its own, and a unit in it. */
static semel_unit *join(sqlite_case *c, sqlite3 *db)
{
    semel_unit *unit = NULL;
    SQL(db, "BEGIN IMMEDIATE; INSERT INTO effect VALUES ('earlier')");
    OK(semel_unit_join_sqlite(&unit, c->base.store, db, &last_error));
    return unit;
}

static void queue_effect(semel_unit *unit, const char *id)
{
    semel_value value = semel_text(id);
    OK(semel_unit_queue(unit, insert_effect, &value, 1, &last_error));
}

static void in_a_joined_unit_they_commit_with_the_caller(void **state)
{
    sqlite_case *c = *state;
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(c->path, &db), SQLITE_OK);
    semel_unit *unit = join(c, db);
    queue_effect(unit, "m-1");
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(lite_effects(c), 0);
    SQL(db, "COMMIT");
    assert_int_equal(lite_effects(c), 2);
    unit = join(c, db);
    queue_effect(unit, "m-2");
    semel_unit_rollback(unit);
    SQL(db, "COMMIT");
    assert_int_equal(plan_effects_of(c, "m-2"), 0);
    assert_int_equal(plan_effects_of(c, "earlier"), 2);
    assert_int_equal(sqlite3_close(db), SQLITE_OK); /* nothing of ours is left on it */
}

static void in_a_joined_unit_a_failure_undoes_the_unit_alone(void **state)
{
    sqlite_case *c = *state;
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(c->path, &db), SQLITE_OK);
    semel_unit *unit = join(c, db);
    queue_effect(unit, "m-1");
    FAILS(SEMEL_EHANDLER,
          semel_unit_queue(unit, "INSERT INTO nowhere VALUES (1)", NULL, 0, &last_error));
    FAILS(SEMEL_EHANDLER, semel_unit_commit(unit, &last_error));
    SAYS("nowhere");
    SQL(db, "COMMIT");
    assert_int_equal(plan_effects_of(c, "m-1"), 0);
    assert_int_equal(plan_effects_of(c, "earlier"), 1);
    unit = join(c, db); /* which is whole again */
    queue_effect(unit, "m-2");
    OK(semel_unit_commit(unit, &last_error));
    SQL(db, "COMMIT");
    assert_int_equal(plan_effects_of(c, "m-2"), 1);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* --- no SQL ----------------------------------------------------------------------------------- */

static void a_store_without_sql_says_so(void **state)
{
    semel_store *memory = NULL;
    semel_unit *unit = NULL;
    (void)state;
    OK(semel_store_open(&memory, "memory:", NULL, &last_error));
    OK(semel_unit_begin(&unit, memory, &last_error));
    FAILS(SEMEL_EUNSUPPORTED, semel_unit_queue(unit, "SELECT 1", NULL, 0, &last_error));
    SAYS("memory:");
    semel_unit_rollback(unit);
    semel_store_close(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(effects_commit_with_the_marker, lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(effects_go_with_the_handlers_failure, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(queued_mode_is_the_same_here, lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(a_unit_without_a_message_can_queue, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(a_statement_that_fails_is_the_handlers_failure, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(it_becomes_a_dead_letter_in_the_end, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(half_of_the_work_is_never_kept, lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(after_a_failure_nothing_more_is_done, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(whatever_is_wrong_with_a_statement_is_the_handlers,
                                        lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(a_constraint_of_the_commit_is_the_handlers_too, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(what_must_not_be_queued_changes_nothing, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(every_kind_of_value_arrives_as_it_is, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(rows_are_thrown_away, lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(in_a_batch_only_the_failed_ones_effects_go, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(a_batch_without_trouble_is_one_transaction, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(in_claim_mode_they_run_with_the_completion, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(in_claim_mode_a_failing_one_counts_as_well, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(in_a_joined_unit_they_commit_with_the_caller, lite_setup,
                                        lite_teardown),
        cmocka_unit_test_setup_teardown(in_a_joined_unit_a_failure_undoes_the_unit_alone,
                                        lite_setup, lite_teardown),
        cmocka_unit_test_setup_teardown(a_store_without_sql_says_so, lite_setup, lite_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
