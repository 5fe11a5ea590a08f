/* Order by group with many workers, on a queue that one consumer at a time may have: when the one
 * that has it is killed the next takes over, and in each group every message is handled for the
 * first time before those behind it. */
#include "support/servers/rabbitmq/rabbitmq_servers_kit.h"

#include <time.h>

enum { GROUPS = 6, EACH = 10, MESSAGES = GROUPS * EACH, WORKERS = 8 };

/* A little unevenly, so that groups drift apart; and two messages fail at first. */
static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    semel_status status = service_case_handle(unit, message, context, err);
    wait_for_harm(context, 2 * MESSAGES / 3);
    const char *id = message->id.data;
    struct timespec rest = {0, (id[0] * 7 + id[1] * 5) % 11 * 1000000L};
    (void)nanosleep(&rest, NULL);
    if (!status && id[1] == '3' && semel_unit_attempt(unit) == 1)
        status = semel_fail(err, SEMEL_EHANDLER, "not at the first time");
    return status;
}

static int consume(void *context)
{
    service_case *s = context;
    service v;
    service_open_consumer(&v, s, handle, (semel_inbox_options){.attempts_max = 10},
                          (semel_consumer_options){.workers = WORKERS,
                                                   .order = SEMEL_ORDER_GROUP,
                                                   .backoff_ms = 20,
                                                   .backoff_max_ms = 50});
    return run_consumer_in_child(&v, s);
}

static const char *interleaved(char ids[KIT_SAID])
{
    size_t used = 0;
    for (int number = 0; number < EACH; number++)
        for (int group = 0; group < GROUPS; group++)
            used += (size_t)snprintf(ids + used, KIT_SAID - used, "%c%d ", 'q' + group, number);
    return ids;
}

/* 0: none yet. The last runs may have been counted and not noted yet. */
static pid_t last_at_work(const service_case *s)
{
    for (unsigned i = atomic_load(&s->tally->begun); i > 0; i--)
        if (s->tally->runs[i - 1].pid > 0)
            return s->tally->runs[i - 1].pid;
    return 0;
}

static void kill_child(service_case *s, pid_t pid)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (pid > 0 && s->children[i] == pid) {
            assert_int_equal(kill(pid, SIGKILL), 0);
            assert_int_equal(process_wait(pid, KIT_WAIT_MS), PROCESS_KILLED + SIGKILL);
            s->children[i] = 0;
            return;
        }
    fail_msg("no child %d is at work", (int)pid);
}

static void stop_children(service_case *s)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        pid_t pid = s->children[i];
        if (!pid)
            continue;
        s->children[i] = 0;
        assert_int_equal(stop_and_wait(pid), PROCESS_OK);
    }
}

static void check_order(const service_case *s, pid_t killed)
{
    int reached[GROUPS];
    unsigned by_another = 0;
    memset(reached, -1, sizeof reached);
    for (unsigned i = 0; i < atomic_load(&s->tally->begun); i++) {
        const run *r = &s->tally->runs[i];
        if (!r->id[0])
            continue;
        int group = r->id[0] - 'q', number = r->id[1] - '0';
        if (number > reached[group] + 1)
            fail_msg("%s was handled before %c%d", r->id, r->id[0], reached[group] + 1);
        reached[group] = number > reached[group] ? number : reached[group];
        by_another += r->pid != killed;
    }
    assert_int_not_equal(by_another, 0);
}

static void groups_keep_their_order_when_another_consumer_takes_over(void **state)
{
    char ids[KIT_SAID];
    service_case *s = *state;
    s->children[0] = process_start(consume, s);
    s->children[1] = process_start(consume, s);
    EVENTUALLY(atomic_load(&s->tally->ready) == 2);
    service_case_publish(s, interleaved(ids));
    EVENTUALLY(atomic_load(&s->tally->begun) >= MESSAGES / 3);
    pid_t active = last_at_work(s);
    kill_child(s, active);
    atomic_store(&s->tally->struck, 1);
    EVENTUALLY(effects(s) >= MESSAGES);
    expect_empty_queue(s); /* copies, too: a stopped consumer gives back what it has */
    stop_children(s);
    expect_effects(s, ids);
    check_order(s, active);
    expect_empty_queue(s);
    assert_int_equal(dead_letters(s), 0);
}

/* Those of a group, in this order. */
static void expect_runs(const service_case *s, char group, const char *expected)
{
    char ids[KIT_SAID] = "";
    size_t used = 0;
    for (unsigned i = 0; i < atomic_load(&s->tally->begun); i++)
        if (s->tally->runs[i].id[0] == group)
            used += (size_t)snprintf(ids + used, sizeof ids - used, "%s ", s->tally->runs[i].id);
    assert_string_equal(ids, expected);
}

/* What the workers do at the same time is of different groups: without that the test above would
 * say little. The pauses are long enough for the others to be received and handled in them, on a
 * busy machine, too. */
static void a_group_that_fails_does_not_hold_up_the_others(void **state)
{
    service_case *s = *state;
    service v;
    service_case_publish(s, "f1 f2 f3 q1 q2 r1 r2");
    service_open_consumer(&v, s, NULL, (semel_inbox_options){.attempts_max = 3},
                          (semel_consumer_options){.order = SEMEL_ORDER_GROUP, .backoff_ms = 400});
    STEP_UNTIL(&v, dead_letters(s) == 3);
    service_close(&v);
    expect_effects(s, "q1 q2 r1 r2");
    expect_runs(s, 'f', "f1 f1 f1 f2 f2 f2 f3 f3 f3 ");
    expect_runs(s, 'q', "q1 q2 ");
    expect_runs(s, 'r', "r1 r2 ");
    unsigned begun = atomic_load(&s->tally->begun);
    assert_string_equal(s->tally->runs[begun - 1].id, "f3"); /* they did not wait for it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SQLITE(groups_keep_their_order_when_another_consumer_takes_over,
                  QUORUM "&single_active=yes&prefetch=30"),
        ON_POSTGRES(groups_keep_their_order_when_another_consumer_takes_over,
                    CLASSIC "&single_active=yes&prefetch=30"),
        ON_POSTGRES(groups_keep_their_order_when_another_consumer_takes_over,
                    QUORUM "&single_active=yes&prefetch=30"),
        ON_SQLITE(a_group_that_fails_does_not_hold_up_the_others, CLASSIC),
        ON_POSTGRES(a_group_that_fails_does_not_hold_up_the_others, QUORUM),
    };
    return cmocka_run_group_tests_name("rabbitmq and stores: order", tests, NULL, NULL);
}
