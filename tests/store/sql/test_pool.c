/* The pool of connections: limit, deadline, order, dead connections, threads. Servers that are down
 * are in test_pool_down.c. */
#include "base/mem.h"
#include "base/wait.h"
#include "support/base/check.h"
#include "support/base/sanitizer.h"
#include "support/fixture/pool_case.h"
#include "support/process/process.h"

#include <stdatomic.h>
#include <unistd.h>

/* --- limit and deadline ----------------------------------------------------------------------- */

static void a_connection_is_made_once_and_used_again(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 4);
    assert_int_equal(fake_tries(&f.server), 0);
    fake_socket *first = pool_case_take(&f, 0);
    pool_give(&f.pool, first, 1);
    assert_ptr_equal(pool_case_take(&f, 0), first);
    pool_give(&f.pool, first, 1);
    assert_int_equal(fake_tries(&f.server), 1);
    pool_case_end(&f);
}

static void there_are_never_more_than_the_limit(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 2);
    void *theirs = pool_case_taken_by_another(&f);
    fake_socket *mine = pool_case_take(&f, 0);
    assert_ptr_not_equal(theirs, mine);
    pool_case_refused(&f, SEMEL_EBUSY, 0);
    SAYS("all 2 connections");
    assert_true(last_error.retryable);
    assert_int_equal(fake_tries(&f.server), 2);
    pool_give(&f.pool, theirs, 1);
    assert_ptr_equal(pool_case_take(&f, 0), theirs);
    pool_give(&f.pool, theirs, 1);
    pool_give(&f.pool, mine, 1);
    pool_case_end(&f);
}

static void the_wait_lasts_until_the_deadline(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 1);
    void *theirs = pool_case_taken_by_another(&f);
    int64_t start = wait_clock_ms();
    pool_case_refused(&f, SEMEL_EBUSY, 60);
    SAYS("60 ms");
    int64_t took = wait_clock_ms() - start;
    assert_true(took >= 60 && took < POOL_MINUTE / 2);
    pool_give(&f.pool, theirs, 1);
    pool_case_end(&f);
}

static void a_thread_does_not_wait_for_itself(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 2);
    fake_socket *one = pool_case_take(&f, 0), *two = pool_case_take(&f, 0);
    int64_t start = wait_clock_ms();
    pool_case_refused(&f, SEMEL_EMISUSE, POOL_MINUTE);
    SAYS("this thread");
    assert_true(wait_clock_ms() - start < POOL_MINUTE / 2);
    pool_give(&f.pool, one, 1);
    pool_give(&f.pool, pool_case_take(&f, 0), 1);
    pool_give(&f.pool, two, 1);
    pool_case_end(&f);
}

/* --- order ------------------------------------------------------------------------------------ */

static void waiting_threads_are_served_in_their_order(void **state)
{
    (void)state;
    enum { CUSTOMERS = 8 };
    pool_case f;
    customer customers[CUSTOMERS];
    pool_case_begin(&f, 1);
    void *only = pool_case_taken_by_another(&f);
    served_count = 0;
    for (int i = 0; i < CUSTOMERS; i++) {
        customer_send(&customers[i], &f, i, POOL_MINUTE);
        pool_case_await_asked(&f, (uint64_t)i + 2);
    }
    pool_give(&f.pool, only, 1);
    only = pool_case_take(&f, POOL_MINUTE); /* a late caller does not overtake */
    assert_int_equal(served_count, CUSTOMERS);
    for (int i = 0; i < CUSTOMERS; i++)
        assert_int_equal(served[i], i);
    pool_give(&f.pool, only, 1);
    for (int i = 0; i < CUSTOMERS; i++)
        customer_await(&customers[i], SEMEL_OK);
    pool_case_end(&f);
}

static void give_two_together(pool_case *f, void *connections[2])
{
    customer one = {.f = f, .keeps = 1, .wait_ms = POOL_MINUTE}, two = one;
    uint64_t asked = f->pool.asked;
    customer_start(&one);
    customer_start(&two);
    pool_case_await_asked(f, asked + 2);
    pool_give(&f->pool, connections[0], 1);
    pool_give(&f->pool, connections[1], 1);
    customer_await(&one, SEMEL_OK);
    customer_await(&two, SEMEL_OK);
}

