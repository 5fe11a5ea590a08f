/* The keyed outbox, one interleaving at a time: what one process does is done right before another
 * one's write. test_keyed_outbox_random.c tries all of them, by chance; here are those that the
 * design note of src/store/keyed/outbox.c names, and the round trips. */
#include "post.h"

#include "store/keyed/outbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- two producers ---------------------------------------------------------------------------- */

static void put_second(post *p)
{
    post_put(p, 1, "other", "g");
}

static void two_that_put_into_one_group_take_their_numbers_in_turn(void **state)
{
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    p.meanwhile = put_second; /* the group is empty for both */
    post_put(&p, 0, "one", "g");
    p.meanwhile = put_second; /* and has messages now */
    post_put(&p, 0, "two", "g");
    post_expect_leased(&p, 0, "other one other two ");
    post_close(&p);
}

/* --- a producer and a relay ------------------------------------------------------------------- */

static void a_message_that_comes_before_the_group_is_empty_is_ready(void **state)
{
    post_leased items;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "one", "g");
    post_lease(&p, 0, &items, 10);
    p.meanwhile = put_second;
    assert_int_equal(post_settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
    post_expect_leased(&p, 0, "other ");
    post_close(&p);
}

static void settle_other(post *p)
{
    assert_int_equal(post_settle(p, 1, &p->other, SEMEL_VERDICT_ACK), SEMEL_OK);
}

static void a_message_that_comes_after_the_group_is_empty_is_ready(void **state)
{
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "one", "g");
    post_lease(&p, 1, &p.other, 10);
    p.meanwhile = settle_other; /* this store takes the group for one that has messages */
    post_put(&p, 0, "two", "g");
    post_expect_leased(&p, 0, "two ");
    post_close(&p);
}

/* --- two relays ------------------------------------------------------------------------------- */

static void lease_two(post *p)
{
    post_lease(p, 1, &p->other, 2);
}

static void what_another_relay_has_leased_is_left_out(void **state)
{
    post_leased items;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "a1", "a");
    post_put(&p, 0, "a2", "a");
    post_put(&p, 0, "b1", "b");
    post_put(&p, 0, "b2", "b");
    post_put(&p, 0, "free", NULL);
    p.meanwhile = lease_two;
    post_lease(&p, 0, &items, 10);
    assert_int_equal(p.other.count, 2);
    for (size_t i = 0; i < items.count; i++)
        for (size_t k = 0; k < p.other.count; k++)
            assert_int_not_equal(items.all[i].seq, p.other.all[k].seq);
    post_expect_leased(&p, 0, "");
    (void)post_expect_invariants(&p);
    post_close(&p);
}

static void lease_all(post *p)
{
    post_lease(p, 1, &p->other, POST_LEASED_MAX);
}

static void a_relay_that_gets_nothing_leaves_no_trace(void **state)
{
    post_leased items;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "a1", "a");
    post_put(&p, 0, "free", NULL);
    p.meanwhile = lease_all;
    post_lease(&p, 0, &items, 10);
    assert_int_equal(items.count, 0);
    assert_int_equal(post_settle(&p, 1, &p.other, SEMEL_VERDICT_RELEASE), SEMEL_OK);
    post_lease(&p, 0, &items, 10);
    assert_int_equal(items.count, 2);
    assert_int_equal(items.attempts[0], 1);
    post_close(&p);
}

static void take_over(post *p)
{
    semel_test_advance_ms(p->seam, POST_LEASE_MS);
    post_lease(p, 1, &p->other, 1);
}

/* The member has told that the token fits, and then it does not: the unit is done again, and hears
 * that it is lost. */
static void a_lease_that_is_lost_before_the_commit_settles_nothing(void **state)
{
    post_leased items;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "1", "g");
    post_put(&p, 0, "2", "g");
    post_lease(&p, 0, &items, 1);
    p.meanwhile = take_over;
    assert_int_equal(post_settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_ECONFLICT);
    assert_int_equal(post_settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
    assert_int_equal(items.all[0].lost, 1);
    settle_other(&p);
    post_expect_leased(&p, 0, "2 ");
    post_close(&p);
}

