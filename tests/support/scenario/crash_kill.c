/* See crash_kill.h. */
#include "support/scenario/crash_kill.h"

#include "support/base/check.h"
#include "support/base/sanitizer.h"
#include "support/inspect/inspect.h"
#include "support/process/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct attempt {
    const crash_stage *stage;
    const crash_workflow *flow;
    const char *point; /* NULL: it is not killed */
    uint32_t nth;
} attempt;

/* --- the processes ---------------------------------------------------------------------------- */

static int prepare(void *context)
{
    const attempt *a = context;
    crash_world w = {0};
    crash_workflow bare = *a->flow;
    bare.bare = 1;
    crash_world_open(&w, a->stage, &bare, CRASH_FIRST);
    PROCESS_REQUIRE_OK(semel_store_migrate(w.base.store, &w.err), &w.err);
    effect_build(a->stage->place, "effect");
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
    crash_world_open(&w, a->stage, a->flow, CRASH_FIRST);
    if (a->point)
        semel_test_fault(w.base.seam, a->point, a->nth, SEMEL_OK);
    a->flow->run(&w);
    crash_world_report(&w);
    crash_world_close(&w);
    return PROCESS_OK;
}

static int run_to_the_end(const attempt *a, int again)
{
    crash_world w = {0};
    crash_world_open(&w, a->stage, a->flow, again);
    a->flow->run(&w);
    crash_drain(&w);
    crash_world_close(&w);
    return PROCESS_OK;
}

static int run_again(void *context)
{
    return run_to_the_end(context, CRASH_AGAIN);
}

static int run_once_more(void *context)
{
    return run_to_the_end(context, CRASH_ONCE_MORE);
}

/* --- the store as it is before each attempt --------------------------------------------------- */

static const char *const kept_tables[] = {"semel_marker", "semel_outbox", "semel_dead",
                                          "semel_note",   "semel_sent",   "effect"};

/* Nothing is kept of a store that is empty, or whose rows cannot be copied: it is prepared each
 * time. */
static int keeps_template(const crash_stage *stage, const crash_workflow *flow)
{
    return !flow->bare && stage->place->has_sql;
}

static void prepare_store(const crash_stage *stage, const crash_workflow *flow)
{
    attempt a = {stage, flow, NULL, 0};
    memset(stage->shared, 0, sizeof *stage->shared);
    assert_int_equal(process_run(prepare, &a), PROCESS_OK);
    store_place_wait_quiet(stage->place);
}

static void make_template(const crash_stage *stage, const crash_workflow *flow)
{
    const store_place *place = stage->place;
    char text[SCRATCH_PATH];
    if (!keeps_template(stage, flow))
        return;
    prepare_store(stage, flow);
    if (place->kind == PLACE_SQLITE) {
        inspect_run(place->url, "PRAGMA wal_checkpoint(TRUNCATE)");
        scratch_copy(&place->directory, STORE_PLACE_FILE, "template.db");
        return;
    }
    for (size_t i = 0; i < sizeof kept_tables / sizeof *kept_tables; i++) {
        (void)snprintf(text, sizeof text, "CREATE TABLE kept_%s AS SELECT * FROM %s",
                       kept_tables[i], kept_tables[i]);
        inspect_run(place->url, text);
    }
}

/* All of it in one go: each look is a session of its own. */
static void restore_tables(const crash_stage *stage)
{
    int postgres = inspect_is_postgres(stage->place->url);
    /* Both have columns that they fill themselves: PostgreSQL is told to take our values,
     * MariaDB not to mind. */
    char sql[1024];
    const char *numbers = postgres ? "OVERRIDING SYSTEM VALUE " : "";
    (void)snprintf(sql, sizeof sql, "%s", postgres ? "" : "SET sql_mode = '';");
    for (size_t i = 0; i < sizeof kept_tables / sizeof *kept_tables; i++) {
        const char *name = kept_tables[i];
        size_t len = strlen(sql);
        (void)snprintf(sql + len, sizeof sql - len,
                       "DELETE FROM %s; INSERT INTO %s %sSELECT * FROM kept_%s;", name, name,
                       numbers, name);
    }
    inspect_run(stage->place->url, sql);
}

