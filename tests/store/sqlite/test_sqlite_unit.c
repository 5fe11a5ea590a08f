/* Units on SQLite: the handler's own writes in the same transaction, the caller's transaction
 * joined, and what becomes of handlers that do with the connection what they must not. */
#include "support/fixture/sqlite_case.h"
#include "support/process/process.h"

#include <semel/test.h>
#include <string.h>

/* --- the native handle ------------------------------------------------------------------------ */

static void the_handlers_writes_commit_with_the_marker(void **state)
{
    sqlite_case *c = *state;
    semel_message mail = text_message("mail-1", "paid");
    scripted_handler done = {.outbox = c->outbox, .sends = &mail};
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &done);
    assert_int_equal(lite_effects(c), 1);
    assert_int_equal(lite_markers(c), 1);
    HANDLES(SEMEL_OK, SEMEL_DUPLICATE, c->inbox, "m-1", &done);
    assert_int_equal(lite_effects(c), 1);
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM semel_outbox"), 1);
}

static void the_handlers_writes_go_with_its_failure(void **state)
{
    sqlite_case *c = *state;
    semel_message mail = text_message("mail-1", "paid");
    scripted_handler failing = {.failures = 1, .outbox = c->outbox, .sends = &mail};
    HANDLES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-1", &failing);
    assert_int_equal(lite_effects(c), 0);
    assert_int_equal(lite_markers(c), 0);
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM semel_outbox"), 0);
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &failing);
    assert_int_equal(lite_effects(c), 1);
}

static void in_a_batch_only_the_failed_ones_writes_go(void **state)
{
    sqlite_case *c = *state;
    semel_message messages[3] = {text_message("a", "1"), text_message("b", "2"),
                                 text_message("c", "3")};
    const semel_message *pointers[3] = {&messages[0], &messages[1], &messages[2]};
    semel_outcome outcomes[3];
    scripted_handler failing = {.failures = 1, .only = "b"};
    OK(semel_inbox_receive_batch(outcomes, c->inbox, pointers, 3, lite_handle, &failing,
                                 &last_error));
    assert_int_equal(outcomes[1], SEMEL_FAILED);
    assert_int_equal(lite_effects(c), 2);
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM effect WHERE id = 'b'"), 0);
}

static semel_status expect_no_handle(semel_unit *unit, const semel_message *message, void *context,
                                     semel_error *err)
{
    (void)message;
    (void)context;
    return semel_unit_sqlite(unit) ? semel_fail(err, SEMEL_EHANDLER, "there is a handle")
                                   : SEMEL_OK;
}

static void a_claim_has_no_handle(void **state)
{
    sqlite_case *c = *state;
    HANDLES_BY(SEMEL_OK, SEMEL_PROCESSED, c->claims, "m-1", expect_no_handle, NULL);
}

static void another_store_has_no_handle(void **state)
{
    sqlite_case *c = *state;
    semel_store *memory = NULL;
    semel_unit *unit = NULL, *joined = NULL;
    OK(semel_store_open(&memory, "memory:", NULL, &last_error));
    OK(semel_unit_begin(&unit, memory, &last_error));
    assert_null(semel_unit_sqlite(unit));
    semel_unit_rollback(unit);
    FAILS(SEMEL_EUNSUPPORTED, semel_unit_join_sqlite(&joined, memory, lite_other(c), &last_error));
    semel_store_close(memory);
}

/* P6: the application's own unique violation is its own failure, not a copy of the message. */
static semel_status violate(semel_unit *unit, const semel_message *message, void *context,
                            semel_error *err)
{
    int code =
        sqlite3_exec(semel_unit_sqlite(unit), "INSERT INTO invoice VALUES (1)", NULL, NULL, NULL);
    (void)message;
    (void)context;
    return code == SQLITE_CONSTRAINT_PRIMARYKEY || code == SQLITE_CONSTRAINT
               ? semel_fail(err, SEMEL_EHANDLER, "the invoice is there")
           : code ? SEMEL_EGIVEUP
                  : SEMEL_OK;
}