/* The first message leaves while another relay changes the second, which becomes the first. */
static void one_that_becomes_the_first_while_it_is_settled_stays_ready(void **state)
{
    post_leased first;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "1", "g");
    post_put(&p, 0, "2", "g");
    post_put(&p, 0, "3", "g");
    post_lease(&p, 0, &first, 2);
    assert_int_equal(first.count, 2);
    p.other = first;
    p.other.count = 1; /* "1" */
    first.all[0] = first.all[1];
    first.count = 1; /* "2" */
    p.meanwhile = settle_other;
    assert_int_equal(post_settle(&p, 0, &first, SEMEL_VERDICT_RELEASE), SEMEL_OK);
    post_expect_leased(&p, 0, "2 3 ");
    post_close(&p);
}

/* --- rollback, lost answers ------------------------------------------------------------------- */

static void a_unit_that_is_rolled_back_gives_its_leases_back(void **state)
{
    post_leased items = {.count = 0};
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "1", "g");
    post_put(&p, 0, "2", "g");
    post_put(&p, 0, "free", NULL);
    void *unit = post_begin(&p, 0);
    assert_int_equal(
        post_driver->outbox->lease(unit, p.outbox, 10, POST_LEASE_MS, post_collect, &items, &p.err),
        SEMEL_OK);
    assert_int_equal(items.count, 3);
    post_driver->units->rollback(unit);
    free(unit);
    post_lease(&p, 1, &items, 10);
    assert_int_equal(items.count, 3);
    for (size_t i = 0; i < items.count; i++)
        assert_int_equal(items.attempts[i], 1);
    post_close(&p);
}

static void a_lease_whose_answer_was_lost_is_found(void **state)
{
    static const keyed_memory_fate fates[] = {KEYED_MEMORY_LOST, KEYED_MEMORY_APPLIED,
                                              KEYED_MEMORY_LATE, KEYED_MEMORY_GIVES_UP};
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) {
        post_leased items;
        post p;
        (void)state;
        post_open(&p, &(keyed_memory_options){0});
        post_put(&p, 0, "1", "g");
        post_put(&p, 0, "2", "g");
        p.fate = fates[i];
        post_lease(&p, 0, &items, 10);
        assert_string_equal(items.ids, "1 2 ");
        while (keyed_memory_in_flight(p.memory))
            assert_int_not_equal(keyed_memory_arrive(p.memory, 0), SEMEL_OK);
        p.fate = fates[i];
        assert_int_equal(post_settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
        while (keyed_memory_in_flight(p.memory))
            assert_int_not_equal(keyed_memory_arrive(p.memory, 0), SEMEL_OK);
        assert_int_equal(post_expect_invariants(&p).messages, 0);
        post_close(&p);
    }
}

/* --- limits ----------------------------------------------------------------------------------- */

static void a_lease_is_cut_into_as_many_writes_as_it_needs(void **state)
{
    enum { EACH = 30 };
    post_leased items;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){.limits = {.changes_max = 12}});
    for (int i = 0; i < EACH; i++) {
        char id[16], group[16];
        (void)snprintf(id, sizeof id, "%d", i);
        (void)snprintf(group, sizeof group, "g%d", i % 3);
        post_put(&p, 0, id, i % 2 ? group : NULL);
    }
    post_lease(&p, 0, &items, EACH);
    assert_int_equal(items.count, EACH);
    post_expect_leased(&p, 0, "");
    post_close(&p);
}

static void a_long_group_is_leased_as_far_as_it_fits_into_a_write(void **state)
{
    enum { MESSAGES = 20, CHANGES = 9 };
    post_leased items;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){.limits = {.changes_max = CHANGES}});
    for (int i = 0; i < MESSAGES; i++)
        post_put(&p, 0, (char[]){(char)('a' + i), 0}, "g");
    post_lease(&p, 0, &items, MESSAGES);
    assert_string_equal(items.ids, "a b c d e f g "); /* and two changes of the entry */
    post_close(&p);
}

static void a_message_that_fits_into_no_record_is_refused(void **state)
{
    static char body[20000];
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){.limits = {.record_max = 16384}});
    semel_message message = {
        .size = sizeof message, .id = semel_str("large"), .body = {body, sizeof body}};
    void *unit = post_begin(&p, 0);
    assert_int_equal(post_driver->outbox->put(unit, p.outbox, &message, &p.err), SEMEL_ELIMIT);
    assert_non_null(strstr(p.err.text, "16384"));
    post_driver->units->rollback(unit);
    free(unit);
    post_close(&p);
}

/* --- damage ----------------------------------------------------------------------------------- */

