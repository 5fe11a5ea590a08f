/* The memory store against models that are too simple to be wrong, at a size, and without
 * memory. */
#include "base/mem.h"
#include "memory_kit.h"
#include "store/memory/table.h"

#include <malloc.h>
#include <stdio.h>

static uint32_t chance(uint32_t bound)
{
    static uint64_t state = 88172645463325252U;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % bound;
}

/* --- the table -------------------------------------------------------------------------------- */

enum { TABLE_KEYS = 400, STEPS = 100000 };

typedef struct table_model {
    memory_table table;
    memory_marker *markers[TABLE_KEYS]; /* NULL: not there */
    uint64_t arrived[TABLE_KEYS];
    uint64_t arrivals;
    char keys[TABLE_KEYS][256];
} table_model;

static int64_t no_time(void *context)
{
    (void)context;
    return 0;
}

/* Few different hashes, around the end of the slots: long runs that wrap around and are torn
 * apart. */
static uint32_t weak_hash(int key)
{
    return UINT32_MAX - 12 + (uint32_t)key % 24;
}

static semel_bytes table_key(const table_model *m, int key)
{
    return semel_str(m->keys[key]);
}

static void add_or_remove(table_model *m, int key)
{
    semel_bytes bytes = table_key(m, key);
    if (m->markers[key]) {
        memory_table_remove(&m->table, weak_hash(key), m->markers[key]);
        m->markers[key] = NULL;
        return;
    }
    assert_true(memory_table_reserve(&m->table, bytes.len, no_time, NULL));
    m->markers[key] = memory_table_add(&m->table, weak_hash(key), bytes);
    m->markers[key]->state = MARKER_DONE;
    m->markers[key]->fingerprint = (uint64_t)key;
    m->arrived[key] = ++m->arrivals;
}

static memory_marker *next_of(const memory_table *table, memory_place place, int resume)
{
    uint64_t steps = UINT64_MAX;
    if (resume)
        memory_table_resume(table, &place);
    return memory_table_walk(table, &place, 1, &steps);
}

static void compare_walk(const table_model *m)
{
    memory_place place = {0, 0};
    uint64_t steps = UINT64_MAX;
    uint64_t last = 0;
    size_t walked = 0;
    for (memory_marker *at; (at = memory_table_walk(&m->table, &place, 1, &steps)); walked++) {
        assert_ptr_equal(at, m->markers[at->fingerprint]);
        assert_true(m->arrived[at->fingerprint] > last);
        last = m->arrived[at->fingerprint];
        assert_ptr_equal(next_of(&m->table, place, 1), next_of(&m->table, place, 0));
    }
    assert_int_equal(walked, m->table.live);
}

static void the_table_agrees_with_an_array(void **state)
{
    table_model *m = calloc(1, sizeof *m);
    (void)state;
    for (int i = 0; i < TABLE_KEYS; i++) /* those of one hash are each other's beginnings */
        (void)snprintf(m->keys[i], sizeof m->keys[i], "%02d%0*d", i % 24, 1 + i / 24 * 12, 0);
    for (int step = 0; step < STEPS; step++) {
        int keys = step / 10000 % 2 ? TABLE_KEYS : 60; /* now many, now few */
        int key = (int)chance((uint32_t)keys);
        add_or_remove(m, key);
        key = (int)chance(TABLE_KEYS);
        assert_ptr_equal(memory_table_find(&m->table, weak_hash(key), table_key(m, key)),
                         m->markers[key]);
        if (step % 500 == 0)
            compare_walk(m);
    }
    for (int i = 0; i < TABLE_KEYS; i++)
        assert_ptr_equal(memory_table_find(&m->table, weak_hash(i), table_key(m, i)),
                         m->markers[i]);
    compare_walk(m);
    assert_true(m->table.number_end < 50); /* numbers are used again */
    memory_table_free(&m->table);
    free(m);
}

/* A place is taken in the middle of a chunk, whose end is then taken back and filled with
 * others. */
static void a_place_never_points_into_a_marker(void **state)
{
    memory_table table = {0};
    memory_marker *markers[4] = {0};
    static const char *const keys[] = {"a", "bbbbbbbbbbbbbbbb", "c", "d"};
    memory_place place = {0, 0};
    uint64_t steps = 2;
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(memory_table_reserve(&table, strlen(keys[i]), no_time, NULL));
        markers[i] = memory_table_add(&table, i, semel_str(keys[i]));
        markers[i]->state = MARKER_DONE;
    }
    assert_ptr_equal(memory_table_walk(&table, &place, 1, &steps), markers[0]);
    assert_ptr_equal(memory_table_walk(&table, &place, 1, &steps), markers[1]);
    memory_table_remove(&table, 2, markers[2]);
    memory_table_remove(&table, 1, markers[1]);
    char longest[255];
    memset(longest, 0xee, sizeof longest);
    assert_true(memory_table_reserve(&table, sizeof longest, no_time, NULL));
    memory_table_add(&table, 7, (semel_bytes){longest, sizeof longest})->state = MARKER_DONE;
    assert_true(memory_table_reserve(&table, 1, no_time, NULL));
    markers[3] = memory_table_add(&table, 3, semel_str(keys[3]));
    markers[3]->state = MARKER_DONE;
    memory_table_resume(&table, &place);
    steps = 9;
    assert_ptr_equal(memory_table_walk(&table, &place, 1, &steps), markers[3]);
    assert_null(memory_table_walk(&table, &place, 1, &steps));
    memory_table_free(&table);
}

