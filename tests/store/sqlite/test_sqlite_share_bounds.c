/* Which units share a commit and which do not: the bounds, the switch, units that are relaxed or
 * that others look at before they are committed; and threads that wait for too long. */
#include "base/wait.h"
#include "share_case.h"
#include "support/fake/sync_vfs.h"
#include "support/process/process.h"

#define EFFECT(id) "INSERT INTO effect VALUES ('" id "')"
#define EFFECTS    "SELECT count(*) FROM effect"

enum { FOUR = 4, SHORT_MS = 50 };
static const semel_status all_fine[ACTORS_MAX];

/* Four units; so many fsyncs. */
static void check_four(share_case *c, unsigned fsyncs)
{
    actor actors[FOUR] = {
        {.sql = EFFECT("a")}, {.sql = EFFECT("b")}, {.sql = EFFECT("c")}, {.sql = EFFECT("d")}};
    (void)sync_vfs_taken();
    share_run(c, actors, FOUR);
    share_check_statuses(actors, FOUR, all_fine);
    assert_int_equal(sync_vfs_taken(), fsyncs);
    assert_int_equal(share_number(c, EFFECTS), FOUR);
}

static uint32_t count_joined(const share_case *c)
{
    return semel_test_passed(c->base.seam, "share.joined");
}

/* --- the switch and the bounds ---------------------------------------------------------------- */

static int setup_off(void **state)
{
    return share_setup_with(state, "?share=off", PATIENCE_MS);
}

static int setup_normal(void **state)
{
    return share_setup_with(state, "?synchronous=normal", PATIENCE_MS);
}

static void with_share_off_each_unit_is_an_fsync(void **state)
{
    check_four(*state, FOUR);
}

static void without_fsyncs_nothing_is_shared(void **state)
{
    check_four(*state, 0);
    assert_int_equal(count_joined(*state), 0);
}

static void a_thread_alone_sets_no_savepoint(void **state)
{
    share_case *c = *state;
    scripted_handler done = {0};
    RECEIVES_ID(SEMEL_OK, SEMEL_PROCESSED, c->inbox, "a", &done);
    assert_int_equal(c->state->share.units, 0);
}

static void no_more_units_than_the_bound_share(void **state)
{
    share_case *c = *state;
    c->state->share.units_max = 2;
    check_four(c, 2);
}

static void units_are_gathered_no_longer_than_the_bound(void **state)
{
    share_case *c = *state;
    c->state->share.gather_min_ns = 0;
    c->state->share.gather_max_ns = 0;
    check_four(c, FOUR);
}

/* The next one is likely to take as long, and the members would wait for it. */
static void slow_units_do_not_share(void **state)
{
    share_case *c = *state;
    c->state->share.unit_ns = 10 * c->state->share.gather_min_ns;
    actor actors[2] = {{.sql = EFFECT("a")}, {.sql = EFFECT("b")}};
    share_run(c, actors, 2);
    share_check_statuses(actors, 2, all_fine);
    assert_int_equal(count_joined(c), 0);
}

/* A unit that ends the transaction each time would undo the others each time. */
static void after_a_transaction_was_ended_units_are_not_shared_for_a_while(void **state)
{
    share_case *c = *state;
    actor actors[2] = {{.sql = EFFECT("e")}, {.sql = "ROLLBACK"}};
    share_run(c, actors, 2);
    share_check_statuses(actors, 2, (semel_status[]){SEMEL_ECONFLICT, SEMEL_EMISUSE});
    check_four(c, FOUR);
    assert_int_equal(count_joined(c), 1);
    c->state->share.pause = 0;
    actor later[2] = {{.sql = EFFECT("f")}, {.sql = EFFECT("g")}};
    share_run(c, later, 2);
    assert_int_equal(count_joined(c), 2);
}

/* --- units of other kinds --------------------------------------------------------------------- */

/* A unit of the driver's, in a thread. */
typedef struct driver_unit {
    share_case *on;
    sqlite_unit unit;
    semel_begin durability;
    uint32_t wait_ms;
    const char *sql;
    semel_status status;
    atomic_int ended;
    semel_error err;
    test_thread thread;
} driver_unit;

static void run_driver_unit(test_thread *thread)
{
    driver_unit *u = thread->context;
    u->unit = (sqlite_unit){0};
    u->status = sqlite_begin(u->on->state, &u->unit, u->durability, u->wait_ms, &u->err);
    if (!u->status) {
        sqlite3_exec(u->unit.on->db, u->sql, NULL, NULL, NULL);
        u->status = sqlite_commit(&u->unit, &u->err);
    }
    atomic_store(&u->ended, 1);
}

static void start_driver_unit(driver_unit *u, unsigned waiting)
{
    test_thread_start(&u->thread, run_driver_unit, u);
    share_wait_waiting(u->on, waiting);
}

