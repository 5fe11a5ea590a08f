/* Processes that are stopped past their lease and then go on, on SQLite: the tests of
 * support/scenario/sigstop.h. Each of them also as on a store without SQL. */
#include "support/base/check.h"
#include "support/scenario/sigstop.h"

static store_place place;

static int setup(void **state)
{
    store_place_open(&place, PLACE_SQLITE);
    *state = sigstop_open(&place);
    return 0;
}

static int setup_without_sql(void **state)
{
    store_place_open(&place, PLACE_SQLITE);
    place.has_sql = 0;
    *state = sigstop_open(&place);
    return 0;
}

static int teardown(void **state)
{
    sigstop_close(*state);
    store_place_close(&place);
    return 0;
}

/* clang-format off */
#define TEST(function) \
    {#function, function, setup, teardown, NULL}, \
    {#function ", without SQL", function, setup_without_sql, teardown, NULL}
/* clang-format on */

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
    return cmocka_run_group_tests_name("crash: stopped", tests, NULL, NULL);
}
