/* Units of several threads that share a commit: all of them are there after one fsync; one that
 * fails is undone by itself; and when the transaction itself fails, each member is told what is
 * true. */
#include "share_case.h"
#include "support/fake/sync_vfs.h"

#define EFFECT(id) "INSERT INTO effect VALUES ('" id "')"
#define EFFECTS    "SELECT count(*) FROM effect"
#define MARKERS    "SELECT count(*) FROM semel_marker WHERE state = 0"

enum { FOUR = 4 };
static const semel_status all_fine[ACTORS_MAX];

/* --- together --------------------------------------------------------------------------------- */

static void four_units_are_one_fsync(void **state)
{
    share_case *c = *state;
    actor actors[FOUR] = {
        {.sql = EFFECT("a")}, {.sql = EFFECT("b")}, {.sql = EFFECT("c")}, {.sql = EFFECT("d")}};
    share_run(c, actors, FOUR);
    share_check_statuses(actors, FOUR, all_fine);
    assert_int_equal(sync_vfs_taken(), 1);
    assert_int_equal(share_number(c, EFFECTS), FOUR);
    assert_int_equal(semel_test_passed(c->base.seam, "share.joined"), FOUR - 1);
    assert_int_equal(semel_test_passed(c->base.seam, "share.kept"), FOUR - 1);
    assert_int_equal(semel_test_passed(c->base.seam, "share.committed"), 1);
}

static void four_messages_are_one_fsync(void **state)
{
    share_case *c = *state;
    actor actors[FOUR] = {{.id = "a", .sql = EFFECT("a")},
                          {.id = "b", .sql = EFFECT("b")},
                          {.id = "c", .sql = EFFECT("c")},
                          {.id = "d", .sql = EFFECT("d")}};
    share_run(c, actors, FOUR);
    share_check_statuses(actors, FOUR, all_fine);
    for (size_t i = 0; i < FOUR; i++)
        OUTCOME(SEMEL_PROCESSED, actors[i].outcome);
    assert_int_equal(sync_vfs_taken(), 1);
    assert_int_equal(share_number(c, EFFECTS), FOUR);
    assert_int_equal(share_number(c, MARKERS), FOUR);
}

/* --- one of them fails ------------------------------------------------------------------------ */

static void check_one_undone(share_case *c, size_t which)
{
    actor actors[FOUR] = {
        {.sql = EFFECT("a")}, {.sql = EFFECT("b")}, {.sql = EFFECT("c")}, {.sql = EFFECT("d")}};
    actors[which].end = ROLLS_BACK;
    share_run(c, actors, FOUR);
    share_check_statuses(actors, FOUR, all_fine);
    assert_int_equal(sync_vfs_taken(), 1);
    assert_int_equal(share_number(c, EFFECTS), FOUR - 1);
    assert_int_equal(share_number(c, "SELECT count(*) FROM effect WHERE id = 'a'"), which != 0);
    assert_int_equal(share_number(c, "SELECT count(*) FROM effect WHERE id = 'd'"), which != 3);
}

static void a_unit_in_the_middle_is_undone_by_itself(void **state)
{
    check_one_undone(*state, 1);
}

/* It commits for the members all the same. */
static void the_last_unit_is_undone_by_itself(void **state)
{
    check_one_undone(*state, FOUR - 1);
}

/* There is nothing to share yet: the next unit begins a transaction of its own. */
static void the_first_unit_is_undone_by_itself(void **state)
{
    check_one_undone(*state, 0);
}

static void a_handler_that_fails_is_undone_by_itself(void **state)
{
    share_case *c = *state;
    actor actors[3] = {{.id = "a", .sql = EFFECT("a")},
                       {.id = "b", .sql = EFFECT("b"), .end = ROLLS_BACK},
                       {.id = "c", .sql = EFFECT("c")}};
    share_run(c, actors, 3);
    share_check_statuses(actors, 3, (semel_status[]){SEMEL_OK, SEMEL_EHANDLER, SEMEL_OK});
    assert_int_equal(share_number(c, EFFECTS), 2);
    assert_int_equal(share_number(c, MARKERS), 2);
    assert_int_equal(share_number(c, "SELECT attempts FROM semel_marker WHERE state = 1"), 1);
}

