/* Ranges: in both directions, in pages, and while others write. */
#include "support/keyed/adapter_suite.h"
#include "support/process/threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill(adapter_case *c, const char *space, const char *keys)
{
    for (const char *at = keys; *at; at++) {
        semel_keyed_change one = change_write(space, (semel_bytes){at, 1}, "v");
        adapter_applies(c, &one, 1);
    }
}

typedef struct scan_case {
    semel_bytes after, until;
    uint32_t limit;
    int descending;
    const char *keys;
} scan_case;

static void ranges(adapter_case *c)
{
    static const scan_case all[] = {
        {{"", 0}, {"", 0}, 100, 0, "a b c d e f"}, {{"", 0}, {"", 0}, 3, 0, "a b c"},
        {{"c", 1}, {"", 0}, 100, 0, "d e f"},      {{"bb", 2}, {"", 0}, 100, 0, "c d e f"},
        {{"", 0}, {"c", 1}, 100, 0, "a b"},        {{"", 0}, {"c\0", 2}, 100, 0, "a b c"},
        {{"b", 1}, {"e", 1}, 100, 0, "c d"},       {{"b", 1}, {"e", 1}, 1, 0, "c"},
        {{"b", 1}, {"c", 1}, 100, 0, ""},          {{"d", 1}, {"b", 1}, 100, 0, ""},
        {{"f", 1}, {"", 0}, 100, 0, ""},           {{"A", 1}, {"\xff", 1}, 100, 0, "a b c d e f"},
        {{"", 0}, {"", 0}, 100, 1, "f e d c b a"}, {{"", 0}, {"", 0}, 2, 1, "f e"},
        {{"c", 1}, {"", 0}, 100, 1, "b a"},        {{"c\0", 2}, {"", 0}, 100, 1, "c b a"},
        {{"", 0}, {"d", 1}, 100, 1, "f e"},        {{"e", 1}, {"b", 1}, 100, 1, "d c"},
        {{"e", 1}, {"b", 1}, 1, 1, "d"},           {{"a", 1}, {"", 0}, 100, 1, ""},
        {{"b", 1}, {"e", 1}, 100, 1, ""}};
    char keys[64];
    fill(c, "m/1", "facedb");
    fill(c, "m/0", "z");
    fill(c, "m/2", "y");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        semel_keyed_range range = {.space = BYTES("m/1"),
                                   .after = all[i].after,
                                   .until = all[i].until,
                                   .limit = all[i].limit,
                                   .descending = all[i].descending};
        print_message("range %zu\n", i);
        assert_string_equal(adapter_scan(keys, sizeof keys, c, &range), all[i].keys);
    }
}

static void a_space_that_is_empty(adapter_case *c)
{
    char keys[8];
    semel_keyed_range range = {.space = BYTES("m/1"), .limit = 5};
    assert_string_equal(adapter_scan(keys, sizeof keys, c, &range), "");
    range.descending = 1;
    assert_string_equal(adapter_scan(keys, sizeof keys, c, &range), "");
}

/* More than what a database gives in one answer: records, and bytes. */
static void pages(adapter_case *c)
{
    const unsigned count = adapter_number(c, 1500, 400);
    const size_t len = 8000;
    char *body = malloc(len);
    assert_non_null(body);
    memset(body, 'b', len);
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%06u", (i * 7919) % count);
        semel_keyed_change one =
            change_body(change_text("x/1", key, key), (semel_bytes){body, len});
        adapter_applies(c, &one, 1);
    }
    for (int descending = 0; descending < 2; descending++)
        for (uint32_t limit = 77; limit <= 2000; limit += 1923) {
            semel_keyed_range range = {
                .space = BYTES("x/1"), .limit = limit, .bodies = 1, .descending = descending};
            char last[16] = "";
            unsigned seen = 0;
            for (size_t got = 1; got;) {
                adapter_rows rows = {.count = 0};
                range.after = bytes_of(last);
                OK(c->driver->scan(c->store, &range, adapter_row, &rows, &last_error));
                got = rows.count;
                assert_true(got <= limit);
                for (size_t i = 0; i < got; i++, seen++) {
                    char key[16];
                    (void)snprintf(key, sizeof key, "%06u", descending ? count - 1 - seen : seen);
                    BYTES_EQUAL(bytes_of(key), rows.all[i].key);
                    assert_int_equal(rows.all[i].body.len, len);
                }
                if (got)
                    memcpy(last, rows.all[got - 1].key.data, 7);
                if (got < limit)
                    got = 0; /* fewer than asked for: that was the end */
                adapter_rows_free(&rows);
            }
            assert_int_equal(seen, count);
        }
    free(body);
}