static void a_business_conflict_is_not_a_duplicate(void **state)
{
    sqlite_case *c = *state;
    SQL(lite_other(c),
        "CREATE TABLE invoice (id INTEGER PRIMARY KEY); INSERT INTO invoice VALUES (1)");
    HANDLES_BY(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-1", violate, NULL);
    SQL(lite_other(c), "DELETE FROM invoice");
    HANDLES_BY(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", violate, NULL);
}

/* --- joining ---------------------------------------------------------------------------------- */

static semel_unit *join(sqlite_case *c)
{
    semel_unit *unit = NULL;
    OK(semel_unit_join_sqlite(&unit, c->base.store, lite_other(c), &last_error));
    return unit;
}

static semel_outcome claim(semel_unit *unit, semel_inbox *inbox, const char *id)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    static semel_message message; /* borrowed until the unit ends */
    message = text_message(id, "10 EUR");
    OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
    return outcome;
}

static semel_outcome claim_by_itself(sqlite_case *c, const char *id)
{
    semel_unit *unit = NULL;
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    semel_outcome outcome = claim(unit, c->inbox, id);
    semel_unit_rollback(unit);
    return outcome;
}

static void a_joined_unit_commits_with_the_callers_transaction(void **state)
{
    sqlite_case *c = *state;
    sqlite3 *db = lite_other(c);
    semel_message mail = text_message("mail-1", "paid");
    SQL(db, "BEGIN IMMEDIATE; INSERT INTO effect VALUES ('earlier')");
    semel_unit *unit = join(c);
    assert_ptr_equal(semel_unit_sqlite(unit), db);
    assert_int_equal(claim(unit, c->inbox, "m-1"), SEMEL_CLAIMED);
    SQL(db, "INSERT INTO effect VALUES ('m-1')");
    OK(semel_unit_send(unit, c->outbox, &mail, &last_error));
    OK(semel_unit_set_result(unit, "receipt", 7, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    assert_false(sqlite3_get_autocommit(db)); /* the transaction is still the caller's */
    SQL(db, "COMMIT");
    assert_int_equal(lite_effects(c), 2);
    assert_int_equal(claim_by_itself(c, "m-1"), SEMEL_DUPLICATE);
    semel_counters counters;
    OK(semel_store_counters(&counters, sizeof counters, c->base.store, &last_error));
    assert_int_equal(counters.unsent, 1);
}

static void the_callers_rollback_takes_the_joined_unit_with_it(void **state)
{
    sqlite_case *c = *state;
    sqlite3 *db = lite_other(c);
    semel_message mail = text_message("mail-1", "paid");
    SQL(db, "BEGIN IMMEDIATE");
    semel_unit *unit = join(c);
    assert_int_equal(claim(unit, c->inbox, "m-1"), SEMEL_CLAIMED);
    SQL(db, "INSERT INTO effect VALUES ('m-1')");
    OK(semel_unit_send(unit, c->outbox, &mail, &last_error));
    OK(semel_unit_commit(unit, &last_error));
    SQL(db, "ROLLBACK");
    assert_int_equal(lite_effects(c), 0);
    assert_int_equal(lite_number(db, "SELECT count(*) FROM semel_outbox"), 0);
    assert_int_equal(claim_by_itself(c, "m-1"), SEMEL_CLAIMED);
}

static void rolling_a_joined_unit_back_leaves_the_callers_earlier_work(void **state)
{
    sqlite_case *c = *state;
    sqlite3 *db = lite_other(c);
    SQL(db, "BEGIN IMMEDIATE; INSERT INTO effect VALUES ('earlier')");
    semel_unit *unit = join(c);
    assert_int_equal(claim(unit, c->inbox, "m-1"), SEMEL_CLAIMED);
    SQL(db, "INSERT INTO effect VALUES ('m-1')");
    semel_unit_rollback(unit);
    SQL(db, "INSERT INTO effect VALUES ('later'); COMMIT");
    assert_int_equal(lite_effects(c), 2);
    assert_int_equal(lite_number(db, "SELECT count(*) FROM effect WHERE id = 'm-1'"), 0);
    assert_int_equal(claim_by_itself(c, "m-1"), SEMEL_CLAIMED);
}

/* Several messages in one transaction of the caller's: one unit each. */
static void several_units_may_join_one_transaction(void **state)
{
    sqlite_case *c = *state;
    sqlite3 *db = lite_other(c);
    static const char *const ids[] = {"a", "b", "a"};
    static const semel_outcome expected[] = {SEMEL_CLAIMED, SEMEL_CLAIMED, SEMEL_DUPLICATE};
    SQL(db, "BEGIN IMMEDIATE");
    for (int i = 0; i < 3; i++) {
        semel_unit *unit = join(c);
        assert_int_equal(claim(unit, c->inbox, ids[i]), expected[i]);
        if (expected[i] == SEMEL_CLAIMED)
            OK(semel_unit_commit(unit, &last_error));
        else
            semel_unit_rollback(unit);
    }
    SQL(db, "COMMIT");
    assert_int_equal(lite_markers(c), 2);
}

static void joining_needs_an_open_transaction(void **state)
{
    sqlite_case *c = *state;
    semel_unit *unit = NULL;
    FAILS(SEMEL_EMISUSE, semel_unit_join_sqlite(&unit, c->base.store, lite_other(c), &last_error));
    SAYS("BEGIN IMMEDIATE");
    FAILS(SEMEL_EMISUSE, semel_unit_join_sqlite(&unit, c->base.store, NULL, &last_error));
    assert_null(unit);
}

static void joining_needs_the_same_file(void **state)
{
    sqlite_case *c = *state;
    semel_unit *unit = NULL;
    sqlite3 *elsewhere = NULL;
    char path[SCRATCH_PATH];
    assert_int_equal(
        sqlite3_open(scratch_file(path, &c->base.place.directory, "other.db"), &elsewhere),
        SQLITE_OK);
    SQL(elsewhere, "BEGIN IMMEDIATE");
    semel_status status = semel_unit_join_sqlite(&unit, c->base.store, elsewhere, &last_error);
    sqlite3_close_v2(elsewhere);
    assert_int_equal(status, SEMEL_EINVAL);
    SAYS("another file");
}

static void a_claim_cannot_be_joined(void **state)
{
    sqlite_case *c = *state;
    semel_message message = text_message("m-1", "10 EUR");
    semel_outcome outcome;
    SQL(lite_other(c), "BEGIN IMMEDIATE");
    semel_unit *unit = join(c);
    FAILS(SEMEL_EINVAL, semel_unit_claim(&outcome, unit, c->claims, &message, &last_error));
    SAYS("claim mode");
    assert_int_equal(claim(unit, c->inbox, "m-1"), SEMEL_CLAIMED); /* the unit is as it was */
    semel_unit_rollback(unit);
    SQL(lite_other(c), "ROLLBACK");
}

static void a_joined_unit_notices_that_its_transaction_is_over(void **state)
{
    sqlite_case *c = *state;
    SQL(lite_other(c), "BEGIN IMMEDIATE");
    semel_unit *unit = join(c);
    assert_int_equal(claim(unit, c->inbox, "m-1"), SEMEL_CLAIMED);
    SQL(lite_other(c), "ROLLBACK");
    FAILS(SEMEL_EMISUSE, semel_unit_commit(unit, &last_error));
    assert_int_equal(claim_by_itself(c, "m-1"), SEMEL_CLAIMED);
}

/* --- handlers that end the transaction themselves --------------------------------------------- */

/* Writes an effect, runs the SQL that it must not, writes another effect, and does not look what
 * came of it. */
static semel_status meddle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    const char *sql = context;
    semel_status status = lite_write_effect(unit, message, err);
    (void)sqlite3_exec(semel_unit_sqlite(unit), sql, NULL, NULL, NULL);
    (void)lite_write_effect(unit, message, err);
    return status;
}

/* Whatever the handler's SQL did, the caller is told; nothing of it is left, neither what was
 * written before nor what was written after; and the store works on. */
static void expect_misuse(sqlite_case *c, const char *sql)
{
    HANDLES_BY(SEMEL_EMISUSE, SEMEL_UNDECIDED, c->inbox, "m-1", meddle, (void *)(uintptr_t)sql);
    SAYS("COMMIT or ROLLBACK");
    assert_int_equal(lite_markers(c), 0);
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM effect"), 0);
    scripted_handler done = {0};
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &done);
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-2", &done);
}

static void a_handler_that_commits_is_told(void **state)
{
    expect_misuse(*state, "COMMIT");
}

static void a_handler_that_rolls_back_is_told(void **state)
{
    expect_misuse(*state, "ROLLBACK");
}

static void a_handler_that_begins_anew_is_told(void **state)
{
    sqlite_case *c = *state;
    expect_misuse(c, "ROLLBACK; BEGIN IMMEDIATE");
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM effect WHERE id = 'm-1'"), 1);
}

static void a_handler_that_commits_and_begins_anew_is_told(void **state)
{
    sqlite_case *c = *state;
    expect_misuse(c, "COMMIT; BEGIN");
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM effect WHERE id = 'm-1'"), 1);
}

static void a_batch_whose_handler_ends_the_transaction_is_told(void **state)
{
    static const char *const meddlings[] = {"ROLLBACK", "ROLLBACK; BEGIN IMMEDIATE", "COMMIT"};
    sqlite_case *c = *state;
    semel_message messages[2] = {text_message("a", "1"), text_message("b", "2")};
    const semel_message *pointers[2] = {&messages[0], &messages[1]};
    semel_outcome outcomes[2];
    scripted_handler done = {0};
    for (size_t i = 0; i < 3; i++) {
        FAILS(SEMEL_EMISUSE,
              semel_inbox_receive_batch(outcomes, c->inbox, pointers, 2, meddle,
                                        (void *)(uintptr_t)meddlings[i], &last_error));
        assert_int_equal(outcomes[0], SEMEL_UNDECIDED);
        assert_int_equal(outcomes[1], SEMEL_UNDECIDED);
        assert_int_equal(lite_markers(c), 0);
    }
    OK(semel_inbox_receive_batch(outcomes, c->inbox, pointers, 2, lite_handle, &done, &last_error));
    assert_int_equal(lite_markers(c), 2);
}

/* --- other habits ----------------------------------------------------------------------------- */

static semel_status leave_select_open(semel_unit *unit, const semel_message *message, void *context,
                                      semel_error *err)
{
    sqlite3_stmt **stmt = context;
    semel_status status = lite_write_effect(unit, message, err);
    if (!status && (sqlite3_prepare_v2(semel_unit_sqlite(unit), "SELECT id FROM effect", -1, stmt,
                                       NULL) != SQLITE_OK ||
                    sqlite3_step(*stmt) != SQLITE_ROW))
        status = semel_fail(err, SEMEL_EHANDLER, "no row");
    return status;
}

/* A read that stays open would keep the transaction's snapshot, and with it the whole log, for
 * ever. */
static void a_handler_may_leave_a_read_open(void **state)
{
    sqlite_case *c = *state;
    sqlite3_stmt *stmt = NULL;
    scripted_handler done = {0};
    SQL(lite_other(c), "INSERT INTO effect VALUES ('x')");
    HANDLES_BY(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", leave_select_open, &stmt);
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-2", &done);
    int64_t busy = lite_number(lite_other(c), "PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_finalize(stmt);
    assert_int_equal(busy, 0);
    assert_int_equal(lite_effects(c), 3);
}

typedef struct nesting {
    semel_inbox *inbox;
    semel_store *store;
    semel_outbox *outbox;
    semel_status received, begun, sent;
    int64_t took_ms;
} nesting;

static semel_status receive_inside(semel_unit *unit, const semel_message *message, void *context,
                                   semel_error *err)
{
    nesting *self = context;
    semel_message inner = text_message("inner", "10 EUR");
    semel_outcome outcome;
    scripted_handler unused = {0};
    semel_unit *another = NULL;
    (void)unit;
    (void)message;
    (void)err;
    int64_t before = process_now_ms();
    self->received =
        semel_inbox_receive(&outcome, self->inbox, &inner, scripted_handler_run, &unused, NULL);
    self->begun = semel_unit_begin(&another, self->store, NULL);
    self->sent = semel_outbox_send(self->outbox, &inner, NULL);
    self->took_ms = process_now_ms() - before;
    return SEMEL_OK;
}

/* It would wait for itself. It is told so at once, and its own unit is unharmed. */
static void a_handler_that_receives_on_its_own_store_is_told_at_once(void **state)
{
    enum { BUSY_MS = 60000 };
    sqlite_case *c = *state;
    lite_close(c);
    lite_open(c, BUSY_MS);
    nesting inside = {.inbox = c->inbox, .store = c->base.store, .outbox = c->outbox};
    HANDLES_BY(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "outer", receive_inside, &inside);
    assert_int_equal(inside.received, SEMEL_EMISUSE);
    assert_int_equal(inside.begun, SEMEL_EMISUSE);
    assert_int_equal(inside.sent, SEMEL_EMISUSE);
    assert_in_range(inside.took_ms, 0, BUSY_MS - 1);
    assert_int_equal(lite_markers(c), 1);
}

/* In a claim no transaction is open, so there it is fine. */
static void a_handler_may_receive_inside_a_claim(void **state)
{
    sqlite_case *c = *state;
    semel_message outer = text_message("outer", "10 EUR");
    semel_outcome outcome;
    semel_unit *unit = NULL;
    scripted_handler done = {0};
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    OK(semel_unit_claim(&outcome, unit, c->claims, &outer, &last_error));
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "inner", &done);
    OK(semel_outbox_send(c->outbox, &outer, &last_error));
    OK(semel_unit_commit(unit, &last_error));
}

/* --- fork ------------------------------------------------------------------------------------- */

static semel_status ignore_letter(const semel_dead *dead, void *context, semel_error *err)
{
    (void)dead;
    (void)context;
    (void)err;
    return SEMEL_OK;
}

/* Every call that reaches the file, in the child of the process that opened it. */
static int use_in_child(void *context)
{
    sqlite_case *c = context;
    semel_message message = text_message("m-1", "10 EUR");
    semel_outcome outcome;
    semel_unit *unit = NULL;
    semel_counters counters;
    semel_inbox *inbox = NULL;
    scripted_handler unused = {0};
    size_t swept;
    int more;
    PROCESS_REQUIRE(semel_unit_begin(&unit, c->base.store, NULL) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_inbox_receive(&outcome, c->inbox, &message, scripted_handler_run, &unused,
                                        NULL) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_inbox_receive(&outcome, c->claims, &message, scripted_handler_run,
                                        &unused, NULL) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_outbox_send(c->outbox, &message, NULL) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_dead_list(c->base.store, NULL, ignore_letter, NULL, NULL) ==
                    SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_store_migrate(c->base.store, NULL) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_inbox_open(&inbox, c->base.store, "new", NULL, NULL) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_inbox_sweep(&swept, &more, c->inbox, 10, NULL) == SEMEL_EMISUSE);
    PROCESS_REQUIRE(semel_store_counters(&counters, sizeof counters, c->base.store, NULL) ==
                    SEMEL_EMISUSE);
    PROCESS_REQUIRE(unused.runs == 0);
    return PROCESS_OK;
}

static void a_store_is_refused_in_a_child_process(void **state)
{
    sqlite_case *c = *state;
    scripted_handler done = {0};
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "before", &done);
    assert_int_equal(process_run(use_in_child, c), PROCESS_OK);
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "after", &done); /* the parent's is as it was */
    assert_int_equal(lite_markers(c), 2);
}

