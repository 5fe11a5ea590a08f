/* The memory store by itself: units and the state machine of markers. What all stores must do is in
 * the conformance suite; here is what lies under it. */
#include "memory_kit.h"

/* --- opening, names, time --------------------------------------------------------------------- */

static void bad_urls_are_refused_and_named(void **state)
{
    static const struct {
        const char *url;
        const char *says;
    } bad[] = {{"memory:/tmp/x", "no path"},
               {"memory:?keys=1", "keys_max"},
               {"memory:?keys_max=0", "keys_max"},
               {"memory:?keys_max=ten", "keys_max"},
               {"memory:?keys_max=1000000001", "keys_max"},
               {"memory:?messages_max=", "messages_max"}};
    rig *r = *state;
    void *store = calloc(1, driver->store_size);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(driver->open(store, bad[i].url, &r->settings, &r->err), SEMEL_EINVAL);
        assert_non_null(strstr(r->err.text, bad[i].says));
    }
    free(store);
}

static void a_name_keeps_its_number(void **state)
{
    rig *r = *state;
    int64_t again = 0;
    assert_int_equal(driver->scope(r->store, SEMEL_SCOPE_INBOX, "in", &again, &r->err), SEMEL_OK);
    assert_int_equal(again, r->inbox);
    assert_int_not_equal(r->inbox, r->other_inbox);
    semel_mark mark = {.inbox = 99, .key = semel_str("k")};
    void *unit = begin(r);
    assert_int_equal(driver->markers->mark(unit, &mark, 1, 0, &r->err), SEMEL_EINVAL);
    rollback(unit);
}

static void time_follows_the_steady_clock_and_never_goes_back(void **state)
{
    rig *r = *state;
    int64_t start = rig_now(r);
    assert_int_equal(start, INT64_C(1767225600000));
    semel_test_jump_ms(r->seam, -86400000);
    assert_int_equal(rig_now(r), start);
    semel_test_jump_ms(r->seam, 7 * INT64_C(86400000));
    assert_int_equal(rig_now(r), start);
    semel_test_advance_ms(r->seam, 1234);
    assert_int_equal(rig_now(r), start + 1234);
    semel_test_advance_ms(r->seam, -1000);
    assert_int_equal(rig_now(r), start + 1234);
}

/* --- mark ------------------------------------------------------------------------------------- */

static void what_is_committed_is_done_and_what_is_rolled_back_was_never_there(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    assert_int_equal(mark_key(r, unit, "a").state, SEMEL_MARK_TAKEN);
    rollback(unit);
    make_done(r, "a");
    assert_int_equal(look(r, "a").state, SEMEL_MARK_DONE);
    assert_int_equal(look(r, "b").state, SEMEL_MARK_TAKEN);
}

static void keys_are_bytes_and_belong_to_their_inbox(void **state)
{
    static const semel_bytes keys[] = {{"key", 3},      {"KEY", 3},      {"key ", 4}, {" key", 4},
                                       {"key\0", 4},    {"key\0a", 5},   {"ke", 2},   {"\0", 1},
                                       {"\xff\xfe", 2}, {"\xff\xfd", 2}, {"k\xc3", 2}};
    enum { COUNT = sizeof keys / sizeof *keys };
    rig *r = *state;
    void *unit = begin(r);
    for (size_t i = 0; i < COUNT; i++) {
        semel_mark mark = {.inbox = r->inbox, .key = keys[i], .fingerprint = i + 1};
        assert_int_equal(driver->markers->mark(unit, &mark, 1, 0, &r->err), SEMEL_OK);
        assert_int_equal(mark.state, SEMEL_MARK_TAKEN);
    }
    commit(r, unit);
    unit = begin(r);
    for (size_t i = 0; i < COUNT; i++) {
        semel_mark mark = {.inbox = r->inbox, .key = keys[i]};
        assert_int_equal(driver->markers->mark(unit, &mark, 1, 0, &r->err), SEMEL_OK);
        assert_int_equal(mark.state, SEMEL_MARK_DONE);
        assert_int_equal(mark.known_fingerprint, i + 1);
        mark = (semel_mark){.inbox = r->other_inbox, .key = keys[i]};
        assert_int_equal(driver->markers->mark(unit, &mark, 1, 0, &r->err), SEMEL_OK);
        assert_int_equal(mark.state, SEMEL_MARK_TAKEN);
    }
    rollback(unit);
}

