/* The pool while its server is down: which thread tries when, how long the others wait, and what
 * happens when it is back. */
#include "base/wait.h"
#include "support/base/check.h"
#include "support/fixture/pool_case.h"

/* Between half and all of a pause that doubles; how much longer than that is the scheduler's
 * affair. */
static void assert_pauses(const fake_server *s)
{
    int64_t shortest = POOL_BACKOFF_FIRST_MS / 2;
    for (unsigned i = 1; i < s->tries && i < TRIES_KEPT; i++) {
        assert_true(s->tried_at[i] - s->tried_at[i - 1] >= shortest);
        shortest = shortest * 2 < POOL_BACKOFF_MAX_MS / 2 ? shortest * 2 : POOL_BACKOFF_MAX_MS / 2;
    }
}

static void a_server_that_is_down_is_tried_with_growing_pauses(void **state)
{
    (void)state;
    pool_case f;
    customer patient;
    pool_case_begin(&f, 2);
    fake_answer(&f.server, SEMEL_EUNAVAILABLE);
    customer_send(&patient, &f, 0, POOL_MINUTE);
    fake_await_tries(&f.server, 5);
    fake_answer(&f.server, SEMEL_OK);
    customer_await(&patient, SEMEL_OK);
    assert_pauses(&f.server);
    assert_int_equal(f.pool.failures, 0);
    pool_case_end(&f);
}

static void the_wait_for_the_server_lasts_until_the_deadline(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 2);
    fake_answer(&f.server, SEMEL_EUNAVAILABLE);
    int64_t start = wait_clock_ms();
    pool_case_refused(&f, SEMEL_EUNAVAILABLE, 100);
    SAYS("the server is down");
    int64_t took = wait_clock_ms() - start;
    assert_true(took >= 100 && took < POOL_MINUTE / 2);
    pool_case_end(&f);
}

static void the_pause_does_not_grow_for_ever(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 1);
    fake_answer(&f.server, SEMEL_EUNAVAILABLE);
    f.pool.failures = 4000000000U;
    pool_case_refused(&f, SEMEL_EUNAVAILABLE, 0);
    int64_t left = f.pool.next_attempt_ms - wait_clock_ms();
    assert_true(left <= POOL_BACKOFF_MAX_MS);
    assert_true(f.pool.next_attempt_ms - f.server.tried_at[0] >= POOL_BACKOFF_MAX_MS / 2);
    pool_case_end(&f);
}

static void a_thread_without_time_does_not_try_during_the_pause(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 2);
    fake_answer(&f.server, SEMEL_EUNAVAILABLE);
    pool_case_refused(&f, SEMEL_EUNAVAILABLE, 0);
    pthread_mutex_lock(&f.pool.lock);
    f.pool.next_attempt_ms = wait_clock_ms() + POOL_MINUTE;
    pthread_mutex_unlock(&f.pool.lock);
    pool_case_refused(&f, SEMEL_EUNAVAILABLE, 0);
    pool_case_refused(&f, SEMEL_EUNAVAILABLE, 20);
    SAYS("the server is down");
    assert_int_equal(fake_tries(&f.server), 1);
    pool_case_end(&f);
}

static void one_tries_for_all(void **state)
{
    (void)state;
    enum { CUSTOMERS = 8 };
    pool_case f;
    customer customers[CUSTOMERS];
    pool_case_begin(&f, CUSTOMERS);
    fake_answer(&f.server, SEMEL_EUNAVAILABLE);
    pool_case_refused(&f, SEMEL_EUNAVAILABLE, 0);
    for (int i = 0; i < CUSTOMERS; i++)
        customer_send(&customers[i], &f, i, 300);
    for (int i = 0; i < CUSTOMERS; i++) {
        customer_await(&customers[i], SEMEL_EUNAVAILABLE);
        assert_string_equal(customers[i].err.text, "the server is down");
    }
    assert_int_equal(f.server.at_the_door_max, 1);
    assert_pauses(&f.server);
    pool_case_end(&f);
}

static void attempts_that_fail_together_are_one_failure(void **state)
{
    (void)state;
    enum { CUSTOMERS = 4 };
    pool_case f;
    customer customers[CUSTOMERS];
    pool_case_begin(&f, CUSTOMERS);
    fake_answer(&f.server, SEMEL_EUNAVAILABLE);
    f.server.gather = CUSTOMERS;
    for (int i = 0; i < CUSTOMERS; i++)
        customer_send(&customers[i], &f, i, 0);
    for (int i = 0; i < CUSTOMERS; i++)
        customer_await(&customers[i], SEMEL_EUNAVAILABLE);
    assert_int_equal(f.pool.failures, 1);
    pool_case_end(&f);
}

static void when_it_is_back_all_are_served(void **state)
{
    (void)state;
    enum { CUSTOMERS = 8, LIMIT = 3 };
    pool_case f;
    customer customers[CUSTOMERS];
    pool_case_begin(&f, LIMIT);
    fake_answer(&f.server, SEMEL_EUNAVAILABLE);
    for (int i = 0; i < CUSTOMERS; i++)
        customer_send(&customers[i], &f, i, POOL_MINUTE);
    fake_await_tries(&f.server, LIMIT + 2);
    fake_answer(&f.server, SEMEL_OK);
    for (int i = 0; i < CUSTOMERS; i++)
        customer_await(&customers[i], SEMEL_OK);
    assert_int_equal(f.pool.failures, 0);
    assert_true(f.server.open_max <= LIMIT);
    pool_case_end(&f);
}

static void what_is_given_back_serves_while_the_server_is_down(void **state)
{
    (void)state;
    pool_case f;
    customer waiting;
    pool_case_begin(&f, 2);
    fake_socket *mine = pool_case_take(&f, 0);
    fake_answer(&f.server, SEMEL_EUNAVAILABLE);
    customer_send(&waiting, &f, 0, POOL_MINUTE);
    fake_await_tries(&f.server, 2);
    pool_give(&f.pool, mine, 1);
    customer_await(&waiting, SEMEL_OK);
    assert_ptr_equal(waiting.got, mine);
    pool_case_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_is_down_is_tried_with_growing_pauses),
        cmocka_unit_test(the_wait_for_the_server_lasts_until_the_deadline),
        cmocka_unit_test(the_pause_does_not_grow_for_ever),
        cmocka_unit_test(a_thread_without_time_does_not_try_during_the_pause),
        cmocka_unit_test(one_tries_for_all),
        cmocka_unit_test(attempts_that_fail_together_are_one_failure),
        cmocka_unit_test(when_it_is_back_all_are_served),
        cmocka_unit_test(what_is_given_back_serves_while_the_server_is_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
