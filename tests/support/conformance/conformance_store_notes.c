/* Notes about an inbox: what the driver keeps of them, and what the core makes of them: the
 * definition of an inbox, and what its sweeps have forgotten. */
#include "support/conformance/conformance_store.h"

#include "core/unit.h"
#include "support/process/threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define DAY_MS INT64_C(86400000)

/* --- the driver ------------------------------------------------------------------------------- */

typedef struct note_work {
    int64_t inbox;
    semel_note note;
    semel_note_lock lock;
    const semel_note_value *write; /* NULL: nothing */
    int add;                       /* to the number that was read */
    semel_status end;              /* the unit is rolled back, unless this is OK */
    semel_note_value *read;
} note_work;

static semel_status use_note(work_unit *unit, void *context, semel_error *err)
{
    note_work *w = context;
    const semel_store_notes *notes = unit->store->driver->notes;
    semel_status status = notes->read(unit->state, w->inbox, w->note, w->lock, w->read, err);
    semel_note_value next = w->write ? *w->write : *w->read;
    next.number += w->add;
    if (!status && (w->write || w->add))
        status = notes->write(unit->state, w->inbox, w->note, &next, err);
    return status   ? status
           : w->end ? semel_fail(err, w->end, "rolled back, as the test wants it")
                    : SEMEL_OK;
}

static int64_t inbox_number(store_fixture *f, const char *name)
{
    int64_t scope = 0;
    OK(f->base.store->driver->scope(f->base.store->state, SEMEL_SCOPE_INBOX, name, &scope,
                                    &last_error));
    return scope;
}

static semel_note_value read_note(store_fixture *f, const char *inbox, semel_note note,
                                  semel_note_lock lock)
{
    semel_note_value value = {.number = 77, .text = "not read"};
    note_work w = {inbox_number(f, inbox), note, lock, NULL, 0, SEMEL_OK, &value};
    OK(store_transact(f->base.store, SEMEL_BEGIN_RELAXED, use_note, &w, &last_error));
    return value;
}

static semel_status write_note(store_fixture *f, const char *inbox, semel_note note,
                               const semel_note_value *value, semel_status end)
{
    semel_note_value before;
    note_work w = {inbox_number(f, inbox), note, SEMEL_NOTE_EXCLUSIVE, value, 0, end, &before};
    return store_transact(f->base.store, SEMEL_BEGIN_RELAXED, use_note, &w, &last_error);
}

static void assert_note(store_fixture *f, const char *inbox, semel_note note, int64_t number,
                        const char *text)
{
    for (semel_note_lock lock = SEMEL_NOTE_UNLOCKED; lock <= SEMEL_NOTE_EXCLUSIVE; lock++) {
        semel_note_value value = read_note(f, inbox, note, lock);
        assert_int_equal(value.number, number);
        assert_string_equal(value.text, text);
    }
}

static void a_note_is_there_as_it_was_written(void **state)
{
    store_fixture *f = *state;
    static semel_note_value longest = {.number = INT64_MAX};
    memset(longest.text, 'x', SEMEL_NOTE_TEXT_MAX);
    assert_note(f, "one", SEMEL_NOTE_SWEEP, 0, "");
    OK(write_note(f, "one", SEMEL_NOTE_SWEEP, &(semel_note_value){.number = -5, .text = "a 'b'"},
                  SEMEL_OK));
    assert_note(f, "one", SEMEL_NOTE_SWEEP, -5, "a 'b'");
    OK(write_note(f, "one", SEMEL_NOTE_SWEEP, &longest, SEMEL_OK));
    assert_note(f, "one", SEMEL_NOTE_SWEEP, INT64_MAX, longest.text);
    assert_note(f, "one", SEMEL_NOTE_HORIZON, 0, "");
    assert_note(f, "other", SEMEL_NOTE_SWEEP, 0, "");
    OK(write_note(f, "one", SEMEL_NOTE_SWEEP, &(semel_note_value){.number = 1}, SEMEL_OK));
    assert_note(f, "one", SEMEL_NOTE_SWEEP, 1, "");
}

