/* SIGKILL at every named point of the library, in real processes, then a restart: the invariants of
 * docs/GUARANTEES.md must hold. On SQLite; test_servers_crash.c does it on servers. The workflows and the checks
 * are in support/crash.h, what is done with them in support/crash_kill.h. */
#include "support/base/check.h"
#include "support/scenario/crash_kill.h"

#include <stdio.h>

static uint32_t covered[CRASH_POINTS_MAX]; /* kills at each point, over all workflows */

static void survives_a_kill_everywhere(void **state)
{
    crash_stage stage;
    crash_stage_open(&stage);
    crash_kill_everywhere(&stage, *state, covered);
    crash_stage_close(&stage);
}

static void every_point_was_covered(void **state)
{
    (void)state;
    crash_check_covered(covered);
}

int main(void)
{
    enum { TESTS_MAX = 40 };
    struct CMUnitTest tests[TESTS_MAX] = {{0}};
    char names[TESTS_MAX][96];
    for (size_t i = 0; i < crash_workflow_count; i++) {
        (void)snprintf(names[i], sizeof names[i], "survives a kill everywhere: %s",
                       crash_workflows[i].name);
        tests[i] = (struct CMUnitTest){names[i], survives_a_kill_everywhere, NULL, NULL,
                                       (void *)&crash_workflows[i]};
    }
    tests[crash_workflow_count] = (struct CMUnitTest){
        "every point of SEMEL_FAULT_POINTS was covered", every_point_was_covered, NULL, NULL, NULL};
    return _cmocka_run_group_tests("crash", tests, crash_workflow_count + 1, NULL, NULL);
}
