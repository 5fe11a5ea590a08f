/* SIGKILL at every named point of the library, in real processes, then a restart: the invariants
 * of docs/GUARANTEES.md must hold. On SQLite, with rows as effects; and once more as on a store
 * without SQL, with messages as effects. test_servers_crash.c does it on servers. The workflows
 * and the checks are in support/scenario/crash.h, what is done with them in crash_kill.h. */
#include "support/base/check.h"
#include "support/scenario/crash_kill.h"

#include <stdio.h>

enum { FLOWS_MAX = 48, NAME_ROOM = 96 };

/* Kills at each point, over all workflows. */
static uint32_t covered[CRASH_POINTS_MAX], covered_without_sql[CRASH_POINTS_MAX];

static void survives_a_kill_everywhere(void **state)
{
    crash_stage stage;
    store_place place;
    store_place_open(&place, PLACE_SQLITE);
    crash_stage_open(&stage, &place);
    crash_kill_everywhere(&stage, *state, covered);
    crash_stage_close(&stage);
    store_place_close(&place);
}

static void survives_a_kill_everywhere_without_sql(void **state)
{
    crash_stage stage;
    store_place place;
    crash_workflow flow = crash_in_transaction(*state);
    store_place_open(&place, PLACE_SQLITE);
    place.has_sql = 0;
    crash_stage_open(&stage, &place);
    crash_kill_everywhere(&stage, &flow, covered_without_sql);
    crash_stage_close(&stage);
    store_place_close(&place);
}

static void every_point_was_covered(void **state)
{
    (void)state;
    crash_check_covered(covered);
    crash_check_covered(covered_without_sql);
}

int main(void)
{
    static struct CMUnitTest tests[2 * FLOWS_MAX + 1];
    static char names[2 * FLOWS_MAX][NAME_ROOM];
    size_t count = 0;
    for (size_t i = 0; i < crash_workflow_count && i < FLOWS_MAX; i++)
        for (int without = 0; without < 2; without++, count++) {
            (void)snprintf(names[count], NAME_ROOM, "survives a kill everywhere%s: %s",
                           without ? ", without SQL" : "", crash_workflows[i].name);
            tests[count] = (struct CMUnitTest){names[count],
                                               without ? survives_a_kill_everywhere_without_sql
                                                       : survives_a_kill_everywhere,
                                               NULL, NULL, (void *)&crash_workflows[i]};
        }
    tests[count++] = (struct CMUnitTest){"every point of SEMEL_FAULT_POINTS was covered",
                                         every_point_was_covered, NULL, NULL, NULL};
    return _cmocka_run_group_tests("crash", tests, count, NULL, NULL);
}
