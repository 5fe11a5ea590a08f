/* F6: SQLite's own nth allocation fails, for every n, in every operation on the SQLite store: only that one,
 * or that one and all that follow. See test_oom.c. */
#include "support/oom.h"
#include "support/slower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>

/* Parsing statements and reading the schema take hundreds of allocations: every one is tried on the paths
 * of receiving, every third or so on the others. */
static long stride_of(const oom_operation *operation, long usual)
{
    return usual * (operation->stride ? operation->stride : 1) * SLOWER;
}

static void survives_one(void **state)
{
    oom_everywhere(*state, &oom_sqlite_once, 1, stride_of(*state, 1));
}

static void survives_all(void **state)
{
    oom_everywhere(*state, &oom_sqlite_for_good, 1, stride_of(*state, 4));
}

int main(void)
{
    enum { TESTS_MAX = 64 };
    static struct CMUnitTest tests[TESTS_MAX];
    static char names[TESTS_MAX][96];
    size_t count = 0;
    oom_watch_sqlite();
    for (size_t i = 0; i < oom_operation_count; i++)
        for (int all = 0; all < 2; all++, count++) {
            (void)snprintf(names[count], sizeof names[count], "SQLite out of memory%s: %s",
                           all ? " for good" : "", oom_operations[i].name);
            tests[count] = (struct CMUnitTest){names[count], all ? survives_all : survives_one,
                                               NULL, NULL, (void *)&oom_operations[i]};
        }
    return _cmocka_run_group_tests("out of memory in SQLite", tests, count, NULL, NULL);
}