/* --- the driver ------------------------------------------------------------------------------- */

enum { KEYS = 60 };

typedef enum model_state { NONE = 0, OPEN, DONE, DEAD } model_state;

typedef struct model_row {
    model_state state;
    uint32_t attempts;
    uint64_t fingerprint;
    uint64_t token;
    int64_t lease_end_ms;
    int64_t changed_ms;
    int result; /* -1: none */
    int letter_gone;
} model_row;

typedef struct model {
    model_row rows[KEYS];
    int touched[KEYS]; /* by the unit */
} model;

static int leased(const model_row *row, int64_t now)
{
    return row->state == OPEN && row->token && now < row->lease_end_ms;
}

static semel_mark_state expected_state(const model_row *row, int64_t now)
{
    if (row->state == DONE)
        return SEMEL_MARK_DONE;
    if (row->state == DEAD)
        return SEMEL_MARK_DEAD;
    return leased(row, now) ? SEMEL_MARK_HELD : SEMEL_MARK_TAKEN;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void check_take(rig *r, void *unit, model *m, int key, semel_mark *mark, int claims)
{
    model_row *row = &m->rows[key];
    int64_t now = rig_now(r);
    uint32_t lease_ms = chance(3) ? 20 : 0;
    semel_mark_state expected = expected_state(row, now);
    uint64_t known = row->state == NONE ? 0 : row->fingerprint;
    uint32_t attempts = row->state == NONE ? 0 : row->attempts;
    if (expected == SEMEL_MARK_TAKEN)
        attempts = larger(attempts, mark->attempts) + (claims ? 1 : 0);
    assert_int_equal(claims ? driver->markers->claim(unit, mark, lease_ms, &r->err)
                            : driver->markers->mark(unit, mark, 1, 0, &r->err),
                     SEMEL_OK);
    assert_int_equal(mark->state, expected);
    assert_int_equal(mark->known_fingerprint, known);
    if (row->state != NONE || expected == SEMEL_MARK_TAKEN)
        assert_int_equal(mark->attempts, attempts);
    if (expected != SEMEL_MARK_TAKEN)
        return;
    *row = (model_row){claims ? OPEN : DONE,
                       attempts,
                       mark->fingerprint,
                       claims && lease_ms ? mark->token : 0,
                       claims ? now + lease_ms : 0,
                       0,
                       -1,
                       0};
    m->touched[key] = 1;
}

static void check_end(rig *r, void *unit, model *m, int key, semel_mark *mark, uint32_t verb)
{
    model_row *row = &m->rows[key];
    int owned = leased(row, rig_now(r)) && mark->token && row->token == mark->token;
    int free_to_fail =
        row->state == NONE || m->touched[key] || (row->state == OPEN && !leased(row, rig_now(r)));
    int allowed = verb < 2 || mark->token ? owned : free_to_fail;
    semel_status status = verb == 0   ? driver->markers->finish(unit, mark, &r->err)
                          : verb == 1 ? driver->markers->renew(unit, mark, 30, &r->err)
                          : verb == 2 ? driver->markers->fail(unit, mark, "why", &r->err)
                                      : driver->markers->bury(unit, mark, "why", &r->err);
    assert_int_equal(status, allowed ? SEMEL_OK : SEMEL_ELOST);
    if (!allowed)
        return;
    m->touched[key] = 1;
    if (verb == 2 && !mark->attempts) {
        *row = (model_row){.result = -1};
        return;
    }
    row->state = verb == 0 ? DONE : verb == 3 ? DEAD : OPEN;
    row->letter_gone = 0;
    row->result = -1;
    row->lease_end_ms = verb == 1 ? rig_now(r) + 30 : 0;
    if (verb != 1)
        row->token = 0;
    if (verb >= 2)
        row->attempts = mark->attempts;
    if (verb >= 2 && !mark->token)
        row->fingerprint = mark->fingerprint;
}

static void check_forget(rig *r, void *unit, model *m, int key, const semel_mark *mark)
{
    model_row *row = &m->rows[key];
    semel_status expected = row->state == NONE        ? SEMEL_ENOTFOUND
                            : leased(row, rig_now(r)) ? SEMEL_EBUSY
                                                      : SEMEL_OK;
    assert_int_equal(driver->markers->forget(unit, mark, &r->err), expected);
    if (expected != SEMEL_OK)
        return;
    *row = (model_row){.result = -1};
    m->touched[key] = 1;
}

static void check_letter_gone(rig *r, void *unit, model *m, int key, const semel_mark *mark)
{
    model_row *row = &m->rows[key];
    semel_status expected = row->state == DEAD ? SEMEL_OK : SEMEL_ENOTFOUND;
    assert_int_equal(driver->markers->letter_gone(unit, mark, &r->err), expected);
    if (expected != SEMEL_OK)
        return;
    row->letter_gone = 1;
    m->touched[key] = 1;
}

static void check_result(rig *r, void *unit, model *m, int key, const semel_mark *mark)
{
    model_row *row = &m->rows[key];
    void *data = NULL;
    size_t len = 0;
    int value = (int)chance(1000);
    assert_int_equal(driver->markers->result_get(unit, mark, &data, &len, &r->err), SEMEL_OK);
    if (row->state == DONE && row->result >= 0)
        assert_memory_equal(data, &row->result, sizeof row->result);
    else
        assert_null(data);
    free(data);
    semel_status expected = row->state == DONE ? SEMEL_OK : SEMEL_ELOST;
    semel_bytes bytes = {&value, sizeof value};
    assert_int_equal(driver->markers->result_set(unit, mark, bytes, &r->err), expected);
    if (expected != SEMEL_OK)
        return;
    row->result = value;
    m->touched[key] = 1;
}

static void one_verb(rig *r, void *unit, model *m)
{
    int key = (int)chance(KEYS);
    char text[16];
    (void)snprintf(text, sizeof text, "key-%d", key);
    semel_mark mark = key_of(r, text);
    mark.fingerprint = chance(5);
    mark.attempts = chance(3);
    uint32_t verb = chance(10);
    if (verb >= 4 && verb < 7)
        mark.token = chance(2) ? m->rows[key].token : 0;
    if (chance(40) == 0)
        mark.token = 1; /* of another owner, which came first */
    if (verb < 4)
        check_take(r, unit, m, key, &mark, verb >= 2);
    else if (verb < 7)
        check_end(r, unit, m, key, &mark, chance(4));
    else if (verb == 7)
        check_forget(r, unit, m, key, &mark);
    else if (verb == 8)
        check_letter_gone(r, unit, m, key, &mark);
    else
        check_result(r, unit, m, key, &mark);
}

static void sweep_both(rig *r, model *m)
{
    int64_t now = rig_now(r);
    int64_t cutoff = now - chance(100);
    semel_sweep_position position = {0};
    size_t swept = 0;
    size_t expected = 0;
    for (int i = 0; i < KEYS; i++)
        if (m->rows[i].state != NONE && m->rows[i].changed_ms < cutoff &&
            !leased(&m->rows[i], now) && (m->rows[i].state != DEAD || m->rows[i].letter_gone)) {
            m->rows[i] = (model_row){.result = -1};
            expected++;
        }
    do {
        size_t some = 0;
        assert_int_equal(driver->markers->sweep(r->store, r->inbox, cutoff, 1 + chance(7),
                                                &position, &some, &r->err),
                         SEMEL_OK);
        swept += some;
    } while (position.len);
    assert_int_equal(swept, expected);
}

static void some_verbs(rig *r, void *unit, model *m)
{
    for (uint32_t left = chance(6); left; left--)
        one_verb(r, unit, m);
}

static void the_driver_agrees_with_an_array(void **state)
{
    rig *r = *state;
    model now = {.touched = {0}};
    for (int i = 0; i < KEYS; i++)
        now.rows[i].result = -1;
    for (int step = 0; step < STEPS / 4; step++) {
        model before = now;
        void *unit = begin(r);
        some_verbs(r, unit, &now);
        if (chance(2)) {
            model saved = now;
            assert_int_equal(driver->units->savepoint(unit, &r->err), SEMEL_OK);
            some_verbs(r, unit, &now);
            int undo = chance(2) == 0;
            assert_int_equal(
                undo ? driver->units->undo(unit, &r->err) : driver->units->keep(unit, &r->err), 0);
            now = undo ? saved : now;
            some_verbs(r, unit, &now);
        }
        if (chance(3)) {
            commit(r, unit);
            for (int i = 0; i < KEYS; i++)
                if (now.touched[i])
                    now.rows[i].changed_ms = rig_now(r);
        } else {
            rollback(unit);
            now = before;
        }
        memset(now.touched, 0, sizeof now.touched);
        semel_test_advance_ms(r->seam, chance(5));
        if (chance(50) == 0)
            sweep_both(r, &now);
    }
}

/* --- size ------------------------------------------------------------------------------------- */

static size_t in_use(void)
{
    struct mallinfo2 all = mallinfo2(); /* zero under a sanitizer */
    return all.uordblks + all.hblkhd;
}

static void a_million_keys_are_all_kept_and_cost_little(void **state)
{
    enum { MILLION = 1000000 };
    rig *r = *state;
    char key[40];
    size_t before = in_use();
    long allocations = mem_allocations();
    void *unit = calloc(1, driver->unit_size);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MILLION; i++) {
            (void)snprintf(key, sizeof key, "%08x-0000-7000-8000-%012x", (unsigned)i * 7919,
                           (unsigned)i);
            semel_mark mark = key_of(r, key);
            memset(unit, 0, driver->unit_size);
            driver->units->begin(r->store, unit, SEMEL_BEGIN_DURABLE, 0, NULL);
            assert_int_equal(driver->markers->mark(unit, &mark, 1, 0, &r->err), SEMEL_OK);
            assert_int_equal(mark.state, round ? SEMEL_MARK_DONE : SEMEL_MARK_TAKEN);
            driver->units->commit(unit, NULL);
        }
    free(unit);
    size_t bytes = (in_use() - before) / MILLION;
    print_message("%zu bytes for each of a million keys of 36 bytes\n", bytes);
    assert_true(bytes <= 120);
    assert_true(mem_allocations() - allocations < MILLION / 100);
}

