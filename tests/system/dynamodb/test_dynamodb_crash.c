/* SIGKILL at every named point of the library, on DynamoDB: what test_crash.c does on SQLite, with
 * messages as effects. */
#include "support/base/check.h"
#include "support/scenario/crash_kill.h"

#include <stdio.h>

enum { FLOWS_MAX = 48, NAME_ROOM = 96 };

static uint32_t covered[CRASH_POINTS_MAX];

static void survives_a_kill_everywhere(void **state)
{
    crash_stage stage;
    store_place place;
    crash_workflow flow = crash_in_transaction(*state);
    store_place_open_shared(&place, SERVER_DYNAMODB);
    crash_stage_open(&stage, &place);
    crash_kill_everywhere(&stage, &flow, covered);
    crash_stage_close(&stage);
    store_place_close(&place);
}

static void every_point_was_covered(void **state)
{
    (void)state;
    crash_check_covered(covered);
}

int main(void)
{
    static struct CMUnitTest tests[FLOWS_MAX + 1];
    static char names[FLOWS_MAX][NAME_ROOM];
    size_t count = 0;
    for (; count < crash_workflow_count && count < FLOWS_MAX; count++) {
        (void)snprintf(names[count], NAME_ROOM, "survives a kill everywhere: %s",
                       crash_workflows[count].name);
        tests[count] = (struct CMUnitTest){names[count], survives_a_kill_everywhere, NULL, NULL,
                                           (void *)(uintptr_t)&crash_workflows[count]};
    }
    tests[count++] = (struct CMUnitTest){"every point of SEMEL_FAULT_POINTS was covered",
                                         every_point_was_covered, NULL, NULL, NULL};
    return _cmocka_run_group_tests("crash on DynamoDB", tests, count, NULL, NULL);
}
