/* The runner of the store suite. The tests are in conformance_store_*.c, the tools they use in
 * store_fixture.c.
 *
 * cmocka takes an array of tests, each with a pointer that its setup sees. Here the array is made
 * from the lists of the parts: one entry per test and mode, whose pointer says which store and
 * which mode. */
#include "support/conformance/conformance_store.h"

#include "core/store.h"
#include "support/process/deadline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 512, NAME_ROOM = 120 };

typedef struct suite_case {
    const store_quirks *quirks;
    const store_test *test;
    semel_mode mode;
    char name[NAME_ROOM];
} suite_case;

/* A part that needs something needs it for each of its tests. */
typedef struct suite_part {
    const store_test *tests;
    unsigned needs;
} suite_part;

static const suite_part parts[] = {{store_opening_tests, 0},
                                   {store_marker_tests, 0},
                                   {store_key_tests, 0},
                                   {store_claim_tests, 0},
                                   {store_batch_tests, 0},
                                   {store_pace_tests, 0},
                                   {store_outbox_tests, NEEDS_OUTBOX},
                                   {store_relay_tests, NEEDS_OUTBOX},
                                   {store_group_tests, NEEDS_OUTBOX},
                                   {store_parking_tests, NEEDS_OUTBOX},
                                   {store_handoff_tests, NEEDS_OUTBOX},
                                   {store_handoff_batch_tests, NEEDS_OUTBOX},
                                   {store_sweep_tests, NEEDS_SWEEP},
                                   {store_clock_tests, 0},
                                   {store_dead_tests, NEEDS_DEAD},
                                   {store_replay_tests, NEEDS_DEAD},
                                   {store_letter_tests, NEEDS_DEAD},
                                   {store_driver_tests, 0},
                                   {store_note_tests, NEEDS_NOTES},
                                   {store_position_tests, NEEDS_NOTES},
                                   {store_retention_tests, NEEDS_SWEEP | NEEDS_DEAD},
                                   {store_look_tests, NEEDS_LISTS},
                                   {store_list_tests, NEEDS_LISTS | NEEDS_OUTBOX},
                                   {store_stats_tests, NEEDS_STATS},
                                   {store_statement_tests, NEEDS_QUEUE | NEEDS_SQL},
                                   {store_operate_tests, NEEDS_OPERATION},
                                   {store_waiting_tests, NEEDS_OPERATION | NEEDS_LISTS},
                                   {store_cause_tests, NEEDS_OPERATION | NEEDS_DEAD},
                                   {store_history_tests, NEEDS_HISTORY}};

/* --- one test --------------------------------------------------------------------------------- */

static int setup(void **state)
{
    const suite_case *the_case = *state;
    store_fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    f->quirks = the_case->quirks;
    f->mode = the_case->mode;
    *state = f;
    deadline_begin();
    clock_open(f);
    int migrated = !(the_case->test->flags & NOT_MIGRATED);
    (migrated && f->quirks->make_ready ? f->quirks->make_ready
                                       : f->quirks->make)(f->base.place.url);
    open_store(f);
    if (migrated)
        OK(semel_store_migrate(f->base.store, &last_error));
    return 0;
}

static int teardown(void **state)
{
    store_fixture *f = *state;
    close_all(f);
    clock_close(f);
    if (f->quirks->remove)
        f->quirks->remove(f->base.place.url);
    free(f);
    deadline_end();
    return 0;
}

/* --- what the driver leaves out --------------------------------------------------------------- */

static unsigned markers_lack(const semel_store_markers *markers)
{
    return (markers->mark ? 0 : LACKS_TRANSACTIONS) | (markers->finish ? 0 : LACKS_CLAIMS) |
           (markers->result_get ? 0 : LACKS_RESULTS) | (markers->sweep ? 0 : LACKS_SWEEP);
}

static unsigned table_lacks(const semel_store_driver *driver)
{
    const semel_store_units *units = driver->units;
    assert_true(!units->check == !units->queue);
    return markers_lack(driver->markers) | (driver->outbox ? 0 : LACKS_OUTBOX) |
           (driver->dead ? 0 : LACKS_DEAD) | (units->savepoint ? 0 : LACKS_SAVEPOINTS) |
           (units->queue ? 0 : LACKS_QUEUE) | (units->join ? 0 : LACKS_JOIN) |
           (driver->notes ? 0 : LACKS_NOTES) | (driver->lists ? 0 : LACKS_LISTS) |
           (driver->lists && driver->lists->sent ? 0 : LACKS_SENT) |
           (driver->stats ? 0 : LACKS_STATS) | (driver->operation ? 0 : LACKS_OPERATION) |
           (driver->history ? 0 : LACKS_HISTORY);
}

static const semel_store_driver *find_driver(const store_quirks *quirks)
{
    char url[URL_ROOM];
    const semel_store_driver *driver = quirks->driver;
    if (driver)
        return driver;
    quirks->make(url);
    semel_status status = store_driver_find(&driver, url, &last_error);
    if (quirks->remove)
        quirks->remove(url);
    return status ? NULL : driver;
}

