/* The simulation finds mistakes: each of these is planted, and must be found within some thousand
 * histories, most of them within a few. What is found is printed. */
#include "support/base/check.h"
#include "support/base/sanitizer.h"
#include "support/keyed/sim_seeds.h"

enum { SEEDS_MAX = 20000 };

static void is_found(void **state)
{
    sim_totals totals;
    sim_mistake mistake = *(const sim_mistake *)*state;
    sim_seeds(&totals, 1, SEEDS_MAX, mistake, 1);
    print_message("%s: seed %llu, after %llu seeds: %s\n", sim_mistake_name(mistake),
                  (unsigned long long)totals.first, (unsigned long long)totals.seeds, totals.why);
    assert_true(totals.failed);
}

int main(void)
{
    static sim_mistake mistakes[SIM_MISTAKES];
    static struct CMUnitTest tests[SIM_MISTAKES];
    for (int i = 1; i < SIM_MISTAKES; i++) {
        mistakes[i] = (sim_mistake)i;
        tests[i - 1] =
            (struct CMUnitTest){sim_mistake_name(mistakes[i]), is_found, NULL, NULL, &mistakes[i]};
    }
    return _cmocka_run_group_tests("mistakes", tests, SIM_MISTAKES - 1, NULL, NULL);
}
