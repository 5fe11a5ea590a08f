/* kill -9 at any moment, on Redis: a fleet of processes, one of which is killed now and then and
 * started again, while some hundred messages with duplicates go through them; and twice more with
 * a server that is killed itself, and comes back with what it had acknowledged. */
#include "store/keyed/hold.h"
#include "support/base/check.h"
#include "support/base/sanitizer.h"
#include "support/fixture/shop.h"
#include "support/process/process.h"
#include "support/scenario/fleet.h"

#include <stdio.h>

enum {
    COMMON = 120 / SANITIZER_SLOWDOWN,
    OWN = 40 / SANITIZER_SLOWDOWN,
    KILLS = 14 / SANITIZER_SLOWDOWN,
    CRASHES = 3,
    HOLD_MS = 4000 /* what was held by one that was killed is free so much later */
};

typedef struct crash_case {
    server_own own;
    store_place place;
    semel_durability grade;
} crash_case;

static void random_kills_lose_nothing_and_repeat_nothing(void **state)
{
    store_place place;
    static fleet f;
    (void)state;
    store_place_open_shared(&place, SERVER_REDIS);
    fleet_open(&f, &place, COMMON, OWN, 1);
    fleet_run_and_kill(&f, KILLS, 2);
    fleet_check(&f);
    fleet_close(&f);
    store_place_close(&place);
}

/* In a process of its own, since none may be open where others are forked. */
static int check_grade(void *context)
{
    const crash_case *c = context;
    semel_error err;
    semel_store *store;
    PROCESS_REQUIRE_OK(semel_store_open(&store, c->place.url, NULL, &err), &err);
    PROCESS_REQUIRE(semel_store_durability(store) == c->grade);
    semel_store_close(store);
    return PROCESS_OK;
}

static void kill_the_server(const char *fsync, semel_durability grade)
{
    crash_case c = {.grade = grade};
    char command[64];
    static fleet f;
    server_own_start(&c.own, SERVER_REDIS);
    (void)snprintf(command, sizeof command, "CONFIG SET appendfsync %s", fsync);
    server_run(c.own.at.url, command);
    server_run(c.own.at.url, "CONFIG REWRITE");
    store_place_open_on(&c.place, &c.own.at);
    fleet_open(&f, &c.place, COMMON, OWN, 3);
    assert_int_equal(process_run(check_grade, &c), PROCESS_OK);
    unsigned stretch = FLEET_RECEIVERS * f.planned / (CRASHES + 1);
    atomic_store(&f.shared->allowed, f.planned);
    fleet_start_all(&f);
    for (unsigned i = 1; i <= CRASHES; i++) {
        fleet_wait_acked(&f, i * stretch);
        server_own_crash(&c.own);
        server_own_restart(&c.own);
    }
    fleet_finish(&f);
    fleet_check(&f);
    fleet_close(&f);
    assert_int_equal(process_run(check_grade, &c), PROCESS_OK);
    store_place_close(&c.place);
    server_own_stop(&c.own);
}

static void a_server_that_syncs_each_write_loses_nothing(void **state)
{
    (void)state;
    kill_the_server("always", SEMEL_DURABLE_POWER);
}

/* Its disk is memory, so that no sync is slow: then Redis holds writes back, and kill -9 loses them
 * (docs/REDIS.md). */
static void a_server_that_syncs_each_second_loses_nothing_to_kill_9(void **state)
{
    (void)state;
    kill_the_server("everysec", SEMEL_DURABLE_PROCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_kills_lose_nothing_and_repeat_nothing),
        cmocka_unit_test(a_server_that_syncs_each_write_loses_nothing),
        cmocka_unit_test(a_server_that_syncs_each_second_loses_nothing_to_kill_9),
    };
    keyed_hold_ms = HOLD_MS;
    return cmocka_run_group_tests_name("fleet, on Redis", tests, NULL, NULL);
}
