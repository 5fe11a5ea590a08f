/* Threads that share commits on one SQLite store, in a process that is killed where the transaction
 * goes from one unit to the next and around its commit. Afterwards every effect is there as often
 * as its marker says, and what was reported as processed is there. And two processes at once. */
#include "store/sqlite/sqlite.h"
#include "support/fixture/fixture.h"
#include "support/inspect/inspect_sqlite.h"
#include "support/process/deadline.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <semel/sqlite.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

extern const semel_store_driver sqlite_store_driver;

enum { KEYS_MAX = 20000, RECEIVERS = 8, RACE_KEYS = 300, KEY_TEXT = 16, PATIENCE_MS = 60000 };

#define NAME(text) text,
static const char *const points[] = {SEMEL_FAULT_POINTS_SHARE(NAME)};
#undef NAME
enum { POINTS = sizeof points / sizeof *points };

/* What outlives the processes. */
typedef struct outliving {
    store_place place;
    const char *point; /* NULL: it is not killed */
    uint32_t nth;
    unsigned keys; /* all that are to be received */
    atomic_uint next;
    atomic_uchar reported[KEYS_MAX]; /* as processed */
} outliving;

/* In a process. */
typedef struct world {
    fixture base;
    outliving *out;
    semel_inbox *inbox;
} world;

/* --- the processes ---------------------------------------------------------------------------- */

static semel_status insert_effect(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    char sql[64];
    sqlite3 *db = semel_unit_sqlite(unit);
    (void)context;
    (void)snprintf(sql, sizeof sql, "INSERT INTO effect VALUES (%.*s)", (int)message->id.len,
                   (const char *)message->id.data);
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? SEMEL_OK
               : semel_fail(err, SEMEL_EHANDLER, "%s", sqlite3_errmsg(db));
}

static void receive_key(world *w, unsigned key)
{
    char id[KEY_TEXT];
    semel_outcome outcome;
    semel_error err;
    (void)snprintf(id, sizeof id, "%u", key);
    semel_message message = text_message(id, "10 EUR");
    PROCESS_REQUIRE_OK(semel_inbox_receive(&outcome, w->inbox, &message, insert_effect, NULL, &err),
                       &err);
    PROCESS_REQUIRE(outcome == SEMEL_PROCESSED || outcome == SEMEL_DUPLICATE);
    if (outcome == SEMEL_PROCESSED)
        atomic_fetch_add(&w->out->reported[key], 1);
}

static void receive_next_keys(test_thread *member)
{
    world *w = member->context;
    for (unsigned key; (key = atomic_fetch_add(&w->out->next, 1)) < w->out->keys;)
        receive_key(w, key);
}

static void receive_all_keys(test_thread *member)
{
    world *w = member->context;
    for (unsigned key = 0; key < w->out->keys; key++)
        receive_key(w, key);
}

static void run_world(outliving *out, void (*work)(test_thread *member))
{
    world w = {.out = out};
    semel_store_options options = {.size = sizeof options, .busy_ms = PATIENCE_MS};
    fixture_open_with_clock(&w.base, &out->place, 1, 0, &options);
    w.inbox = fixture_inbox(&w.base, "orders", NULL);
    sqlite_store *state = semel_store_state(w.base.store, &sqlite_store_driver);
    state->share.gather_min_ns = INT64_C(1000000000);
    if (out->point)
        semel_test_fault(w.base.seam, out->point, out->nth, SEMEL_OK);
    PROCESS_REQUIRE(threads_run(RECEIVERS, work, &w));
    fixture_close(&w.base);
}

static int receive_and_die(void *context)
{
    run_world(context, receive_next_keys);
    return PROCESS_OK;
}

static int receive_beside_another(void *context)
{
    run_world(context, receive_all_keys);
    return PROCESS_OK;
}

static int prepare(void *context)
{
    outliving *out = context;
    fixture f;
    fixture_open_with_clock(&f, &out->place, 1, 0, NULL);
    OK(semel_store_migrate(f.store, &last_error));
    (void)fixture_inbox(&f, "orders", NULL);
    fixture_close(&f);
    return PROCESS_OK;
}

/* --- the tests -------------------------------------------------------------------------------- */

static int setup(void **state)
{
    char path[SCRATCH_PATH];
    outliving *out = process_share(sizeof *out);
    deadline_begin();
    store_place_open(&out->place, PLACE_SQLITE);
    assert_int_equal(process_run(prepare, out), PROCESS_OK);
    store_place_file(path, &out->place, STORE_PLACE_FILE);
    inspect_sqlite_run(path, "CREATE TABLE effect (item INTEGER)");
    *state = out;
    return 0;
}

