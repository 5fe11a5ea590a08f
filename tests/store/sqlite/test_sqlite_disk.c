/* SQLite in trouble, and what it costs when it is not: locks of other processes, fsyncs counted and
 * made to fail, a full disk. */
#include "support/fake/sync_vfs.h"
#include "support/fixture/sqlite_case.h"
#include "support/process/process.h"

#include <semel/test.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* --- another process has the lock ------------------------------------------------------------- */

enum { BUSY_MS = 150, PATIENCE_MS = 60000 };

/* What the parent wants of the child that holds locks, and what it has by now. */
typedef enum lock_state { UNLOCKED, LOCKED, FINISHED } lock_state;

typedef struct holder {
    char path[SCRATCH_PATH];
    atomic_int wanted;
    atomic_int has;
    atomic_int taken;            /* how often it had the lock */
    atomic_int release_after_ms; /* set: it lets go by itself after so long */
} holder;

static void let_go_after_a_while(holder *self)
{
    int64_t until = process_now_ms() + atomic_load(&self->release_after_ms);
    while (process_now_ms() < until)
        process_nap();
    atomic_store(&self->wanted, UNLOCKED);
}

static int hold_locks(void *context)
{
    holder *self = context;
    sqlite3 *db = NULL;
    PROCESS_REQUIRE(sqlite3_open(self->path, &db) == SQLITE_OK);
    for (int wanted; (wanted = atomic_load(&self->wanted)) != FINISHED; process_nap()) {
        if (wanted == atomic_load(&self->has))
            continue;
        const char *sql = wanted == LOCKED ? "BEGIN IMMEDIATE" : "ROLLBACK";
        PROCESS_REQUIRE(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
        atomic_store(&self->has, wanted);
        atomic_fetch_add(&self->taken, wanted == LOCKED);
        if (wanted == LOCKED && atomic_load(&self->release_after_ms))
            let_go_after_a_while(self);
    }
    sqlite3_close_v2(db);
    return PROCESS_OK;
}

static void want(holder *child, lock_state wanted)
{
    int64_t deadline = process_now_ms() + PATIENCE_MS;
    atomic_store(&child->wanted, wanted);
    while (atomic_load(&child->has) != (int)wanted && process_now_ms() < deadline)
        process_nap();
    assert_int_equal(atomic_load(&child->has), wanted);
}

/* The child first: no store may be open when it is started. */
static holder *start_holder(sqlite_case *c, pid_t *pid)
{
    holder *child = process_share(sizeof *child);
    lite_open(c, 0);
    SQL(lite_other(c), "CREATE TABLE effect (id TEXT)");
    lite_close(c);
    sqlite3_close_v2(c->other);
    c->other = NULL;
    memcpy(child->path, c->path, sizeof child->path);
    *pid = process_start(hold_locks, child);
    lite_open(c, BUSY_MS);
    return child;
}

static void end_holder(holder *child, pid_t pid)
{
    atomic_store(&child->wanted, FINISHED);
    assert_int_equal(process_wait(pid, PATIENCE_MS), PROCESS_OK);
    process_unshare(child, sizeof *child);
}

static void a_lock_of_another_process_is_waited_for_up_to_busy_ms(void **state)
{
    sqlite_case *c = *state;
    pid_t pid;
    holder *child = start_holder(c, &pid);
    scripted_handler done = {0};
    want(child, LOCKED);
    int64_t before = process_now_ms();
    HANDLES(SEMEL_EBUSY, SEMEL_UNDECIDED, c->inbox, "m-1", &done);
    int64_t took = process_now_ms() - before;
    assert_true(last_error.retryable);
    SAYS("another process");
    assert_in_range(took, BUSY_MS - 5, PATIENCE_MS);
    HANDLES(SEMEL_EBUSY, SEMEL_UNDECIDED, c->claims, "m-1", &done);
    assert_int_equal(done.runs, 0);
    want(child, UNLOCKED);
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &done);
    assert_int_equal(lite_effects(c), 1);
    end_holder(child, pid);
}

static void a_lock_that_is_released_in_time_is_not_noticed(void **state)
{
    sqlite_case *c = *state;
    pid_t pid;
    holder *child = start_holder(c, &pid);
    scripted_handler done = {0};
    lite_close(c);
    lite_open(c, PATIENCE_MS);
    atomic_store(&child->release_after_ms, 50);
    atomic_store(&child->wanted, LOCKED);
    for (int64_t until = process_now_ms() + PATIENCE_MS; !atomic_load(&child->taken);) {
        assert_true(process_now_ms() < until);
        process_nap();
    }
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &done);
    assert_int_equal(lite_effects(c), 1);
    end_holder(child, pid);
}

/* Reading does not write: it need not wait for another process's lock. */
static void counters_are_read_while_another_process_has_the_lock(void **state)
{
    sqlite_case *c = *state;
    pid_t pid;
    holder *child = start_holder(c, &pid);
    semel_counters counters;
    want(child, LOCKED);
    OK(semel_store_counters(&counters, sizeof counters, c->base.store, &last_error));
    want(child, UNLOCKED);
    end_holder(child, pid);
}