/* A savepoint that one handler leaves behind is none that the next one can roll back to. */
static void a_savepoint_of_one_handler_is_not_the_next_ones(void **state)
{
    share_case *c = *state;
    actor actors[3] = {
        {.sql = "SAVEPOINT mine;" EFFECT("a")}, {.sql = "ROLLBACK TO mine"}, {.sql = EFFECT("c")}};
    share_run(c, actors, 3);
    share_check_statuses(actors, 3, all_fine);
    assert_int_equal(actors[1].code, SQLITE_ERROR);
    assert_int_equal(share_number(c, EFFECTS), 2);
}

/* --- the transaction is ended ----------------------------------------------------------------- */

/* The members of a transaction that a handler ended are begun anew; what comes after is its own. */
static void check_ended_by(share_case *c, const char *sql)
{
    actor actors[FOUR] = {
        {.sql = EFFECT("a")}, {.sql = EFFECT("b")}, {.sql = sql}, {.sql = EFFECT("d")}};
    share_run(c, actors, FOUR);
    share_check_statuses(
        actors, FOUR, (semel_status[]){SEMEL_ECONFLICT, SEMEL_ECONFLICT, SEMEL_EMISUSE, SEMEL_OK});
    assert_int_equal(share_number(c, EFFECTS), 1);
    assert_int_equal(share_number(c, "SELECT count(*) FROM effect WHERE id = 'd'"), 1);
}

static void members_are_undone_by_a_commit_of_a_handler(void **state)
{
    check_ended_by(*state, EFFECT("c") "; COMMIT");
}

static void members_are_undone_by_a_rollback_of_a_handler(void **state)
{
    check_ended_by(*state, EFFECT("c") "; ROLLBACK");
}

static void members_are_undone_by_a_transaction_of_a_handler(void **state)
{
    check_ended_by(*state, EFFECT("c") "; ROLLBACK; BEGIN;" EFFECT("e"));
}

static void members_are_undone_by_a_statement_that_rolls_back(void **state)
{
    check_ended_by(*state, EFFECT("c") "; INSERT OR ROLLBACK INTO effect VALUES ('a')");
}

static void messages_of_an_ended_transaction_are_received_again(void **state)
{
    share_case *c = *state;
    actor actors[3] = {{.id = "a", .sql = EFFECT("a")},
                       {.id = "b", .sql = EFFECT("b")},
                       {.id = "c", .sql = EFFECT("c") "; COMMIT"}};
    share_run(c, actors, 3);
    share_check_statuses(actors, 3, (semel_status[]){SEMEL_OK, SEMEL_OK, SEMEL_EMISUSE});
    OUTCOME(SEMEL_PROCESSED, actors[0].outcome);
    OUTCOME(SEMEL_PROCESSED, actors[1].outcome);
    assert_int_equal(actors[0].runs, 2);
    assert_int_equal(actors[1].runs, 2);
    assert_int_equal(share_number(c, EFFECTS), 2);
    assert_int_equal(share_number(c, MARKERS), 2);
}

/* --- the commit fails ------------------------------------------------------------------------- */

static void a_commit_without_an_answer_is_unknown_to_all(void **state)
{
    share_case *c = *state;
    actor actors[3] = {{.sql = EFFECT("a")}, {.sql = EFFECT("b")}, {.sql = EFFECT("c")}};
    share_start_first(c, &actors[0]);
    share_start_next(c, &actors[1]);
    share_start_next(c, &actors[2]);
    sync_vfs_fail_next();
    share_end(c, actors, 3);
    share_check_statuses(actors, 3,
                         (semel_status[]){SEMEL_EUNKNOWN, SEMEL_EUNKNOWN, SEMEL_EUNKNOWN});
}

