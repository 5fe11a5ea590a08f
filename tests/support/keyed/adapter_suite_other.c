/* Limits, the application's statements, what is kept, the clock, counting, preparing, watching. */
#include "support/keyed/adapter_suite.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- limits ----------------------------------------------------------------------------------- */

static size_t fill_unit(semel_keyed_change unit[], size_t count, const char *body, size_t len)
{
    static char keys[512][24];
    assert_true(count <= 512);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%zu", i);
        unit[i] = change_text("m/1", keys[i], "v");
        if (body)
            unit[i] = change_body(unit[i], (semel_bytes){body, len});
    }
    return count;
}

static void is_beyond(adapter_case *c, semel_keyed_change unit[], size_t count)
{
    char keys[8];
    semel_keyed_range range = {.space = BYTES("m/1"), .limit = 1};
    FAILS(SEMEL_ELIMIT, adapter_apply(c, c->store, unit, count, NULL));
    assert_string_equal(adapter_scan(keys, sizeof keys, c, &range), "");
}

static void as_many_as_it_says(adapter_case *c)
{
    static semel_keyed_change unit[512];
    uint32_t most = c->driver->limits.changes_max;
    if (!(c->driver->abilities & SEMEL_KEYED_MANY))
        most = 1;
    if (most) {
        assert_true(most < 512);
        is_beyond(c, unit, fill_unit(unit, most + 1, NULL, 0));
    }
    adapter_applies(c, unit, fill_unit(unit, most ? most : 300, NULL, 0));
    char last[16];
    (void)snprintf(last, sizeof last, "%u", (most ? most : 300) - 1);
    adapter_value_is(c, "m/1", last, "v");
}

static void as_large_as_it_says(adapter_case *c)
{
    static semel_keyed_change unit[512];
    const semel_keyed_limits *limits = &c->driver->limits;
    uint64_t record = limits->record_max ? limits->record_max : 64 << 10;
    char *body = malloc((size_t)record + 1);
    assert_non_null(body);
    memset(body, 'b', (size_t)record + 1);
    if (limits->record_max)
        is_beyond(c, unit, fill_unit(unit, 1, body, (size_t)record));
    if (limits->apply_max && limits->apply_max > record &&
        (c->driver->abilities & SEMEL_KEYED_MANY)) {
        size_t count = (size_t)(limits->apply_max / (record - 1000)) + 1;
        if (!limits->changes_max || count <= limits->changes_max)
            is_beyond(c, unit, fill_unit(unit, count, body, (size_t)record - 1000));
    }
    size_t fits = (size_t)record - strlen("m/1") - strlen("0") - strlen("v");
    adapter_applies(c, unit, fill_unit(unit, 1, body, fits));
    assert_int_equal(adapter_get_text(c, "m/1", "0")->body.len, fits);
    free(body);
}

/* --- statements of the application ------------------------------------------------------------ */

static void statements_go_along(adapter_case *c)
{
    const adapter_quirks *q = c->quirks;
    if (!c->driver->queue)
        return;
    OK(c->driver->queue(c->store, q->good.text, q->good.values, q->good.count, &last_error));
    assert_int_equal(q->effects(c->argument), 0);
    semel_keyed_change unit[] = {change_text("m/1", "k", "v"), change_foreign(&q->good)};
    adapter_applies(c, unit, 2);
    assert_int_equal(q->effects(c->argument), 1);
    unit[0] = change_text("m/1", "k", "again");
    adapter_refuses(c, unit, 2, "10"); /* a copy: the statement is not run */
    assert_int_equal(q->effects(c->argument), 1);
    unit[0] = change_text("m/1", "other", "v");
    adapter_applies(c, unit, 2);
    assert_int_equal(q->effects(c->argument), 2);
}

static void statements_that_are_none(adapter_case *c)
{
    const adapter_quirks *q = c->quirks;
    if (!c->driver->queue)
        return;
    FAILS(SEMEL_EINVAL, c->driver->queue(c->store, q->invalid.text, q->invalid.values,
                                         q->invalid.count, &last_error));
    FAILS(SEMEL_EINVAL, c->driver->queue(c->store, "", NULL, 0, &last_error));
    assert_true(q->good.count > 0);
    FAILS(SEMEL_EINVAL,
          c->driver->queue(c->store, q->good.text, q->good.values, q->good.count - 1, &last_error));
}