static void join_driver_unit(driver_unit *u)
{
    assert_int_equal(test_thread_join(&u->thread, 2 * PATIENCE_MS), 1);
    assert_int_equal(u->status, SEMEL_OK);
}

/* It has its turn when the durable ones are committed, and waits for no disk. */
static void a_relaxed_unit_lets_durable_ones_share(void **state)
{
    share_case *c = *state;
    actor actors[2] = {{.sql = EFFECT("a")}, {.sql = EFFECT("b")}};
    driver_unit relaxed = {.on = c,
                           .durability = SEMEL_BEGIN_RELAXED,
                           .wait_ms = PATIENCE_MS,
                           .sql = EFFECT("relaxed")};
    share_start_first(c, &actors[0]);
    start_driver_unit(&relaxed, 1);
    share_start_next(c, &actors[1]);
    share_end(c, actors, 2);
    join_driver_unit(&relaxed);
    share_check_statuses(actors, 2, all_fine);
    assert_int_equal(sync_vfs_taken(), 1);
    assert_int_equal(count_joined(c), 1);
    assert_int_equal(share_number(c, EFFECTS), 3);
}

/* Its commit would not be durable. */
static void a_durable_unit_does_not_go_on_in_a_relaxed_one(void **state)
{
    share_case *c = *state;
    sqlite_unit relaxed = {0};
    driver_unit durable = {.on = c,
                           .durability = SEMEL_BEGIN_DURABLE,
                           .wait_ms = PATIENCE_MS,
                           .sql = EFFECT("durable")};
    c->state->share.company = 8;
    OK(sqlite_begin(c->state, &relaxed, SEMEL_BEGIN_RELAXED, PATIENCE_MS, &last_error));
    start_driver_unit(&durable, 1);
    OK(sqlite_commit(&relaxed, &last_error));
    join_driver_unit(&durable);
    assert_int_equal(sync_vfs_taken(), 1);
    assert_int_equal(count_joined(c), 0);
}

/* What a unit reads in a note decides over its message without a commit. */
static void a_unit_that_writes_a_note_is_the_last(void **state)
{
    share_case *c = *state;
    sqlite_unit noting = {0};
    semel_note_value value = {0};
    driver_unit next = {
        .on = c, .durability = SEMEL_BEGIN_DURABLE, .wait_ms = PATIENCE_MS, .sql = EFFECT("next")};
    c->state->share.company = 8;
    OK(sqlite_begin(c->state, &noting, SEMEL_BEGIN_DURABLE, PATIENCE_MS, &last_error));
    OK(sqlite_note_read(&noting, 1, SEMEL_NOTE_FORGOTTEN, SEMEL_NOTE_EXCLUSIVE, &value,
                        &last_error));
    OK(sqlite_note_write(&noting, 1, SEMEL_NOTE_FORGOTTEN, &value, &last_error));
    start_driver_unit(&next, 1);
    OK(sqlite_commit(&noting, &last_error));
    join_driver_unit(&next);
    assert_int_equal(count_joined(c), 0);
}

static void open_an_inbox(test_thread *thread)
{
    driver_unit *u = thread->context;
    semel_inbox *inbox = NULL;
    u->status = semel_inbox_open(&inbox, u->on->base.store, "new", NULL, &u->err);
    semel_inbox_close(inbox);
}

/* It reads what it reports. */
static void the_number_of_a_name_is_not_shared(void **state)
{
    share_case *c = *state;
    actor first = {.sql = EFFECT("a")};
    driver_unit opening = {.on = c};
    share_start_first(c, &first);
    test_thread_start(&opening.thread, open_an_inbox, &opening);
    share_wait_waiting(c, 1);
    share_end(c, &first, 1);
    join_driver_unit(&opening);
    assert_int_equal(first.status, SEMEL_OK);
    assert_int_equal(count_joined(c), 0);
}

/* --- waiting for too long --------------------------------------------------------------------- */

/* With the gate's mutex locked, a moment before its time is over. */
static int is_seen_waiting(driver_unit *u)
{
    pthread_mutex_lock(&u->on->state->gate);
    if (u->on->state->gate_waiters)
        return 1;
    pthread_mutex_unlock(&u->on->state->gate);
    return 0;
}

/* Begins again when its time was over before it was seen. */
static void lock_while_it_waits(driver_unit *u)
{
    test_thread_start(&u->thread, run_driver_unit, u);
    while (!is_seen_waiting(u)) {
        if (!atomic_exchange(&u->ended, 0))
            continue;
        assert_int_equal(test_thread_join(&u->thread, 2 * PATIENCE_MS), 1);
        assert_int_equal(u->status, SEMEL_EBUSY);
        test_thread_start(&u->thread, run_driver_unit, u);
    }
}

