/* The memory store by itself: what is to be sent, and in which order. */
#include "memory_kit.h"

#include <stdio.h>

enum { TAKEN_MAX = 64 };

typedef struct taken {
    size_t count;
    semel_item_settlement settlements[TAKEN_MAX]; /* ready to be settled: REMOVE */
    uint32_t attempts[TAKEN_MAX];
    char ids[256]; /* "a b c": in the order in which they are to be sent */
} taken;

static semel_status collect(const semel_item *item, void *context, semel_error *err)
{
    taken *all = context;
    (void)err;
    assert_true(all->count < TAKEN_MAX);
    assert_memory_equal(item->message->body.data, item->message->id.data, item->message->id.len);
    all->attempts[all->count] = item->attempts;
    all->settlements[all->count++] = (semel_item_settlement){
        .seq = item->seq, .token = item->token, .verdict = SEMEL_VERDICT_ACK};
    size_t at = strlen(all->ids);
    (void)snprintf(all->ids + at, sizeof all->ids - at, "%s%.*s", at ? " " : "",
                   (int)item->message->id.len, (const char *)item->message->id.data);
    return SEMEL_OK;
}

static taken take_in(rig *r, void *unit, uint32_t limit, uint32_t lease_ms)
{
    taken all = {.count = 0};
    assert_int_equal(
        driver->outbox->lease(unit, r->outbox, limit, lease_ms, collect, &all, &r->err), SEMEL_OK);
    return all;
}

static taken take(rig *r, uint32_t limit, uint32_t lease_ms)
{
    void *unit = begin(r);
    taken all = take_in(r, unit, limit, lease_ms);
    commit(r, unit);
    return all;
}

static void settle(rig *r, semel_item_settlement *settlement, semel_verdict verdict,
                   uint32_t delay_ms)
{
    void *unit = begin(r);
    settlement->verdict = verdict;
    settlement->delay_ms = delay_ms;
    assert_int_equal(driver->outbox->settle(unit, r->outbox, settlement, 1, &r->err), SEMEL_OK);
    commit(r, unit);
}

static uint64_t unsent(rig *r)
{
    uint64_t count = 0;
    int64_t oldest = 0;
    assert_int_equal(driver->outbox->unsent(r->store, &count, &oldest, &r->err), SEMEL_OK);
    return count;
}

/* --- one message ------------------------------------------------------------------------------ */

static void a_message_leaves_if_and_only_if_its_unit_commits(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    put(r, unit, "a", NULL, 0);
    assert_int_equal(take(r, 10, 1000).count, 0);
    assert_int_equal(unsent(r), 0);
    rollback(unit);
    unit = begin(r);
    put(r, unit, "b", NULL, 0);
    commit(r, unit);
    assert_int_equal(unsent(r), 1);
    taken all = take(r, 10, 1000);
    assert_string_equal(all.ids, "b");
    assert_int_equal(all.attempts[0], 1);
    assert_int_equal(take(r, 10, 1000).count, 0);
    settle(r, &all.settlements[0], SEMEL_VERDICT_ACK, 0);
    assert_false(all.settlements[0].lost);
    assert_int_equal(unsent(r), 0);
}

static void a_lease_that_ends_frees_the_message_and_fences_the_old_owner(void **state)
{
    rig *r = *state;
    put_now(r, "a", NULL);
    taken first = take(r, 1, 1000);
    semel_test_advance_ms(r->seam, 999);
    assert_int_equal(take(r, 1, 1000).count, 0);
    semel_test_advance_ms(r->seam, 1);
    taken second = take(r, 1, 1000);
    assert_int_equal(second.attempts[0], 2);
    settle(r, &first.settlements[0], SEMEL_VERDICT_ACK, 0);
    assert_true(first.settlements[0].lost);
    assert_int_equal(unsent(r), 1);
    semel_test_advance_ms(r->seam, 5000); /* over, but no other relay has it */
    settle(r, &second.settlements[0], SEMEL_VERDICT_ACK, 0);
    assert_false(second.settlements[0].lost);
    assert_int_equal(unsent(r), 0);
    settle(r, &second.settlements[0], SEMEL_VERDICT_ACK, 0);
    assert_true(second.settlements[0].lost);
}

static void retry_waits_and_release_does_not_count(void **state)
{
    rig *r = *state;
    put_now(r, "a", NULL);
    taken all = take(r, 1, 1000);
    settle(r, &all.settlements[0], SEMEL_VERDICT_RETRY, 500);
    semel_test_advance_ms(r->seam, 499);
    assert_int_equal(take(r, 1, 1000).count, 0);
    semel_test_advance_ms(r->seam, 1);
    all = take(r, 1, 1000);
    assert_int_equal(all.attempts[0], 2);
    settle(r, &all.settlements[0], SEMEL_VERDICT_RELEASE, 0);
    all = take(r, 1, 1000);
    assert_int_equal(all.attempts[0], 2);
}

