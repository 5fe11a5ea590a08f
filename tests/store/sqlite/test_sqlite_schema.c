/* The steps of the tables in a file of SQLite: scenario/migration.h. */
#include "support/base/check.h"
#include "support/scenario/migration.h"

static void on_a_place(void (*scenario)(store_place *place))
{
    store_place place;
    store_place_open(&place, PLACE_SQLITE);
    scenario(&place);
    store_place_close(&place);
}

static void steps_are_taken_one_by_one(void **state)
{
    (void)state;
    on_a_place(migration_step_by_step);
}

static void a_step_that_is_killed_is_begun_anew(void **state)
{
    (void)state;
    on_a_place(migration_killed_everywhere);
}

static void rows_of_older_versions_are_read(void **state)
{
    (void)state;
    on_a_place(migration_old_rows);
}

static void a_store_is_inspected(void **state)
{
    (void)state;
    on_a_place(migration_inspected);
}

static void newer_tables_say_whether_they_may_be_used(void **state)
{
    (void)state;
    on_a_place(migration_newer_tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_are_taken_one_by_one),
                                       cmocka_unit_test(a_step_that_is_killed_is_begun_anew),
                                       cmocka_unit_test(rows_of_older_versions_are_read),
                                       cmocka_unit_test(a_store_is_inspected),
                                       cmocka_unit_test(newer_tables_say_whether_they_may_be_used)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