/* --- fsyncs ----------------------------------------------------------------------------------- */

/* The counting file system must be there before anything is opened. */
static int setup_counting(void **state)
{
    sync_vfs_install();
    return lite_setup(state);
}

static void a_first_copy_is_one_fsync_and_a_duplicate_none(void **state)
{
    sqlite_case *c = *state;
    semel_message mail = text_message("mail-1", "paid");
    scripted_handler done = {.outbox = c->outbox, .sends = &mail, .result = "receipt"};
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "warm", &done);
    (void)sync_vfs_taken();
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &done);
    assert_int_equal(sync_vfs_taken(), 1);
    for (int i = 0; i < 100; i++)
        HANDLES(SEMEL_OK, SEMEL_DUPLICATE, c->inbox, "m-1", &done);
    assert_int_equal(sync_vfs_taken(), 0);
}

static void a_batch_is_one_fsync_and_a_batch_of_duplicates_none(void **state)
{
    enum { MANY = 50 };
    sqlite_case *c = *state;
    char ids[MANY][2];
    semel_message messages[MANY];
    const semel_message *pointers[MANY];
    semel_outcome outcomes[MANY];
    scripted_handler done = {0};
    for (int i = 0; i < MANY; i++) {
        ids[i][0] = (char)('0' + i);
        ids[i][1] = 0;
        messages[i] = text_message(ids[i], "10 EUR");
        pointers[i] = &messages[i];
    }
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "warm", &done);
    (void)sync_vfs_taken();
    for (int round = 0; round < 2; round++) {
        OK(semel_inbox_receive_batch(outcomes, c->inbox, pointers, MANY, lite_handle, &done,
                                     &last_error));
        assert_int_equal(sync_vfs_taken(), round == 0);
    }
    assert_int_equal(done.runs, MANY + 1);
}

/* The claim itself may be lost with the power, its completion may not. */
static void a_claim_is_one_fsync_at_its_end(void **state)
{
    sqlite_case *c = *state;
    semel_message message = text_message("m-1", "10 EUR");
    semel_outcome outcome;
    semel_unit *unit = NULL;
    scripted_handler done = {0};
    HANDLES_BY(SEMEL_OK, SEMEL_PROCESSED, c->claims, "warm", scripted_handler_run, &done);
    (void)sync_vfs_taken();
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    OK(semel_unit_claim(&outcome, unit, c->claims, &message, &last_error));
    OK(semel_unit_renew(unit, 0, &last_error));
    assert_int_equal(sync_vfs_taken(), 0);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(sync_vfs_taken(), 1);
}

/* A lost count means one attempt more; a lost letter is a lost message, because the broker was told
 * that the message is settled. */
static void a_failed_attempt_is_no_fsync_and_a_dead_letter_is_one(void **state)
{
    sqlite_case *c = *state;
    scripted_handler done = {0}, failing = {.failures = 1},
                     hopeless = {.failures = 2, .failure = SEMEL_EGIVEUP};
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "warm", &done);
    (void)sync_vfs_taken();
    HANDLES(SEMEL_EHANDLER, SEMEL_FAILED, c->inbox, "m-1", &failing);
    assert_int_equal(sync_vfs_taken(), 0);
    HANDLES(SEMEL_OK, SEMEL_DEAD, c->inbox, "m-1", &hopeless);
    assert_int_equal(sync_vfs_taken(), 1);
    HANDLES_BY(SEMEL_OK, SEMEL_DEAD, c->claims, "m-1", scripted_handler_run, &hopeless);
    assert_int_equal(sync_vfs_taken(), 1);
}

/* A settlement that is lost means sending again, which receivers know how to deal with. */
static void a_relay_needs_no_fsync(void **state)
{
    sqlite_case *c = *state;
    semel_transport *broker = NULL;
    semel_relay *relay = NULL;
    semel_message message = text_message("", "paid");
    size_t sent = 0;
    for (int i = 0; i < 10; i++)
        OK(semel_outbox_send(c->outbox, &message, &last_error));
    OK(semel_test_recorder_open(&broker, &last_error));
    OK(semel_relay_open(&relay, c->outbox, broker, NULL, &last_error));
    (void)sync_vfs_taken();
    semel_status status = semel_relay_step(&sent, relay, 0, &last_error);
    unsigned syncs = sync_vfs_taken();
    semel_relay_close(relay);
    semel_transport_close(broker);
    assert_int_equal(status, SEMEL_OK);
    assert_int_equal(sent, 10);
    assert_int_equal(syncs, 0);
}

/* P15, P21: the commit was sent, and the store cannot tell what became of it. Receiving again
 * settles it. */
