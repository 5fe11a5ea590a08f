/* The fleet from outside: the plan, the starting and killing, the look at what is left. */
#include "support/scenario/fleet_internal.h"

#include "support/base/check.h"
#include "support/fake/broker_file.h"
#include "support/fixture/shop.h"
#include "support/inspect/inspect.h"
#include "support/inspect/inspect_store.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

unsigned fleet_keys(const fleet *f)
{
    return f->common + FLEET_RECEIVERS * f->own;
}

/* --- the plan --------------------------------------------------------------------------------- */

/* Own keys ascending, common ones in any order, and after each with one chance in four something
 * that came before. All receivers have the same number of deliveries. */
static void plan_receiver(fleet *f, fleet_role role, uint32_t *seed)
{
    unsigned common[FLEET_PLAN_MAX], commons = 0, owns = 0, at = 0, *plan = f->plan[role];
    for (unsigned i = 0; i < f->common; i++)
        common[i] = i;
    shop_shuffle(common, f->common, seed);
    while (at < f->planned) {
        unsigned left = f->common - commons + f->own - owns;
        if (at && (!left || (f->planned - at > left && shop_random(seed, 4) == 0)))
            plan[at] = plan[shop_random(seed, at)];
        else if (shop_random(seed, left) < f->own - owns)
            plan[at] = f->common + role * f->own + owns++;
        else
            plan[at] = common[commons++];
        at++;
    }
}

static int build(void *context)
{
    const fleet *f = context;
    shop_build(f->place);
    effect_build(f->place, "mirrored");
    return PROCESS_OK;
}

void fleet_open(fleet *f, const store_place *place, unsigned common, unsigned own, uint32_t seed)
{
    memset(f, 0, sizeof *f);
    f->place = place;
    store_place_file(f->broker, place, "broker");
    f->common = common;
    f->own = own;
    f->planned = (common + own) * 5 / 4;
    assert_true(f->planned <= FLEET_PLAN_MAX);
    f->shared = process_share(sizeof *f->shared);
    for (unsigned role = 0; role < FLEET_RECEIVERS; role++)
        plan_receiver(f, (fleet_role)role, &seed);
    assert_int_equal(process_run(build, f), PROCESS_OK);
}

void fleet_close(fleet *f)
{
    process_unshare(f->shared, sizeof *f->shared);
}

/* --- starting and ending ---------------------------------------------------------------------- */

void fleet_start(fleet *f, fleet_role role)
{
    f->starting = role;
    f->pids[role] = process_start(fleet_bodies[role], f);
}

void fleet_start_all(fleet *f)
{
    for (unsigned role = 0; role < FLEET_SIZE; role++)
        fleet_start(f, (fleet_role)role);
}

void fleet_kill(fleet *f, fleet_role role)
{
    kill(f->pids[role], SIGKILL);
    assert_int_equal(process_wait(f->pids[role], FLEET_DEADLINE_MS), PROCESS_KILLED + SIGKILL);
    fleet_start(f, role);
}

unsigned fleet_acked(const fleet *f)
{
    unsigned all = 0;
    for (unsigned role = 0; role < FLEET_RECEIVERS; role++)
        all += atomic_load(&f->shared->acked[role]);
    return all;
}

void fleet_wait_acked(const fleet *f, unsigned acked)
{
    int64_t deadline = process_now_ms() + FLEET_DEADLINE_MS;
    while (fleet_acked(f) < acked) {
        if (process_now_ms() > deadline)
            fail_msg("stuck after %u deliveries", fleet_acked(f));
        process_nap();
    }
}

unsigned fleet_cuts(const fleet *f)
{
    return atomic_load(&f->shared->troubles[SEMEL_EUNAVAILABLE]) +
           atomic_load(&f->shared->troubles[SEMEL_EUNKNOWN]);
}

static void wait_for(const fleet *f, fleet_role first, fleet_role last)
{
    for (unsigned role = first; role <= last; role++)
        assert_int_equal(process_wait(f->pids[role], FLEET_DEADLINE_MS), PROCESS_OK);
}

void fleet_finish(fleet *f)
{
    atomic_store(&f->shared->allowed, f->planned);
    wait_for(f, FLEET_TRANSACTION, FLEET_BATCH);
    atomic_store(&f->shared->last_sent, 1);
    wait_for(f, FLEET_RELAY, FLEET_RELAY_TOO);
    atomic_store(&f->shared->last_published, 1);
    wait_for(f, FLEET_READER, FLEET_READER);
}

/* --- killing ---------------------------------------------------------------------------------- */

/* Until so much is done, and then a moment more. */
static void wait_a_moment(uint32_t *seed)
{
    enum { PAUSE_MAX_US = 2000 };
    struct timespec moment = {0, (long)shop_random(seed, PAUSE_MAX_US) * 1000};
    nanosleep(&moment, NULL);
}

void fleet_run_and_kill(fleet *f, unsigned kills, uint32_t seed)
{
    const unsigned stretch = f->planned / (kills + 1);
    fleet_start_all(f);
    for (unsigned i = 1; i <= kills; i++) {
        atomic_store(&f->shared->allowed, i * stretch);
        fleet_wait_acked(f, FLEET_RECEIVERS * (i - 1) * stretch +
                                shop_random(&seed, FLEET_RECEIVERS * stretch));
        wait_a_moment(&seed);
        fleet_kill(f, (fleet_role)shop_random(&seed, FLEET_SIZE));
    }
    fleet_finish(f);
}

/* --- what is left ----------------------------------------------------------------------------- */

static void check_the_broker(const fleet *f)
{
    broker_log log;
    char body[SHOP_TEXT];
    broker_log_read(&log, f->broker);
    for (unsigned key = 0; key < fleet_keys(f); key++) {
        (void)snprintf(body, sizeof body, "%u", key);
        if (broker_log_ids(&log, body) != 1) /* sent, and always under the same id */
            fail_msg("message %u was published under %zu ids", key, broker_log_ids(&log, body));
    }
    assert_true(broker_log_is_ordered(&log));
    broker_log_free(&log);
}

static void check_number(const char *what, int64_t found, int64_t expected)
{
    if (found != expected)
        fail_msg("%s: %lld, not %lld", what, (long long)found, (long long)expected);
}

static void check_effects(const fleet *f, const char *name)
{
    effect_numbers found = effect_count(f->place, name);
    check_number(name, found.all, fleet_keys(f));
    check_number(name, found.different, fleet_keys(f));
}

/* Markers are counted with SQL; without, a copy of each message shows its marker. */
static void check_markers(fleet *f)
{
    int64_t keys = fleet_keys(f);
    if (!f->place->has_sql) {
        assert_int_equal(process_run(fleet_deliver_again, f), PROCESS_OK);
        return;
    }
    check_number("markers", inspect_number(f->place->url, "SELECT count(*) FROM semel_marker"),
                 2 * keys);
    check_number("done", inspect_store(f->place, NULL).done, 2 * keys);
}

void fleet_check(fleet *f)
{
    static const char *const none[] = {NULL};
    if (!f->place->has_sql)
        assert_int_equal(process_run(fleet_collect, f), PROCESS_OK);
    store_contents left = inspect_store(f->place, none);
    check_number("unsent", left.unsent, 0);
    check_number("dead", left.dead, 0);
    check_effects(f, "effect");
    check_effects(f, "mirrored");
    check_markers(f);
    check_the_broker(f);
}
