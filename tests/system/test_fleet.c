/* kill -9 at any moment, on SQLite: a fleet of processes on one file, one of which is killed now
 * and then and started again, while some hundred messages with duplicates go through them. Once
 * with rows as effects, and once as on a store without SQL, with messages as effects.
 * test_servers_random.c does it on servers. */
#include "support/base/check.h"
#include "support/fixture/shop.h"
#include "support/scenario/fleet.h"

enum {
    COMMON = 240 / SANITIZER_SLOWDOWN,
    OWN = 80 / SANITIZER_SLOWDOWN,
    KILLS = 28 / SANITIZER_SLOWDOWN
};

static void survive_random_kills(int has_sql)
{
    store_place place;
    static fleet f;
    store_place_open(&place, PLACE_SQLITE);
    place.has_sql = has_sql;
    fleet_open(&f, &place, COMMON, OWN, 1);
    fleet_run_and_kill(&f, KILLS, 2);
    fleet_check(&f);
    fleet_close(&f);
    store_place_close(&place);
}

static void random_kills_lose_nothing_and_repeat_nothing(void **state)
{
    (void)state;
    survive_random_kills(1);
}

static void random_kills_lose_nothing_and_repeat_nothing_without_sql(void **state)
{
    (void)state;
    survive_random_kills(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_kills_lose_nothing_and_repeat_nothing),
        cmocka_unit_test(random_kills_lose_nothing_and_repeat_nothing_without_sql),
    };
    return cmocka_run_group_tests_name("fleet", tests, NULL, NULL);
}
