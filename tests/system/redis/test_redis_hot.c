/* P5, P13 on Redis: some hundred hot keys (hot.h), with messages as effects. */
#include "support/base/check.h"
#include "support/scenario/hot.h"

enum { KEYS = HOT_KEYS(600) };

static void hot_keys_are_handled_once(void **state)
{
    (void)state;
    hot_race(&(hot_variant){SEMEL_TRANSACTION, 0, HOT_THREADS, 0}, SERVER_REDIS, KEYS);
}

static void hot_batches_are_handled_once(void **state)
{
    (void)state;
    hot_race(&(hot_variant){SEMEL_TRANSACTION, 0, 3, 1}, SERVER_REDIS, KEYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hot_keys_are_handled_once),
                                       cmocka_unit_test(hot_batches_are_handled_once)};
    return cmocka_run_group_tests_name("hot keys on Redis", tests, NULL, NULL);
}
