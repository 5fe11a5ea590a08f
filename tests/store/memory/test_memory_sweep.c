/* The memory store by itself: retention. */
#include "base/mem.h"
#include "memory_kit.h"

#include <stdio.h>

static size_t sweep(rig *r, int64_t cutoff_ms, uint32_t rows, semel_sweep_position *position)
{
    size_t swept = 999;
    assert_int_equal(
        driver->markers->sweep(r->store, r->inbox, cutoff_ms, rows, position, &swept, &r->err),
        SEMEL_OK);
    return swept;
}

static size_t sweep_all(rig *r, int64_t cutoff_ms, uint32_t rows)
{
    semel_sweep_position position = {0};
    size_t swept = 0;
    do
        swept += sweep(r, cutoff_ms, rows, &position);
    while (position.len);
    return swept;
}

static const char *name(int i)
{
    static char text[16];
    (void)snprintf(text, sizeof text, "key-%d", i);
    return text;
}

static void the_cutoff_is_exact_and_per_inbox(void **state)
{
    rig *r = *state;
    int64_t at = rig_now(r);
    make_done(r, "a");
    void *unit = begin(r);
    semel_mark other = {.inbox = r->other_inbox, .key = semel_str("a")};
    assert_int_equal(driver->markers->mark(unit, &other, 1, 0, &r->err), SEMEL_OK);
    commit(r, unit);
    semel_test_advance_ms(r->seam, 1);
    make_done(r, "b");
    assert_int_equal(sweep_all(r, INT64_MIN, 10), 0);
    assert_int_equal(sweep_all(r, 0, 10), 0);
    assert_int_equal(sweep_all(r, at, 10), 0);
    assert_int_equal(sweep_all(r, at + 1, 10), 1);
    assert_int_equal(look(r, "a").state, SEMEL_MARK_TAKEN);
    assert_int_equal(look(r, "b").state, SEMEL_MARK_DONE);
    unit = begin(r);
    assert_int_equal(driver->markers->mark(unit, &other, 1, 0, &r->err), SEMEL_OK);
    assert_int_equal(other.state, SEMEL_MARK_DONE);
    rollback(unit);
    assert_int_equal(sweep_all(r, INT64_MAX, 10), 1);
}

static void a_sweep_goes_in_bounded_steps_and_says_when_the_round_is_over(void **state)
{
    rig *r = *state;
    semel_sweep_position position = {0};
    for (int i = 0; i < 10; i++)
        make_done(r, name(i));
    semel_test_advance_ms(r->seam, 1);
    assert_int_equal(sweep(r, rig_now(r), 4, &position), 4);
    assert_int_not_equal(position.len, 0);
    assert_int_equal(sweep(r, rig_now(r), 4, &position), 4);
    assert_int_not_equal(position.len, 0);
    assert_int_equal(sweep(r, rig_now(r), 2, &position), 2);
    assert_int_equal(position.len, 0);
    assert_int_equal(sweep(r, rig_now(r), 4, &position), 0);
    assert_int_equal(position.len, 0);
}

static void what_is_held_stays(void **state)
{
    rig *r = *state;
    make_done(r, "done");
    make_dead(r, "dead");
    make_claimed(r, "claimed", 1000);
    make_claimed(r, "lapsed", 10);
    semel_test_advance_ms(r->seam, 100);
    void *unit = begin(r);
    semel_mark forgotten = key_of(r, "done");
    assert_int_equal(driver->markers->forget(unit, &forgotten, &r->err), SEMEL_OK);
    assert_int_equal(mark_key(r, unit, "new").state, SEMEL_MARK_TAKEN);
    assert_int_equal(sweep_all(r, INT64_MAX, 10), 1);
    assert_int_equal(look(r, "dead").state, SEMEL_MARK_DEAD);
    assert_int_equal(look(r, "claimed").state, SEMEL_MARK_HELD);
    rollback(unit);
    assert_int_equal(look(r, "done").state, SEMEL_MARK_DONE);
    semel_test_advance_ms(r->seam, 900);
    assert_int_equal(sweep_all(r, INT64_MAX, 10), 2);
    assert_int_equal(look(r, "dead").state, SEMEL_MARK_DEAD);
}

static void the_last_change_counts_not_the_first(void **state)
{
    rig *r = *state;
    make_done(r, "old");
    semel_mark mine = make_claimed(r, "slow", 100000);
    semel_test_advance_ms(r->seam, 50);
    int64_t middle = rig_now(r);
    void *unit = begin(r);
    assert_int_equal(driver->markers->finish(unit, &mine, &r->err), SEMEL_OK);
    semel_test_advance_ms(r->seam, 50);
    commit(r, unit); /* it is done as of now */
    assert_int_equal(sweep_all(r, middle + 1, 10), 1);
    assert_int_equal(look(r, "slow").state, SEMEL_MARK_DONE);
    assert_int_equal(sweep_all(r, middle + 50, 10), 0);
    assert_int_equal(sweep_all(r, middle + 51, 10), 1);
}

