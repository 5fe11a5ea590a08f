/* How many deliveries a worker takes at once, without any thread and without a clock. */
#include "core/consumer_batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above. */
#include <cmocka.h>

/* A full step: each handler takes `handler_us`, and the transaction `fixed_ms` besides. */
static void full_step(batch_limit *limit, int64_t handler_us, int64_t fixed_ms)
{
    int64_t handlers_ms = limit->now * handler_us / 1000;
    batch_limit_note(limit, &(batch_seen){.taken = limit->now,
                                          .handled = limit->now,
                                          .handlers_ms = handlers_ms,
                                          .whole_ms = handlers_ms + fixed_ms});
}

static void full_steps(batch_limit *limit, int64_t handler_us, int64_t fixed_ms, int count)
{
    while (count--)
        full_step(limit, handler_us, fixed_ms);
}

static batch_limit grown(void)
{
    batch_limit limit = batch_limit_adaptive(BATCH_MOST);
    full_steps(&limit, 10, 1, 20);
    assert_int_equal(limit.now, BATCH_MOST);
    return limit;
}

static void it_starts_with_one_and_doubles_up_to_the_most(void **state)
{
    static const uint32_t expected[] = {2, 4, 8, 16, 32, 64, 100, 100};
    batch_limit limit = batch_limit_adaptive(100);
    (void)state;
    assert_int_equal(limit.now, 1);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        full_step(&limit, 10, 1);
        assert_int_equal(limit.now, expected[i]);
    }
    limit = batch_limit_adaptive(1);
    full_steps(&limit, 10, 1, 5);
    assert_int_equal(limit.now, 1);
}

static void it_grows_only_if_it_was_used_up(void **state)
{
    batch_limit limit = batch_limit_adaptive(100);
    (void)state;
    full_steps(&limit, 10, 1, 3);
    assert_int_equal(limit.now, 8);
    for (int i = 0; i < 10; i++)
        batch_limit_note(&limit, &(batch_seen){.taken = 7, .handled = 7});
    assert_int_equal(limit.now, 8);
}

static void handlers_that_take_a_while_get_what_fits_the_budget(void **state)
{
    static const struct {
        int64_t handler_us;
        uint32_t least, most;
    } cases[] = {{5000, 2, 4}, {1000, 10, 20}, {11000, 1, 1}, {25000, 1, 1}, {5000000, 1, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        batch_limit limit = batch_limit_adaptive(100);
        full_steps(&limit, cases[i].handler_us, 2, 200);
        assert_in_range(limit.now, cases[i].least, cases[i].most);
    }
}

/* A slow disk: the commit takes longer than the budget, and batches are worth the most. */
static void the_price_of_a_commit_does_not_count(void **state)
{
    batch_limit limit = batch_limit_adaptive(100);
    (void)state;
    full_steps(&limit, 50, 50, 20);
    assert_int_equal(limit.now, 100);
}

static void a_failure_makes_it_one(void **state)
{
    batch_limit limit = grown();
    (void)state;
    batch_limit_note(&limit, &(batch_seen){.taken = 100, .handled = 100, .troubled = 1});
    assert_int_equal(limit.now, 1);
    batch_limit_note(&limit, &(batch_seen){.taken = 1, .handled = 1, .troubled = 1});
    assert_int_equal(limit.now, 1);
    full_steps(&limit, 10, 1, 7); /* none is left of it */
    assert_int_equal(limit.now, 100);
    batch_limit_reset(&limit);
    assert_int_equal(limit.now, 1);
}

static void a_step_that_was_too_long_shrinks_it_in_proportion(void **state)
{
    batch_limit limit = grown();
    (void)state;
    batch_limit_note(&limit, &(batch_seen){.taken = 100,
                                           .handled = 100,
                                           .handlers_ms = 2 * BATCH_BUDGET_MS,
                                           .whole_ms = 2 * BATCH_BUDGET_MS});
    assert_int_equal(limit.now, 50);
    /* The time was over after ten of them. */
    batch_limit_note(&limit, &(batch_seen){.taken = 50,
                                           .handled = 10,
                                           .handlers_ms = 2 * BATCH_BUDGET_MS,
                                           .whole_ms = 41});
    assert_int_equal(limit.now, 5);
    batch_limit_note(
        &limit, &(batch_seen){.taken = 5, .handled = 1, .handlers_ms = 5000, .whole_ms = 5000});
    assert_int_equal(limit.now, 1);
}

/* Statements that are sent with the commit: the handlers take no time, and the step does. It is
 * tried more and more rarely whether that has changed. */
static void work_outside_the_handlers_is_noticed(void **state)
{
    enum { EACH_MS = 100, STEPS = 1000 };
    batch_limit limit = batch_limit_adaptive(100);
    int too_long = 0;
    (void)state;
    for (int i = 0; i < STEPS; i++) {
        too_long += limit.now > 1;
        assert_in_range(limit.now, 1, 2);
        batch_limit_note(&limit, &(batch_seen){.taken = limit.now,
                                               .handled = limit.now,
                                               .whole_ms = (int64_t)limit.now * EACH_MS});
    }
    assert_in_range(too_long, 1, STEPS / 20);
    full_steps(&limit, 10, 1, 200);
    assert_int_equal(limit.now, 100);
}

static void a_fixed_number_stays(void **state)
{
    batch_limit limit = batch_limit_fixed(7);
    (void)state;
    full_steps(&limit, 10, 1, 10);
    assert_int_equal(limit.now, 7);
    batch_limit_note(&limit, &(batch_seen){.taken = 7, .handled = 7, .troubled = 1});
    full_steps(&limit, 100000, 1, 10);
    batch_limit_reset(&limit);
    assert_int_equal(limit.now, 7);
    assert_int_equal(batch_limit_share(&limit, 7, 4), 7);
}

static void workers_without_work_share_what_is_ready(void **state)
{
    batch_limit limit = grown();
    (void)state;
    assert_int_equal(batch_limit_share(&limit, 8, 4), 2);
    assert_int_equal(batch_limit_share(&limit, 9, 4), 3);
    assert_int_equal(batch_limit_share(&limit, 3, 4), 1);
    assert_int_equal(batch_limit_share(&limit, 0, 4), 1);
    assert_int_equal(batch_limit_share(&limit, 50, 1), 50);
    assert_int_equal(batch_limit_share(&limit, 5000, 4), 100);
    batch_limit_reset(&limit);
    assert_int_equal(batch_limit_share(&limit, 5000, 4), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_with_one_and_doubles_up_to_the_most),
        cmocka_unit_test(it_grows_only_if_it_was_used_up),
        cmocka_unit_test(handlers_that_take_a_while_get_what_fits_the_budget),
        cmocka_unit_test(the_price_of_a_commit_does_not_count),
        cmocka_unit_test(a_failure_makes_it_one),
        cmocka_unit_test(a_step_that_was_too_long_shrinks_it_in_proportion),
        cmocka_unit_test(work_outside_the_handlers_is_noticed),
        cmocka_unit_test(a_fixed_number_stays),
        cmocka_unit_test(workers_without_work_share_what_is_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