static void outboxes_do_not_mix(void **state)
{
    rig *r = *state;
    put_now(r, "a", NULL);
    taken all = take(r, 1, 1000);
    void *unit = begin(r);
    taken none = {.count = 0};
    assert_int_equal(driver->outbox->lease(unit, r->other_outbox, 9, 1000, collect, &none, &r->err),
                     0);
    assert_int_equal(none.count, 0);
    assert_int_equal(driver->outbox->settle(unit, r->other_outbox, all.settlements, 1, &r->err),
                     SEMEL_OK);
    assert_true(all.settlements[0].lost);
    assert_int_equal(driver->outbox->lease(unit, 77, 9, 1000, collect, &none, &r->err),
                     SEMEL_EINVAL);
    commit(r, unit);
    assert_int_equal(unsent(r), 1);
}

static void the_oldest_tells_the_lag(void **state)
{
    rig *r = *state;
    uint64_t count = 9;
    int64_t oldest = 9;
    assert_int_equal(driver->outbox->unsent(r->store, &count, &oldest, &r->err), SEMEL_OK);
    assert_int_equal(oldest, 0);
    int64_t start = rig_now(r);
    put_now(r, "a", NULL);
    semel_test_advance_ms(r->seam, 100);
    put_now(r, "b", NULL);
    assert_int_equal(driver->outbox->unsent(r->store, &count, &oldest, &r->err), SEMEL_OK);
    assert_int_equal(count, 2);
    assert_int_equal(oldest, start);
    taken all = take(r, 1, 1000);
    settle(r, &all.settlements[0], SEMEL_VERDICT_ACK, 0);
    assert_int_equal(driver->outbox->unsent(r->store, &count, &oldest, &r->err), SEMEL_OK);
    assert_int_equal(oldest, start + 100);
}

/* --- order ------------------------------------------------------------------------------------ */

static void they_leave_in_the_order_of_their_commits(void **state)
{
    rig *r = *state;
    void *first = begin(r);
    void *second = begin(r);
    put(r, first, "a", "g", 0);
    put(r, second, "b", "g", 0);
    put(r, second, "c", NULL, 0);
    put(r, second, "d", "g", 0);
    commit(r, second);
    commit(r, first);
    assert_string_equal(take(r, 10, 1000).ids, "b c d a");
}

static void a_group_waits_for_its_head_and_for_nothing_else(void **state)
{
    rig *r = *state;
    put_now(r, "a1", "a");
    put_now(r, "b1", "b");
    put_now(r, "a2", "a");
    put_now(r, "x", NULL);
    put_now(r, "b2", "b");
    taken head = take(r, 1, 1000);
    assert_string_equal(head.ids, "a1");
    taken rest = take(r, 10, 1000);
    assert_string_equal(rest.ids, "b1 x b2");
    settle(r, &head.settlements[0], SEMEL_VERDICT_RETRY, 500);
    assert_int_equal(take(r, 10, 1000).count, 0);
    semel_test_advance_ms(r->seam, 500);
    assert_string_equal(take(r, 10, 1000).ids, "a1 a2");
}

static void a_group_that_was_taken_together_goes_on_behind_what_is_gone(void **state)
{
    rig *r = *state;
    put_now(r, "a1", "a");
    put_now(r, "a2", "a");
    put_now(r, "a3", "a");
    taken all = take(r, 2, 1000);
    assert_string_equal(all.ids, "a1 a2");
    settle(r, &all.settlements[1], SEMEL_VERDICT_ACK, 0);
    assert_int_equal(take(r, 10, 1000).count, 0);
    settle(r, &all.settlements[0], SEMEL_VERDICT_ACK, 0);
    assert_string_equal(take(r, 10, 1000).ids, "a3");
}

static void a_released_message_keeps_its_place(void **state)
{
    rig *r = *state;
    put_now(r, "a", NULL);
    semel_test_advance_ms(r->seam, 10);
    put_now(r, "b", NULL);
    taken all = take(r, 1, 1000);
    semel_test_advance_ms(r->seam, 10);
    settle(r, &all.settlements[0], SEMEL_VERDICT_RELEASE, 0);
    assert_string_equal(take(r, 10, 1000).ids, "a b");
}

static void a_delayed_message_holds_up_its_group_until_it_is_due(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    put(r, unit, "late", "g", 100);
    put(r, unit, "alone", NULL, 100);
    put(r, unit, "g1", "g", 0);
    put(r, unit, "h1", "h", 0);
    commit(r, unit);
    put_now(r, "free", NULL);
    assert_string_equal(take(r, 10, 1000).ids, "h1 free");
    semel_test_advance_ms(r->seam, 99);
    assert_int_equal(take(r, 10, 1000).count, 0);
    semel_test_advance_ms(r->seam, 1);
    assert_string_equal(take(r, 10, 1000).ids, "late g1 alone");
}