/* Both often come back before the first in line has woken up: then it is for that one to wake the
 * other. */
static void what_comes_back_together_serves_several(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 2);
    void *connections[2] = {pool_case_taken_by_another(&f), pool_case_taken_by_another(&f)};
    for (int i = 0; i < 50; i++)
        give_two_together(&f, connections);
    pool_give(&f.pool, connections[0], 1);
    pool_give(&f.pool, connections[1], 1);
    pool_case_end(&f);
}

/* Sets the pause between two attempts, as of now, and returns the first waiting thread. An attempt
 * that began before and fails does not change it. */
static const pool_waiter *pause_attempts(pool_case *f, int64_t ms)
{
    pthread_mutex_lock(&f->pool.lock);
    f->pool.failures = 1;
    f->pool.next_attempt_ms = wait_clock_ms() + ms;
    const pool_waiter *first = f->pool.first;
    pthread_mutex_unlock(&f->pool.lock);
    return first;
}

/* Until a thread has come back whose place is before this one. */
static void await_another_in_front_of(pool_case *f, const pool_waiter *waiter)
{
    int64_t end = wait_clock_ms() + POOL_MINUTE;
    for (int is_first = 1; is_first; wait_nap_us(200)) {
        assert_true(wait_clock_ms() < end);
        pthread_mutex_lock(&f->pool.lock);
        is_first = f->pool.first == waiter;
        pthread_mutex_unlock(&f->pool.lock);
    }
}

/* Coming back may take the first thread longer than any pause: no other may connect before it waits
 * again. */
static void a_thread_that_has_to_come_back_keeps_its_place(void **state)
{
    (void)state;
    pool_case f;
    customer first, second;
    pool_case_begin(&f, 1);
    f.server.refusals = 1;
    fake_hold(&f.server, 1);
    customer_send(&first, &f, 1, POOL_MINUTE);
    fake_await_tries(&f.server, 1);
    customer_send(&second, &f, 2, POOL_MINUTE);
    pool_case_await_asked(&f, 2);
    const pool_waiter *behind = pause_attempts(&f, 2 * POOL_MINUTE);
    fake_hold(&f.server, 0); /* and is turned away */
    await_another_in_front_of(&f, behind);
    pause_attempts(&f, 0);
    pool_case_refused(&f, SEMEL_EUNAVAILABLE, 0); /* a caller wakes the first that waits */
    customer_await(&first, SEMEL_OK);
    customer_await(&second, SEMEL_OK);
    assert_int_equal(served[0], 1);
    assert_int_equal(served[1], 2);
    pool_case_end(&f);
}

static void a_thread_that_gives_up_does_not_hold_up_the_others(void **state)
{
    (void)state;
    pool_case f;
    customer first, hasty, last;
    pool_case_begin(&f, 1);
    void *only = pool_case_taken_by_another(&f);
    served_count = 0;
    customer_send(&hasty, &f, 0, 50);
    pool_case_await_asked(&f, 2);
    customer_send(&first, &f, 1, POOL_MINUTE);
    pool_case_await_asked(&f, 3);
    customer_await(&hasty, SEMEL_EBUSY);
    customer_send(&hasty, &f, 2, 50);
    pool_case_await_asked(&f, 4);
    customer_send(&last, &f, 3, POOL_MINUTE);
    pool_case_await_asked(&f, 5);
    customer_await(&hasty, SEMEL_EBUSY);
    pool_give(&f.pool, only, 1);
    customer_await(&first, SEMEL_OK);
    customer_await(&last, SEMEL_OK);
    assert_int_equal(served_count, 2);
    assert_int_equal(served[0], 1);
    assert_int_equal(served[1], 3);
    pool_case_end(&f);
}

/* --- dead connections ------------------------------------------------------------------------- */

static void the_dead_are_not_handed_out(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 3);
    fake_socket *all[3] = {pool_case_take(&f, 0), pool_case_take(&f, 0), pool_case_take(&f, 0)};
    for (int i = 0; i < 3; i++)
        pool_give(&f.pool, all[i], 1);
    all[0]->dead = all[1]->dead = 1;
    assert_ptr_equal(pool_case_take(&f, 0), all[2]);
    assert_int_equal(f.server.closed, 2);
    pool_give(&f.pool, all[2], 1);
    all[2]->dead = 1;
    pool_give(&f.pool, pool_case_take(&f, 0), 1);
    assert_int_equal(f.server.closed, 3);
    assert_int_equal(fake_tries(&f.server), 4);
    pool_case_end(&f);
}

