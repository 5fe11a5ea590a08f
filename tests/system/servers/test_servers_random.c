/* kill -9 at any moment, on servers: a fleet of processes, one of which is killed now and then and
 * started again, while some hundred messages with duplicates go through them. The server rolls back
 * what the dead had open, and leases end. */
#include "support/base/check.h"
#include "support/fixture/shop.h"
#include "support/scenario/fleet.h"
#include "support/servers/server_each.h"

enum {
    COMMON = 240 / SANITIZER_SLOWDOWN,
    OWN = 80 / SANITIZER_SLOWDOWN,
    KILLS = 28 / SANITIZER_SLOWDOWN
};

static void random_kills_lose_nothing_and_repeat_nothing(void **state)
{
    store_place place;
    static fleet f;
    store_place_open_shared(&place, kind_of_state(state));
    fleet_open(&f, &place, COMMON, OWN, 1);
    fleet_run_and_kill(&f, KILLS, 2);
    fleet_check(&f);
    fleet_close(&f);
    store_place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(random_kills_lose_nothing_and_repeat_nothing, NULL, NULL),
    };
    return cmocka_run_group_tests_name("crash: random, on servers", tests, NULL, NULL);
}
