/* The runner of the adapter suite, and the tools of its tests. */
#include "support/keyed/adapter_suite.h"

#include "base/seam.h"
#include "support/process/deadline.h"
#include "support/process/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 64, GIVES_UP_MAX = 1000 };

typedef struct suite_case {
    const adapter_quirks *quirks;
    const adapter_test *test;
    adapter_case *running;
} suite_case;

/* --- clients ---------------------------------------------------------------------------------- */

void *adapter_open(const adapter_case *c)
{
    void *store = calloc(1, c->driver->store_size);
    if (!store)
        abort();
    OK(c->driver->open(store, c->argument, &c->settings, &last_error));
    return store;
}

void adapter_close(const adapter_case *c, void *store)
{
    c->driver->close(store);
    free(store);
}

void *adapter_client(adapter_case *c)
{
    assert_true(c->client_count < ADAPTER_CLIENTS_MAX);
    return c->clients[c->client_count++] = adapter_open(c);
}

unsigned adapter_number(const adapter_case *c, unsigned many, unsigned few)
{
    return c->quirks->flags & ADAPTER_SLOW ? few : many;
}

/* --- rows ------------------------------------------------------------------------------------- */

static semel_bytes keep(mem_arena *arena, semel_bytes bytes)
{
    if (!bytes.data)
        return bytes;
    return (semel_bytes){arena_copy(arena, bytes.data, bytes.len), bytes.len};
}

semel_status adapter_row(const semel_keyed_record *record, void *context, semel_error *err)
{
    adapter_rows *rows = context;
    if (rows->count == rows->capacity) {
        rows->capacity = rows->capacity ? rows->capacity * 2 : 16;
        rows->all = realloc(rows->all, rows->capacity * sizeof *rows->all);
        if (!rows->all)
            return semel_fail(err, SEMEL_ENOMEM, "no memory for a test");
    }
    semel_keyed_record *row = &rows->all[rows->count++];
    *row = *record;
    row->space = keep(&rows->arena, record->space);
    row->key = keep(&rows->arena, record->key);
    row->value = keep(&rows->arena, record->value);
    row->body = keep(&rows->arena, record->body);
    return SEMEL_OK;
}

void adapter_rows_free(adapter_rows *rows)
{
    arena_free(&rows->arena);
    free(rows->all);
    *rows = (adapter_rows){.count = 0};
}

/* --- changes ---------------------------------------------------------------------------------- */

semel_bytes bytes_of(const char *text)
{
    return (semel_bytes){text, strlen(text)};
}

static void new_version(unsigned char version[SEMEL_KEYED_VERSION_LEN])
{
    semel_seam seam;
    seam_complete(&seam, NULL);
    seam.random(seam.context, version, SEMEL_KEYED_VERSION_LEN);
}

semel_keyed_change change_write(const char *space, semel_bytes key, const char *value)
{
    semel_keyed_change change = {.kind = SEMEL_KEYED_WRITE, .expect = SEMEL_EXPECT_ABSENT};
    change.record.space = bytes_of(space);
    change.record.key = key;
    change.record.value = bytes_of(value);
    new_version(change.record.version);
    return change;
}

semel_keyed_change change_text(const char *space, const char *key, const char *value)
{
    return change_write(space, bytes_of(key), value);
}

semel_keyed_change change_kind(semel_keyed_change change, semel_keyed_kind kind)
{
    semel_keyed_record place = {.space = change.record.space, .key = change.record.key};
    change.kind = kind;
    change.record = place;
    return change;
}

semel_keyed_change change_if_version(semel_keyed_change change, const unsigned char *version)
{
    change.expect = SEMEL_EXPECT_VERSION;
    memcpy(change.expected_version, version, SEMEL_KEYED_VERSION_LEN);
    return change;
}

semel_keyed_change change_if_guard(semel_keyed_change change, uint64_t guard, int64_t live_at_ms)
{
    change.expect = SEMEL_EXPECT_GUARD;
    change.expected_guard = guard;
    change.live_at_ms = live_at_ms;
    return change;
}

semel_keyed_change change_owned(semel_keyed_change change, uint64_t guard, int64_t until_ms)
{
    change.record.guard = guard;
    change.record.until_ms = until_ms;
    return change;
}

semel_keyed_change change_body(semel_keyed_change change, semel_bytes body)
{
    change.record.body = body;
    return change;
}

semel_keyed_change change_foreign(const adapter_statement *statement)
{
    return (semel_keyed_change){.kind = SEMEL_KEYED_FOREIGN,
                                .statement = statement->text,
                                .values = statement->values,
                                .count = statement->count};
}