/* Else the transaction would be without a thread, and its members would wait for ever. */
static void a_thread_that_is_given_the_transaction_too_late_takes_it(void **state)
{
    share_case *c = *state;
    sqlite_unit first = {0};
    driver_unit late = {
        .on = c, .durability = SEMEL_BEGIN_DURABLE, .wait_ms = SHORT_MS, .sql = EFFECT("late")};
    c->state->share.company = 1;
    OK(sqlite_begin(c->state, &first, SEMEL_BEGIN_DURABLE, PATIENCE_MS, &last_error));
    assert_int_equal(sqlite3_exec(first.on->db, EFFECT("first"), NULL, NULL, NULL), SQLITE_OK);
    OK(sqlite_connection_run(first.on, ST_SHARE_RELEASE, "", &last_error));
    lock_while_it_waits(&late);
    for (int64_t until = wait_clock_ms() + SHORT_MS + 1; wait_clock_ms() <= until;)
        process_nap();
    c->state->share.kept = 1;
    int handed = sqlite_gate_hand_on_locked(c->state);
    pthread_mutex_unlock(&c->state->gate);
    join_driver_unit(&late);
    assert_int_equal(handed, 1);
    assert_int_equal(share_number(c, EFFECTS), 2);
}

/* A thread that was passed over and is given the transaction waits no more, and stands in no other
 * thread's way. */
static void a_thread_that_was_passed_over_is_given_the_transaction(void **state)
{
    enum { TIMES = 8 };
    share_case *c = *state;
    for (unsigned times = 0; times < TIMES; times++) {
        actor actors[2] = {{.sql = NULL}, {.sql = NULL}};
        share_start_first(c, &actors[0]);
        share_start_next(c, &actors[1]);
        for (unsigned i = 0; i < times; i++) {
            pthread_mutex_lock(&c->state->gate);
            pthread_cond_signal(&c->state->gate_waiters->ready);
            pthread_mutex_unlock(&c->state->gate);
            process_nap(); /* so that it may wake in between; each time is right */
        }
        share_end(c, actors, 2);
        share_check_statuses(actors, 2, all_fine);
        assert_null(c->state->gate_next);
    }
    assert_int_equal(count_joined(c), TIMES);
}

/* The unit that has the transaction may wait for something that this thread has. */
static void a_member_does_not_wait_for_ever(void **state)
{
    share_case *c = *state;
    actor actors[2] = {{.sql = EFFECT("a")}, {.sql = EFFECT("b"), .holds = 2}};
    c->state->busy_ms = SHORT_MS;
    share_start_first(c, &actors[0]);
    share_start_next(c, &actors[1]);
    atomic_store(&c->go, 1);
    assert_true(share_join(&actors[0]));
    assert_int_equal(actors[0].status, SEMEL_EUNKNOWN);
    atomic_store(&c->go, 2);
    assert_true(share_join(&actors[1]));
    assert_int_equal(actors[1].status, SEMEL_OK);
    assert_int_equal(share_number(c, EFFECTS), 2);
}

/* What it has done is in the transaction all the same, and not lost with the unit that is undone.
 * */
static void the_work_of_a_member_that_left_is_committed(void **state)
{
    share_case *c = *state;
    actor actors[2] = {{.sql = EFFECT("a")}, {.sql = EFFECT("b"), .holds = 2, .end = ROLLS_BACK}};
    c->state->busy_ms = SHORT_MS;
    share_start_first(c, &actors[0]);
    share_start_next(c, &actors[1]);
    atomic_store(&c->go, 1);
    assert_true(share_join(&actors[0]));
    assert_int_equal(actors[0].status, SEMEL_EUNKNOWN);
    atomic_store(&c->go, 2);
    assert_true(share_join(&actors[1]));
    assert_int_equal(share_number(c, "SELECT count(*) FROM effect WHERE id = 'a'"), 1);
    assert_int_equal(share_number(c, EFFECTS), 1);
}

int main(void)
{
#define ON_STORE(test) cmocka_unit_test_setup_teardown(test, share_setup, share_teardown)
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(with_share_off_each_unit_is_an_fsync, setup_off,
                                        share_teardown),
        cmocka_unit_test_setup_teardown(without_fsyncs_nothing_is_shared, setup_normal,
                                        share_teardown),
        ON_STORE(a_thread_alone_sets_no_savepoint),
        ON_STORE(no_more_units_than_the_bound_share),
        ON_STORE(units_are_gathered_no_longer_than_the_bound),
        ON_STORE(slow_units_do_not_share),
        ON_STORE(after_a_transaction_was_ended_units_are_not_shared_for_a_while),
        ON_STORE(a_relaxed_unit_lets_durable_ones_share),
        ON_STORE(a_durable_unit_does_not_go_on_in_a_relaxed_one),
        ON_STORE(a_unit_that_writes_a_note_is_the_last),
        ON_STORE(the_number_of_a_name_is_not_shared),
        ON_STORE(a_thread_that_is_given_the_transaction_too_late_takes_it),
        ON_STORE(a_thread_that_was_passed_over_is_given_the_transaction),
        ON_STORE(a_member_does_not_wait_for_ever),
        ON_STORE(the_work_of_a_member_that_left_is_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
