/* Expectations: what is refused, what is told, and that nothing happens then. */
#include "support/keyed/adapter_suite.h"

#include <string.h>

static void absent(adapter_case *c)
{
    semel_keyed_change first = change_text("m/1", "k", "first");
    semel_keyed_change second = change_text("m/1", "k", "second");
    adapter_applies(c, &first, 1);
    adapter_refuses(c, &second, 1, "1");
    adapter_value_is(c, "m/1", "k", "first");
    semel_keyed_change gone =
        change_if_version(change_kind(first, SEMEL_KEYED_REMOVE), first.record.version);
    adapter_applies(c, &gone, 1);
    adapter_applies(c, &second, 1);
    adapter_value_is(c, "m/1", "k", "second");
}

static void version(adapter_case *c)
{
    semel_keyed_change first = change_text("m/1", "k", "first");
    semel_keyed_change second =
        change_if_version(change_text("m/1", "k", "second"), first.record.version);
    semel_keyed_change third =
        change_if_version(change_text("m/1", "k", "third"), first.record.version);
    adapter_refuses(c, &second, 1, "1"); /* there is none */
    adapter_is_absent(c, "m/1", "k");
    adapter_applies(c, &first, 1);
    adapter_applies(c, &second, 1);
    adapter_refuses(c, &third, 1, "1");
    adapter_value_is(c, "m/1", "k", "second");
    third = change_if_version(third, second.record.version);
    third.expected_version[SEMEL_KEYED_VERSION_LEN - 1] ^= 1;
    adapter_refuses(c, &third, 1, "1");
}

static void guard(adapter_case *c)
{
    semel_keyed_change first = change_owned(change_text("m/1", "k", "first"), UINT64_MAX - 1, 100);
    semel_keyed_change second = change_text("m/1", "k", "second");
    second = change_if_guard(second, UINT64_MAX - 1, 0);
    adapter_refuses(c, &second, 1, "1"); /* there is none */
    adapter_applies(c, &first, 1);
    semel_keyed_change wrong = change_if_guard(second, UINT64_MAX, 0);
    adapter_refuses(c, &wrong, 1, "1");
    wrong = change_if_guard(second, UINT64_MAX - 2, 0);
    adapter_refuses(c, &wrong, 1, "1");
    adapter_applies(c, &second, 1);      /* whatever its end is */
    adapter_refuses(c, &second, 1, "1"); /* nobody owns it now */
    adapter_value_is(c, "m/1", "k", "second");
}

static void guard_that_lives(adapter_case *c)
{
    static const int64_t ends[] = {100, 1763465000123, (1ll << 53) + 1};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char key[4] = {'k', (char)('0' + i), 0};
        semel_keyed_change first = change_owned(change_text("m/1", key, "first"), 7, ends[i]);
        semel_keyed_change next = change_owned(change_text("m/1", key, "next"), 7, ends[i]);
        adapter_applies(c, &first, 1);
        next = change_if_guard(next, 7, ends[i] + 1);
        adapter_refuses(c, &next, 1, "1");
        next = change_if_guard(next, 7, ends[i]);
        adapter_refuses(c, &next, 1, "1");
        next = change_if_guard(next, 7, ends[i] - 1);
        adapter_applies(c, &next, 1);
    }
}

static void removing(adapter_case *c)
{
    semel_keyed_change one = change_owned(change_text("m/1", "k", "v"), 9, 50);
    semel_keyed_change gone = change_kind(one, SEMEL_KEYED_REMOVE);
    gone = change_if_guard(gone, 9, 0);
    adapter_refuses(c, &gone, 1, "1");
    adapter_applies(c, &one, 1);
    semel_keyed_change wrong = change_if_guard(gone, 8, 0);
    adapter_refuses(c, &wrong, 1, "1");
    wrong = change_if_guard(gone, 9, 50);
    adapter_refuses(c, &wrong, 1, "1");
    adapter_applies(c, &gone, 1);
    adapter_is_absent(c, "m/1", "k");
    adapter_refuses(c, &gone, 1, "1");
}

