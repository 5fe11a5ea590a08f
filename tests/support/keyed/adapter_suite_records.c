/* Keys, values and bodies: all bytes, all sizes, in their order. */
#include "support/keyed/adapter_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which a scan gives them. */
static const semel_bytes hard_keys[] = {{"\0", 1},
                                        {"\0\0", 2},
                                        {"\0\xff", 2},
                                        {"\1", 1},
                                        {"\n", 1},
                                        {" ", 1},
                                        {"%2F", 3},
                                        {"*", 1},
                                        {"A", 1},
                                        {"B", 1},
                                        {"[a]", 3},
                                        {"a", 1},
                                        {"a\0", 2},
                                        {"a\0b", 3},
                                        {"a ", 2},
                                        {"aa", 2},
                                        {"ab", 2},
                                        {"b", 1},
                                        {"{x}", 3},
                                        {"\x7f", 1},
                                        {"\x80", 1},
                                        {"\xc3\xa4", 2},
                                        {"\xc3\xa4\0", 3},
                                        {"\xef\xbf\xbf", 3},
                                        {"\xf0\x9f\x98\x80", 4},
                                        {"\xff", 1},
                                        {"\xff\0", 2},
                                        {"\xff\xff", 2}};
enum { HARD_KEYS = sizeof hard_keys / sizeof *hard_keys };

static void keys_are_bytes(adapter_case *c)
{
    for (size_t i = 0; i < HARD_KEYS; i++) { /* not in their order */
        semel_keyed_change one = change_write("m/1", hard_keys[(i * 11) % HARD_KEYS], "");
        one.record.value = one.record.key;
        adapter_applies(c, &one, 1);
    }
    for (size_t i = 0; i < HARD_KEYS; i++) {
        const semel_keyed_record *record = adapter_get(c, "m/1", hard_keys[i]);
        assert_non_null(record);
        BYTES_EQUAL(hard_keys[i], record->value);
    }
    assert_null(adapter_get(c, "m/1", BYTES("A ")));
    assert_null(adapter_get(c, "m/1", BYTES("\xc3")));
}

static void keys_are_ordered(adapter_case *c)
{
    adapter_rows rows = {.count = 0};
    semel_keyed_range range = {.space = BYTES("m/1"), .limit = 100};
    for (size_t i = 0; i < HARD_KEYS; i++) {
        semel_keyed_change one = change_write("m/1", hard_keys[(i * 11) % HARD_KEYS], "");
        adapter_applies(c, &one, 1);
    }
    OK(c->driver->scan(c->store, &range, adapter_row, &rows, &last_error));
    assert_int_equal(rows.count, HARD_KEYS);
    for (size_t i = 0; i < HARD_KEYS; i++)
        BYTES_EQUAL(hard_keys[i], rows.all[i].key);
    adapter_rows_free(&rows);
    for (size_t i = 0; i + 1 < HARD_KEYS; i++) { /* each is just behind the one before it */
        range.after = hard_keys[i];
        range.limit = 1;
        OK(c->driver->scan(c->store, &range, adapter_row, &rows, &last_error));
        assert_int_equal(rows.count, 1);
        BYTES_EQUAL(hard_keys[i + 1], rows.all[0].key);
        adapter_rows_free(&rows);
    }
}

static void spaces_are_apart(adapter_case *c)
{
    static const char *const spaces[] = {"m/1", "m/10", "m/2", "m", "d", "D", "r/00000000000000a7"};
    char keys[64];
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        semel_keyed_change one = change_text(spaces[i], "key", spaces[i]);
        adapter_applies(c, &one, 1);
    }
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        semel_keyed_range range = {.space = bytes_of(spaces[i]), .limit = 10};
        adapter_value_is(c, spaces[i], "key", spaces[i]);
        assert_string_equal(adapter_scan(keys, sizeof keys, c, &range), "key");
    }
    adapter_is_absent(c, "m/100", "key");
}