static void the_longest_key_is_kept_whole(void **state)
{
    rig *r = *state;
    char key[SEMEL_KEY_MAX];
    memset(key, 'x', sizeof key);
    semel_mark mark = {.inbox = r->inbox, .key = {key, sizeof key}};
    void *unit = begin(r);
    assert_int_equal(driver->markers->mark(unit, &mark, 1, 0, &r->err), SEMEL_OK);
    commit(r, unit);
    static const size_t wrong[] = {0, SEMEL_KEY_MAX + 1};
    for (size_t i = 0; i < 2; i++) {
        semel_mark bad = {.inbox = r->inbox, .key = {key, wrong[i]}};
        unit = begin(r);
        assert_int_equal(driver->markers->mark(unit, &bad, 1, 0, &r->err), SEMEL_EINVAL);
        rollback(unit);
    }
    key[sizeof key - 1] = 'y';
    unit = begin(r);
    assert_int_equal(driver->markers->mark(unit, &mark, 1, 0, &r->err), SEMEL_OK);
    assert_int_equal(mark.state, SEMEL_MARK_TAKEN);
    rollback(unit);
}

static void a_key_of_another_open_unit_is_held_even_by_the_same_thread(void **state)
{
    rig *r = *state;
    void *first = begin(r);
    assert_int_equal(mark_key(r, first, "a").state, SEMEL_MARK_TAKEN);
    void *second = begin(r);
    semel_mark mark = key_of(r, "a");
    assert_int_equal(driver->markers->mark(second, &mark, 1, 30, &r->err), SEMEL_OK);
    assert_int_equal(mark.state, SEMEL_MARK_HELD);
    assert_int_equal(mark.held_until_ms, 0);
    assert_int_equal(claim_key(r, second, "a", 1000).state, SEMEL_MARK_HELD);
    assert_int_equal(driver->markers->forget(second, &mark, &r->err), SEMEL_EBUSY);
    assert_int_equal(driver->markers->fail(second, &mark, "x", &r->err), SEMEL_ELOST);
    rollback(second);
    commit(r, first);
    assert_int_equal(look(r, "a").state, SEMEL_MARK_DONE);
}

/* --- claims ----------------------------------------------------------------------------------- */

static void a_claim_keeps_others_out_until_its_lease_ends(void **state)
{
    rig *r = *state;
    semel_mark first = make_claimed(r, "a", 1000);
    assert_int_equal(first.attempts, 1);
    assert_int_not_equal(first.token, 0);
    semel_mark seen = look(r, "a");
    assert_int_equal(seen.state, SEMEL_MARK_HELD);
    assert_int_equal(seen.held_until_ms, rig_now(r) + 1000);
    semel_test_advance_ms(r->seam, 999);
    assert_int_equal(look(r, "a").state, SEMEL_MARK_HELD);
    semel_test_advance_ms(r->seam, 1);
    semel_mark second = make_claimed(r, "a", 1000);
    assert_int_equal(second.attempts, 2);
    assert_true(second.token != first.token);
}

static void a_stale_owner_changes_nothing_with_any_verb(void **state)
{
    rig *r = *state;
    semel_mark stale = make_claimed(r, "a", 1000);
    semel_test_advance_ms(r->seam, 1000);
    for (int taken_over = 0; taken_over < 2; taken_over++) {
        void *unit = begin(r);
        assert_int_equal(driver->markers->finish(unit, &stale, &r->err), SEMEL_ELOST);
        assert_int_equal(driver->markers->renew(unit, &stale, 1000, &r->err), SEMEL_ELOST);
        assert_int_equal(driver->markers->fail(unit, &stale, "x", &r->err), SEMEL_ELOST);
        assert_int_equal(driver->markers->bury(unit, &stale, "x", &r->err), SEMEL_ELOST);
        commit(r, unit);
        if (!taken_over)
            assert_int_equal(make_claimed(r, "a", 1000).attempts, 2);
    }
    assert_int_equal(look(r, "a").state, SEMEL_MARK_HELD);
}