static void a_delayed_message_keeps_its_place_in_its_group(void **state)
{
    rig *r = *state;
    void *unit = begin(r);
    put(r, unit, "late1", "g", 100);
    put(r, unit, "g1", "g", 0);
    put(r, unit, "late2", "g", 100);
    put(r, unit, "g2", "g", 0);
    put(r, unit, "g3", "g", 0);
    commit(r, unit);
    semel_test_advance_ms(r->seam, 100);
    assert_string_equal(take(r, 10, 1000).ids, "late1 g1 late2 g2 g3");
}

static void a_message_released_with_a_delay_waits_and_holds_up_its_group(void **state)
{
    rig *r = *state;
    put_now(r, "a", "g");
    put_now(r, "b", "g");
    taken all = take(r, 1, 1000);
    settle(r, &all.settlements[0], SEMEL_VERDICT_RELEASE, 100);
    semel_test_advance_ms(r->seam, 99);
    assert_int_equal(take(r, 10, 1000).count, 0);
    semel_test_advance_ms(r->seam, 1);
    all = take(r, 10, 1000);
    assert_string_equal(all.ids, "a b");
    assert_int_equal(all.attempts[0], 1);
}

/* --- units ------------------------------------------------------------------------------------ */

static void what_an_open_unit_has_taken_is_closed_to_others_and_comes_back_on_rollback(void **state)
{
    rig *r = *state;
    put_now(r, "a1", "a");
    put_now(r, "a2", "a");
    void *unit = begin(r);
    taken mine = take_in(r, unit, 1, 1000);
    assert_string_equal(mine.ids, "a1");
    assert_int_equal(take(r, 10, 1000).count, 0);
    settle(r, &mine.settlements[0], SEMEL_VERDICT_ACK, 0);
    assert_true(mine.settlements[0].lost);
    rollback(unit);
    taken all = take(r, 10, 1000);
    assert_string_equal(all.ids, "a1 a2");
    assert_int_equal(all.attempts[0], 1);
}

static void settling_is_undone_with_its_unit(void **state)
{
    rig *r = *state;
    put_now(r, "a", "g");
    put_now(r, "b", "g");
    put_now(r, "c", NULL);
    taken all = take(r, 10, 1000);
    all.settlements[1].verdict = SEMEL_VERDICT_RETRY;
    all.settlements[2].verdict = SEMEL_VERDICT_RELEASE;
    void *unit = begin(r);
    assert_int_equal(driver->units->savepoint(unit, &r->err), SEMEL_OK);
    assert_int_equal(driver->outbox->settle(unit, r->outbox, all.settlements, 3, &r->err),
                     SEMEL_OK);
    assert_int_equal(driver->units->undo(unit, &r->err), SEMEL_OK);
    assert_int_equal(take(r, 10, 1000).count, 0);
    assert_int_equal(unsent(r), 3);
    assert_int_equal(driver->outbox->settle(unit, r->outbox, all.settlements, 3, &r->err),
                     SEMEL_OK);
    assert_int_equal(unsent(r), 3);
    commit(r, unit);
    for (int i = 0; i < 3; i++)
        assert_false(all.settlements[i].lost);
    assert_int_equal(unsent(r), 2);
    assert_string_equal(take(r, 10, 1000).ids, "b c");
}

static void what_an_open_unit_has_settled_is_closed_to_others(void **state)
{
    rig *r = *state;
    put_now(r, "a1", "a");
    put_now(r, "a2", "a");
    put_now(r, "b", NULL);
    taken all = take(r, 10, 1000);
    semel_test_advance_ms(r->seam, 1000); /* the leases are over */
    all.settlements[1].verdict = SEMEL_VERDICT_RETRY;
    all.settlements[2].verdict = SEMEL_VERDICT_RELEASE;
    void *unit = begin(r);
    assert_int_equal(driver->outbox->settle(unit, r->outbox, all.settlements, 3, &r->err),
                     SEMEL_OK);
    assert_int_equal(take(r, 10, 1000).count, 0);
    commit(r, unit);
    assert_string_equal(take(r, 10, 1000).ids, "b a2");
}

/* As a local hand-off might: taken, worked on and removed in one unit. */
static void taken_and_removed_in_one_unit(void **state)
{
    rig *r = *state;
    put_now(r, "a", "g");
    put_now(r, "b", "g");
    void *unit = begin(r);
    taken mine = take_in(r, unit, 1, 1000);
    put(r, unit, "c", "g", 0);
    assert_int_equal(driver->outbox->settle(unit, r->outbox, mine.settlements, 1, &r->err),
                     SEMEL_OK);
    assert_false(mine.settlements[0].lost);
    commit(r, unit);
    assert_string_equal(take(r, 10, 1000).ids, "b c");
}