static void checking(adapter_case *c)
{
    semel_keyed_change one = change_owned(change_text("m/1", "k", "v"), 3, 70);
    adapter_applies(c, &one, 1);
    const semel_keyed_record *before = adapter_get_text(c, "m/1", "k");
    semel_keyed_change check = change_kind(one, SEMEL_KEYED_CHECK);
    check = change_if_version(check, one.record.version);
    adapter_applies(c, &check, 1);
    check = change_if_guard(check, 3, 69);
    adapter_applies(c, &check, 1);
    check.expect = SEMEL_EXPECT_ABSENT;
    adapter_refuses(c, &check, 1, "1");
    const semel_keyed_record *after = adapter_get_text(c, "m/1", "k");
    assert_memory_equal(before->version, after->version, SEMEL_KEYED_VERSION_LEN);
    BYTES_EQUAL(before->value, after->value);
    assert_true(after->guard == 3 && after->until_ms == 70);
    semel_keyed_change nothing = change_kind(change_text("m/1", "none", ""), SEMEL_KEYED_CHECK);
    adapter_applies(c, &nothing, 1);
    adapter_is_absent(c, "m/1", "none");
}

static void checking_with_others(adapter_case *c)
{
    semel_keyed_change one = change_text("m/1", "k", "v");
    adapter_applies(c, &one, 1);
    semel_keyed_change both[] = {change_kind(one, SEMEL_KEYED_CHECK), change_text("o/1", "1", "w")};
    both[0] = change_if_version(both[0], both[1].record.version);
    adapter_refuses(c, both, 2, "10");
    adapter_is_absent(c, "o/1", "1");
    both[0] = change_if_version(both[0], one.record.version);
    adapter_applies(c, both, 2);
    adapter_value_is(c, "o/1", "1", "w");
}

static void bodies_stay(adapter_case *c)
{
    semel_keyed_change one = change_body(change_text("o/1", "1", "a"), BYTES("large\0body"));
    semel_keyed_change two = change_if_version(change_text("o/1", "1", "b"), one.record.version);
    semel_keyed_change three = change_if_version(change_text("o/1", "1", "c"), two.record.version);
    semel_keyed_change four = change_if_version(change_text("o/1", "1", "d"), three.record.version);
    two.keep_body = four.keep_body = 1;
    adapter_applies(c, &one, 1);
    adapter_applies(c, &two, 1);
    adapter_value_is(c, "o/1", "1", "b");
    BYTES_EQUAL(one.record.body, adapter_get_text(c, "o/1", "1")->body);
    adapter_applies(c, &three, 1); /* it has none */
    assert_null(adapter_get_text(c, "o/1", "1")->body.data);
    adapter_applies(c, &four, 1); /* and stays without one */
    assert_null(adapter_get_text(c, "o/1", "1")->body.data);
    four = change_body(change_if_version(change_text("o/1", "1", "e"), four.record.version),
                       BYTES("new"));
    adapter_applies(c, &four, 1);
    BYTES_EQUAL(bytes_of("new"), adapter_get_text(c, "o/1", "1")->body);
}

/* A record that is removed takes its body along: another one of its key does not find it. */
static void bodies_go(adapter_case *c)
{
    semel_keyed_change one = change_body(change_text("o/1", "1", "a"), BYTES("body"));
    semel_keyed_change gone =
        change_if_version(change_kind(one, SEMEL_KEYED_REMOVE), one.record.version);
    semel_keyed_change again = change_text("o/1", "1", "b");
    adapter_applies(c, &one, 1);
    adapter_applies(c, &gone, 1);
    adapter_applies(c, &again, 1);
    assert_null(adapter_get_text(c, "o/1", "1")->body.data);
}

static void all_or_nothing(adapter_case *c)
{
    semel_keyed_change there = change_text("m/1", "there", "old");
    semel_keyed_change gone = change_text("m/1", "gone", "old");
    adapter_applies(c, &there, 1);
    adapter_applies(c, &gone, 1);
    semel_keyed_change unit[] = {
        change_text("m/1", "new", "v"), change_text("m/1", "there", "v"),
        change_if_version(change_kind(gone, SEMEL_KEYED_REMOVE), gone.record.version),
        change_text("o/1", "1", "v"), change_text("r/1", "1", "")};
    adapter_refuses(c, unit, 5, "01000");
    adapter_is_absent(c, "m/1", "new");
    adapter_is_absent(c, "o/1", "1");
    adapter_is_absent(c, "r/1", "1");
    adapter_value_is(c, "m/1", "there", "old");
    adapter_value_is(c, "m/1", "gone", "old");
    unit[1] = change_if_version(unit[1], there.record.version);
    adapter_applies(c, unit, 5);
    adapter_value_is(c, "m/1", "new", "v");
    adapter_value_is(c, "m/1", "there", "v");
    adapter_is_absent(c, "m/1", "gone");
    adapter_value_is(c, "o/1", "1", "v");
    adapter_value_is(c, "r/1", "1", "");
}