static void a_note_that_is_rolled_back_is_as_it_was(void **state)
{
    store_fixture *f = *state;
    semel_note_value first = {.number = 1, .text = "first"}, second = {.number = 2};
    FAILS(SEMEL_EHANDLER, write_note(f, "one", SEMEL_NOTE_SWEEP, &second, SEMEL_EHANDLER));
    assert_note(f, "one", SEMEL_NOTE_SWEEP, 0, "");
    OK(write_note(f, "one", SEMEL_NOTE_SWEEP, &first, SEMEL_OK));
    FAILS(SEMEL_EHANDLER, write_note(f, "one", SEMEL_NOTE_SWEEP, &second, SEMEL_EHANDLER));
    assert_note(f, "one", SEMEL_NOTE_SWEEP, 1, "first");
}

static void the_clock_of_a_note_is_that_of_the_store(void **state)
{
    store_fixture *f = *state;
    OK(write_note(f, "one", SEMEL_NOTE_SWEEP, &(semel_note_value){.number = 1}, SEMEL_OK));
    int64_t before = 0, after = 0;
    OK(semel_store_now(&before, f->base.store, &last_error));
    semel_note_value value = read_note(f, "one", SEMEL_NOTE_SWEEP, SEMEL_NOTE_UNLOCKED);
    OK(semel_store_now(&after, f->base.store, &last_error));
    assert_in_range(value.now_ms, before, after);
}

enum { COUNTERS = 4, COUNTS = 10 };

typedef struct counting {
    store_fixture *f;
    semel_store *stores[2];
    int64_t inbox;
    atomic_int failed;
} counting;

static void count_up(test_thread *member)
{
    counting *all = member->context;
    semel_store *store = all->stores[member->index % 2];
    for (int i = 0; i < COUNTS; i++) {
        semel_error err = {0};
        semel_note_value value;
        note_work w = {all->inbox, SEMEL_NOTE_SWEEP, SEMEL_NOTE_EXCLUSIVE, NULL, 1, SEMEL_OK,
                       &value};
        semel_status status;
        do
            status = store_transact(store, SEMEL_BEGIN_RELAXED, use_note, &w, &err);
        while (status && err.retryable);
        if (status)
            atomic_fetch_add(&all->failed, 1);
    }
}

/* What a unit has read with EXCLUSIVE, no other changes before it ends. */
static void an_exclusive_note_is_changed_by_one_unit_at_a_time(void **state)
{
    store_fixture *f = *state;
    counting all = {
        .f = f, .stores = {f->base.store, f->base.store}, .inbox = inbox_number(f, "one")};
    if (f->quirks->flags & STORE_SHARED)
        all.stores[1] = open_second_handle(f);
    assert_true(threads_run(COUNTERS, count_up, &all));
    assert_int_equal(atomic_load(&all.failed), 0);
    assert_note(f, "one", SEMEL_NOTE_SWEEP, COUNTERS * COUNTS, "");
}

/* --- what a sweep has forgotten --------------------------------------------------------------- */

static void sweep_all(semel_inbox *inbox)
{
    size_t swept;
    int more;
    do
        OK(semel_inbox_sweep(&swept, &more, inbox, 0, &last_error));
    while (more);
}

static semel_message made_now(store_fixture *f, const char *id)
{
    semel_message message = text_message(id, "10 EUR");
    message.time_ms = wall_of(f);
    return message;
}