/* Otherwise tests would be left out unnoticed, or asked of a driver that does not claim to pass
 * them. */
static int lacks_what_it_says(const store_quirks *quirks)
{
    const semel_store_driver *driver = find_driver(quirks);
    unsigned lacks = driver ? table_lacks(driver) : 0;
    if (driver && lacks == quirks->lacks)
        return 1;
    print_error("%s: the driver's table lacks %#x, and its quirks say %#x (LACKS_...)\n",
                quirks->name, lacks, quirks->lacks);
    return 0;
}

/* --- the list --------------------------------------------------------------------------------- */

static int flags_allow(const store_quirks *quirks, unsigned needs)
{
    unsigned has = quirks->flags;
    return !((needs & NEEDS_KEEPS && !(has & STORE_KEEPS)) ||
             (needs & NEEDS_SHARED && !(has & STORE_SHARED)) ||
             (needs & NEEDS_MIGRATES && !(has & STORE_MIGRATES)) ||
             (needs & NEEDS_SQL && has & STORE_RECORDS) ||
             (needs & NEEDS_HOST_CLOCK && has & STORE_SERVER_CLOCK) ||
             (needs & NEEDS_STORED_CLOCK && has & STORE_PROCESS_CLOCK));
}

static int members_allow(const store_quirks *quirks, unsigned needs)
{
    static const unsigned lacking[][2] = {
        {NEEDS_OUTBOX, LACKS_OUTBOX},       {NEEDS_DEAD, LACKS_DEAD},
        {NEEDS_RESULTS, LACKS_RESULTS},     {NEEDS_SAVEPOINTS, LACKS_SAVEPOINTS},
        {NEEDS_SWEEP, LACKS_SWEEP},         {NEEDS_LISTS, LACKS_LISTS},
        {NEEDS_SENT, LACKS_SENT},           {NEEDS_NOTES, LACKS_NOTES},
        {NEEDS_STATS, LACKS_STATS},         {NEEDS_QUEUE, LACKS_QUEUE},
        {NEEDS_OPERATION, LACKS_OPERATION}, {NEEDS_HISTORY, LACKS_HISTORY}};
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
        if (needs & lacking[i][0] && quirks->lacks & lacking[i][1])
            return 0;
    return 1;
}

static int has_mode(const store_quirks *quirks, semel_mode mode)
{
    return !(quirks->lacks & (mode == SEMEL_CLAIM ? LACKS_CLAIMS : LACKS_TRANSACTIONS));
}

/* The suite as it is put together: what a store says it cannot do is not asked of it. */
typedef struct suite {
    const store_quirks *quirks;
    struct CMUnitTest tests[CASES_MAX];
    suite_case cases[CASES_MAX];
    size_t count;
    size_t left_out;
} suite;

static void add_case(suite *s, const store_test *test, unsigned needs, semel_mode mode)
{
    unsigned all = test->flags | needs;
    if (!flags_allow(s->quirks, all) || !members_allow(s->quirks, all) ||
        !has_mode(s->quirks, mode)) {
        s->left_out++;
        return;
    }
    assert_true(s->count < CASES_MAX);
    suite_case *one = &s->cases[s->count];
    const char *suffix = (test->flags & IN_ANY_MODE) == IN_ANY_MODE ? ""
                         : mode == SEMEL_CLAIM                      ? ", by claim"
                                                                    : ", by transaction";
    *one = (suite_case){.quirks = s->quirks, .test = test, .mode = mode};
    (void)snprintf(one->name, sizeof one->name, "%s%s", test->name, suffix);
    s->tests[s->count++] = (struct CMUnitTest){one->name, test->run, setup, teardown, one};
}

static void add_part(suite *s, const suite_part *part)
{
    semel_mode any = has_mode(s->quirks, SEMEL_TRANSACTION) ? SEMEL_TRANSACTION : SEMEL_CLAIM;
    for (const store_test *test = part->tests; test->name; test++) {
        unsigned modes = test->flags & IN_ANY_MODE;
        if (modes == IN_ANY_MODE)
            add_case(s, test, part->needs, any);
        if (modes == IN_TRANSACTION_MODE || !modes)
            add_case(s, test, part->needs, SEMEL_TRANSACTION);
        if (modes == IN_CLAIM_MODE || !modes)
            add_case(s, test, part->needs, SEMEL_CLAIM);
    }
}

int conformance_store(const store_quirks *quirks)
{
    static suite s;
    s.quirks = quirks;
    s.count = s.left_out = 0; /* a program may run it for several stores */
    if (!lacks_what_it_says(quirks))
        return 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        add_part(&s, &parts[i]);
    print_message("%s: %zu tests; %zu are left out, for what the store does not claim to do\n",
                  quirks->name, s.count, s.left_out);
    cmocka_set_test_filter(getenv("SEMEL_TEST_FILTER")); /* NULL: all */
    return _cmocka_run_group_tests(quirks->name, s.tests, s.count, NULL, NULL);
}
