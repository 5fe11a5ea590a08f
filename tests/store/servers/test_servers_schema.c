/* The steps of the tables on servers: scenario/migration.h. */
#include "support/base/check.h"
#include "support/scenario/migration.h"
#include "support/servers/server_each.h"

static void on_a_place(void **state, void (*scenario)(store_place *place))
{
    store_place place;
    store_place_open_shared(&place, (server_kind)(uintptr_t)*state);
    scenario(&place);
    store_place_close(&place);
}

static void steps_are_taken_one_by_one(void **state)
{
    on_a_place(state, migration_step_by_step);
}

static void a_step_that_is_killed_is_begun_anew(void **state)
{
    on_a_place(state, migration_killed_everywhere);
}

static void rows_of_older_versions_are_read(void **state)
{
    on_a_place(state, migration_old_rows);
}

static void a_store_is_inspected(void **state)
{
    on_a_place(state, migration_inspected);
}

static void newer_tables_say_whether_they_may_be_used(void **state)
{
    on_a_place(state, migration_newer_tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(steps_are_taken_one_by_one, NULL, NULL),
        ON_EACH(a_step_that_is_killed_is_begun_anew, NULL, NULL),
        ON_EACH(rows_of_older_versions_are_read, NULL, NULL),
        ON_EACH(a_store_is_inspected, NULL, NULL),
        ON_EACH(newer_tables_say_whether_they_may_be_used, NULL, NULL)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