static void set_the_stage(crash_stage *stage, const crash_workflow *flow)
{
    store_place *place = stage->place;
    scratch_remove(&place->directory, "effect.collected");
    if (!keeps_template(stage, flow))
        store_place_renew(place);
    else if (place->kind == PLACE_SQLITE)
        scratch_copy(&place->directory, "template.db", STORE_PLACE_FILE);
    else
        restore_tables(stage);
    if (!keeps_template(stage, flow) && !flow->bare)
        prepare_store(stage, flow);
    scratch_remove(&place->directory, "broker");
    memset(stage->shared, 0, sizeof *stage->shared);
}

/* --- one attempt ------------------------------------------------------------------------------ */

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

static void run_through(crash_stage *stage, attempt *a)
{
    int killed = PROCESS_KILLED + SIGKILL;
    set_the_stage(stage, a->flow);
    int end = process_run(run_and_die, a);
    /* A server's clock runs: what was due apart may be due together, and a later time may not
     * come. */
    if (!(end == PROCESS_OK && a->nth > 1 && stage->place->kind == PLACE_SERVER))
        check_end(end, a->point ? killed : PROCESS_OK, "first", a);
    store_place_wait_quiet(stage->place);
    if (!a->flow->bare || !stage->place->has_sql) /* there may be no table that could get older */
        store_place_pass_ms(stage->place,
                            stage->place->has_sql ? CRASH_LEASE_MS + 1 : CRASH_HOLD_MS);
    check(crash_check_killed(stage, a->flow), a);
    check_end(process_run(run_again, a), PROCESS_OK, "second", a);
    check(crash_check_ended(stage, a->flow), a);
    if (!stage->place->has_sql) { /* what is done is not done again, and so its keys are marked */
        check_end(process_run(run_once_more, a), PROCESS_OK, "third", a);
        check(crash_check_ended(stage, a->flow), a);
    }
    check(crash_check_deliveries(stage, a->flow, a->point), a);
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

/* On a server an attempt takes a dozen sessions: one time for each point, the first or the last in
 * turn. */
static uint32_t first_time(const crash_stage *stage, uint32_t passed, uint32_t covered)
{
    return passed && stage->place->kind == PLACE_SERVER && covered % 2 ? passed : 1;
}

/* The time after this one at which to kill; beyond `passed` when it was the last. */
static uint32_t next_time(const crash_stage *stage, uint32_t nth, uint32_t passed)
{
    if (SANITIZER_SLOWDOWN > 1 || stage->place->kind == PLACE_SERVER || nth == passed)
        return passed + 1;
    return nth < 3 ? nth + 1 : passed;
}

static void kill_at(crash_stage *stage, const crash_workflow *flow, size_t point, uint32_t passed,
                    uint32_t *covered)
{
    for (uint32_t nth = first_time(stage, passed, *covered); nth <= passed;
         nth = next_time(stage, nth, passed)) {
        attempt a = {stage, flow, crash_points[point], nth};
        run_through(stage, &a);
        ++*covered;
    }
}

void crash_kill_everywhere(crash_stage *stage, const crash_workflow *flow,
                           uint32_t covered[CRASH_POINTS_MAX])
{
    attempt unharmed = {stage, flow, NULL, 0};
    uint32_t passed[CRASH_POINTS_MAX];
    make_template(stage, flow);
    run_through(stage, &unharmed);
    check_points(stage, flow);
    memcpy(passed, stage->shared->passed, sizeof passed);
    for (size_t i = 0; i < crash_point_count; i++)
        kill_at(stage, flow, i, passed[i], &covered[i]);
}

void crash_check_covered(const uint32_t covered[CRASH_POINTS_MAX])
{
    for (size_t i = 0; i < crash_point_count; i++)
        if (!covered[i])
            fail_msg("no workflow was killed at %s", crash_points[i]);
}