int main(void)
{
#define ON_STORE(test) cmocka_unit_test_setup_teardown(test, lite_setup, lite_teardown)
    static const struct CMUnitTest tests[] = {
        ON_STORE(the_handlers_writes_commit_with_the_marker),
        ON_STORE(the_handlers_writes_go_with_its_failure),
        ON_STORE(in_a_batch_only_the_failed_ones_writes_go),
        ON_STORE(a_claim_has_no_handle),
        ON_STORE(another_store_has_no_handle),
        ON_STORE(a_business_conflict_is_not_a_duplicate),
        ON_STORE(a_joined_unit_commits_with_the_callers_transaction),
        ON_STORE(the_callers_rollback_takes_the_joined_unit_with_it),
        ON_STORE(rolling_a_joined_unit_back_leaves_the_callers_earlier_work),
        ON_STORE(several_units_may_join_one_transaction),
        ON_STORE(joining_needs_an_open_transaction),
        ON_STORE(joining_needs_the_same_file),
        ON_STORE(a_claim_cannot_be_joined),
        ON_STORE(a_joined_unit_notices_that_its_transaction_is_over),
        ON_STORE(a_handler_that_commits_is_told),
        ON_STORE(a_handler_that_rolls_back_is_told),
        ON_STORE(a_handler_that_begins_anew_is_told),
        ON_STORE(a_handler_that_commits_and_begins_anew_is_told),
        ON_STORE(a_batch_whose_handler_ends_the_transaction_is_told),
        ON_STORE(a_handler_may_leave_a_read_open),
        ON_STORE(a_handler_that_receives_on_its_own_store_is_told_at_once),
        ON_STORE(a_handler_may_receive_inside_a_claim),
        ON_STORE(a_store_is_refused_in_a_child_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
