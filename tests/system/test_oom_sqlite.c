/* SQLite's own nth allocation fails, for every n, in every operation on the SQLite store: only that
 * one, or that one and all that follow, or in a database whose texts must be converted. See
 * test_oom.c. */
#include "support/base/sanitizer.h"
#include "support/scenario/oom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>

/* Parsing statements and reading the schema take hundreds of allocations. On the paths of receiving
 * every one of them fails once; elsewhere, in the variants and under sanitizers, as many as there
 * is time for. */
static long stride_of(const oom_operation *operation, long usual)
{
    return usual * (operation->stride ? operation->stride : 1) * SANITIZER_SLOWDOWN;
}

static void survives_one(void **state)
{
    oom_everywhere(*state, &oom_sqlite_once, OOM_SQLITE, stride_of(*state, 1));
}

static void survives_all(void **state)
{
    oom_everywhere(*state, &oom_sqlite_for_good, OOM_SQLITE, stride_of(*state, 11));
}

static void survives_one_in_utf_16(void **state)
{
    oom_everywhere(*state, &oom_sqlite_once, OOM_SQLITE_UTF16, stride_of(*state, 9));
}

static const struct variant {
    const char *name;
    void (*test)(void **state);
} variants[] = {{"", survives_one},
                {" for good", survives_all},
                {" in a UTF-16 database", survives_one_in_utf_16}};

int main(void)
{
    enum { VARIANTS = sizeof variants / sizeof *variants, TESTS_MAX = 160 };
    static struct CMUnitTest tests[TESTS_MAX];
    static char names[TESTS_MAX][96];
    size_t count = VARIANTS * oom_operation_count;
    oom_watch_sqlite();
    for (size_t i = 0; i < count; i++) {
        const oom_operation *operation = &oom_operations[i / VARIANTS];
        const struct variant *v = &variants[i % VARIANTS];
        (void)snprintf(names[i], sizeof names[i], "SQLite out of memory%s: %s", v->name,
                       operation->name);
        tests[i] = (struct CMUnitTest){names[i], v->test, NULL, NULL, (void *)operation};
    }
    return _cmocka_run_group_tests("out of memory in SQLite", tests, count, NULL, NULL);
}