static void a_commit_that_fails_is_begun_anew_by_all(void **state)
{
    share_case *c = *state;
    actor actors[3] = {{.sql = EFFECT("a")}, {.sql = EFFECT("b")}, {.sql = EFFECT("c")}};
    semel_test_fault(c->base.seam, "share.ready", 1, SEMEL_ESTORE);
    share_run(c, actors, 3);
    share_check_statuses(actors, 3,
                         (semel_status[]){SEMEL_ECONFLICT, SEMEL_ECONFLICT, SEMEL_ECONFLICT});
    assert_int_equal(share_number(c, EFFECTS), 0);
}

static void an_answer_that_is_lost_is_unknown_to_all(void **state)
{
    share_case *c = *state;
    actor actors[3] = {{.sql = EFFECT("a")}, {.sql = EFFECT("b")}, {.sql = EFFECT("c")}};
    semel_test_fault(c->base.seam, "share.committed", 1, SEMEL_ESTORE);
    share_run(c, actors, 3);
    share_check_statuses(actors, 3,
                         (semel_status[]){SEMEL_EUNKNOWN, SEMEL_EUNKNOWN, SEMEL_EUNKNOWN});
    assert_int_equal(share_number(c, EFFECTS), 3);
}

static void check_one_fails_at(share_case *c, const char *point, size_t which)
{
    actor actors[3] = {{.sql = EFFECT("a")}, {.sql = EFFECT("b")}, {.sql = EFFECT("c")}};
    semel_status expected[3] = {SEMEL_OK};
    expected[which] = SEMEL_ESTORE;
    semel_test_fault(c->base.seam, point, 1, SEMEL_ESTORE);
    share_run(c, actors, 3);
    share_check_statuses(actors, 3, expected);
    assert_int_equal(share_number(c, EFFECTS), 2);
    assert_int_equal(share_number(c, "SELECT count(*) FROM effect WHERE id = 'c'"), 1);
}

static void a_unit_that_cannot_begin_leaves_the_others(void **state)
{
    check_one_fails_at(*state, "share.joined", 1);
}

static void a_unit_that_cannot_hand_on_leaves_the_others(void **state)
{
    check_one_fails_at(*state, "share.kept", 0);
}

/* --- foreign keys ----------------------------------------------------------------------------- */

static int setup_foreign_keys(void **state)
{
    if (share_setup_with(state, "?foreign_keys=on", PATIENCE_MS))
        return -1;
    share_case *c = *state;
    actor schema = {.sql = "CREATE TABLE parent (id TEXT PRIMARY KEY);"
                           "CREATE TABLE later (id TEXT REFERENCES parent "
                           "DEFERRABLE INITIALLY DEFERRED);"
                           "CREATE TABLE now (id TEXT REFERENCES parent)"};
    share_run(c, &schema, 1);
    return schema.status || schema.code ? -1 : 0;
}

static void a_foreign_key_fails_the_unit_that_broke_it(void **state)
{
    share_case *c = *state;
    actor actors[FOUR] = {{.sql = EFFECT("a")},
                          {.sql = EFFECT("b") "; INSERT INTO later VALUES ('nobody')"},
                          {.sql = EFFECT("c")},
                          {.sql = EFFECT("d") "; INSERT INTO later VALUES ('nobody')"}};
    share_run(c, actors, FOUR);
    share_check_statuses(actors, FOUR,
                         (semel_status[]){SEMEL_OK, SEMEL_EHANDLER, SEMEL_OK, SEMEL_EHANDLER});
    assert_int_equal(actors[1].err.native, SQLITE_CONSTRAINT_FOREIGNKEY);
    assert_non_null(strstr(actors[1].err.text, "FOREIGN KEY"));
    assert_int_equal(share_number(c, EFFECTS), 2);
}

static void a_handlers_deferral_ends_with_its_unit(void **state)
{
    share_case *c = *state;
    actor actors[3] = {{.sql = "PRAGMA defer_foreign_keys = ON"},
                       {.sql = "INSERT INTO now VALUES ('nobody')"},
                       {.sql = EFFECT("c")}};
    share_run(c, actors, 3);
    share_check_statuses(actors, 3, all_fine);
    assert_int_equal(actors[1].code & 0xff, SQLITE_CONSTRAINT);
    assert_int_equal(share_number(c, "SELECT count(*) FROM now"), 0);
}