static void statements_that_fail(adapter_case *c)
{
    const adapter_quirks *q = c->quirks;
    if (!c->driver->queue || !q->failing.text)
        return;
    OK(c->driver->queue(c->store, q->failing.text, q->failing.values, q->failing.count,
                        &last_error));
    semel_keyed_change unit[] = {change_text("m/1", "k", "v"), change_foreign(&q->good),
                                 change_foreign(&q->failing)};
    FAILS(SEMEL_EHANDLER, adapter_apply(c, c->store, unit, 3, NULL));
    if (q->flags & ADAPTER_TEARS)
        return;
    adapter_is_absent(c, "m/1", "k");
    assert_int_equal(q->effects(c->argument), 0);
    adapter_applies(c, unit, 2);
    assert_int_equal(q->effects(c->argument), 1);
}

/* --- what is kept ----------------------------------------------------------------------------- */

static void durability_is_told(adapter_case *c)
{
    assert_int_equal(c->driver->durability(c->store), c->quirks->durability);
    semel_keyed_change one = change_text("m/1", "k", "v");
    OK(c->driver->apply(c->store, &one, 1, SEMEL_BEGIN_RELAXED, NULL, NULL, &last_error));
    adapter_value_is(c, "m/1", "k", "v");
}

static void what_was_applied_is_kept(adapter_case *c)
{
    semel_keyed_change one = change_body(change_text("m/1", "k", "v"), BYTES("body"));
    adapter_applies(c, &one, 1);
    adapter_close(c, c->store);
    c->client_count = 0;
    c->store = adapter_client(c);
    adapter_value_is(c, "m/1", "k", "v");
    BYTES_EQUAL(bytes_of("body"), adapter_get_text(c, "m/1", "k")->body);
}

/* A record that is to expire is there until then. One that is never to expire stays after one that
 * was. */
static void nothing_expires_early(adapter_case *c)
{
    int64_t now_ms;
    uint32_t error_ms;
    OK(c->driver->now(c->store, &now_ms, &error_ms, &last_error));
    semel_keyed_change one = change_body(change_text("m/1", "k", "v"), BYTES("body"));
    one.expires_ms = now_ms + 60000;
    adapter_applies(c, &one, 1);
    adapter_value_is(c, "m/1", "k", "v");
    semel_keyed_change two = change_if_version(change_text("m/1", "k", "w"), one.record.version);
    two.keep_body = 1;
    two.expires_ms = now_ms + 2000;
    adapter_applies(c, &two, 1);
    semel_keyed_change three = change_if_version(change_text("m/1", "k", "x"), two.record.version);
    three.keep_body = 1;
    adapter_applies(c, &three, 1);
    for (int64_t at = now_ms; at < now_ms + 2500;) {
        process_nap();
        OK(c->driver->now(c->store, &at, &error_ms, &last_error));
    }
    adapter_value_is(c, "m/1", "k", "x");
    BYTES_EQUAL(bytes_of("body"), adapter_get_text(c, "m/1", "k")->body);
}

/* --- the clock -------------------------------------------------------------------------------- */

static void time_goes_on(adapter_case *c)
{
    void *other = adapter_client(c);
    int64_t begun = process_now_ms(), first = 0, last = 0, low = INT64_MIN;
    for (int i = 0; process_now_ms() < begun + 300; i++) {
        int64_t now_ms;
        uint32_t error_ms;
        OK(c->driver->now(i % 2 ? other : c->store, &now_ms, &error_ms, &last_error));
        assert_true(error_ms < 60000);
        assert_true(now_ms + error_ms >= low); /* no client is behind another by more than that */
        low = now_ms - error_ms > low ? now_ms - error_ms : low;
        if (i % 2)
            continue;
        assert_true(now_ms >= last);
        last = now_ms;
        first = first ? first : now_ms;
    }
    assert_true(last > first);
}

static void time_is_the_real_one(adapter_case *c)
{
    int64_t now_ms;
    uint32_t error_ms;
    OK(c->driver->now(c->store, &now_ms, &error_ms, &last_error));
    int64_t wrong = now_ms - process_wall_ms();
    assert_true(wrong < 60000 && wrong > -60000); /* servers of tests are on this host */
}

/* --- counting, preparing, watching ------------------------------------------------------------ */

static void counting(adapter_case *c)
{
    uint64_t count = 99;
    if (!c->driver->count)
        return;
    OK(c->driver->count(c->store, BYTES("m/1"), &count, &last_error));
    assert_int_equal(count, 0);
    for (unsigned i = 0; i < 120; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "%u", i);
        semel_keyed_change one = change_text(i % 3 ? "m/1" : "m/10", key, "v");
        adapter_applies(c, &one, 1);
    }
    OK(c->driver->count(c->store, BYTES("m/1"), &count, &last_error));
    assert_int_equal(count, 80);
    const semel_keyed_record *one = adapter_get_text(c, "m/1", "1");
    semel_keyed_change gone = change_kind(change_text("m/1", "1", ""), SEMEL_KEYED_REMOVE);
    gone = change_if_version(gone, one->version);
    adapter_applies(c, &gone, 1);
    OK(c->driver->count(c->store, BYTES("m/1"), &count, &last_error));
    assert_int_equal(count, 79);
}

