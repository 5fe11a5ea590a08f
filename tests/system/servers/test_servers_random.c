/* kill -9 at any moment, on servers: a fleet of processes, one of which is killed now and then and started again,
 * while some hundred messages with duplicates go through them. The server rolls back what the dead had open, and
 * leases end. */
#include "support/base/check.h"
#include "support/fixture/shop.h"
#include "support/scenario/fleet.h"
#include "support/servers/server_each.h"

#include <time.h>

enum {
    COMMON = 240 / SANITIZER_SLOWDOWN,
    OWN = 80 / SANITIZER_SLOWDOWN,
    KILLS = 28 / SANITIZER_SLOWDOWN,
    PAUSE_MAX_US = 2000,
};

/* Until so much is done, and then a moment more. */
static void wait_a_moment(uint32_t *seed)
{
    struct timespec moment = {0, (long)shop_random(seed, PAUSE_MAX_US) * 1000};
    nanosleep(&moment, NULL);
}

static void perform(fleet *f, uint32_t seed)
{
    const unsigned stretch = f->planned / (KILLS + 1);
    fleet_start_all(f);
    for (unsigned i = 1; i <= KILLS; i++) {
        atomic_store(&f->shared->allowed, i * stretch);
        fleet_wait_acked(f, FLEET_RECEIVERS * (i - 1) * stretch +
                                shop_random(&seed, FLEET_RECEIVERS * stretch));
        wait_a_moment(&seed);
        fleet_kill(f, (fleet_role)shop_random(&seed, FLEET_SIZE));
    }
    fleet_finish(f);
}

static void random_kills_lose_nothing_and_repeat_nothing(void **state)
{
    server_place at;
    char url[SERVER_URL_ROOM];
    static fleet f;
    server_find(&at, kind_of_state(state));
    server_fresh(url, &at);
    fleet_open(&f, url, COMMON, OWN, 1);
    perform(&f, 2);
    fleet_check(&f);
    fleet_close(&f);
    server_drop(url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(random_kills_lose_nothing_and_repeat_nothing, NULL, NULL),
    };
    return cmocka_run_group_tests_name("crash: random, on servers", tests, NULL, NULL);
}
