/* The library's own nth allocation fails, for every n, in every operation. It returns SEMEL_ENOMEM
 * or succeeds, leaves nothing half done and leaks nothing (AddressSanitizer looks), and the same
 * call works afterwards. SQLite's own allocations have a program of their own:
 * test_oom_sqlite.c. */
#include "support/scenario/oom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka needs the first two. */
#include <cmocka.h>

static void survives_on_memory(void **state)
{
    oom_everywhere(*state, &oom_library, OOM_MEMORY, 1);
}

static void survives_on_sqlite(void **state)
{
    oom_everywhere(*state, &oom_library, OOM_SQLITE, 1);
}

int main(void)
{
    enum { TESTS_MAX = 96 };
    static struct CMUnitTest tests[TESTS_MAX];
    static char names[TESTS_MAX][96];
    size_t count = 0;
    for (size_t i = 0; i < 2 * oom_operation_count; i++) {
        const oom_operation *operation = &oom_operations[i / 2];
        int sqlite = i % 2 == 1;
        if (operation->sqlite_only && !sqlite)
            continue;
        (void)snprintf(names[count], sizeof names[count], "out of memory: %s (%s)", operation->name,
                       sqlite ? "sqlite" : "memory");
        tests[count] =
            (struct CMUnitTest){names[count], sqlite ? survives_on_sqlite : survives_on_memory,
                                NULL, NULL, (void *)operation};
        count++;
    }
    return _cmocka_run_group_tests("out of memory", tests, count, NULL, NULL);
}