static const semel_bytes no_bytes, body = {"body", 4};

static void bodies_if_asked(adapter_case *c)
{
    adapter_rows rows = {.count = 0};
    semel_keyed_change one = change_body(change_text("m/1", "k", "v"), BYTES("body"));
    semel_keyed_range range = {.space = BYTES("m/1"), .limit = 5};
    adapter_applies(c, &one, 1);
    for (range.bodies = 0; range.bodies < 2; range.bodies++) {
        OK(c->driver->scan(c->store, &range, adapter_row, &rows, &last_error));
        assert_int_equal(rows.count, 1);
        BYTES_EQUAL(bytes_of("v"), rows.all[0].value);
        assert_memory_equal(rows.all[0].version, one.record.version, SEMEL_KEYED_VERSION_LEN);
        BYTES_EQUAL(range.bodies ? body : no_bytes, rows.all[0].body);
        adapter_rows_free(&rows);
    }
}

/* --- while others write ----------------------------------------------------------------------- */

typedef struct writing {
    adapter_case *c;
    void *store;
    atomic_int stop;
    atomic_int failed;
} writing;

/* Writes and removes what is between the records that stay, and changes these. */
static void write_on(test_thread *member)
{
    writing *w = member->context;
    for (unsigned i = 0; !atomic_load(&w->stop); i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%03u+", (i * 37) % 100);
        semel_keyed_change one = change_text("m/1", key, "passing");
        semel_keyed_change gone =
            change_if_version(change_kind(one, SEMEL_KEYED_REMOVE), one.record.version);
        semel_error err;
        if (adapter_try(w->c, w->store, &one, 1, NULL, &err) ||
            adapter_try(w->c, w->store, &gone, 1, NULL, &err))
            atomic_store(&w->failed, 1);
    }
}

static unsigned count_staying(adapter_case *c, int descending)
{
    adapter_rows rows = {.count = 0};
    unsigned staying = 0;
    semel_keyed_range range = {.space = BYTES("m/1"), .limit = 1000, .descending = descending};
    OK(c->driver->scan(c->store, &range, adapter_row, &rows, &last_error));
    for (size_t i = 0; i < rows.count; i++) {
        staying += rows.all[i].key.len == 3;
        if (!i)
            continue;
        int order = memcmp(rows.all[i - 1].key.data, rows.all[i].key.data, 4);
        assert_true(descending ? order > 0 : order < 0);
    }
    adapter_rows_free(&rows);
    return staying;
}

static void scans_miss_nothing(adapter_case *c)
{
    static writing w;
    test_thread writer;
    w.c = c;
    atomic_store(&w.stop, 0);
    atomic_store(&w.failed, 0);
    w.store = adapter_client(c);
    for (unsigned i = 0; i < 100; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "%03u", i);
        semel_keyed_change one = change_text("m/1", key, "stays");
        adapter_applies(c, &one, 1);
    }
    test_thread_start(&writer, write_on, &w);
    unsigned missed = 0;
    for (unsigned i = 0; i < adapter_number(c, 200, 40); i++)
        missed += count_staying(c, (int)(i % 2)) != 100;
    atomic_store(&w.stop, 1);
    assert_true(test_thread_join(&writer, 60000));
    assert_int_equal(missed, 0);
    assert_int_equal(atomic_load(&w.failed), 0);
}

const adapter_test adapter_scan_tests[] = {
    {"ranges in both directions", ranges, 0, 0},
    {"a space that is empty", a_space_that_is_empty, 0, 0},
    {"pages of any size", pages, 0, 0},
    {"bodies if they are asked for", bodies_if_asked, 0, 0},
    {"a scan misses nothing that stays", scans_miss_nothing, 0, 0},
    {NULL, NULL, 0, 0}};
