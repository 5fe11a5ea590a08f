/* The keyed layer in 100 000 histories that did not happen: see sim.h.
 *
 *     SEMEL_SIM_SEED=4711 build/debug/tests/test_keyed_simulation     this history, printed
 *     SEMEL_SIM_SEEDS=5000000 build/debug/tests/test_keyed_simulation so many of them */
#include "support/base/check.h"
#include "support/base/sanitizer.h"
#include "support/keyed/sim_seeds.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEDS = 100000, SLOW = SANITIZER_SLOWDOWN == 1 ? 1 : 25, TWICE = 500 };

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void all_seeds_are_right(void **state)
{
    sim_totals totals;
    (void)state;
    sim_seeds(&totals, 1, number_of("SEMEL_SIM_SEEDS", SEEDS / SLOW), SIM_NO_MISTAKE, 1);
    print_message("%llu seeds: %llu calls, %llu faults, %llu crashes, %llu effects, %llu sent, "
                  "%llu stale, %llu dead\n",
                  (unsigned long long)totals.seeds, (unsigned long long)totals.calls,
                  (unsigned long long)totals.faults, (unsigned long long)totals.crashes,
                  (unsigned long long)totals.effects, (unsigned long long)totals.published,
                  (unsigned long long)totals.stale, (unsigned long long)totals.dead);
    if (!totals.failed)
        return;
    sim_show(totals.first, SIM_NO_MISTAKE);
    fail_msg("seed %llu: %s (SEMEL_SIM_SEED=%llu shows it again)", (unsigned long long)totals.first,
             totals.why, (unsigned long long)totals.first);
}

static void a_seed_is_a_history(void **state)
{
    uint64_t last = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= TWICE / SLOW; seed++) {
        sim_result first, second;
        sim_options options = {.seed = seed};
        sim_run_seed(&first, &options);
        sim_run_seed(&second, &options);
        if (first.hash != second.hash)
            fail_msg("seed %llu is not the same history again", (unsigned long long)seed);
        assert_int_equal(first.calls, second.calls);
        assert_true(first.hash != last);
        last = first.hash;
    }
    sim_fibers_free();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_is_a_history),
        cmocka_unit_test(all_seeds_are_right),
    };
    uint64_t seed = number_of("SEMEL_SIM_SEED", 0);
    if (seed) {
        sim_show(seed, (sim_mistake)number_of("SEMEL_SIM_MISTAKE", SIM_NO_MISTAKE));
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
