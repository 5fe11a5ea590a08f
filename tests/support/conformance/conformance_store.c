/* The runner of the store suite. The tests are in conformance_store_*.c, the tools they use in
 * store_fixture.c.
 *
 * cmocka takes an array of tests, each with a pointer that its setup sees. Here the array is made from
 * the lists of the parts: one entry per test and mode, whose pointer says which store and which mode. */
#include "support/conformance/conformance_store.h"

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

static const store_test *const parts[] = {
    store_opening_tests, store_marker_tests,  store_key_tests,   store_claim_tests,
    store_batch_tests,   store_outbox_tests,  store_relay_tests, store_group_tests,
    store_parking_tests, store_handoff_tests, store_sweep_tests, store_clock_tests,
    store_dead_tests,    store_replay_tests,  store_driver_tests};

/* --- one test ------------------------------------------------------------------------------------- */

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
    f->quirks->make(f->url);
    f->store = open_second_handle(f);
    if (!(the_case->test->flags & NOT_MIGRATED))
        OK(semel_store_migrate(f->store, &last_error));
    return 0;
}

static int teardown(void **state)
{
    store_fixture *f = *state;
    close_all(f);
    clock_close(f);
    if (f->quirks->remove)
        f->quirks->remove(f->url);
    free(f);
    deadline_end();
    return 0;
}

/* --- the list ------------------------------------------------------------------------------------- */

/* What a store says it cannot do is not asked of it. */
static int is_possible(const store_quirks *quirks, const store_test *test)
{
    unsigned has = quirks->flags;
    return !((test->flags & NEEDS_KEEPS && !(has & STORE_KEEPS)) ||
             (test->flags & NEEDS_SHARED && !(has & STORE_SHARED)) ||
             (test->flags & NEEDS_MIGRATES && !(has & STORE_MIGRATES)) ||
             (test->flags & NEEDS_HOST_CLOCK && has & STORE_SERVER_CLOCK));
}

static void add_case(struct CMUnitTest *tests, suite_case *cases, size_t *count,
                     const store_quirks *quirks, const store_test *test, semel_mode mode)
{
    if (!is_possible(quirks, test))
        return;
    suite_case *one = &cases[*count];
    const char *suffix = (test->flags & IN_ANY_MODE) == IN_ANY_MODE ? ""
                         : mode == SEMEL_CLAIM                      ? ", by claim"
                                                                    : ", by transaction";
    assert_true(*count < CASES_MAX);
    *one = (suite_case){.quirks = quirks, .test = test, .mode = mode};
    (void)snprintf(one->name, sizeof one->name, "%s%s", test->name, suffix);
    tests[(*count)++] = (struct CMUnitTest){one->name, test->run, setup, teardown, one};
}

static void add_part(struct CMUnitTest *tests, suite_case *cases, size_t *count,
                     const store_quirks *quirks, const store_test *part)
{
    for (; part->name; part++) {
        unsigned modes = part->flags & IN_ANY_MODE;
        if (modes != IN_CLAIM_MODE)
            add_case(tests, cases, count, quirks, part, SEMEL_TRANSACTION);
        if (modes == IN_CLAIM_MODE || !modes)
            add_case(tests, cases, count, quirks, part, SEMEL_CLAIM);
    }
}

int conformance_store(const store_quirks *quirks)
{
    static struct CMUnitTest tests[CASES_MAX];
    static suite_case cases[CASES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        add_part(tests, cases, &count, quirks, parts[i]);
    return _cmocka_run_group_tests(quirks->name, tests, count, NULL, NULL);
}
