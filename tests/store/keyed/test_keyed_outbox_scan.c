/* The keyed outbox where reading is hard: scans that are no snapshots, and so miss a message that is
 * put while they are under way; and messages that cannot be read at all. */
#include "post.h"

#include "store/keyed/outbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* --- scans that are no snapshots -------------------------------------------------------------- */

static void put_two(post *p)
{
    post_put(p, 1, "two", "g");
    post_put(p, 1, "three", "g");
}

static void put_two_at_once(post *p)
{
    void *unit = post_begin(p, 1);
    post_put_in(p, unit, "two", "g");
    post_put_in(p, unit, "three", "g");
    assert_int_equal(post_commit(p, unit), SEMEL_OK);
}

/* The rest of the group leaves in its order, whatever was seen before. */
static void expect_rest(post *p, post_leased *items, const char *const ids[])
{
    (void)post_expect_invariants(p);
    for (size_t i = 0; ids[i]; i++) {
        assert_int_equal(post_settle(p, 0, items, SEMEL_VERDICT_ACK), SEMEL_OK);
        (void)post_expect_invariants(p);
        post_lease(p, 0, items, 10);
        assert_string_equal(items->ids, ids[i]);
    }
}

static void lease_past(void (*put_them)(post *p))
{
    post_leased items;
    post p;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "one", "g");
    post_put(&p, 0, "one and a half", "g"); /* so there is something to scan for */
    p.while_scanning = put_them;
    p.hidden = 3;
    post_lease(&p, 0, &items, 10);
    assert_null(p.while_scanning);
    assert_string_equal(items.ids, "one one and a half ");
    expect_rest(&p, &items, (const char *[]){"two three ", "", NULL});
    post_close(&p);
}

static void a_lease_does_not_skip_what_its_scan_missed(void **state)
{
    (void)state;
    lease_past(put_two);
    lease_past(put_two_at_once);
}

static void become_first(void (*put_them)(post *p))
{
    post_leased items;
    post p;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "one", "g");
    post_put(&p, 0, "one and a half", "g");
    post_lease(&p, 0, &items, 10);
    assert_int_equal(items.count, 2);
    p.while_scanning = put_them;
    p.hidden = 3;
    assert_int_equal(post_settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
    assert_null(p.while_scanning);
    (void)post_expect_invariants(&p);
    post_lease(&p, 0, &items, 10);
    assert_string_equal(items.ids, "two three ");
    expect_rest(&p, &items, (const char *[]){"", NULL});
    post_close(&p);
}

static void no_message_becomes_the_first_past_one_that_the_scan_missed(void **state)
{
    (void)state;
    become_first(put_two);
    become_first(put_two_at_once);
}

static void nothing(post *p)
{
    (void)p;
}

/* The commit of the other message is under way: the group's record is written, and the place cannot
 * be seen yet. */
static void a_group_is_not_empty_as_long_as_its_last_message_is_there(void **state)
{
    post_leased items;
    post p;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "one", "g");
    post_lease(&p, 0, &items, 10);
    post_put(&p, 0, "two", "g");
    p.while_scanning = nothing;
    p.hidden = 2;
    assert_int_equal(post_settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
    assert_null(p.while_scanning);
    (void)post_expect_invariants(&p);
    post_expect_leased(&p, 0, "two ");
    post_close(&p);
}

/* A message in the middle that somebody has removed leaves a gap, which stops nobody for long. */
static void a_gap_that_stays_is_passed(void **state)
{
    post_leased items;
    post p;
    size_t changed = 0;
    (void)state;
    post_open(&p, &(keyed_memory_options){0});
    post_put(&p, 0, "one", "g");
    post_put(&p, 0, "two", "g");
    post_put(&p, 0, "three", "g");
    void *unit = post_begin(&p, 1);
    assert_int_equal(
        post_driver->operation->remove(unit, p.outbox, &p.numbers[1], 1, &changed, &p.err),
        SEMEL_OK);
    assert_int_equal(post_commit(&p, unit), SEMEL_OK);
    assert_int_equal(changed, 1);
    post_lease(&p, 0, &items, 10);
    assert_string_equal(items.ids, "one ");
    expect_rest(&p, &items, (const char *[]){"three ", "", NULL});
    post_close(&p);
}

/* --- messages that cannot be read ------------------------------------------------------------- */

static void damage(post *p, const char *id, int value_too)
{
    keyed_store *store = p->stores[0]->state;
    mem_arena arena = {NULL, NULL};
    keyed_rows rows = {.arena = &arena};
    keyed_space space = keyed_space_of('o', p->outbox);
    semel_keyed_range range = {.space = keyed_space_bytes(&space), .limit = 100, .bodies = 1};
    assert_int_equal(keyed_scan(&rows, store, &range, &p->err), SEMEL_OK);
    for (const keyed_row *row = rows.first; row; row = row->next) {
        keyed_item item;
        semel_keyed_record record = row->record;
        if (keyed_item_read(&item, &record, p->outbox, 1, &arena, &p->err) ||
            !keyed_same(item.message.id, semel_str(id)))
            continue; /* damaged before, or another one */
        record.body = semel_str("\377\377\377\177");
        record.value.len -= value_too ? 3 : 0;
        semel_keyed_change change = keyed_write_of(store, &row->record, &record, 0);
        assert_int_equal(keyed_apply_now(store, &change, 1, SEMEL_BEGIN_DURABLE, NULL, &p->err),
                         SEMEL_OK);
    }
    arena_free(&arena);
}

static void put_and_damage(post *p, int value_too)
{
    post_put(p, 0, "alone", NULL);
    post_put(p, 0, "a1", "a");
    post_put(p, 0, "a2", "a");
    post_put(p, 0, "a3", "a");
    post_put(p, 0, "b1", "b");
    post_put(p, 0, "b2", "b");
    post_put(p, 0, "other", NULL);
    damage(p, "alone", value_too);
    damage(p, "a2", value_too);
    damage(p, "b1", value_too);
}

/* As in the SQL stores. */
static void a_damaged_message_stops_its_group_and_nothing_else(void **state)
{
    (void)state;
    for (int value_too = 0; value_too < 2; value_too++) {
        post_leased items;
        post p;
        uint64_t unsent = 0;
        int64_t oldest_ms;
        post_open(&p, &(keyed_memory_options){0});
        put_and_damage(&p, value_too);
        post_lease(&p, 0, &items, 10);
        assert_string_equal(items.ids, "a1 other ");
        assert_int_equal(post_settle(&p, 0, &items, SEMEL_VERDICT_ACK), SEMEL_OK);
        post_expect_leased(&p, 0, "");
        post_put(&p, 0, "more", NULL);
        post_lease(&p, 0, &items, 1);
        assert_string_equal(items.ids, "more ");
        assert_int_equal(
            post_driver->outbox->unsent(p.stores[0]->state, &unsent, &oldest_ms, &p.err), SEMEL_OK);
        assert_int_equal(unsent, 6); /* alone, a2, a3, b1, b2, more */
        for (int i = 0; i < POST_HANDLES; i++)
            semel_store_close(p.stores[i]);
        keyed_memory_close(p.memory);
        semel_test_seam_close(p.seam);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_does_not_skip_what_its_scan_missed),
        cmocka_unit_test(no_message_becomes_the_first_past_one_that_the_scan_missed),
        cmocka_unit_test(a_group_is_not_empty_as_long_as_its_last_message_is_there),
        cmocka_unit_test(a_gap_that_stays_is_passed),
        cmocka_unit_test(a_damaged_message_stops_its_group_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
