/* A message that kills every process that handles it, in the middle of others of its key and of its
 * partition. The processes are started again, and the group has two members, so that it also comes
 * to another one. It ends as a dead letter after as many attempts as the inbox allows, and all
 * others have had their effects, once and in order. */
#include "real_members.h"

#include "support/base/check.h"
#include "support/process/deadline.h"

enum { PARTITIONS = 2, KEYS = 8, CONSUMERS = 2, LOAD = 200 };

static void poison_ends_as_a_dead_letter(const char *parameters)
{
    real_topic topic;
    members m;
    real_topic_open(&topic, PARTITIONS, KEYS);
    members_open(&m, &topic, CONSUMERS, parameters);
    real_topic_fill(&topic, LOAD);
    real_topic_poison(&topic, 3);
    real_topic_fill(&topic, LOAD);
    members_start_all(&m);
    unsigned died = members_wait_effects(&m, real_topic_total(&topic));
    members_finish(&m, 1);
    /* the first attempt of all is not counted beforehand, see ARCHITECTURE.md */
    print_message("%u processes died\n", died);
    assert_in_range(died, 2, MEMBERS_ATTEMPTS_MAX + 1);
    members_close(&m);
    real_topic_close(&topic);
}

static void poison_ends_as_a_dead_letter_eager(void **state)
{
    (void)state;
    poison_ends_as_a_dead_letter("assignment=eager");
}

static void poison_ends_as_a_dead_letter_cooperative(void **state)
{
    (void)state;
    poison_ends_as_a_dead_letter("assignment=cooperative");
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
        cmocka_unit_test_setup_teardown(poison_ends_as_a_dead_letter_eager, setup, teardown),
        cmocka_unit_test_setup_teardown(poison_ends_as_a_dead_letter_cooperative, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
