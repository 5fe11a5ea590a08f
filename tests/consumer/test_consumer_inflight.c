/* Deliveries in flight, without any thread: each job that was taken and not given back stands for
 * another worker.
 *
 * The attempts of a suspect (it came again) and of a retry (it failed here) are counted before they
 * start. If one of them kills the process, no other may be at work and counted: so a worker that
 * has one keeps the other kind from all others, and still everything is taken in the end. */
#include "core/consumer_inflight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above. */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 16 };

typedef struct inflight_case {
    inflight inflight;
    semel_message messages[MAX];
    uint64_t next; /* the tag of the next delivery */
} inflight_case;

static int setup(void **state)
{
    semel_error err;
    inflight_case *d = calloc(1, sizeof *d);
    assert_non_null(d);
    assert_int_equal(inflight_open(&d->inflight, MAX, SEMEL_ORDER_NONE, (hash_key){1, 2}, &err),
                     SEMEL_OK);
    *state = d;
    return 0;
}

static int teardown(void **state)
{
    inflight_case *d = *state;
    inflight_close(&d->inflight);
    free(d);
    return 0;
}

/* Its tag. */
static uint64_t deliver(inflight_case *d, uint32_t times)
{
    uint64_t tag = d->next++;
    semel_message *message = &d->messages[tag];
    *message = (semel_message){.size = sizeof *message,
                               .id = semel_str("m"),
                               .type = "t",
                               .body = semel_str("b"),
                               .delivery = times};
    inflight_add(&d->inflight, &(semel_delivery){.tag = tag, .message = message}, 0);
    return tag;
}

/* A worker that takes one; NULL: nothing for it. */
static job *take(inflight_case *d)
{
    job *j = NULL;
    return inflight_next(&d->inflight, &j, 1, 0) ? j : NULL;
}

static job *take_only(inflight_case *d, uint64_t tag)
{
    job *j = take(d);
    assert_non_null(j);
    assert_int_equal(j->tag, tag);
    return j;
}

static void fail_here(inflight_case *d, job *j)
{
    j->failed = 1;
    inflight_postpone(&d->inflight, j, 0);
}

/* It failed here once, and is due. */
static uint64_t make_retry(inflight_case *d)
{
    uint64_t tag = deliver(d, 1);
    fail_here(d, take_only(d, tag));
    return tag;
}

/* --- which kinds of work exclude each other --------------------------------------------------- */

static void a_suspect_waits_for_the_retry_of_another(void **state)
{
    inflight_case *d = *state;
    uint64_t retry = make_retry(d);
    job *working = take_only(d, retry);
    uint64_t suspect = deliver(d, 2);
    assert_null(take(d));
    inflight_remove(&d->inflight, working);
    take_only(d, suspect);
}

static void a_retry_waits_for_the_suspect_of_another(void **state)
{
    inflight_case *d = *state;
    uint64_t retry = make_retry(d);
    uint64_t suspect = deliver(d, 2);
    job *working = NULL;
    assert_int_equal(inflight_next(&d->inflight, &working, 1, -1),
                     1); /* the retry is not due yet */
    assert_int_equal(working->tag, suspect);
    assert_null(take(d));
    inflight_remove(&d->inflight, working);
    take_only(d, retry);
}

static void a_suspect_that_fails_here_is_a_retry_from_then_on(void **state)
{
    inflight_case *d = *state;
    uint64_t first = deliver(d, 2);
    uint64_t second = deliver(d, 2);
    fail_here(d, take_only(d, first));
    job *suspect = take_only(d, second);
    assert_null(take(d));
    inflight_remove(&d->inflight, suspect);
    job *retry = take_only(d, first);
    assert_int_equal(retry->message->delivery, 3);
    deliver(d, 2);
    assert_null(take(d));
}

/* Also if it goes back without having been done: after an outage of the store, or uncounted. */
static void a_job_that_goes_back_is_not_at_work_any_more(void **state)
{
    inflight_case *d = *state;
    uint64_t retry = make_retry(d);
    inflight_put_back(&d->inflight, take_only(d, retry));
    uint64_t suspect = deliver(d, 2);
    job *working = take_only(d, retry);
    inflight_postpone(&d->inflight, working, 1);
    assert_int_equal(working->failures, 1);
    inflight_put_back(&d->inflight, take_only(d, suspect));
    assert_int_equal(d->inflight.suspects + d->inflight.retries, 0);
    assert_int_equal(inflight_next(&d->inflight, &(job *){NULL}, 1, 1), 1);
    assert_int_equal(d->inflight.suspects + d->inflight.retries, 1);
}