static void the_owner_renews_and_finishes(void **state)
{
    rig *r = *state;
    semel_mark mine = make_claimed(r, "a", 1000);
    semel_test_advance_ms(r->seam, 900);
    void *unit = begin(r);
    assert_int_equal(driver->markers->renew(unit, &mine, 1000, &r->err), SEMEL_OK);
    commit(r, unit);
    semel_test_advance_ms(r->seam, 900);
    unit = begin(r);
    assert_int_equal(driver->markers->finish(unit, &mine, &r->err), SEMEL_OK);
    commit(r, unit);
    semel_mark seen = look(r, "a");
    assert_int_equal(seen.state, SEMEL_MARK_DONE);
    assert_int_equal(seen.attempts, 1);
}

static void a_claim_without_lease_counts_and_holds_nothing(void **state)
{
    rig *r = *state;
    semel_mark mark = key_of(r, "a");
    mark.attempts = 1;
    void *unit = begin(r);
    assert_int_equal(driver->markers->claim(unit, &mark, 0, &r->err), SEMEL_OK);
    commit(r, unit);
    assert_int_equal(mark.attempts, 2);
    unit = begin(r);
    semel_mark taken = mark_key(r, unit, "a");
    assert_int_equal(taken.state, SEMEL_MARK_TAKEN);
    assert_int_equal(taken.attempts, 2);
    commit(r, unit);
    assert_int_equal(look(r, "a").state, SEMEL_MARK_DONE);
}

/* --- failing ---------------------------------------------------------------------------------- */

static void failing_without_a_token_leaves_an_open_row_with_its_count(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    semel_mark mark = mark_key(r, unit, "a");
    mark.attempts = 3;
    assert_int_equal(driver->markers->fail(unit, &mark, "out of cheese", &r->err), SEMEL_OK);
    commit(r, unit);
    semel_mark seen = look(r, "a");
    assert_int_equal(seen.state, SEMEL_MARK_TAKEN);
    assert_int_equal(seen.attempts, 3);
    unit = begin(r);
    mark = key_of(r, "new");
    mark.attempts = 1;
    assert_int_equal(driver->markers->fail(unit, &mark, NULL, &r->err), SEMEL_OK);
    commit(r, unit);
    assert_int_equal(look(r, "new").attempts, 1);
}

static void failing_without_a_token_spares_what_is_not_ours(void **state)
{
    rig *r = *state;
    make_done(r, "done");
    make_dead(r, "dead");
    make_claimed(r, "claimed", 1000);
    static const char *const keys[] = {"done", "dead", "claimed"};
    static const semel_mark_state states[] = {SEMEL_MARK_DONE, SEMEL_MARK_DEAD, SEMEL_MARK_HELD};
    for (size_t i = 0; i < 3; i++) {
        void *unit = begin(r);
        semel_mark mark = key_of(r, keys[i]);
        assert_int_equal(driver->markers->fail(unit, &mark, "x", &r->err), SEMEL_ELOST);
        assert_int_equal(driver->markers->bury(unit, &mark, "x", &r->err), SEMEL_ELOST);
        commit(r, unit);
        assert_int_equal(look(r, keys[i]).state, states[i]);
    }
}

static void the_owner_fails_or_buries(void **state)
{
    rig *r = *state;
    semel_mark mine = make_claimed(r, "a", 1000);
    void *unit = begin(r);
    assert_int_equal(driver->markers->fail(unit, &mine, "x", &r->err), SEMEL_OK);
    commit(r, unit);
    mine = make_claimed(r, "a", 1000);
    assert_int_equal(mine.attempts, 2);
    unit = begin(r);
    assert_int_equal(driver->markers->bury(unit, &mine, "x", &r->err), SEMEL_OK);
    commit(r, unit);
    assert_int_equal(look(r, "a").state, SEMEL_MARK_DEAD);
    assert_int_equal(look(r, "a").attempts, 2);
}

