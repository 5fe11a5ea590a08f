/* Processes that are stopped past their lease and then go on, on SQLite: the tests of support/stopped.h. */
#include "support/base/check.h"
#include "support/scenario/sigstop.h"

static int setup(void **state)
{
    *state = sigstop_open(NULL);
    return 0;
}

static int teardown(void **state)
{
    sigstop_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_relay_overtaken_while_stopped_settles_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_relay_that_publishes_late_keeps_the_order_of_first_deliveries, setup, teardown),
        cmocka_unit_test_setup_teardown(a_claim_overtaken_while_stopped_cannot_commit, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_claim_overtaken_while_stopped_cannot_fail, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_claim_overtaken_while_stopped_cannot_make_a_dead_letter,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_waits_for_a_transaction_that_is_stopped, setup,
                                        teardown),
    };
    return cmocka_run_group_tests_name("crash: stopped", tests, NULL, NULL);
}
