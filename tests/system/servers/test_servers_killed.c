/* The server itself dies (SIGKILL to all of its processes) and comes back, several times, under
 * load: a fleet of processes receives and relays all the while, and none of those is restarted.
 * What was committed is there; what was under way comes again by redelivery; a commit whose answer
 * was lost is settled by asking again. One of the times it is shut down in order, so that it ends
 * the connections itself. */
#include "support/base/check.h"
#include "support/fixture/shop.h"
#include "support/process/process.h"
#include "support/scenario/fleet.h"
#include "support/servers/server_each.h"

enum {
    COMMON = 600 / SANITIZER_SLOWDOWN,
    OWN = 100 / SANITIZER_SLOWDOWN,
    CRASHES = 3,
    IN_ORDER = 2
};

static void wait_until_noticed(const fleet *f, unsigned before)
{
    int64_t deadline = process_now_ms() + FLEET_DEADLINE_MS;
    while (fleet_cuts(f) == before) {
        if (process_now_ms() > deadline)
            fail_msg("no process notices that the server is gone");
        process_nap();
    }
}

static void crash_and_restart(fleet *f, server_own *own, unsigned time)
{
    unsigned before = fleet_cuts(f);
    if (time == IN_ORDER)
        server_own_halt(own);
    else
        server_own_crash(own);
    wait_until_noticed(f, before);
    server_own_restart(own);
}

static void a_server_that_dies_under_load_loses_nothing_and_repeats_nothing(void **state)
{
    server_own own;
    store_place place;
    static fleet f;
    server_own_start(&own, kind_of_state(state));
    store_place_open_on(&place, &own.at);
    fleet_open(&f, &place, COMMON, OWN, 3);
    unsigned stretch = FLEET_RECEIVERS * f.planned / (CRASHES + 1);
    atomic_store(&f.shared->allowed, f.planned);
    fleet_start_all(&f);
    for (unsigned i = 1; i <= CRASHES; i++) {
        fleet_wait_acked(&f, i * stretch);
        crash_and_restart(&f, &own, i);
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
        ON_EACH(a_server_that_dies_under_load_loses_nothing_and_repeats_nothing, NULL, NULL),
    };
    return cmocka_run_group_tests_name("crash: the server", tests, NULL, NULL);
}
