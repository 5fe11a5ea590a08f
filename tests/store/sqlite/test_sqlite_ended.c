/* When a unit's transaction is over before the unit is: because the handler ended it, or because
 * SQLite undid it after an error such as a full disk. A statement that semel then ran would be a
 * transaction of its own, and what it wrote would stay: a message from work that never happened. So
 * none is run. */
#include "support/base/scratch.h"
#include "support/inspect/inspect_sqlite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <semel/semel.h>
#include <semel/sqlite.h>
#include <stdlib.h>
#include <string.h>

typedef struct shop {
    scratch dir;
    char file[SCRATCH_PATH];
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    const char *trouble;  /* SQL that the handler runs first; NULL: none */
    int careless;         /* it does not look at what semel answers, and says that all is well */
    semel_status refused; /* what semel said when it was to send */
    semel_error err;
} shop;

static const semel_message order = {
    .size = sizeof order, .id = {"order", 5}, .type = "order.placed", .body = {"order", 5}};
static const semel_message charge = {
    .size = sizeof charge, .type = "order.charged", .body = {"charge", 6}};

static int setup(void **state)
{
    shop *s = calloc(1, sizeof *s);
    char url[SCRATCH_PATH];
    scratch_open(&s->dir);
    scratch_file(s->file, &s->dir, "shop.db");
    scratch_sqlite(url, &s->dir, "shop.db");
    assert_int_equal(semel_store_open(&s->store, url, NULL, &s->err), SEMEL_OK);
    assert_int_equal(semel_store_migrate(s->store, &s->err), SEMEL_OK);
    assert_int_equal(semel_inbox_open(&s->inbox, s->store, "in", NULL, &s->err), SEMEL_OK);
    assert_int_equal(semel_outbox_open(&s->outbox, s->store, "out", &s->err), SEMEL_OK);
    inspect_sqlite_run(s->file, "CREATE TABLE effect (data BLOB)");
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    shop *s = *state;
    semel_outbox_close(s->outbox);
    semel_inbox_close(s->inbox);
    semel_store_close(s->store);
    scratch_close(&s->dir);
    free(s);
    return 0;
}

static semel_status handler(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    shop *s = context;
    sqlite3 *db = semel_unit_sqlite(unit);
    (void)message;
    if (s->trouble)
        (void)sqlite3_exec(db, s->trouble, NULL, NULL, NULL); /* whatever comes of it */
    semel_status status = semel_unit_set_result(unit, "done", 4, err);
    if (!status)
        status = semel_unit_send(unit, s->outbox, &charge, err);
    s->refused = status;
    return s->careless ? SEMEL_OK : status;
}

static void check_nothing_is_there(const shop *s)
{
    assert_int_equal(inspect_sqlite_number(s->file, "SELECT count(*) FROM semel_outbox"), 0);
    assert_int_equal(
        inspect_sqlite_number(s->file, "SELECT count(*) FROM semel_marker WHERE state = 0"), 0);
    assert_int_equal(inspect_sqlite_number(s->file, "SELECT count(*) FROM effect"), 0);
}

/* Afterwards the message is handled as if nothing had been. */
static void check_works_again(shop *s)
{
    semel_outcome outcome;
    s->trouble = "PRAGMA max_page_count = 1000000; INSERT INTO effect VALUES (x'00')";
    assert_int_equal(semel_inbox_receive(&outcome, s->inbox, &order, handler, s, &s->err),
                     SEMEL_OK);
    assert_int_equal(outcome, SEMEL_PROCESSED);
    assert_int_equal(inspect_sqlite_number(s->file, "SELECT count(*) FROM semel_outbox"), 1);
    assert_int_equal(inspect_sqlite_number(s->file, "SELECT count(*) FROM effect"), 1);
}

#define ROLL_BACK "INSERT INTO effect VALUES (x'00'); ROLLBACK"
#define FILL_UP   "PRAGMA max_page_count = 40; INSERT INTO effect VALUES (zeroblob(1000000))"

static void receive_in_trouble(shop *s, const char *trouble, int careless, semel_status expected)
{
    semel_outcome outcome;
    s->trouble = trouble;
    s->careless = careless;
    assert_int_equal(semel_inbox_receive(&outcome, s->inbox, &order, handler, s, &s->err),
                     expected);
    assert_int_equal(s->refused, expected);
    assert_true(outcome == SEMEL_UNDECIDED || outcome == SEMEL_FAILED);
    check_nothing_is_there(s);
    check_works_again(s);
}

static void after_a_rollback_nothing_is_sent(void **state)
{
    receive_in_trouble(*state, ROLL_BACK, 0, SEMEL_EMISUSE);
}

static void after_a_rollback_a_careless_handler_sends_nothing(void **state)
{
    receive_in_trouble(*state, ROLL_BACK, 1, SEMEL_EMISUSE);
}

static void after_a_full_disk_nothing_is_sent(void **state)
{
    shop *s = *state;
    receive_in_trouble(s, FILL_UP, 0, SEMEL_ESTORE);
}

static void after_a_full_disk_a_careless_handler_sends_nothing(void **state)
{
    receive_in_trouble(*state, FILL_UP, 1, SEMEL_ESTORE);
}

static void a_batch_undone_by_a_full_disk_is_undecided(void **state)
{
    shop *s = *state;
    semel_message other = order;
    const semel_message *list[] = {&other, &order};
    semel_outcome outcomes[2];
    other.id = semel_str("another");
    s->trouble = FILL_UP;
    assert_int_equal(semel_inbox_receive_batch(outcomes, s->inbox, list, 2, handler, s, &s->err),
                     SEMEL_ESTORE);
    assert_int_equal(outcomes[0], SEMEL_UNDECIDED);
    assert_int_equal(outcomes[1], SEMEL_UNDECIDED);
    assert_int_equal(s->err.native & 0xff, SQLITE_FULL);
    check_nothing_is_there(s);
    check_works_again(s);
}

/* The caller's own transaction, which the caller ends too early. */
static void a_joined_unit_writes_nothing_after_the_end(void **state)
{
    shop *s = *state;
    sqlite3 *db;
    semel_unit *unit;
    semel_outcome outcome;
    assert_int_equal(sqlite3_open(s->file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(semel_unit_join_sqlite(&unit, s->store, db, &s->err), SEMEL_OK);
    assert_int_equal(semel_unit_claim(&outcome, unit, s->inbox, &order, &s->err), SEMEL_OK);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(semel_unit_send(unit, s->outbox, &charge, &s->err), SEMEL_EMISUSE);
    assert_int_equal(semel_unit_commit(unit, &s->err), SEMEL_EMISUSE);
    sqlite3_close(db);
    check_nothing_is_there(s);
    check_works_again(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(after_a_rollback_nothing_is_sent),
        TEST(after_a_rollback_a_careless_handler_sends_nothing),
        TEST(after_a_full_disk_nothing_is_sent),
        TEST(after_a_full_disk_a_careless_handler_sends_nothing),
        TEST(a_batch_undone_by_a_full_disk_is_undecided),
        TEST(a_joined_unit_writes_nothing_after_the_end),
    };
    return cmocka_run_group_tests_name("sqlite: transactions that ended early", tests, NULL, NULL);
}