static int teardown(void **state)
{
    outliving *out = *state;
    store_place_close(&out->place);
    process_unshare(out, sizeof *out);
    deadline_end();
    return 0;
}

static int64_t number(const outliving *out, const char *sql)
{
    char path[SCRATCH_PATH];
    return inspect_sqlite_number(store_place_file(path, &out->place, STORE_PLACE_FILE), sql);
}

static void count_effect(const char *text, void *context)
{
    unsigned char *effects = context;
    effects[strtoul(text, NULL, 10)]++;
}

/* What was reported is there, nothing is there twice, and markers and effects are the same ones. */
static void check_effects(const outliving *out)
{
    static unsigned char effects[KEYS_MAX];
    char path[SCRATCH_PATH];
    memset(effects, 0, sizeof effects);
    inspect_sqlite_each(store_place_file(path, &out->place, STORE_PLACE_FILE),
                        "SELECT item FROM effect", count_effect, effects);
    for (unsigned key = 0; key < KEYS_MAX; key++) {
        if (effects[key] > 1 || atomic_load(&out->reported[key]) > 1)
            fail_msg("key %u took effect %u times, and was reported %u times", key, effects[key],
                     atomic_load(&out->reported[key]));
        if (atomic_load(&out->reported[key]) && !effects[key])
            fail_msg("key %u was reported as processed, and has no effect", key);
    }
    assert_int_equal(number(out, "SELECT count(*) FROM effect"),
                     number(out, "SELECT count(*) FROM semel_marker WHERE state = 0"));
}

static void check_kill(outliving *out, const char *point, uint32_t nth)
{
    out->point = point;
    out->nth = nth;
    out->keys = KEYS_MAX;
    int end = process_run(receive_and_die, out);
    if (end != PROCESS_KILLED + SIGKILL)
        fail_msg("at %s (time %u) the process ended with %d", point, nth, end);
    check_effects(out);
    out->point = NULL;
    out->keys = atomic_load(&out->next) < KEYS_MAX ? atomic_load(&out->next) : KEYS_MAX;
    atomic_store(&out->next, 0);
    assert_int_equal(process_run(receive_and_die, out), PROCESS_OK);
    check_effects(out);
    assert_int_equal(number(out, "SELECT count(*) FROM effect"), out->keys);
}

static void survives_a_kill_at(void **state, const char *point)
{
    static const uint32_t times[] = {1, 2, 5, 20};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (i && (teardown(state) || setup(state)))
            fail();
        check_kill(*state, point, times[i]);
    }
}

static void survives_a_kill_when_a_unit_has_joined(void **state)
{
    survives_a_kill_at(state, points[0]);
}

static void survives_a_kill_when_a_unit_hands_on(void **state)
{
    survives_a_kill_at(state, points[1]);
}

static void survives_a_kill_before_the_commit_of_several(void **state)
{
    survives_a_kill_at(state, points[2]);
}

static void survives_a_kill_after_the_commit_of_several(void **state)
{
    survives_a_kill_at(state, points[3]);
}

static void two_processes_share_commits_side_by_side(void **state)
{
    outliving *out = *state;
    out->keys = RACE_KEYS;
    pid_t first = process_start(receive_beside_another, out);
    pid_t second = process_start(receive_beside_another, out);
    assert_int_equal(process_wait(first, 2 * PATIENCE_MS), PROCESS_OK);
    assert_int_equal(process_wait(second, 2 * PATIENCE_MS), PROCESS_OK);
    check_effects(out);
    assert_int_equal(number(out, "SELECT count(*) FROM effect"), RACE_KEYS);
    for (unsigned key = 0; key < RACE_KEYS; key++)
        assert_int_equal(atomic_load(&out->reported[key]), 1);
}

int main(void)
{
#define ON_STORE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    static const struct CMUnitTest tests[] = {
        ON_STORE(survives_a_kill_when_a_unit_has_joined),
        ON_STORE(survives_a_kill_when_a_unit_hands_on),
        ON_STORE(survives_a_kill_before_the_commit_of_several),
        ON_STORE(survives_a_kill_after_the_commit_of_several),
        ON_STORE(two_processes_share_commits_side_by_side),
    };
    _Static_assert(POINTS == sizeof tests / sizeof *tests - 1, "each point has its test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