static void what_comes_back_broken_is_closed_and_replaced(void **state)
{
    (void)state;
    pool_case f;
    customer waiting;
    pool_case_begin(&f, 1);
    pool_give(&f.pool, pool_case_take(&f, 0), 0);
    assert_int_equal(f.server.closed, 1);
    fake_socket *second = pool_case_take(&f, 0);
    customer_send(&waiting, &f, 0, POOL_MINUTE);
    pool_case_await_asked(&f, 3);
    pool_give(&f.pool, second, 0);
    customer_await(&waiting, SEMEL_OK);
    assert_int_equal(fake_tries(&f.server), 3);
    assert_int_equal(f.server.open_max, 1);
    pool_case_end(&f);
}

/* --- connecting ------------------------------------------------------------------------------- */

static void connecting_does_not_keep_others_from_what_is_there(void **state)
{
    (void)state;
    pool_case f;
    customer slow;
    pool_case_begin(&f, 2);
    fake_socket *mine = pool_case_take(&f, 0);
    fake_hold(&f.server, 1);
    customer_send(&slow, &f, 0, POOL_MINUTE);
    fake_await_tries(&f.server, 2);
    pool_give(&f.pool, mine, 1);
    assert_ptr_equal(pool_case_take(&f, 0), mine);
    pool_give(&f.pool, mine, 0);
    fake_hold(&f.server, 0);
    customer_await(&slow, SEMEL_OK);
    pool_case_end(&f);
}

static void one_that_is_being_made_counts(void **state)
{
    (void)state;
    pool_case f;
    customer slow;
    pool_case_begin(&f, 1);
    fake_hold(&f.server, 1);
    customer_send(&slow, &f, 0, POOL_MINUTE);
    fake_await_tries(&f.server, 1);
    pool_case_refused(&f, SEMEL_EBUSY, 10);
    assert_int_equal(fake_tries(&f.server), 1);
    fake_hold(&f.server, 0);
    customer_await(&slow, SEMEL_OK);
    pool_case_end(&f);
}

static void several_connect_at_once(void **state)
{
    (void)state;
    enum { CUSTOMERS = 4 };
    pool_case f;
    customer customers[CUSTOMERS];
    pool_case_begin(&f, CUSTOMERS);
    f.server.gather = CUSTOMERS; /* no connection is made before all have asked */
    for (int i = 0; i < CUSTOMERS; i++)
        customer_send(&customers[i], &f, i, POOL_MINUTE);
    for (int i = 0; i < CUSTOMERS; i++)
        customer_await(&customers[i], SEMEL_OK);
    assert_int_equal(fake_tries(&f.server), CUSTOMERS);
    pool_case_end(&f);
}

static void an_attempt_has_the_rest_of_the_time_or_enough_to_tell(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 1);
    pool_give(&f.pool, pool_case_take(&f, POOL_MINUTE), 0);
    assert_true(f.server.given_ms <= POOL_MINUTE && f.server.given_ms > POOL_MINUTE / 2);
    pool_give(&f.pool, pool_case_take(&f, 1), 0);
    assert_int_equal(f.server.given_ms, POOL_ATTEMPT_MIN_MS);
    pool_case_end(&f);
}

static void a_refusal_ends_the_wait_at_once(void **state)
{
    (void)state;
    static const semel_status statuses[] = {SEMEL_ESTORE, SEMEL_EINVAL, SEMEL_ENOMEM};
    pool_case f;
    pool_case_begin(&f, 1);
    for (unsigned i = 0; i < 3; i++) {
        fake_answer(&f.server, statuses[i]);
        pool_case_refused(&f, statuses[i], POOL_MINUTE);
        SAYS("the server is down");
        assert_int_equal(fake_tries(&f.server), i + 1);
    }
    fake_answer(&f.server, SEMEL_OK);
    pool_give(&f.pool, pool_case_take(&f, 0), 1); /* the slot is free, and there is no pause */
    pool_case_end(&f);
}

/* --- memory, processes ------------------------------------------------------------------------ */

