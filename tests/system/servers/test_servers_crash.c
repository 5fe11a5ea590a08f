/* SIGKILL at every named point of the library, on real servers: what test_crash.c does on SQLite,
 * and the same in queued mode and with queued statements. The server rolls back what the dead
 * client had open. */
#include "support/base/check.h"
#include "support/scenario/crash_kill.h"
#include "support/servers/server_each.h"

#include <stdio.h>

typedef struct crash_case {
    server_kind kind;
    const crash_workflow *flow;
} crash_case;

static uint32_t covered[SERVER_MARIADB + 1][CRASH_POINTS_MAX];

static void survives_a_kill_everywhere(void **state)
{
    const crash_case *on = *state;
    crash_stage stage;
    store_place place;
    store_place_open_shared(&place, on->kind);
    crash_stage_open(&stage, &place);
    crash_kill_everywhere(&stage, on->flow, covered[on->kind]);
    crash_stage_close(&stage);
    store_place_close(&place);
}

static void every_point_was_covered(void **state)
{
    const crash_case *on = *state;
    crash_check_covered(covered[on->kind]);
}

enum { CASES_MAX = 60, NAME_ROOM = 128 };

typedef struct programme {
    struct CMUnitTest tests[2 * CASES_MAX];
    char names[2 * CASES_MAX][NAME_ROOM];
    crash_case crash_cases[2 * CASES_MAX];
    size_t count;
} programme;

static void add(programme *all, server_kind kind, const crash_workflow *flow)
{
    size_t i = all->count++;
    assert_true(i < 2 * CASES_MAX);
    all->crash_cases[i] = (crash_case){kind, flow};
    (void)snprintf(all->names[i], NAME_ROOM, "%s: %s%s", server_name(kind),
                   flow ? "survives a kill everywhere: " : "every point was covered",
                   flow ? flow->name : "");
    all->tests[i] = (struct CMUnitTest){all->names[i],
                                        flow ? survives_a_kill_everywhere : every_point_was_covered,
                                        NULL, NULL, &all->crash_cases[i]};
}

int main(void)
{
    static programme all;
    static crash_workflow queued[CRASH_QUEUED_MAX];
    size_t queued_count = crash_queued_workflows(queued);
    for (int server = SERVER_FIRST; server <= SERVER_LAST; server++) {
        server_kind kind = (server_kind)server;
        if (!server_is_wanted(kind))
            continue;
        for (size_t i = 0; i < crash_workflow_count; i++)
            add(&all, kind, &crash_workflows[i]);
        for (size_t i = 0; i < queued_count; i++)
            add(&all, kind, &queued[i]);
        add(&all, kind, NULL);
    }
    return _cmocka_run_group_tests("crash on servers", all.tests, all.count, NULL, NULL);
}