/* --- what is not committed yet ---------------------------------------------------------------- */

static void a_copy_is_a_duplicate_when_the_first_is_committed(void **state)
{
    share_case *c = *state;
    actor actors[3] = {{.id = "a", .sql = EFFECT("a")}, {.id = "a"}, {.id = "c"}};
    share_run(c, actors, 3);
    share_check_statuses(actors, 3, all_fine);
    OUTCOME(SEMEL_PROCESSED, actors[0].outcome);
    OUTCOME(SEMEL_DUPLICATE, actors[1].outcome);
    OUTCOME(SEMEL_PROCESSED, actors[2].outcome);
    assert_int_equal(actors[1].runs, 0);
    assert_int_equal(sync_vfs_taken(), 2); /* one for the copy's sake, and one for the third */
}

/* The first copy is not committed, and so the second is none. */
static void a_copy_of_what_is_undone_is_no_duplicate(void **state)
{
    share_case *c = *state;
    actor actors[2] = {{.claims = "a", .sql = EFFECT("a")}, {.id = "a", .sql = EFFECT("a")}};
    semel_test_fault(c->base.seam, "share.ready", 1, SEMEL_ESTORE);
    share_run(c, actors, 2);
    share_check_statuses(actors, 2, (semel_status[]){SEMEL_ECONFLICT, SEMEL_OK});
    OUTCOME(SEMEL_PROCESSED, actors[1].outcome);
    assert_int_equal(share_number(c, EFFECTS), 1);
    assert_int_equal(share_number(c, MARKERS), 1);
}

/* It cannot be taken out of the transaction any more: it is begun anew. */
static void a_unit_that_has_written_and_finds_such_a_key_conflicts(void **state)
{
    share_case *c = *state;
    actor actors[2] = {{.claims = "a", .sql = EFFECT("a")}, {.claims = "a", .sql = EFFECT("b")}};
    share_run(c, actors, 2);
    share_check_statuses(actors, 2, (semel_status[]){SEMEL_OK, SEMEL_ECONFLICT});
    assert_int_equal(share_number(c, EFFECTS), 1);
    assert_int_equal(share_number(c, MARKERS), 1);
}

int main(void)
{
#define ON_STORE(test)  cmocka_unit_test_setup_teardown(test, share_setup, share_teardown)
#define WITH_KEYS(test) cmocka_unit_test_setup_teardown(test, setup_foreign_keys, share_teardown)
    static const struct CMUnitTest tests[] = {
        ON_STORE(four_units_are_one_fsync),
        ON_STORE(four_messages_are_one_fsync),
        ON_STORE(a_unit_in_the_middle_is_undone_by_itself),
        ON_STORE(the_last_unit_is_undone_by_itself),
        ON_STORE(the_first_unit_is_undone_by_itself),
        ON_STORE(a_handler_that_fails_is_undone_by_itself),
        ON_STORE(a_savepoint_of_one_handler_is_not_the_next_ones),
        ON_STORE(members_are_undone_by_a_commit_of_a_handler),
        ON_STORE(members_are_undone_by_a_rollback_of_a_handler),
        ON_STORE(members_are_undone_by_a_transaction_of_a_handler),
        ON_STORE(members_are_undone_by_a_statement_that_rolls_back),
        ON_STORE(messages_of_an_ended_transaction_are_received_again),
        ON_STORE(a_commit_without_an_answer_is_unknown_to_all),
        ON_STORE(a_commit_that_fails_is_begun_anew_by_all),
        ON_STORE(an_answer_that_is_lost_is_unknown_to_all),
        ON_STORE(a_unit_that_cannot_begin_leaves_the_others),
        ON_STORE(a_unit_that_cannot_hand_on_leaves_the_others),
        WITH_KEYS(a_foreign_key_fails_the_unit_that_broke_it),
        WITH_KEYS(a_handlers_deferral_ends_with_its_unit),
        ON_STORE(a_copy_is_a_duplicate_when_the_first_is_committed),
        ON_STORE(a_copy_of_what_is_undone_is_no_duplicate),
        ON_STORE(a_unit_that_has_written_and_finds_such_a_key_conflicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