static void without_memory_there_is_no_pool(void **state)
{
    (void)state;
    pool_case f;
    fake_start(&f.server);
    mem_fail_at(1);
    FAILS(SEMEL_ENOMEM, pool_init(&f.pool, &fake_calls, &f.server, 4, &last_error));
    mem_fail_at(0);
    pool_destroy(&f.pool); /* is allowed, and does nothing */
    OK(pool_init(&f.pool, &fake_calls, &f.server, 4, &last_error));
    pool_give(&f.pool, pool_case_take(&f, 0), 1);
    pool_case_end(&f);
}

static void taking_and_giving_allocate_nothing(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 2);
    long before = mem_allocations();
    pool_give(&f.pool, pool_case_take(&f, 0), 1);
    pool_give(&f.pool, pool_case_take(&f, 0), 1);
    assert_int_equal(mem_allocations(), before);
    pool_case_end(&f);
}

/* What a child must not do, as bits. */
static int child_of(pool_case *f, fake_socket *out)
{
    void *connection = NULL;
    semel_error err;
    int wrong = pool_take(&connection, &f->pool, 0, &err) != SEMEL_EMISUSE;
    pool_give(&f->pool, out, 0);
    pool_destroy(&f->pool);
    return wrong | (f->server.closed ? 2 : 0);
}

static void a_child_has_no_use_of_it(void **state)
{
    (void)state;
    pool_case f;
    pool_case_begin(&f, 2);
    fake_socket *out = pool_case_take(&f, 0), *idle = pool_case_take(&f, 0);
    pool_give(&f.pool, idle, 1);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child_of(&f, out));
    assert_int_equal(process_wait(pid, POOL_MINUTE), PROCESS_OK);
    pool_give(&f.pool, out, 1);
    pool_case_end(&f);
}

/* --- all together ----------------------------------------------------------------------------- */

typedef struct rush {
    pool_case f;
    _Atomic unsigned refused;
} rush;

/* Some come back broken, some die while idle, and now and then the server is away. */
static void hurry(test_thread *member)
{
    enum { ROUNDS = 1000 / SANITIZER_SLOWDOWN };
    rush *r = member->context;
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *connection = NULL;
        semel_error err;
        if (pool_take(&connection, &r->f.pool, POOL_MINUTE, &err)) {
            r->refused++;
            continue;
        }
        fake_socket *mine = connection;
        mine->uses++;
        if ((i + member->index) % 50 == 0)
            mine->dead = 1;
        pool_give(&r->f.pool, mine, (i + member->index) % 31 != 0);
    }
}

static void in_a_rush_all_are_served_and_none_share(void **state)
{
    (void)state;
    enum { CUSTOMERS = 8, LIMIT = 3 };
    static rush r;
    pool_case_begin(&r.f, LIMIT);
    r.f.server.every = 7;
    assert_true(threads_run(CUSTOMERS, hurry, &r));
    assert_int_equal(r.refused, 0);
    assert_true(r.f.server.open_max <= LIMIT);
    pool_case_end(&r.f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_is_made_once_and_used_again),
        cmocka_unit_test(there_are_never_more_than_the_limit),
        cmocka_unit_test(the_wait_lasts_until_the_deadline),
        cmocka_unit_test(a_thread_does_not_wait_for_itself),
        cmocka_unit_test(waiting_threads_are_served_in_their_order),
        cmocka_unit_test(what_comes_back_together_serves_several),
        cmocka_unit_test(a_thread_that_has_to_come_back_keeps_its_place),
        cmocka_unit_test(a_thread_that_gives_up_does_not_hold_up_the_others),
        cmocka_unit_test(the_dead_are_not_handed_out),
        cmocka_unit_test(what_comes_back_broken_is_closed_and_replaced),
        cmocka_unit_test(connecting_does_not_keep_others_from_what_is_there),
        cmocka_unit_test(one_that_is_being_made_counts),
        cmocka_unit_test(several_connect_at_once),
        cmocka_unit_test(an_attempt_has_the_rest_of_the_time_or_enough_to_tell),
        cmocka_unit_test(a_refusal_ends_the_wait_at_once),
        cmocka_unit_test(without_memory_there_is_no_pool),
        cmocka_unit_test(taking_and_giving_allocate_nothing),
        cmocka_unit_test(a_child_has_no_use_of_it),
        cmocka_unit_test(in_a_rush_all_are_served_and_none_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