/* --- out of memory ---------------------------------------------------------------------------- */

/* Everything that allocates, in one unit; the first failure ends it. */
static semel_status everything(rig *r, void *unit)
{
    semel_mark marks[5];
    static const char *const keys[] = {"1", "2", "3", "4", "5"};
    for (size_t i = 0; i < 5; i++)
        marks[i] = key_of(r, keys[i]);
    semel_mark claimed = key_of(r, "claimed");
    semel_message message = {.size = sizeof message, .id = semel_str("m"), .group = "g"};
    semel_dead dead = {.size = sizeof dead,
                       .origin = SEMEL_DEAD_INBOX,
                       .name = "in",
                       .key = semel_str("k"),
                       .message = &message,
                       .error = "x"};
    semel_status status = driver->markers->mark(unit, marks, 5, 0, &r->err);
    if (!status)
        status = driver->markers->result_set(unit, &marks[0], semel_str("result"), &r->err);
    if (!status)
        status = driver->markers->fail(unit, &marks[1], "why", &r->err);
    if (!status)
        status = driver->markers->claim(unit, &claimed, 1000, &r->err);
    if (!status)
        status = driver->markers->renew(unit, &claimed, 1000, &r->err);
    if (!status)
        status = driver->outbox->put(unit, r->outbox, &message, &r->err);
    message.delay_ms = 5;
    if (!status)
        status = driver->outbox->put(unit, r->outbox, &message, &r->err);
    return status ? status : driver->dead->put(unit, &dead, &r->err);
}

