/* A database file that is removed, moved away or replaced under an open store. SQLite goes on with
 * the file that no other process can open any more: what is committed there is lost, and its
 * markers are not what others will see. So the store refuses to work, and nothing runs; a store
 * that is opened anew works with what is there then. */
#include "support/fixture/sqlite_case.h"

#include <semel/test.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef void loss(sqlite_case *c);

static void path_with(char out[SCRATCH_PATH + 8], const sqlite_case *c, const char *suffix)
{
    (void)snprintf(out, SCRATCH_PATH + 8, "%s%s", c->path, suffix);
}

static void remove_file(sqlite_case *c)
{
    assert_int_equal(unlink(c->path), 0);
}

static void move_away(sqlite_case *c)
{
    char away[SCRATCH_PATH + 8];
    path_with(away, c, ".away");
    assert_int_equal(rename(c->path, away), 0);
}

/* As it should be done: the files that belong to the old one go with it. */
static void replace(sqlite_case *c)
{
    char other[SCRATCH_PATH + 8], path[SCRATCH_PATH + 8];
    sqlite3 *db = NULL;
    path_with(other, c, ".other");
    assert_int_equal(sqlite3_open(other, &db), SQLITE_OK);
    SQL(db, "CREATE TABLE effect (id TEXT)");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    path_with(path, c, "-wal");
    assert_int_equal(unlink(path), 0);
    path_with(path, c, "-shm");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(other, c->path), 0);
}

/* --- what is refused -------------------------------------------------------------------------- */

#define REFUSED(call)                       \
    do {                                    \
        FAILS(SEMEL_ESTORE, call);          \
        SAYS("removed or replaced");        \
        SAYS("open it anew");               \
        assert_false(last_error.retryable); \
    } while (0)

static void receiving_is_refused(sqlite_case *c)
{
    scripted_handler done = {0};
    HANDLES(SEMEL_ESTORE, SEMEL_UNDECIDED, c->inbox, "known", &done);
    SAYS("removed or replaced");
    HANDLES(SEMEL_ESTORE, SEMEL_UNDECIDED, c->inbox, "new", &done);
    HANDLES_BY(SEMEL_ESTORE, SEMEL_UNDECIDED, c->claims, "new", scripted_handler_run, &done);
    assert_int_equal(done.runs, 0);
}

static void sending_and_sweeping_are_refused(sqlite_case *c)
{
    semel_message message = text_message("new", "10 EUR");
    semel_counters counters;
    semel_unit *unit = NULL;
    size_t swept;
    int more;
    REFUSED(semel_unit_begin(&unit, c->base.store, &last_error));
    REFUSED(semel_outbox_send(c->outbox, &message, &last_error));
    REFUSED(semel_inbox_sweep(&swept, &more, c->inbox, 0, &last_error));
    REFUSED(semel_store_counters(&counters, sizeof counters, c->base.store, &last_error));
    REFUSED(semel_store_migrate(c->base.store, &last_error));
}

/* A message in an outbox that was removed would be sent again from any copy of the file. */
static void relaying_is_refused(semel_relay *relay)
{
    size_t sent;
    REFUSED(semel_relay_step(&sent, relay, 0, &last_error));
    REFUSED(semel_relay_run(relay, &last_error));
}

static void joining_is_refused(sqlite_case *c)
{
    semel_unit *unit = NULL;
    SQL(lite_other(c), "BEGIN IMMEDIATE");
    REFUSED(semel_unit_join_sqlite(&unit, c->base.store, lite_other(c), &last_error));
    SQL(lite_other(c), "ROLLBACK");
}

/* --- the tests -------------------------------------------------------------------------------- */

static void open_relay(semel_relay **relay, semel_transport **recorder, sqlite_case *c)
{
    OK(semel_test_recorder_open(recorder, &last_error));
    OK(semel_relay_open(relay, c->outbox, *recorder, NULL, &last_error));
}

static void goes_on_anew(sqlite_case *c)
{
    scripted_handler done = {0};
    sqlite3_close_v2(c->other);
    c->other = NULL;
    lite_close(c);
    lite_open(c, 2000);
    SQL(lite_other(c), "CREATE TABLE IF NOT EXISTS effect (id TEXT)");
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "new", &done);
    HANDLES(SEMEL_OK, SEMEL_DUPLICATE, c->inbox, "new", &done);
    assert_int_equal(done.runs, 1);
    assert_int_equal(lite_effects(c), 1);
    assert_int_equal(lite_markers(c), 1);
}

static void without_its_file_a_store_refuses_all(sqlite_case *c, loss *lose)
{
    semel_transport *recorder = NULL;
    semel_relay *relay = NULL;
    semel_message message = text_message("sent", "10 EUR");
    scripted_handler done = {0};
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "known", &done);
    OK(semel_outbox_send(c->outbox, &message, &last_error));
    open_relay(&relay, &recorder, c);
    lose(c);
    receiving_is_refused(c);
    sending_and_sweeping_are_refused(c);
    relaying_is_refused(relay);
    joining_is_refused(c);
    assert_int_equal(semel_test_recorder_count(recorder), 0);
    semel_relay_close(relay);
    semel_transport_close(recorder);
    goes_on_anew(c);
}

static void a_file_that_is_removed_is_missed(void **state)
{
    without_its_file_a_store_refuses_all(*state, remove_file);
}

static void a_file_that_is_moved_away_is_missed(void **state)
{
    without_its_file_a_store_refuses_all(*state, move_away);
}

static void a_file_that_is_replaced_is_missed(void **state)
{
    without_its_file_a_store_refuses_all(*state, replace);
}

/* After an operator has put it back nothing is lost. */
static void a_file_that_comes_back_is_taken_again(void **state)
{
    sqlite_case *c = *state;
    char away[SCRATCH_PATH + 8];
    scripted_handler done = {0};
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "known", &done);
    move_away(c);
    HANDLES(SEMEL_ESTORE, SEMEL_UNDECIDED, c->inbox, "new", &done);
    path_with(away, c, ".away");
    assert_int_equal(rename(away, c->path), 0);
    HANDLES(SEMEL_OK, SEMEL_DUPLICATE, c->inbox, "known", &done);
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "new", &done);
    assert_int_equal(lite_effects(c), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, lite_setup, lite_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_file_that_is_removed_is_missed),
        TEST(a_file_that_is_moved_away_is_missed),
        TEST(a_file_that_is_replaced_is_missed),
        TEST(a_file_that_comes_back_is_taken_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