static semel_status refuse(const semel_item *item, void *context, semel_error *err)
{
    (void)item;
    (void)context;
    return semel_fail(err, SEMEL_ENOMEM, "the sink is full");
}

static void a_sink_that_fails_fails_the_take(void **state)
{
    rig *r = *state;
    put_now(r, "a", NULL);
    void *unit = begin(r);
    assert_int_equal(driver->outbox->lease(unit, r->outbox, 1, 1000, refuse, NULL, &r->err),
                     SEMEL_ENOMEM);
    rollback(unit);
    assert_int_equal(take(r, 1, 1000).attempts[0], 1);
}

static void a_full_outbox_refuses_messages(void **state)
{
    (void)state;
    rig *r = rig_open("memory:?messages_max=1");
    semel_message message = {.size = sizeof message, .id = semel_str("b")};
    put_now(r, "a", NULL);
    void *unit = begin(r);
    assert_int_equal(driver->outbox->put(unit, r->outbox, &message, &r->err), SEMEL_ELIMIT);
    assert_non_null(strstr(r->err.text, "messages_max"));
    rollback(unit);
    taken all = take(r, 1, 1000);
    settle(r, &all.settlements[0], SEMEL_VERDICT_ACK, 0);
    put_now(r, "b", NULL);
    rig_close(r);
}

/* --- a model ---------------------------------------------------------------------------------- */

/* Eight groups, relays that fail at random: within each group first deliveries come in order,
 * nothing is lost, nothing is taken twice at a time. The id is the group and its number: "3:17". */
static void groups_stay_in_order_whatever_fails(void **state)
{
    enum { GROUPS = 8, PER_GROUP = 100 };
    rig *r = *state;
    int sent[GROUPS] = {0};
    srand(11);
    for (int i = 0; i < GROUPS * PER_GROUP; i++) {
        char id[16], group[8];
        (void)snprintf(group, sizeof group, "%d", i % GROUPS);
        (void)snprintf(id, sizeof id, "%d:%d", i % GROUPS, i / GROUPS);
        put_now(r, id, group);
    }
    for (int turn = 0; unsent(r) && turn < 20000; turn++) {
        taken all = take(r, 1 + (uint32_t)rand() % 20, 50);
        const char *id = strtok(all.ids, " ");
        int blocked[GROUPS] = {0};
        for (size_t i = 0; i < all.count; i++, id = strtok(NULL, " ")) {
            int group = 0, number = 0;
            assert_int_equal(sscanf(id, "%d:%d", &group, &number), 2);
            int fails = blocked[group] || rand() % 4 == 0;
            blocked[group] = fails;
            if (!fails)
                assert_int_equal(number, sent[group]++);
            if (rand() % 10 == 0 && fails)
                continue; /* this relay died: the lease must end */
            settle(r, &all.settlements[i], fails ? SEMEL_VERDICT_RETRY : SEMEL_VERDICT_ACK,
                   (uint32_t)rand() % 30);
            assert_false(all.settlements[i].lost);
        }
        semel_test_advance_ms(r->seam, rand() % 20);
    }
    for (int i = 0; i < GROUPS; i++)
        assert_int_equal(sent[i], PER_GROUP);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_message_leaves_if_and_only_if_its_unit_commits),
        TEST(a_lease_that_ends_frees_the_message_and_fences_the_old_owner),
        TEST(retry_waits_and_release_does_not_count),
        TEST(outboxes_do_not_mix),
        TEST(the_oldest_tells_the_lag),
        TEST(they_leave_in_the_order_of_their_commits),
        TEST(a_group_waits_for_its_head_and_for_nothing_else),
        TEST(a_group_that_was_taken_together_goes_on_behind_what_is_gone),
        TEST(a_released_message_keeps_its_place),
        TEST(a_delayed_message_holds_up_its_group_until_it_is_due),
        TEST(a_delayed_message_keeps_its_place_in_its_group),
        TEST(a_message_released_with_a_delay_waits_and_holds_up_its_group),
        TEST(what_an_open_unit_has_taken_is_closed_to_others_and_comes_back_on_rollback),
        TEST(settling_is_undone_with_its_unit),
        TEST(what_an_open_unit_has_settled_is_closed_to_others),
        TEST(taken_and_removed_in_one_unit),
        TEST(a_sink_that_fails_fails_the_take),
        TEST(a_full_outbox_refuses_messages),
        TEST(groups_stay_in_order_whatever_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