static void assert_empty(rig *r)
{
    uint64_t count = 9;
    int64_t oldest = 9;
    assert_int_equal(driver->outbox->unsent(r->store, &count, &oldest, &r->err), SEMEL_OK);
    assert_int_equal(count, 0);
    assert_int_equal(look(r, "1").state, SEMEL_MARK_TAKEN);
    assert_int_equal(look(r, "2").attempts, 0);
    assert_int_equal(look(r, "claimed").state, SEMEL_MARK_TAKEN);
}

static void without_memory_nothing_is_half_done(void **state)
{
    (void)state;
    int failures = 0;
    for (long nth = 1;; nth++) {
        rig *r = rig_open("memory:");
        void *unit = begin(r);
        mem_fail_at(nth);
        semel_status status = everything(r, unit);
        mem_fail_at(0);
        if (status) {
            assert_int_equal(status, SEMEL_ENOMEM);
            assert_string_not_equal(r->err.text, "");
            failures++;
            rollback(unit);
            assert_empty(r);
        } else {
            mem_fail_at(1); /* committing needs no memory */
            commit(r, unit);
            mem_fail_at(0);
            assert_int_equal(look(r, "1").state, SEMEL_MARK_DONE);
        }
        rig_close(r);
        if (!status)
            break;
    }
    assert_true(failures > 15);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_agrees_with_an_array),
        cmocka_unit_test(a_place_never_points_into_a_marker),
        TEST(the_driver_agrees_with_an_array),
        TEST(a_million_keys_are_all_kept_and_cost_little),
        cmocka_unit_test(without_memory_nothing_is_half_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
