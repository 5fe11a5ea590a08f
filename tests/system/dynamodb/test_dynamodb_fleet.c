/* kill -9 at any moment, on DynamoDB: a fleet of processes, one of which is killed now and then and
 * started again, while some hundred messages with duplicates go through them; and once more with
 * a server that is killed itself, and comes back with what it had acknowledged. */
#include "store/keyed/hold.h"
#include "support/base/check.h"
#include "support/base/sanitizer.h"
#include "support/fixture/shop.h"
#include "support/scenario/fleet.h"

enum {
    COMMON = 120 / SANITIZER_SLOWDOWN,
    OWN = 40 / SANITIZER_SLOWDOWN,
    KILLS = 14 / SANITIZER_SLOWDOWN,
    CRASHES = 3,
    HOLD_MS = 4000 /* what was held by one that was killed is free so much later */
};

static void random_kills_lose_nothing_and_repeat_nothing(void **state)
{
    store_place place;
    static fleet f;
    (void)state;
    store_place_open_shared(&place, SERVER_DYNAMODB);
    fleet_open(&f, &place, COMMON, OWN, 1);
    fleet_run_and_kill(&f, KILLS, 2);
    fleet_check(&f);
    fleet_close(&f);
    store_place_close(&place);
}

static void a_server_that_is_killed_loses_nothing(void **state)
{
    store_place place;
    server_own own;
    static fleet f;
    (void)state;
    server_own_start(&own, SERVER_DYNAMODB);
    store_place_open_on(&place, &own.at);
    fleet_open(&f, &place, COMMON, OWN, 3);
    unsigned stretch = FLEET_RECEIVERS * f.planned / (CRASHES + 1);
    atomic_store(&f.shared->allowed, f.planned);
    fleet_start_all(&f);
    for (unsigned i = 1; i <= CRASHES; i++) {
        fleet_wait_acked(&f, i * stretch);
        server_own_crash(&own);
        server_own_restart(&own);
    }
    fleet_finish(&f);
    fleet_check(&f);
    fleet_close(&f);
    store_place_close(&place);
    server_own_stop(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_kills_lose_nothing_and_repeat_nothing),
        cmocka_unit_test(a_server_that_is_killed_loses_nothing),
    };
    keyed_hold_ms = HOLD_MS;
    return cmocka_run_group_tests_name("fleet, on DynamoDB", tests, NULL, NULL);
}
