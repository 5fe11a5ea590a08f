/* Several processes on one queue in an SQLite file. */
#include "support/base/check.h"
#include "support/base/scratch.h"
#include "support/process/deadline.h"
#include "support/scenario/queue_processes.h"

static scratch directory;
static char url[SCRATCH_PATH];

static int setup(void **state)
{
    (void)state;
    deadline_begin();
    scratch_open(&directory);
    scratch_sqlite(url, &directory, "store.db");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_close(&directory);
    deadline_end();
    return 0;
}

static void consumers_keep_the_order_of_each_group(void **state)
{
    (void)state;
    queue_processes_keep_the_order(url);
}

static void nothing_is_lost_when_processes_are_killed(void **state)
{
    (void)state;
    queue_processes_are_killed(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(consumers_keep_the_order_of_each_group, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_lost_when_processes_are_killed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
