/* SIGKILL at every named point of the library, in real processes, then a restart: the invariants of
 * docs/GUARANTEES.md must hold. The workflows and the checks are in support/crash.h.
 *
 * For each workflow: once without a fault, to see which points it passes, and that running it twice does
 * not hurt; then, for each of those points, killed there the first, second, third and last time that it
 * is passed (under sanitizers the first time only). */
#include "support/crash.h"
#include "support/peek.h"
#include "support/process.h"
#include "support/slower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* cmocka needs the first two. */
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static uint32_t covered[CRASH_POINTS_MAX]; /* kills at each point, over all workflows */

typedef struct attempt {
    const crash_stage *stage;
    const crash_workflow *flow;
    const char *point; /* NULL: it is not killed */
    uint32_t nth;
} attempt;

/* --- the processes ------------------------------------------------------------------------------------- */

static int prepare(void *context)
{
    const attempt *a = context;
    crash_world w = {0};
    crash_workflow bare = *a->flow;
    bare.bare = 1;
    crash_world_open(&w, a->stage, &bare, 0);
    PROCESS_REQUIRE_OK(semel_store_migrate(w.store, &w.err), &w.err);
    peek_run(a->stage->file, "CREATE TABLE effect (key TEXT)");
    w.flow = a->flow;
    crash_world_open_rest(&w);
    if (a->flow->prepare)
        a->flow->prepare(&w);
    crash_world_close(&w);
    return PROCESS_OK;
}

static int run_and_die(void *context)
{
    const attempt *a = context;
    crash_world w = {0};
    crash_world_open(&w, a->stage, a->flow, 0);
    if (a->point)
        semel_test_fault(w.seam, a->point, a->nth, SEMEL_OK);
    a->flow->run(&w);
    crash_world_report(&w);
    crash_world_close(&w);
    return PROCESS_OK;
}

static int run_again(void *context)
{
    const attempt *a = context;
    crash_world w = {0};
    crash_world_open(&w, a->stage, a->flow, 1);
    a->flow->run(&w);
    crash_drain(&w);
    crash_world_close(&w);
    return PROCESS_OK;
}

/* --- one workflow --------------------------------------------------------------------------------------- */

static void make_template(const crash_stage *stage, const crash_workflow *flow)
{
    attempt a = {stage, flow, NULL, 0};
    char path[SCRATCH_PATH];
    if (flow->bare) {
        int fd = open(scratch_file(path, &stage->dir, "template.db"), O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        close(fd);
        return;
    }
    assert_int_equal(process_run(prepare, &a), PROCESS_OK);
    peek_run(stage->file, "PRAGMA wal_checkpoint(TRUNCATE)");
    scratch_copy(&stage->dir, "shop.db", "template.db");
}

static void set_the_stage(const crash_stage *stage)
{
    scratch_copy(&stage->dir, "template.db", "shop.db");
    unlink(stage->broker);
    memset(stage->shared, 0, sizeof *stage->shared);
}

static void check(const char *wrong, const attempt *a)
{
    if (wrong && a->point)
        fail_msg("\"%s\", killed at %s (time %u): %s", a->flow->name, a->point, a->nth, wrong);
    else if (wrong)
        fail_msg("\"%s\", not killed: %s", a->flow->name, wrong);
}

static void check_end(int end, int expected, const char *which, const attempt *a)
{
    if (end != expected)
        fail_msg("\"%s\", killed at %s (time %u): the %s process ended with %d, not %d",
                 a->flow->name, a->point ? a->point : "no point", a->nth, which, end, expected);
}

static void run_through(const attempt *a)
{
    set_the_stage(a->stage);
    int killed = PROCESS_KILLED + SIGKILL;
    check_end(process_run(run_and_die, (void *)a), a->point ? killed : PROCESS_OK, "first", a);
    check(crash_check_killed(a->stage, a->flow), a);
    check_end(process_run(run_again, (void *)a), PROCESS_OK, "second", a);
    check(crash_check_ended(a->stage, a->flow), a);
}

/* Which points it passes, written as in the table of workflows. */
static void check_points(const crash_stage *stage, const crash_workflow *flow)
{
    char passed[2048] = "";
    for (size_t i = 0; i < crash_point_count; i++)
        if (stage->shared->passed[i]) {
            strcat(passed, crash_points[i]);
            strcat(passed, " ");
        }
    assert_string_equal(passed, flow->points);
}

static void kill_at(const crash_stage *stage, const crash_workflow *flow, size_t point,
                    uint32_t passed)
{
    const uint32_t times = SLOWER > 1 && passed ? 1 : passed;
    for (uint32_t nth = 1; nth <= times; nth = nth == 3 && times > 3 ? times : nth + 1) {
        attempt a = {stage, flow, crash_points[point], nth};
        run_through(&a);
        covered[point]++;
    }
}

static void survives_a_kill_everywhere(void **state)
{
    const crash_workflow *flow = *state;
    attempt unharmed = {NULL, flow, NULL, 0};
    uint32_t passed[CRASH_POINTS_MAX];
    crash_stage stage;
    crash_stage_open(&stage);
    unharmed.stage = &stage;
    make_template(&stage, flow);
    run_through(&unharmed);
    check_points(&stage, flow);
    memcpy(passed, stage.shared->passed, sizeof passed);
    for (size_t i = 0; i < crash_point_count; i++)
        kill_at(&stage, flow, i, passed[i]);
    crash_stage_close(&stage);
}

static void every_point_was_covered(void **state)
{
    (void)state;
    for (size_t i = 0; i < crash_point_count; i++)
        if (!covered[i])
            fail_msg("no workflow was killed at %s", crash_points[i]);
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