static void values_are_exact(adapter_case *c)
{
    unsigned char every[256];
    for (size_t i = 0; i < sizeof every; i++)
        every[i] = (unsigned char)i;
    semel_keyed_change one = change_text("m/1", "every byte", "");
    one.record.value = (semel_bytes){every, sizeof every};
    one = change_body(one, (semel_bytes){every, sizeof every});
    memcpy(one.record.version, every + 240, SEMEL_KEYED_VERSION_LEN);
    adapter_applies(c, &one, 1);
    const semel_keyed_record *record = adapter_get_text(c, "m/1", "every byte");
    BYTES_EQUAL(one.record.value, record->value);
    BYTES_EQUAL(one.record.body, record->body);
    assert_memory_equal(record->version, one.record.version, SEMEL_KEYED_VERSION_LEN);

    one = change_if_version(one, one.record.version);
    memset(one.record.version, 0, SEMEL_KEYED_VERSION_LEN);
    adapter_applies(c, &one, 1);
    record = adapter_get_text(c, "m/1", "every byte");
    assert_memory_equal(record->version, one.record.version, SEMEL_KEYED_VERSION_LEN);
}

/* Doubles end at 2^53. */
static void numbers_are_exact(adapter_case *c)
{
    static const uint64_t guards[] = {0, 1, (1ull << 53) + 1, INT64_MAX, 1ull << 63, UINT64_MAX};
    static const int64_t ends[] = {0, 1, 1763465000123, (1ll << 53) + 1, INT64_MAX};
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++)
        for (size_t j = 0; j < sizeof ends / sizeof *ends; j++) {
            char key[8] = {'k', (char)('0' + i), (char)('0' + j), 0};
            semel_keyed_change one = change_owned(change_text("m/1", key, ""), guards[i], ends[j]);
            adapter_applies(c, &one, 1);
            const semel_keyed_record *record = adapter_get_text(c, "m/1", key);
            assert_true(record->guard == guards[i]);
            assert_true(record->until_ms == ends[j]);
        }
}

static void nothing_is_something(adapter_case *c)
{
    semel_keyed_change empty = change_body(change_text("m/1", "empty", ""), BYTES(""));
    semel_keyed_change none = change_text("m/1", "none", "v");
    adapter_applies(c, &empty, 1);
    adapter_applies(c, &none, 1);
    assert_int_equal(adapter_get_text(c, "m/1", "empty")->value.len, 0);
    assert_int_equal(adapter_get_text(c, "m/1", "empty")->body.len, 0);
    assert_null(adapter_get_text(c, "m/1", "none")->body.data);
}

static uint64_t largest_body(const adapter_case *c)
{
    const semel_keyed_limits *limits = &c->driver->limits;
    uint64_t most = 1 << 20;
    if (limits->record_max && limits->record_max < most)
        most = limits->record_max;
    if (limits->apply_max && limits->apply_max < most)
        most = limits->apply_max;
    return most - SEMEL_KEYED_KEY_MAX - SEMEL_KEYED_SPACE_MAX;
}

static void the_largest_fits(adapter_case *c)
{
    char space[SEMEL_KEYED_SPACE_MAX + 1], key[SEMEL_KEYED_KEY_MAX + 1];
    size_t len = (size_t)largest_body(c) - 1;
    char *body = malloc(len);
    assert_non_null(body);
    memset(space, 's', sizeof space - 1);
    space[sizeof space - 1] = '\0';
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (char)(i * 7);
    for (size_t i = 0; i < len; i++)
        body[i] = (char)(i * 13);
    semel_bytes whole = {key, SEMEL_KEYED_KEY_MAX}, shorter = {key, SEMEL_KEYED_KEY_MAX - 1};
    semel_keyed_change one = change_body(change_write(space, whole, "v"), (semel_bytes){body, len});
    semel_keyed_change two = change_write(space, shorter, "w");
    adapter_applies(c, &one, 1);
    adapter_applies(c, &two, 1);
    BYTES_EQUAL(one.record.body, adapter_get(c, space, whole)->body);
    BYTES_EQUAL(two.record.value, adapter_get(c, space, shorter)->value);
    free(body);
}

static const semel_bytes no_bytes;

