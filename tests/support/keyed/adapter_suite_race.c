/* Racers: threads on one client each, and processes. One of them wins each time. */
#include "support/keyed/adapter_suite.h"
#include "support/process/process.h"
#include "support/process/threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RACERS = 4, KEYS_MAX = 400, ROUNDS_MAX = 400 };

typedef struct race {
    adapter_case *c;
    void *stores[RACERS];
    unsigned keys, rounds;
    atomic_uint won[RACERS];
    atomic_uint strange; /* answers that may not occur */
} race;

/* In memory that children share. */
static race *new_race(adapter_case *c)
{
    race *r = process_share(sizeof *r);
    r->c = c;
    r->keys = adapter_number(c, KEYS_MAX, 60);
    r->rounds = adapter_number(c, ROUNDS_MAX, 40);
    return r;
}

static unsigned all_won(const race *r)
{
    unsigned won = 0;
    for (size_t i = 0; i < RACERS; i++)
        won += atomic_load(&r->won[i]);
    return won;
}

static void in_threads(race *r, void (*work)(test_thread *member))
{
    for (size_t i = 0; i < RACERS; i++)
        r->stores[i] = adapter_client(r->c);
    assert_true(threads_run(RACERS, work, r));
}

/* --- the first one wins ----------------------------------------------------------------------- */

static void race_for_keys(race *r, void *store, unsigned me)
{
    for (unsigned i = 0; i < r->keys; i++) {
        char key[16], row[16];
        (void)snprintf(key, sizeof key, "%u", i);
        (void)snprintf(row, sizeof row, "%u-%u", i, me);
        semel_keyed_change unit[] = {change_text("m/1", key, "done"), change_text("o/1", row, "")};
        size_t count = r->c->driver->abilities & SEMEL_KEYED_MANY ? 2 : 1;
        semel_error err;
        semel_status status = adapter_try(r->c, store, unit, count, NULL, &err);
        if (!status)
            atomic_fetch_add(&r->won[me], 1);
        else if (status != SEMEL_ECONFLICT || !unit[0].refused)
            atomic_fetch_add(&r->strange, 1);
    }
}

static void thread_for_keys(test_thread *member)
{
    race *r = member->context;
    race_for_keys(r, r->stores[member->index], member->index);
}

static void one_winner_each(race *r)
{
    adapter_case *c = r->c;
    adapter_rows rows = {.count = 0};
    semel_keyed_range range = {.space = BYTES("o/1"), .limit = 10000};
    assert_int_equal(atomic_load(&r->strange), 0);
    assert_int_equal(all_won(r), r->keys);
    if (c->driver->abilities & SEMEL_KEYED_MANY) { /* and nothing of those who lost */
        OK(c->driver->scan(c->store, &range, adapter_row, &rows, &last_error));
        assert_int_equal(rows.count, r->keys);
        adapter_rows_free(&rows);
    }
    process_unshare(r, sizeof *r);
}

static void threads_for_absent_keys(adapter_case *c)
{
    race *r = new_race(c);
    in_threads(r, thread_for_keys);
    one_winner_each(r);
}

/* --- each change is made once ----------------------------------------------------------------- */

typedef struct counted {
    unsigned char version[SEMEL_KEYED_VERSION_LEN];
    unsigned number;
    int there;
} counted;

static semel_status read_counted(const semel_keyed_record *record, void *context, semel_error *err)
{
    counted *out = context;
    char text[16] = "";
    (void)err;
    memcpy(text, record->value.data, record->value.len < 15 ? record->value.len : 15);
    memcpy(out->version, record->version, sizeof out->version);
    out->number = (unsigned)strtoul(text, NULL, 10);
    out->there = 1;
    return SEMEL_OK;
}

static counted look(const race *r, void *store)
{
    counted out = {.number = 0};
    semel_bytes key = BYTES("n");
    (void)r->c->driver->get(store, BYTES("h"), &key, 1, 0, read_counted, &out, NULL);
    return out;
}

static void race_to_count(race *r, void *store, unsigned me)
{
    for (unsigned done = 0; done < r->rounds;) {
        counted now = look(r, store);
        char text[16];
        (void)snprintf(text, sizeof text, "%u", now.number + 1);
        semel_keyed_change one = change_text("h", "n", text);
        if (now.there)
            one = change_if_version(one, now.version);
        semel_error err;
        semel_status status = adapter_try(r->c, store, &one, 1, NULL, &err);
        done += !status;
        atomic_fetch_add(&r->won[me], !status);
        if (status && status != SEMEL_ECONFLICT) {
            atomic_fetch_add(&r->strange, 1);
            return;
        }
    }
}

static void thread_to_count(test_thread *member)
{
    race *r = member->context;
    race_to_count(r, r->stores[member->index], member->index);
}

static void counted_to_the_end(race *r)
{
    assert_int_equal(atomic_load(&r->strange), 0);
    assert_int_equal(all_won(r), RACERS * r->rounds);
    assert_int_equal(look(r, r->c->store).number, RACERS * r->rounds);
    process_unshare(r, sizeof *r);
}