static void forgetting_frees_the_key(void **state)
{
    rig *r = *state;
    semel_mark done = key_of(r, "done");
    semel_mark none = key_of(r, "none");
    semel_mark claimed = key_of(r, "claimed");
    make_done(r, "done");
    make_claimed(r, "claimed", 1000);
    void *unit = begin(r);
    assert_int_equal(driver->markers->forget(unit, &none, &r->err), SEMEL_ENOTFOUND);
    assert_int_equal(driver->markers->forget(unit, &claimed, &r->err), SEMEL_EBUSY);
    assert_int_equal(driver->markers->forget(unit, &done, &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->forget(unit, &done, &r->err), SEMEL_ENOTFOUND);
    assert_int_equal(look(r, "done").state, SEMEL_MARK_HELD);
    assert_int_equal(mark_key(r, unit, "done").state, SEMEL_MARK_TAKEN);
    assert_int_equal(driver->markers->forget(unit, &done, &r->err), SEMEL_OK);
    commit(r, unit);
    assert_int_equal(look(r, "done").state, SEMEL_MARK_TAKEN);
}

/* --- results ---------------------------------------------------------------------------------- */

static void assert_result(rig *r, void *unit, const char *key, const char *expected)
{
    semel_mark mark = key_of(r, key);
    void *data = (void *)-1;
    size_t len = 99;
    assert_int_equal(driver->markers->result_get(unit, &mark, &data, &len, &r->err), SEMEL_OK);
    assert_int_equal(len, expected ? strlen(expected) : 0);
    assert_true((data != NULL) == (expected != NULL));
    if (expected)
        assert_memory_equal(data, expected, len);
    free(data);
}

static void a_result_lives_with_its_row(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    semel_mark mark = mark_key(r, unit, "a");
    assert_result(r, unit, "a", NULL);
    assert_int_equal(driver->markers->result_set(unit, &mark, semel_str("one"), &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->result_set(unit, &mark, semel_str("two"), &r->err), SEMEL_OK);
    assert_result(r, unit, "a", "two");
    commit(r, unit);
    unit = begin(r);
    assert_result(r, unit, "a", "two");
    assert_int_equal(driver->markers->result_set(unit, &mark, semel_str(""), &r->err), SEMEL_OK);
    assert_result(r, unit, "a", "");
    rollback(unit);
    unit = begin(r);
    assert_result(r, unit, "a", "two");
    assert_result(r, unit, "none", NULL);
    mark = key_of(r, "none");
    assert_int_equal(driver->markers->result_set(unit, &mark, semel_str("x"), &r->err),
                     SEMEL_ELOST);
    rollback(unit);
}

/* --- undoing ---------------------------------------------------------------------------------- */

static void one_of_each(rig *r, void *unit, semel_mark owned[3])
{
    semel_mark done = key_of(r, "done");
    semel_mark dead = key_of(r, "dead");
    semel_mark open = key_of(r, "open");
    assert_int_equal(mark_key(r, unit, "new").state, SEMEL_MARK_TAKEN);
    assert_int_equal(driver->markers->result_set(unit, &done, semel_str("r2"), &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->forget(unit, &done, &r->err), SEMEL_OK);
    assert_int_equal(mark_key(r, unit, "done").state, SEMEL_MARK_TAKEN);
    assert_int_equal(driver->markers->forget(unit, &dead, &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->fail(unit, &open, "x", &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->bury(unit, &open, "x", &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->renew(unit, &owned[0], 9999, &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->finish(unit, &owned[0], &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->fail(unit, &owned[1], "x", &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->bury(unit, &owned[2], "x", &r->err), SEMEL_OK);
    assert_int_equal(claim_key(r, unit, "new2", 1000).state, SEMEL_MARK_TAKEN);
}

static void assert_as_prepared(rig *r, int64_t lease_end_ms)
{
    static const char *const owned[] = {"c0", "c1", "c2"};
    for (size_t i = 0; i < 3; i++) {
        semel_mark seen = look(r, owned[i]);
        assert_int_equal(seen.state, SEMEL_MARK_HELD);
        assert_int_equal(seen.held_until_ms, lease_end_ms);
    }
    assert_int_equal(look(r, "new").state, SEMEL_MARK_TAKEN);
    assert_int_equal(look(r, "new2").state, SEMEL_MARK_TAKEN);
    assert_int_equal(look(r, "new2").attempts, 0);
    assert_int_equal(look(r, "done").state, SEMEL_MARK_DONE);
    assert_int_equal(look(r, "dead").state, SEMEL_MARK_DEAD);
    assert_int_equal(look(r, "open").attempts, 7);
    assert_int_equal(look(r, "open").state, SEMEL_MARK_TAKEN);
    void *unit = begin(r);
    assert_result(r, unit, "done", "r1");
    rollback(unit);
}

static void every_change_is_undone_by_rollback_and_by_savepoint(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    semel_mark mark = mark_key(r, unit, "done");
    assert_int_equal(driver->markers->result_set(unit, &mark, semel_str("r1"), &r->err), SEMEL_OK);
    mark = key_of(r, "open");
    mark.attempts = 7;
    assert_int_equal(driver->markers->fail(unit, &mark, "earlier", &r->err), SEMEL_OK);
    commit(r, unit);
    make_dead(r, "dead");
    semel_mark owned[3] = {make_claimed(r, "c0", 1000), make_claimed(r, "c1", 1000),
                           make_claimed(r, "c2", 1000)};
    int64_t lease_end_ms = rig_now(r) + 1000;

    unit = begin(r);
    one_of_each(r, unit, owned);
    rollback(unit);
    assert_as_prepared(r, lease_end_ms);

    unit = begin(r);
    assert_int_equal(mark_key(r, unit, "kept").state, SEMEL_MARK_TAKEN);
    assert_int_equal(driver->units->savepoint(unit, &r->err), SEMEL_OK);
    assert_int_equal(driver->units->savepoint(unit, &r->err), SEMEL_EMISUSE);
    one_of_each(r, unit, owned);
    assert_int_equal(driver->units->undo(unit, &r->err), SEMEL_OK);
    assert_int_equal(driver->units->undo(unit, &r->err), SEMEL_EMISUSE);
    assert_as_prepared(r, lease_end_ms);
    assert_int_equal(driver->units->savepoint(unit, &r->err), SEMEL_OK);
    one_of_each(r, unit, owned);
    assert_int_equal(driver->units->keep(unit, &r->err), SEMEL_OK);
    commit(r, unit);
    assert_int_equal(look(r, "kept").state, SEMEL_MARK_DONE);
    assert_int_equal(look(r, "dead").state, SEMEL_MARK_TAKEN);
    assert_int_equal(look(r, "open").state, SEMEL_MARK_DEAD);
    assert_int_equal(look(r, "c0").state, SEMEL_MARK_DONE);
    assert_int_equal(look(r, "c1").state, SEMEL_MARK_TAKEN);
    assert_int_equal(look(r, "c2").state, SEMEL_MARK_DEAD);
}

static void undoing_a_savepoint_goes_back_to_what_the_unit_did_before_it(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    semel_mark mark = mark_key(r, unit, "a");
    assert_int_equal(driver->markers->result_set(unit, &mark, semel_str("one"), &r->err), SEMEL_OK);
    assert_int_equal(driver->units->savepoint(unit, &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->result_set(unit, &mark, semel_str("two"), &r->err), SEMEL_OK);
    assert_int_equal(driver->markers->forget(unit, &mark, &r->err), SEMEL_OK);
    assert_int_equal(driver->units->undo(unit, &r->err), SEMEL_OK);
    assert_result(r, unit, "a", "one");
    commit(r, unit);
    assert_int_equal(look(r, "a").state, SEMEL_MARK_DONE);
}

/* A batch as the core does it: all keys marked, the handler of the second fails. */
static void one_failure_in_a_batch_fails_one_message(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    semel_mark marks[3] = {key_of(r, "a"), key_of(r, "b"), key_of(r, "c")};
    assert_int_equal(driver->markers->mark(unit, marks, 3, 0, &r->err), SEMEL_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(marks[i].state, SEMEL_MARK_TAKEN);
        assert_int_equal(driver->units->savepoint(unit, &r->err), SEMEL_OK);
        put(r, unit, "m", NULL, 0);
        if (i != 1) {
            assert_int_equal(driver->units->keep(unit, &r->err), SEMEL_OK);
            continue;
        }
        assert_int_equal(driver->units->undo(unit, &r->err), SEMEL_OK);
        marks[i].attempts = 1;
        assert_int_equal(driver->markers->fail(unit, &marks[i], "x", &r->err), SEMEL_OK);
    }
    commit(r, unit);
    uint64_t unsent = 0;
    int64_t oldest = 0;
    assert_int_equal(driver->outbox->unsent(r->store, &unsent, &oldest, &r->err), SEMEL_OK);
    assert_int_equal(unsent, 2);
    assert_int_equal(look(r, "a").state, SEMEL_MARK_DONE);
    assert_int_equal(look(r, "b").state, SEMEL_MARK_TAKEN);
    assert_int_equal(look(r, "b").attempts, 1);
    assert_int_equal(look(r, "c").state, SEMEL_MARK_DONE);
}

/* --- limits ----------------------------------------------------------------------------------- */

static void a_full_store_refuses_new_keys_and_forgets_none(void **state)
{
    (void)state;
    rig *r = rig_open("memory:?keys_max=2");
    make_done(r, "a");
    make_done(r, "b");
    void *unit = begin(r);
    semel_mark mark = key_of(r, "c");
    assert_int_equal(driver->markers->mark(unit, &mark, 1, 0, &r->err), SEMEL_ELIMIT);
    assert_non_null(strstr(r->err.text, "keys_max"));
    rollback(unit);
    assert_int_equal(look(r, "a").state, SEMEL_MARK_DONE);
    assert_int_equal(look(r, "b").state, SEMEL_MARK_DONE);
    mark = key_of(r, "a");
    unit = begin(r);
    assert_int_equal(driver->markers->forget(unit, &mark, &r->err), SEMEL_OK);
    commit(r, unit);
    for (int i = 0; i < 3; i++) /* what is rolled back takes no room */
        assert_int_equal(look(r, "d").state, SEMEL_MARK_TAKEN);
    make_done(r, "c");
    rig_close(r);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(bad_urls_are_refused_and_named),
        TEST(a_name_keeps_its_number),
        TEST(time_follows_the_steady_clock_and_never_goes_back),
        TEST(what_is_committed_is_done_and_what_is_rolled_back_was_never_there),
        TEST(keys_are_bytes_and_belong_to_their_inbox),
        TEST(the_longest_key_is_kept_whole),
        TEST(a_key_of_another_open_unit_is_held_even_by_the_same_thread),
        TEST(a_claim_keeps_others_out_until_its_lease_ends),
        TEST(a_stale_owner_changes_nothing_with_any_verb),
        TEST(the_owner_renews_and_finishes),
        TEST(a_claim_without_lease_counts_and_holds_nothing),
        TEST(failing_without_a_token_leaves_an_open_row_with_its_count),
        TEST(failing_without_a_token_spares_what_is_not_ours),
        TEST(the_owner_fails_or_buries),
        TEST(forgetting_frees_the_key),
        TEST(a_result_lives_with_its_row),
        TEST(every_change_is_undone_by_rollback_and_by_savepoint),
        TEST(undoing_a_savepoint_goes_back_to_what_the_unit_did_before_it),
        TEST(one_failure_in_a_batch_fails_one_message),
        TEST(a_full_store_refuses_new_keys_and_forgets_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