/* Both opened anew and by a second handle: the memory is the store's, not the process's. */
static void what_was_swept_is_stale_and_what_was_made_later_runs(void **state)
{
    store_fixture *f = *state;
    semel_inbox *inbox = open_inbox(f, "orders", NULL);
    scripted_handler todo = {0};
    semel_message first = made_now(f, "first"), other = made_now(f, "other");
    RECEIVES(SEMEL_OK, SEMEL_PROCESSED, inbox, &first, &todo);
    pass_ms(f, DAY_MS);
    semel_message late = made_now(f, "late");
    pass_ms(f, 7 * DAY_MS);
    RECEIVES(SEMEL_OK, SEMEL_DUPLICATE, inbox, &first, &todo);
    sweep_all(inbox);
    for (int again = 0; again < 2; again++) {
        RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &first, &todo);
        RECEIVES(SEMEL_EREJECTED, SEMEL_STALE, inbox, &other, &todo);
        RECEIVES(SEMEL_OK, again ? SEMEL_DUPLICATE : SEMEL_PROCESSED, inbox, &late, &todo);
        if (f->quirks->flags & STORE_KEEPS) {
            reopen(f);
            inbox = open_inbox(f, "orders", NULL);
        }
    }
    assert_int_equal(todo.runs, 2);
}

/* --- the definition --------------------------------------------------------------------------- */

static semel_status open_with_key(semel_store *store, semel_mode mode, const char *key,
                                  semel_error *err)
{
    semel_inbox_options options = {.size = sizeof options, .mode = mode, .key = key};
    semel_inbox *inbox = NULL;
    semel_status status = semel_inbox_open(&inbox, store, "orders", &options, err);
    semel_inbox_close(inbox);
    return status;
}

static void another_key_is_refused_also_when_opened_anew(void **state)
{
    store_fixture *f = *state;
    OK(open_with_key(f->base.store, f->mode, "type+id", &last_error));
    if (f->quirks->flags & STORE_KEEPS)
        reopen(f);
    FAILS(SEMEL_EINVAL, open_with_key(f->base.store, f->mode, "id", &last_error));
    SAYS("key type+id, mode");
    SAYS("key id, mode");
    OK(open_with_key(f->base.store, f->mode, "type+id", &last_error));
}

enum { OPENERS = 6 };

typedef struct opening {
    semel_mode mode;
    semel_store *stores[3];
    semel_status status[OPENERS];
    semel_error err[OPENERS];
} opening;

static void open_one(test_thread *member)
{
    opening *all = member->context;
    unsigned i = member->index;
    do
        all->status[i] =
            open_with_key(all->stores[i % 3], all->mode, i % 2 ? "id" : "type+id", &all->err[i]);
    while (all->status[i] && all->err[i].retryable);
}

/* One of them is first, and its definition holds for all. */
static void of_two_definitions_at_once_one_is_refused(void **state)
{
    store_fixture *f = *state;
    opening all = {.mode = f->mode, .stores = {f->base.store, f->base.store, f->base.store}};
    for (int i = 1; i < 3 && f->quirks->flags & STORE_SHARED; i++)
        all.stores[i] = open_second_handle(f);
    assert_true(threads_run(OPENERS, open_one, &all));
    for (int i = 0; i < OPENERS; i++) {
        if (all.status[i] != all.status[i % 2] || (all.status[i] && all.status[i] != SEMEL_EINVAL))
            fail_msg("%d: %s: %s", i, semel_status_name(all.status[i]), all.err[i].text);
    }
    assert_true(!all.status[0] != !all.status[1]);
}

const store_test store_note_tests[] = {
    STORE_TEST_WITH(a_note_is_there_as_it_was_written, IN_ANY_MODE),
    STORE_TEST_WITH(a_note_that_is_rolled_back_is_as_it_was, IN_ANY_MODE),
    STORE_TEST_WITH(the_clock_of_a_note_is_that_of_the_store, IN_ANY_MODE),
    STORE_TEST_WITH(an_exclusive_note_is_changed_by_one_unit_at_a_time, IN_ANY_MODE),
    STORE_TEST_WITH(what_was_swept_is_stale_and_what_was_made_later_runs, NEEDS_SWEEP),
    STORE_TEST(another_key_is_refused_also_when_opened_anew),
    STORE_TEST_WITH(of_two_definitions_at_once_one_is_refused, IN_ANY_MODE),
    {NULL, NULL, 0},
};
