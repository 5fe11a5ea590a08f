/* Processes that are stopped past their lease and then go on, on DynamoDB: the tests of
 * support/scenario/sigstop.h. */
#include "support/base/check.h"
#include "support/scenario/sigstop.h"

static store_place place;

static int setup(void **state)
{
    store_place_open_shared(&place, SERVER_DYNAMODB);
    *state = sigstop_open(&place);
    return 0;
}

static int teardown(void **state)
{
    sigstop_close(*state);
    store_place_close(&place);
    return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_relay_overtaken_while_stopped_settles_nothing),
        TEST(a_relay_that_publishes_late_keeps_the_order_of_first_deliveries),
        TEST(a_claim_overtaken_while_stopped_cannot_commit),
        TEST(a_claim_overtaken_while_stopped_cannot_fail),
        TEST(a_claim_overtaken_while_stopped_cannot_make_a_dead_letter),
        TEST(a_copy_waits_for_a_transaction_that_is_stopped),
    };
    return cmocka_run_group_tests_name("stopped, on DynamoDB", tests, NULL, NULL);
}