static void get_gives_what_there_is(adapter_case *c)
{
    enum { THERE = 130, ASKED = 260 };
    char keys[ASKED][8];
    semel_bytes asked[ASKED];
    unsigned char seen[ASKED] = {0};
    adapter_rows rows = {.count = 0};
    for (unsigned i = 0; i < ASKED; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%03u", i);
        asked[i] = bytes_of(keys[i]);
        if (i % 2)
            continue;
        semel_keyed_change one = change_body(change_text("m/1", keys[i], keys[i]), asked[i]);
        adapter_applies(c, &one, 1);
    }
    for (int bodies = 0; bodies < 2; bodies++) {
        memset(seen, 0, sizeof seen);
        OK(c->driver->get(c->store, BYTES("m/1"), asked, ASKED, bodies, adapter_row, &rows,
                          &last_error));
        assert_int_equal(rows.count, THERE);
        for (size_t i = 0; i < rows.count; i++) {
            int number = atoi(rows.all[i].key.data);
            assert_int_equal(seen[number]++, 0);
            assert_int_equal(number % 2, 0);
            BYTES_EQUAL(rows.all[i].key, rows.all[i].value);
            BYTES_EQUAL(bodies ? rows.all[i].key : no_bytes, rows.all[i].body);
        }
        adapter_rows_free(&rows);
    }
}

/* Once an apply has returned, every client sees it. */
static void others_see_it_at_once(adapter_case *c)
{
    void *other = adapter_client(c);
    semel_bytes key = BYTES("k");
    unsigned char before[SEMEL_KEYED_VERSION_LEN];
    for (unsigned i = 0; i < adapter_number(c, 200, 30); i++) {
        adapter_rows rows = {.count = 0};
        semel_keyed_change one = change_text("m/1", "k", "v");
        if (i)
            one = change_if_version(one, before);
        OK(adapter_apply(c, i % 2 ? other : c->store, &one, 1, NULL));
        memcpy(before, one.record.version, sizeof before);
        OK(c->driver->get(i % 2 ? c->store : other, BYTES("m/1"), &key, 1, 0, adapter_row, &rows,
                          &last_error));
        assert_int_equal(rows.count, 1);
        assert_memory_equal(rows.all[0].version, before, sizeof before);
        adapter_rows_free(&rows);
    }
}

static semel_status failing_sink(const semel_keyed_record *record, void *context, semel_error *err)
{
    (void)record;
    ++*(int *)context;
    return semel_fail(err, SEMEL_ENOMEM, "the sink's own failure");
}

static void a_failing_sink_ends_the_call(adapter_case *c)
{
    int calls = 0;
    semel_bytes keys[] = {BYTES("a"), BYTES("b")};
    semel_keyed_range range = {.space = BYTES("m/1"), .limit = 10};
    for (size_t i = 0; i < 2; i++) {
        semel_keyed_change one = change_write("m/1", keys[i], "v");
        adapter_applies(c, &one, 1);
    }
    FAILS(SEMEL_ENOMEM,
          c->driver->get(c->store, BYTES("m/1"), keys, 2, 0, failing_sink, &calls, &last_error));
    SAYS("the sink's own failure");
    FAILS(SEMEL_ENOMEM, c->driver->scan(c->store, &range, failing_sink, &calls, &last_error));
    assert_int_equal(calls, 2);
    adapter_value_is(c, "m/1", "a", "v"); /* it is as usable as before */
}

const adapter_test adapter_record_tests[] = {
    {"keys are bytes", keys_are_bytes, 0, 0},
    {"keys are ordered byte by byte, a prefix first", keys_are_ordered, 0, 0},
    {"spaces are apart", spaces_are_apart, 0, 0},
    {"values, bodies and versions are exact", values_are_exact, 0, 0},
    {"guards and ends are exact", numbers_are_exact, 0, 0},
    {"an empty value, an empty body, no body", nothing_is_something, 0, 0},
    {"the longest key and a large body fit", the_largest_fits, 0, 0},
    {"get gives the records that are there, once each", get_gives_what_there_is, 0, 0},
    {"what was applied is seen by every client", others_see_it_at_once, 0, 0},
    {"a sink that fails ends the call", a_failing_sink_ends_the_call, 0, 0},
    {NULL, NULL, 0, 0}};