static const semel_keyed_record *told_of(const adapter_rows *told, const char *key)
{
    for (size_t i = 0; i < told->count; i++)
        if (told->all[i].key.len == strlen(key) && !memcmp(told->all[i].key.data, key, strlen(key)))
            return &told->all[i];
    return NULL;
}

/* All that were refused are marked. What the driver tells is what is there. */
static void refusals_are_marked_and_told(adapter_case *c)
{
    adapter_rows told = {.count = 0};
    semel_keyed_change one = change_body(
        change_owned(change_text("m/1", "one", "value one"), 5, 1763465000123), BYTES("body"));
    semel_keyed_change two = change_text("m/1", "two", "value two");
    adapter_applies(c, &one, 1);
    adapter_applies(c, &two, 1);
    semel_keyed_change unit[] = {
        change_text("m/1", "one", "x"), change_if_version(two, one.record.version),
        change_if_version(change_text("m/1", "three", "x"), one.record.version),
        change_text("m/1", "four", "x")};
    FAILS(SEMEL_ECONFLICT, adapter_apply(c, c->store, unit, 4, &told));
    assert_true(unit[0].refused && unit[1].refused && unit[2].refused && !unit[3].refused);
    assert_true(told.count <= 2);
    assert_null(told_of(&told, "three"));
    assert_null(told_of(&told, "four"));
    const semel_keyed_record *record = told_of(&told, "one");
    if (record) {
        BYTES_EQUAL(bytes_of("m/1"), record->space);
        BYTES_EQUAL(one.record.value, record->value);
        assert_memory_equal(record->version, one.record.version, SEMEL_KEYED_VERSION_LEN);
        assert_true(record->guard == 5 && record->until_ms == 1763465000123);
        assert_null(record->body.data);
    }
    adapter_rows_free(&told);
}

/* A record that was removed and written again is another one, even if it looks the same. */
static void no_way_back(adapter_case *c)
{
    semel_keyed_change first = change_owned(change_text("m/1", "k", "v"), 4, 40);
    semel_keyed_change gone = change_kind(first, SEMEL_KEYED_REMOVE);
    semel_keyed_change again = change_owned(change_text("m/1", "k", "v"), 4, 40);
    semel_keyed_change late =
        change_if_version(change_text("m/1", "k", "late"), first.record.version);
    gone = change_if_version(gone, first.record.version);
    adapter_applies(c, &first, 1);
    adapter_applies(c, &gone, 1);
    adapter_refuses(c, &late, 1, "1");
    adapter_applies(c, &again, 1);
    adapter_refuses(c, &late, 1, "1");
    gone = change_if_version(gone, first.record.version);
    adapter_refuses(c, &gone, 1, "1");
    adapter_value_is(c, "m/1", "k", "v");
}

/* The guard is what the last write said, not what any write said. */
static void owners_change(adapter_case *c)
{
    semel_keyed_change first = change_owned(change_text("m/1", "k", "a"), 11, 100);
    semel_keyed_change taken = change_owned(change_text("m/1", "k", "b"), 12, 200);
    semel_keyed_change late = change_if_guard(change_text("m/1", "k", "late"), 11, 0);
    taken = change_if_version(taken, first.record.version);
    adapter_applies(c, &first, 1);
    adapter_applies(c, &taken, 1);
    adapter_refuses(c, &late, 1, "1");
    semel_keyed_change ends = change_if_guard(change_text("m/1", "k", "c"), 12, 199);
    adapter_applies(c, &ends, 1);
    adapter_refuses(c, &ends, 1, "1");
    assert_true(adapter_get_text(c, "m/1", "k")->guard == 0);
}

const adapter_test adapter_expect_tests[] = {
    {"ABSENT", absent, 0, 0},
    {"VERSION", version, 0, 0},
    {"GUARD", guard, 0, 0},
    {"GUARD that must live", guard_that_lives, 0, 0},
    {"REMOVE", removing, 0, 0},
    {"CHECK", checking, 0, 0},
    {"CHECK beside a write", checking_with_others, 0, SEMEL_KEYED_MANY},
    {"a body stays where it is told to", bodies_stay, 0, 0},
    {"a body goes with its record", bodies_go, 0, 0},
    {"all or nothing", all_or_nothing, 0, SEMEL_KEYED_MANY},
    {"refusals are marked and told", refusals_are_marked_and_told, 0, SEMEL_KEYED_MANY},
    {"a version never comes back", no_way_back, 0, 0},
    {"an owner is the last one", owners_change, 0, 0},
    {NULL, NULL, 0, 0}};