static void what_came_for_the_first_time_waits_for_no_other(void **state)
{
    inflight_case *d = *state;
    take_only(d, make_retry(d));
    deliver(d, 2);
    uint64_t fresh = deliver(d, 1);
    take_only(d, fresh);
    assert_null(take(d));
}

static void several_retries_are_at_work_side_by_side(void **state)
{
    inflight_case *d = *state;
    uint64_t one = deliver(d, 1), other = deliver(d, 1);
    job *first = take_only(d, one), *second = take_only(d, other);
    fail_here(d, first);
    fail_here(d, second);
    take_only(d, one);
    take_only(d, other);
}

/* One worker does what it has taken one after the other. */
static void one_worker_may_take_both_at_once(void **state)
{
    inflight_case *d = *state;
    job *both[MAX];
    make_retry(d);
    deliver(d, 2);
    assert_int_equal(inflight_next(&d->inflight, both, MAX, 0), 2);
}

/* --- no job starves --------------------------------------------------------------------------- */

/* There is always a retry at work, as with many that fail again and again: none of those that
 * become due behind the suspect begins before it. */
static void a_suspect_is_not_overtaken_for_ever(void **state)
{
    inflight_case *d = *state;
    uint64_t one = deliver(d, 1), other = deliver(d, 1);
    job *first = take_only(d, one), *second = take_only(d, other);
    fail_here(d, first);
    fail_here(d, second);
    first = take_only(d, one);
    second = take_only(d, other);
    uint64_t suspect = deliver(d, 2);
    fail_here(d, first); /* `second` is still at work */
    assert_null(take(d));
    fail_here(d, second);
    job *at_last = take_only(d, suspect);
    assert_null(take(d));
    inflight_remove(&d->inflight, at_last);
    take_only(d, one);
    take_only(d, other);
}

/* Workers of one job each, which end in the order in which they began. A suspect is never at work
 * beside another counted job. */
static void check_work(job *const working[], size_t count)
{
    unsigned suspects = 0, retries = 0;
    for (size_t i = 0; i < count; i++) {
        suspects += working[i]->suspect != 0;
        retries += !working[i]->suspect && working[i]->failures > 0;
    }
    assert_true(suspects == 0 || suspects + retries == 1);
}

static void in_the_end_all_are_taken_whatever_fails_on_the_way(void **state)
{
    enum { WORKERS = 3, FAILURES = 2, ROUNDS_MAX = 1000 };
    inflight_case *d = *state;
    job *working[WORKERS];
    size_t count = 0;
    for (uint32_t i = 0; i < MAX; i++)
        deliver(d, 1 + i % 2);
    for (unsigned round = 0; d->inflight.count && round < ROUNDS_MAX; round++) {
        for (job *j; count < WORKERS && (j = take(d)) != NULL;)
            working[count++] = j;
        assert_true(count > 0);
        check_work(working, count);
        job *done = working[0];
        memmove(working, working + 1, --count * sizeof *working);
        if (done->failures < FAILURES)
            fail_here(d, done);
        else
            inflight_remove(&d->inflight, done);
    }
    assert_int_equal(d->inflight.count, 0);
    assert_int_equal(d->inflight.suspects + d->inflight.retries, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_suspect_waits_for_the_retry_of_another, setup, teardown),
        cmocka_unit_test_setup_teardown(a_retry_waits_for_the_suspect_of_another, setup, teardown),
        cmocka_unit_test_setup_teardown(a_suspect_that_fails_here_is_a_retry_from_then_on, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_job_that_goes_back_is_not_at_work_any_more, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_came_for_the_first_time_waits_for_no_other, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(several_retries_are_at_work_side_by_side, setup, teardown),
        cmocka_unit_test_setup_teardown(one_worker_may_take_both_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_suspect_is_not_overtaken_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(in_the_end_all_are_taken_whatever_fails_on_the_way, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