static void an_entry_without_a_message_is_removed(void **state)
{
    post_leased items;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "1", NULL);
    post_lease(&p, 0, &items, 10);
    keyed_store *store = p.stores[0]->state;
    keyed_space space = keyed_space_of('r', p.outbox);
    outbox_key key = outbox_key_timed(1, 77);
    semel_keyed_record stray = {
        .space = keyed_space_bytes(&space), .key = outbox_key_bytes(&key), .guard = 77};
    semel_keyed_change change = keyed_write_of(store, NULL, &stray, 0);
    assert_int_equal(keyed_apply_now(store, &change, 1, SEMEL_BEGIN_DURABLE, NULL, &p.err),
                     SEMEL_OK);
    post_expect_leased(&p, 0, "");
    post_close(&p); /* looks at the invariants */
}

/* --- round trips ------------------------------------------------------------------------------ */

static uint64_t calls_of(const post *p)
{
    return keyed_memory_calls(p->memory, KEYED_MEMORY_APPLY) +
           keyed_memory_calls(p->memory, KEYED_MEMORY_GET) +
           keyed_memory_calls(p->memory, KEYED_MEMORY_SCAN);
}

#define COSTS(calls, p, act)                              \
    do {                                                  \
        uint64_t before_it = calls_of(p);                 \
        act;                                              \
        assert_int_equal(calls_of(p) - before_it, calls); \
    } while (0)

static void messages_without_a_group_cost_few_round_trips(void **state)
{
    post_leased items;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    COSTS(1, &p, post_put(&p, 0, "1", NULL));
    COSTS(1, &p, post_put(&p, 0, "2", NULL));
    COSTS(3, &p, post_lease(&p, 1, &items, 2));
    COSTS(2, &p, post_settle(&p, 1, &items, SEMEL_VERDICT_ACK));
    COSTS(1, &p, post_lease(&p, 1, &items, 10)); /* there is nothing */
    post_close(&p);
}

static void messages_of_groups_cost_few_round_trips(void **state)
{
    post_leased items;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    COSTS(1, &p, post_put(&p, 0, "1", "g"));
    COSTS(1, &p, post_put(&p, 0, "h", "h"));
    COSTS(4, &p, post_lease(&p, 1, &items, 10));
    COSTS(2, &p, post_settle(&p, 1, &items, SEMEL_VERDICT_ACK));
    COSTS(3, &p, post_put(&p, 0, "2", "g")); /* another process has emptied the group */
    post_lease(&p, 1, &items, 10);
    assert_int_equal(post_settle(&p, 1, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
    COSTS(1, &p, post_put(&p, 0, "3", "g")); /* and is expected to do it again */
    COSTS(2, &p, post_put(&p, 0, "4", "g"));
    COSTS(1, &p, post_put(&p, 0, "5", "g")); /* or not */
    COSTS(6, &p, post_lease(&p, 1, &items, 10));
    assert_string_equal(items.ids, "3 4 5 ");
    COSTS(3, &p, post_settle(&p, 1, &items, SEMEL_VERDICT_ACK));
    post_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_put_into_one_group_take_their_numbers_in_turn),
        cmocka_unit_test(a_message_that_comes_before_the_group_is_empty_is_ready),
        cmocka_unit_test(a_message_that_comes_after_the_group_is_empty_is_ready),
        cmocka_unit_test(what_another_relay_has_leased_is_left_out),
        cmocka_unit_test(a_relay_that_gets_nothing_leaves_no_trace),
        cmocka_unit_test(a_lease_that_is_lost_before_the_commit_settles_nothing),
        cmocka_unit_test(one_that_becomes_the_first_while_it_is_settled_stays_ready),
        cmocka_unit_test(a_unit_that_is_rolled_back_gives_its_leases_back),
        cmocka_unit_test(a_lease_whose_answer_was_lost_is_found),
        cmocka_unit_test(a_lease_is_cut_into_as_many_writes_as_it_needs),
        cmocka_unit_test(a_long_group_is_leased_as_far_as_it_fits_into_a_write),
        cmocka_unit_test(a_message_that_fits_into_no_record_is_refused),
        cmocka_unit_test(an_entry_without_a_message_is_removed),
        cmocka_unit_test(messages_without_a_group_cost_few_round_trips),
        cmocka_unit_test(messages_of_groups_cost_few_round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