static void preparing_again(adapter_case *c)
{
    if (!c->driver->prepare)
        return;
    semel_keyed_change one = change_text("m/1", "k", "v");
    adapter_applies(c, &one, 1);
    OK(c->driver->prepare(c->store, &last_error));
    OK(c->driver->prepare(adapter_client(c), &last_error));
    adapter_value_is(c, "m/1", "k", "v");
}

typedef struct preparing {
    adapter_case *c;
    void *stores[4];
    semel_status statuses[4];
} preparing;

static void prepare_one(test_thread *member)
{
    preparing *all = member->context;
    unsigned i = member->index;
    all->statuses[i] = all->c->driver->prepare(all->stores[i], NULL);
}

/* A database that nobody has prepared. */
static void preparing_at_once(adapter_case *c)
{
    static preparing all;
    char prepared[ADAPTER_ROOM];
    if (!c->driver->prepare)
        return;
    memcpy(prepared, c->argument, sizeof prepared);
    c->quirks->make(c->argument);
    all.c = c;
    for (size_t i = 0; i < 4; i++)
        all.stores[i] = adapter_open(c);
    assert_true(threads_run(4, prepare_one, &all));
    void *first = c->store;
    c->store = all.stores[0];
    semel_keyed_change one = change_text("m/1", "k", "v");
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(all.statuses[i], SEMEL_OK);
    adapter_applies(c, &one, 1);
    adapter_value_is(c, "m/1", "k", "v");
    c->store = first;
    for (size_t i = 0; i < 4; i++)
        adapter_close(c, all.stores[i]);
    if (c->quirks->remove)
        c->quirks->remove(c->argument);
    memcpy(c->argument, prepared, sizeof prepared);
}

static int open_watch(const adapter_case *c, void *store)
{
    int descriptor = SEMEL_WATCH_LATER;
    for (int64_t end = process_now_ms() + 60000; process_now_ms() < end; process_nap()) {
        descriptor = c->driver->watch->watch(store);
        if (descriptor != SEMEL_WATCH_LATER)
            break;
    }
    return descriptor;
}

/* Other things may make it readable, too: then nothing is heard, or in vain. */
static int is_heard(const adapter_case *c, void *store, int descriptor, int wait_ms)
{
    for (int64_t end = process_now_ms() + wait_ms;;) {
        struct pollfd one = {.fd = descriptor, .events = POLLIN};
        int64_t left = end - process_now_ms();
        if (poll(&one, 1, left > 0 ? (int)left : 0) == 1 && c->driver->watch->heard(store))
            return 1;
        if (left <= 0)
            return 0;
    }
}

static void watching(adapter_case *c)
{
    if (!c->driver->watch)
        return;
    void *watcher = adapter_client(c);
    int descriptor = open_watch(c, watcher);
    assert_true(descriptor >= 0);
    while (is_heard(c, watcher, descriptor, 0))
        continue;
    semel_keyed_change one = change_text("r/00000000000000a7", "1", "");
    adapter_applies(c, &one, 1);
    assert_true(is_heard(c, watcher, descriptor, 60000));
    semel_keyed_change two = change_text("r/00000000000000a7", "2", "");
    adapter_applies(c, &two, 1);
    assert_true(is_heard(c, watcher, descriptor, 60000));
    c->driver->watch->unwatch(watcher);
    semel_keyed_change three = change_text("r/00000000000000a7", "3", "");
    adapter_applies(c, &three, 1);
    adapter_value_is(c, "r/00000000000000a7", "3", "");
}

const adapter_test adapter_other_tests[] = {
    {"as many changes as it says, and no more", as_many_as_it_says, 0, 0},
    {"as many bytes as it says, and no more", as_large_as_it_says, 0, 0},
    {"statements go along with records", statements_go_along, 0, SEMEL_KEYED_MANY},
    {"statements that are none", statements_that_are_none, 0, 0},
    {"statements that fail", statements_that_fail, 0, SEMEL_KEYED_MANY},
    {"durability is told", durability_is_told, 0, 0},
    {"what was applied is kept", what_was_applied_is_kept, ADAPTER_KEEPS, 0},
    {"nothing expires early", nothing_expires_early, 0, 0},
    {"time goes on, for all clients", time_goes_on, 0, 0},
    {"time is the real one", time_is_the_real_one, 0, 0},
    {"counting", counting, 0, 0},
    {"preparing again", preparing_again, 0, 0},
    {"preparing in many threads", preparing_at_once, 0, 0},
    {"watching", watching, 0, 0},
    {NULL, NULL, 0, 0}};