static void threads_for_a_version(adapter_case *c)
{
    race *r = new_race(c);
    in_threads(r, thread_to_count);
    counted_to_the_end(r);
}

/* --- one client, many threads ----------------------------------------------------------------- */

static void thread_on_one_client(test_thread *member)
{
    race *r = member->context;
    race_for_keys(r, r->c->store, member->index);
}

static void threads_share_a_client(adapter_case *c)
{
    race *r = new_race(c);
    assert_true(threads_run(RACERS, thread_on_one_client, r));
    one_winner_each(r);
}

/* --- several records in any order ------------------------------------------------------------- */

enum { SHARED_RECORDS = 4 };

/* Each unit writes all of the records, in an order of its own: they never differ. */
static void race_for_all(test_thread *member)
{
    race *r = member->context;
    void *store = r->stores[member->index];
    static const char *const names[SHARED_RECORDS] = {"a", "b", "c", "d"};
    for (unsigned i = 0; i < r->rounds; i++) {
        adapter_rows rows = {.count = 0};
        semel_keyed_range range = {.space = BYTES("g/1"), .limit = 10};
        if (r->c->driver->scan(store, &range, adapter_row, &rows, NULL) ||
            rows.count != SHARED_RECORDS) {
            atomic_fetch_add(&r->strange, 1);
            return;
        }
        semel_keyed_change unit[SHARED_RECORDS];
        char value[16];
        (void)snprintf(value, sizeof value, "%u-%u", member->index, i);
        for (size_t j = 0; j < SHARED_RECORDS; j++) {
            size_t which = (j + member->index) % SHARED_RECORDS;
            unit[j] =
                change_if_version(change_text("g/1", names[which], value), rows.all[which].version);
        }
        semel_error err;
        semel_status status = adapter_try(r->c, store, unit, SHARED_RECORDS, NULL, &err);
        atomic_fetch_add(&r->won[member->index], !status);
        if (status && status != SEMEL_ECONFLICT)
            atomic_fetch_add(&r->strange, 1);
        adapter_rows_free(&rows);
    }
}

static void threads_for_several_records(adapter_case *c)
{
    race *r = new_race(c);
    semel_keyed_change unit[SHARED_RECORDS] = {
        change_text("g/1", "a", ""), change_text("g/1", "b", ""), change_text("g/1", "c", ""),
        change_text("g/1", "d", "")};
    adapter_applies(c, unit, SHARED_RECORDS);
    in_threads(r, race_for_all);
    assert_int_equal(atomic_load(&r->strange), 0);
    assert_true(all_won(r) > 0);
    const semel_keyed_record *first = adapter_get_text(c, "g/1", "a");
    for (size_t i = 1; i < SHARED_RECORDS; i++) {
        char name[2] = {(char)('a' + (int)i), 0};
        BYTES_EQUAL(first->value, adapter_get_text(c, "g/1", name)->value);
    }
    process_unshare(r, sizeof *r);
}

/* --- processes -------------------------------------------------------------------------------- */

typedef struct child {
    race *r;
    unsigned index;
    void (*work)(race *r, void *store, unsigned me);
} child;

static int child_body(void *context)
{
    child *me = context;
    void *store = adapter_open(me->r->c);
    me->work(me->r, store, me->index);
    adapter_close(me->r->c, store);
    return PROCESS_OK;
}

/* No client may be open in the parent when it forks. */
static void in_processes(race *r, void (*work)(race *r, void *store, unsigned me))
{
    child children[RACERS];
    pid_t pids[RACERS];
    adapter_case *c = r->c;
    adapter_close(c, c->store);
    c->client_count = 0;
    for (unsigned i = 0; i < RACERS; i++) {
        children[i] = (child){r, i, work};
        pids[i] = process_start(child_body, &children[i]);
    }
    for (unsigned i = 0; i < RACERS; i++)
        assert_int_equal(process_wait(pids[i], 120000), PROCESS_OK);
    c->store = adapter_client(c);
}

static void processes_for_absent_keys(adapter_case *c)
{
    race *r = new_race(c);
    in_processes(r, race_for_keys);
    one_winner_each(r);
}

static void processes_for_a_version(adapter_case *c)
{
    race *r = new_race(c);
    in_processes(r, race_to_count);
    counted_to_the_end(r);
}

const adapter_test adapter_race_tests[] = {
    {"threads race for keys: one winner each", threads_for_absent_keys, 0, 0},
    {"threads race for a version: nothing is lost", threads_for_a_version, 0, 0},
    {"threads share a client", threads_share_a_client, 0, 0},
    {"threads race for several records: no mixture", threads_for_several_records, 0,
     SEMEL_KEYED_MANY},
    {"processes race for keys: one winner each", processes_for_absent_keys, ADAPTER_PROCESSES, 0},
    {"processes race for a version: nothing is lost", processes_for_a_version, ADAPTER_PROCESSES,
     0},
    {NULL, NULL, 0, 0}};