static int any_refused(const semel_keyed_change changes[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (changes[i].refused)
            return 1;
    return 0;
}

semel_status adapter_try(const adapter_case *c, void *store, semel_keyed_change changes[],
                         size_t count, adapter_rows *told, semel_error *err)
{
    semel_status status = SEMEL_OK;
    for (int i = 0; i < GIVES_UP_MAX; i++) {
        if (told)
            adapter_rows_free(told);
        for (size_t j = 0; j < count; j++)
            changes[j].refused = 0;
        status = c->driver->apply(store, changes, count, SEMEL_BEGIN_DURABLE,
                                  told ? adapter_row : NULL, told, err);
        if (status != SEMEL_ECONFLICT || any_refused(changes, count))
            return status;
        process_nap();
    }
    return status;
}

semel_status adapter_apply(const adapter_case *c, void *store, semel_keyed_change changes[],
                           size_t count, adapter_rows *told)
{
    return adapter_try(c, store, changes, count, told, &last_error);
}

void adapter_applies(const adapter_case *c, semel_keyed_change changes[], size_t count)
{
    OK(adapter_apply(c, c->store, changes, count, NULL));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(changes[i].refused, 0);
}

void adapter_refuses(const adapter_case *c, semel_keyed_change changes[], size_t count,
                     const char *marks)
{
    FAILS(SEMEL_ECONFLICT, adapter_apply(c, c->store, changes, count, NULL));
    assert_int_equal(strlen(marks), count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(!!changes[i].refused, marks[i] == '1');
}

/* --- reading ---------------------------------------------------------------------------------- */

const semel_keyed_record *adapter_get(adapter_case *c, const char *space, semel_bytes key)
{
    adapter_rows rows = {.count = 0};
    semel_keyed_record *copy = NULL;
    OK(c->driver->get(c->store, bytes_of(space), &key, 1, 1, adapter_row, &rows, &last_error));
    assert_true(rows.count <= 1);
    if (rows.count) {
        copy = arena_copy(&c->arena, rows.all, sizeof *copy);
        BYTES_EQUAL(bytes_of(space), copy->space);
        BYTES_EQUAL(key, copy->key);
        copy->space = keep(&c->arena, copy->space);
        copy->key = keep(&c->arena, copy->key);
        copy->value = keep(&c->arena, copy->value);
        copy->body = keep(&c->arena, copy->body);
    }
    adapter_rows_free(&rows);
    return copy;
}

const semel_keyed_record *adapter_get_text(adapter_case *c, const char *space, const char *key)
{
    return adapter_get(c, space, bytes_of(key));
}

void adapter_value_is(adapter_case *c, const char *space, const char *key, const char *value)
{
    const semel_keyed_record *record = adapter_get_text(c, space, key);
    assert_non_null(record);
    BYTES_EQUAL(bytes_of(value), record->value);
}

void adapter_is_absent(adapter_case *c, const char *space, const char *key)
{
    assert_null(adapter_get_text(c, space, key));
}

const char *adapter_scan(char *out, size_t size, adapter_case *c, const semel_keyed_range *range)
{
    adapter_rows rows = {.count = 0};
    size_t len = 0;
    OK(c->driver->scan(c->store, range, adapter_row, &rows, &last_error));
    out[0] = '\0';
    for (size_t i = 0; i < rows.count; i++) {
        int wrote = snprintf(out + len, size - len, "%s%.*s", i ? " " : "",
                             (int)rows.all[i].key.len, (const char *)rows.all[i].key.data);
        assert_true(wrote >= 0 && (size_t)wrote < size - len);
        len += (size_t)wrote;
    }
    adapter_rows_free(&rows);
    return out;
}

/* --- running ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    suite_case *one = *state;
    adapter_case *c = calloc(1, sizeof *c);
    if (!c)
        return -1;
    one->running = c;
    c->quirks = one->quirks;
    c->driver = one->quirks->driver;
    seam_complete(&c->seam, NULL);
    c->settings = (semel_store_settings){.busy_ms = 5000, .answer_ms = 10000, .seam = &c->seam};
    deadline_begin();
    c->quirks->make(c->argument);
    c->store = adapter_client(c);
    if (c->driver->prepare)
        OK(c->driver->prepare(c->store, &last_error));
    return 0;
}

static int teardown(void **state)
{
    adapter_case *c = ((suite_case *)*state)->running;
    while (c->client_count)
        adapter_close(c, c->clients[--c->client_count]);
    if (c->quirks->remove)
        c->quirks->remove(c->argument);
    arena_free(&c->arena);
    free(c);
    deadline_end();
    return 0;
}

static void run(void **state)
{
    suite_case *one = *state;
    one->test->run(one->running);
}

static int is_asked(const adapter_quirks *quirks, const adapter_test *test)
{
    return (quirks->flags & test->needs) == test->needs &&
           (quirks->driver->abilities & test->needs_abilities) == test->needs_abilities;
}

int adapter_suite(const adapter_quirks *quirks)
{
    static const adapter_test *const parts[] = {adapter_record_tests, adapter_expect_tests,
                                                adapter_scan_tests, adapter_race_tests,
                                                adapter_other_tests};
    static struct CMUnitTest tests[CASES_MAX];
    static suite_case cases[CASES_MAX];
    size_t count = 0, left_out = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const adapter_test *test = parts[i]; test->name; test++) {
            if (!is_asked(quirks, test)) {
                left_out++;
                continue;
            }
            assert_true(count < CASES_MAX);
            cases[count] = (suite_case){.quirks = quirks, .test = test};
            tests[count] = (struct CMUnitTest){test->name, run, setup, teardown, &cases[count]};
            count++;
        }
    print_message("%s: %zu tests; %zu are left out, for what the driver does not claim to do\n",
                  quirks->name, count, left_out);
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return _cmocka_run_group_tests(quirks->name, tests, count, NULL, NULL);
}
