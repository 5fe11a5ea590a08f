/* P5, P13 on SQL servers: a thousand hot keys (hot.h). */
#include "support/base/check.h"
#include "support/scenario/hot.h"
#include "support/servers/server_each.h"

static void run(void **state, const hot_variant *how)
{
    hot_race(how, kind_of_state(state), HOT_KEYS(1000));
}

static void hot_keys_are_handled_once(void **state)
{
    run(state, &(hot_variant){SEMEL_TRANSACTION, 0, HOT_THREADS, 0});
}

static void hot_keys_in_queued_mode_are_handled_once(void **state)
{
    run(state, &(hot_variant){SEMEL_QUEUED, 1, HOT_THREADS, 0});
}

static void hot_keys_are_handled_once_with_fewer_connections_than_threads(void **state)
{
    run(state, &(hot_variant){SEMEL_TRANSACTION, 1, 3, 0});
}

static void hot_batches_are_handled_once_and_do_not_lock_each_other_up(void **state)
{
    run(state, &(hot_variant){SEMEL_TRANSACTION, 0, 3, 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EACH(hot_keys_are_handled_once, NULL, NULL),
        ON_EACH(hot_keys_in_queued_mode_are_handled_once, NULL, NULL),
        ON_EACH(hot_keys_are_handled_once_with_fewer_connections_than_threads, NULL, NULL),
        ON_EACH(hot_batches_are_handled_once_and_do_not_lock_each_other_up, NULL, NULL),
    };
    return cmocka_run_group_tests_name("hot keys on servers", tests, NULL, NULL);
}