static void a_sweep_goes_on_while_keys_come_and_go(void **state)
{
    enum { OLD = 5000 };
    rig *r = *state;
    semel_sweep_position position = {0};
    size_t swept = 0;
    for (int i = 0; i < OLD; i++)
        make_done(r, name(i));
    semel_test_advance_ms(r->seam, 10);
    int64_t cutoff = rig_now(r);
    int fresh = OLD;
    do {
        swept += sweep(r, cutoff, 7, &position);
        make_done(r, name(fresh++));
        void *unit = begin(r);
        assert_int_equal(mark_key(r, unit, "passing").state, SEMEL_MARK_TAKEN);
        rollback(unit);
    } while (position.len);
    assert_int_equal(swept, OLD);
    for (int i = 0; i < fresh; i++)
        assert_int_equal(look(r, name(i)).state, i < OLD ? SEMEL_MARK_TAKEN : SEMEL_MARK_DONE);
}

/* Keys come in, one by one, in batches and as claims, and are swept: once all is warm, nothing more
 * is allocated. */
static void come_and_go(rig *r, int from)
{
    enum { BATCH = 100 };
    char text[BATCH][16];
    semel_mark marks[BATCH];
    void *unit = calloc(1, driver->unit_size);
    for (int i = 0; i < BATCH; i++) {
        (void)snprintf(text[i], sizeof text[i], "%06d", from + i);
        marks[i] = key_of(r, text[i]);
    }
    driver->units->begin(r->store, unit, SEMEL_BEGIN_DURABLE, 0, NULL);
    assert_int_equal(driver->markers->mark(unit, marks, BATCH, 0, &r->err), SEMEL_OK);
    driver->units->commit(unit, NULL);
    for (int i = 0; i < BATCH; i++) {
        marks[i].inbox = r->other_inbox;
        memset(unit, 0, driver->unit_size);
        driver->units->begin(r->store, unit, SEMEL_BEGIN_DURABLE, 0, NULL);
        assert_int_equal(driver->markers->claim(unit, &marks[i], 1000, &r->err), SEMEL_OK);
        driver->units->commit(unit, NULL);
        memset(unit, 0, driver->unit_size);
        driver->units->begin(r->store, unit, SEMEL_BEGIN_DURABLE, 0, NULL);
        assert_int_equal(driver->markers->finish(unit, &marks[i], &r->err), SEMEL_OK);
        driver->units->commit(unit, NULL);
    }
    free(unit);
}

static void a_steady_coming_and_going_allocates_nothing(void **state)
{
    rig *r = *state;
    long before = 0;
    for (int round = 0; round < 20; round++) {
        if (round == 10)
            before = mem_allocations();
        for (int i = 0; i < 20; i++)
            come_and_go(r, round * 2000 + i * 100);
        assert_int_equal(sweep_all(r, INT64_MAX, 1000), 2000);
        size_t swept = 0;
        semel_sweep_position position = {0};
        assert_int_equal(driver->markers->sweep(r->store, r->other_inbox, INT64_MAX, 2000,
                                                &position, &swept, &r->err),
                         SEMEL_OK);
        assert_int_equal(swept, 2000);
    }
    assert_int_equal(mem_allocations() - before, 0);
}

static void a_position_from_nowhere_is_the_beginning_or_the_end(void **state)
{
    rig *r = *state;
    semel_sweep_position position = {.len = 3, .key = "abc"};
    make_done(r, "a");
    assert_int_equal(sweep(r, INT64_MAX, 10, &position), 1);
    make_done(r, "a");
    position.len = 16;
    memset(position.key, 0xff, sizeof position.key);
    assert_int_equal(sweep(r, INT64_MAX, 10, &position), 0);
    assert_int_equal(position.len, 0);
    assert_int_equal(sweep(r, INT64_MAX, 10, &position), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_cutoff_is_exact_and_per_inbox),
        TEST(a_sweep_goes_in_bounded_steps_and_says_when_the_round_is_over),
        TEST(what_is_held_stays),
        TEST(the_last_change_counts_not_the_first),
        TEST(a_sweep_goes_on_while_keys_come_and_go),
        TEST(a_steady_coming_and_going_allocates_nothing),
        TEST(a_position_from_nowhere_is_the_beginning_or_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