static void a_commit_without_an_answer_is_unknown_until_asked_again(void **state)
{
    sqlite_case *c = *state;
    scripted_handler done = {0};
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "warm", &done);
    sync_vfs_fail_next();
    HANDLES(SEMEL_EUNKNOWN, SEMEL_UNDECIDED, c->inbox, "m-1", &done);

    semel_outcome outcome;
    semel_message message = text_message("m-1", "10 EUR");
    OK(semel_inbox_receive(&outcome, c->inbox, &message, lite_handle, &done, &last_error));
    assert_true(outcome == SEMEL_PROCESSED || outcome == SEMEL_DUPLICATE);
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM effect WHERE id = 'm-1'"), 1);
    assert_int_equal(lite_markers(c), 2);
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-2", &done);
}

/* --- a full disk ------------------------------------------------------------------------------ */

/* A handler that says how many pages the file may have from now on; 0: as many as it likes. */
static semel_status limit_pages(semel_unit *unit, const semel_message *message, void *context,
                                semel_error *err)
{
    const int *limited = context;
    sqlite3 *db = semel_unit_sqlite(unit);
    const char *sql = *limited ? "PRAGMA max_page_count = 1" /* which means: no more than now */
                               : "PRAGMA max_page_count = 1073741823";
    (void)message;
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EHANDLER, "%s", sqlite3_errmsg(db));
}

static void set_full(sqlite_case *c, int full)
{
    HANDLES_BY(SEMEL_OK, SEMEL_PROCESSED, c->inbox, full ? "full" : "free", limit_pages, &full);
}

static void a_message_that_does_not_fit_is_not_half_there(void **state)
{
    static char large[1 << 20];
    sqlite_case *c = *state;
    memset(large, 'x', sizeof large);
    semel_message mail = {.size = sizeof mail, .body = {large, sizeof large}};
    scripted_handler sending = {.outbox = c->outbox, .sends = &mail};
    set_full(c, 1);
    HANDLES(SEMEL_ESTORE, SEMEL_FAILED, c->inbox, "m-1", &sending);
    SAYS("full");
    assert_int_equal(sending.trouble, SEMEL_ESTORE);
    assert_int_equal(lite_effects(c), 0);
    assert_int_equal(lite_markers(c), 1); /* of set_full */
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM semel_outbox"), 0);

    set_full(c, 0);
    sending.trouble = SEMEL_OK;
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "m-1", &sending);
    assert_int_equal(lite_effects(c), 1);
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM semel_outbox"), 1);
}

/* Until there is no room for a marker: then a message is not taken, and later it is, once. */
static void on_a_full_disk_a_key_is_not_taken_and_later_it_is(void **state)
{
    enum { MANY = 4000 };
    sqlite_case *c = *state;
    char id[201];
    semel_status status = SEMEL_OK;
    semel_outcome outcome = SEMEL_UNDECIDED;
    scripted_handler done = {0};
    memset(id, 'k', 200);
    id[200] = 0;
    set_full(c, 1);
    for (int i = 0; !status && i < MANY; i++) {
        for (int at = 0, left = i; at < 4; at++, left /= 10)
            id[3 - at] = (char)('0' + left % 10);
        semel_message message = text_message(id, "10 EUR");
        status = semel_inbox_receive(&outcome, c->inbox, &message, scripted_handler_run, &done,
                                     &last_error);
    }
    assert_int_equal(status, SEMEL_ESTORE);
    assert_int_equal(outcome, SEMEL_UNDECIDED);
    SAYS("full");
    int64_t markers = lite_markers(c);
    assert_int_equal(markers, done.runs + 1);
    set_full(c, 0);
    HANDLES(SEMEL_OK, SEMEL_PROCESSED, c->inbox, id, &done);
    HANDLES(SEMEL_OK, SEMEL_DUPLICATE, c->inbox, id, &done);
    assert_int_equal(lite_number(lite_other(c), "SELECT count(*) FROM pragma_integrity_check "
                                                "WHERE integrity_check <> 'ok'"),
                     0);
}

int main(void)
{
#define ON_FILE(test)  cmocka_unit_test_setup_teardown(test, lite_setup_empty, lite_teardown)
#define COUNTING(test) cmocka_unit_test_setup_teardown(test, setup_counting, lite_teardown)
    static const struct CMUnitTest tests[] = {
        ON_FILE(a_lock_of_another_process_is_waited_for_up_to_busy_ms),
        ON_FILE(a_lock_that_is_released_in_time_is_not_noticed),
        ON_FILE(counters_are_read_while_another_process_has_the_lock),
        COUNTING(a_first_copy_is_one_fsync_and_a_duplicate_none),
        COUNTING(a_batch_is_one_fsync_and_a_batch_of_duplicates_none),
        COUNTING(a_claim_is_one_fsync_at_its_end),
        COUNTING(a_failed_attempt_is_no_fsync_and_a_dead_letter_is_one),
        COUNTING(a_relay_needs_no_fsync),
        COUNTING(a_commit_without_an_answer_is_unknown_until_asked_again),
        COUNTING(a_message_that_does_not_fit_is_not_half_there),
        COUNTING(on_a_full_disk_a_key_is_not_taken_and_later_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
