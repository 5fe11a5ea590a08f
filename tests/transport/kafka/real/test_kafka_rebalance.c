/* A group of consumers that changes all the time, under load: one of them is killed, or stopped
 * while it holds deliveries until the others have handled them all, or stopped at any moment for
 * longer than its session. Nothing is lost, nothing is done twice, and the messages of each key
 * have their effects in order. */
#include "real_members.h"

#include "support/base/check.h"
#include "support/fixture/shop.h"
#include "support/process/deadline.h"
#include "support/process/process.h"

#include <signal.h>
#include <time.h>

enum { PARTITIONS = 6, KEYS = 48, CONSUMERS = 3, ROUNDS = 9, LOAD = 240 };

static void sleep_ms(int64_t ms)
{
    struct timespec moment = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&moment, NULL);
}

/* If it has the store's lock, the others wait for it. */
static void stop_anywhere(members *m, unsigned victim)
{
    real_topic_fill(m->topic, LOAD);
    kill(m->pids[victim], SIGSTOP);
    sleep_ms(REAL_SESSION_MS * 3 / 2);
    kill(m->pids[victim], SIGCONT);
}

static void rebalance_under_load(const char *parameters, uint32_t seed)
{
    real_topic topic;
    members m;
    unsigned held = 0;
    real_topic_open(&topic, PARTITIONS, KEYS);
    members_open(&m, &topic, CONSUMERS, parameters);
    members_start_all(&m);
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned victim = shop_random(&seed, CONSUMERS);
        if (i % 3 == 0)
            members_stop_with_deliveries(&m, victim, LOAD);
        else if (i % 3 == 1)
            members_kill_under_load(&m, victim, LOAD, shop_random(&seed, 300));
        else
            stop_anywhere(&m, victim);
        members_wait_effects(&m, real_topic_total(&topic));
    }
    members_finish(&m, 0);
    for (unsigned i = 0; i < CONSUMERS; i++)
        held += atomic_load(&m.shared->held[i]);
    assert_true(held > 0);
    print_message("%u messages, %u of them held by zombies\n", real_topic_total(&topic), held);
    members_close(&m);
    real_topic_close(&topic);
}

static void a_changing_group_does_all_once_and_in_order_eager(void **state)
{
    (void)state;
    rebalance_under_load("assignment=eager", 7);
}

static void a_changing_group_does_all_once_and_in_order_cooperative(void **state)
{
    (void)state;
    rebalance_under_load("assignment=cooperative", 8);
}

static int setup(void **state)
{
    (void)state;
    deadline_begin();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    deadline_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_changing_group_does_all_once_and_in_order_eager, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_changing_group_does_all_once_and_in_order_cooperative,
                                        setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
