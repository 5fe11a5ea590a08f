/* P18 on servers: relays and receivers that are stopped past their lease, also inside of a
 * transaction, and then go on; and several relays at once on grouped messages, of which now and
 * then one is stopped. */
#include "support/base/check.h"
#include "support/fake/broker_file.h"
#include "support/inspect/inspect.h"
#include "support/process/process.h"
#include "support/scenario/sigstop.h"
#include "support/servers/server_each.h"

#include <signal.h>
#include <stdio.h>

static store_place place;

static int setup(void **state)
{
    store_place_open_shared(&place, kind_of_state(state));
    *state = sigstop_open(&place);
    return 0;
}

static int teardown(void **state)
{
    sigstop_close(*state);
    store_place_close(&place);
    return 0;
}

/* --- inside a transaction --------------------------------------------------------------------- */

/* The one that is stopped takes one message at a time, and so may hold that one and the groups that
 * it had a look at: no more than HELD_MAX messages. All others must leave. */
enum {
    GROUPS = 6,
    OF_GROUP = 3,
    GROUPED = GROUPS * OF_GROUP,
    MESSAGES = GROUPED + 6, /* the others have no group */
    SHORT_LEASE_MS = 250    /* in half of it something must get through, on a slow machine, too */
};
enum { HELD_MAX = 2 * OF_GROUP + 1 };

static int send_messages(sigstop *now, unsigned count)
{
    char text[SHOP_TEXT], group[SHOP_TEXT];
    shop s;
    shop_open(&s, now->place, NULL, &now->shared->tally);
    for (unsigned i = 1; i <= count; i++) {
        semel_message message = shop_message(text, i);
        (void)snprintf(group, sizeof group, "group-%u", i % GROUPS);
        message.group = i <= GROUPED ? group : NULL;
        PROCESS_REQUIRE(semel_outbox_send(s.outbox, &message, NULL) == SEMEL_OK);
    }
    shop_close(&s);
    return PROCESS_OK;
}

static int fill(void *context)
{
    return send_messages(context, MESSAGES);
}

/* What has no group may be taken first, and then the one that is stopped has nothing of a group. */
static int fill_with_groups_alone(void *context)
{
    return send_messages(context, GROUPED);
}

static int stop_in_take(void *context)
{
    return sigstop_relay(
        context,
        &(sigstop_plan){
            .where = STOP_IN_TAKE, .batch = 1, .lease_ms = SHORT_LEASE_MS, .drain = 1, .cut = 1});
}

/* With some of a group and some of none: what it settles is locked, and its lease is over. */
static int stop_in_settle(void *context)
{
    return sigstop_relay(
        context,
        &(sigstop_plan){
            .where = STOP_IN_SETTLE, .batch = 4, .lease_ms = SHORT_LEASE_MS, .drain = 1, .cut = 1});
}

/* The same with two messages, which are of two groups at most. */
static int stop_in_settle_of_groups(void *context)
{
    return sigstop_relay(
        context,
        &(sigstop_plan){
            .where = STOP_IN_SETTLE, .batch = 2, .lease_ms = SHORT_LEASE_MS, .drain = 1, .cut = 1});
}

static int send_what_is_not_held(void *context)
{
    return sigstop_relay(context, &(sigstop_plan){.batch = 4, .drain = HELD_MAX + 1});
}

/* A batch in which there is room for more than what is held. */
static int send_much_that_is_not_held(void *context)
{
    return sigstop_relay(context, &(sigstop_plan){.batch = MESSAGES, .drain = HELD_MAX + 1});
}

static int send_all(void *context)
{
    return sigstop_relay(context, &(sigstop_plan){.batch = 4, .drain = 1});
}

static void wait_until(int64_t ms)
{
    while (process_now_ms() < ms)
        process_nap();
}

/* Rows that a transaction has changed which is still open. */
static int64_t count_locked(const char *url)
{
    return inspect_number(url, "SELECT (SELECT count(*) FROM semel_outbox) - (SELECT count(*) FROM"
                               " (SELECT 1 AS one FROM semel_outbox FOR UPDATE SKIP LOCKED) AS f)");
}

/* Stopped in the middle of a transaction, past the end of its lease; another one goes on meanwhile,
 * and does not wait for the first: neither for its lock, which would be EBUSY in the end, nor until
 * the server ends its transaction. */
static pid_t stop_and_overtake(sigstop *now, process_body *filling, process_body *first,
                               process_body *second)
{
    assert_int_equal(process_run(filling, now), PROCESS_OK);
    pid_t pid = process_start(first, now);
    assert_true(process_wait_stopped(pid, SIGSTOP_DEADLINE_MS));
    wait_until(process_now_ms() + SHORT_LEASE_MS);
    int end = process_wait(process_start(second, now), SIGSTOP_DEADLINE_MS);
    int64_t held = count_locked(now->place->url);
    if (end != PROCESS_OK || !held)
        kill(pid, SIGCONT);
    assert_int_equal(end, PROCESS_OK);
    assert_true(held > 0);
    return pid;
}

static void go_on_and_check(sigstop *now, pid_t first, unsigned count)
{
    kill(first, SIGCONT);
    assert_int_equal(process_wait(first, SIGSTOP_DEADLINE_MS), PROCESS_OK);
    assert_int_equal(process_run(send_all, now), PROCESS_OK);
    sigstop_check_sent(now, count);
}

static void a_relay_stopped_while_taking_holds_up_only_what_it_holds(void **state)
{
    sigstop *now = *state;
    pid_t first = stop_and_overtake(now, fill, stop_in_take, send_what_is_not_held);
    go_on_and_check(now, first, MESSAGES);
}

static void a_relay_stopped_while_settling_holds_up_only_what_it_holds(void **state)
{
    sigstop *now = *state;
    pid_t first = stop_and_overtake(now, fill, stop_in_settle, send_what_is_not_held);
    go_on_and_check(now, first, MESSAGES);
}

static void a_relay_stopped_while_taking_from_a_group_holds_up_only_what_it_holds(void **state)
{
    sigstop *now = *state;
    pid_t first =
        stop_and_overtake(now, fill_with_groups_alone, stop_in_take, send_what_is_not_held);
    go_on_and_check(now, first, GROUPED);
}

static void a_relay_stopped_while_settling_groups_holds_up_only_what_it_holds(void **state)
{
    sigstop *now = *state;
    pid_t first = stop_and_overtake(now, fill_with_groups_alone, stop_in_settle_of_groups,
                                    send_much_that_is_not_held);
    go_on_and_check(now, first, GROUPED);
}

static void a_relay_with_small_batches_goes_on_beside_one_that_is_stopped_while_settling(
    void **state)
{
    sigstop *now = *state;
    pid_t first = stop_and_overtake(now, fill_with_groups_alone, stop_in_settle_of_groups,
                                    send_what_is_not_held);
    go_on_and_check(now, first, GROUPED);
}

static void end_transactions_seen(const char *url)
{
    if (inspect_is_postgres(url))
        inspect_run(url, "SELECT pg_terminate_backend(held.pid, 5000) FROM (SELECT DISTINCT l.pid "
                         "FROM pg_locks l"
                         " JOIN pg_class c ON c.oid = l.relation"
                         " WHERE c.relnamespace = to_regnamespace(current_schema()::text)"
                         " AND l.pid <> pg_backend_pid()) AS held");
    else
        inspect_run(url, "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END;"
                         " FOR r IN (SELECT p.id FROM information_schema.processlist p"
                         " JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id"
                         " WHERE p.db = database() AND p.id <> connection_id())"
                         " DO KILL r.id; END FOR; END");
}

/* What a server does by itself with a transaction in which nothing has happened for a minute.
 * MariaDB may tell of transactions as they were before, so what counts is that nothing is locked
 * any more. */
static void end_open_transactions(const char *url)
{
    int64_t deadline = process_now_ms() + SIGSTOP_DEADLINE_MS;
    do
        end_transactions_seen(url);
    while (count_locked(url) && process_now_ms() < deadline);
}

static void a_relay_whose_transaction_the_server_ended_does_nothing_more_with_it(void **state)
{
    sigstop *now = *state;
    pid_t first = stop_and_overtake(now, fill, stop_in_take, send_what_is_not_held);
    end_open_transactions(now->place->url);
    assert_int_equal(process_wait(process_start(send_all, now), SIGSTOP_DEADLINE_MS), PROCESS_OK);
    sigstop_check_sent(now, MESSAGES);
    go_on_and_check(now, first, MESSAGES);
}

/* --- several relays --------------------------------------------------------------------------- */

enum { RELAYS = 4, MANY = 900, MANY_GROUPS = 8, STOPS = 12, STOPS_MIN = 3 };

static int fill_groups(void *context)
{
    sigstop *now = context;
    char text[SHOP_TEXT], group[SHOP_TEXT];
    semel_unit *unit;
    shop s;
    shop_open(&s, now->place, NULL, &now->shared->tally);
    PROCESS_REQUIRE(semel_unit_begin(&unit, s.base.store, NULL) == SEMEL_OK);
    for (unsigned i = 1; i <= MANY; i++) {
        semel_message message = shop_message(text, i);
        (void)snprintf(group, sizeof group, "group-%u", i % MANY_GROUPS);
        message.group = i % 5 ? group : NULL;
        PROCESS_REQUIRE(semel_unit_send(unit, s.outbox, &message, NULL) == SEMEL_OK);
    }
    PROCESS_REQUIRE(semel_unit_commit(unit, NULL) == SEMEL_OK);
    shop_close(&s);
    return PROCESS_OK;
}

static int send_side_by_side(void *context)
{
    return sigstop_relay(
        context, &(sigstop_plan){
                     .batch = 3, .lease_ms = SHORT_LEASE_MS, .drain = 1, .slow_ms = 5, .cut = 1});
}

static int send_with_time(void *context)
{
    return sigstop_relay(context,
                         &(sigstop_plan){.batch = 3, .lease_ms = SIGSTOP_DEADLINE_MS, .drain = 1});
}

/* What one has leased the others leave alone. */
static void relays_side_by_side_send_everything_once_and_in_order(void **state)
{
    sigstop *now = *state;
    pid_t pids[RELAYS];
    broker_log log;
    assert_int_equal(process_run(fill_groups, now), PROCESS_OK);
    for (int i = 0; i < RELAYS; i++)
        pids[i] = process_start(send_with_time, now);
    for (int i = 0; i < RELAYS; i++)
        assert_int_equal(process_wait(pids[i], SIGSTOP_DEADLINE_MS), PROCESS_OK);
    sigstop_check_sent(now, MANY);
    broker_log_read(&log, now->broker);
    assert_int_equal(log.count, MANY);
    broker_log_free(&log);
}

static int is_over(const sigstop *now)
{
    return atomic_load(&now->shared->sent) >= MANY;
}

/* Stopped for longer than its lease, and until the others have sent something, if there is anything
 * left. */
static void stop_for_a_while(sigstop *now, pid_t pid, uint32_t *seed)
{
    unsigned before = atomic_load(&now->shared->sent);
    int64_t deadline = process_now_ms() + SHORT_LEASE_MS + shop_random(seed, SHORT_LEASE_MS);
    kill(pid, SIGSTOP);
    wait_until(deadline);
    deadline += SIGSTOP_LEASE_MS; /* it may hold all that is left */
    while (atomic_load(&now->shared->sent) == before && !is_over(now) &&
           process_now_ms() < deadline)
        process_nap();
    kill(pid, SIGCONT);
}

static void relays_that_are_stopped_at_any_moment_keep_the_order(void **state)
{
    sigstop *now = *state;
    pid_t pids[RELAYS];
    uint32_t seed = 7;
    atomic_store(&now->shared->allowed, MANY / 2); /* or all is over, if this one sleeps too long */
    assert_int_equal(process_run(fill_groups, now), PROCESS_OK);
    for (int i = 0; i < RELAYS; i++)
        pids[i] = process_start(send_side_by_side, now);
    int stops = 0;
    for (; stops < STOPS && !is_over(now); stops++) {
        stop_for_a_while(now, pids[shop_random(&seed, RELAYS)], &seed);
        if (stops + 1 == STOPS_MIN)
            atomic_store(&now->shared->allowed, 0);
    }
    assert_true(stops >= STOPS_MIN);
    for (int i = 0; i < RELAYS; i++)
        assert_int_equal(process_wait(pids[i], SIGSTOP_DEADLINE_MS), PROCESS_OK);
    sigstop_check_sent(now, MANY);
}

#define TEST(function) ON_EACH(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_relay_overtaken_while_stopped_settles_nothing),
        TEST(a_relay_that_publishes_late_keeps_the_order_of_first_deliveries),
        TEST(a_claim_overtaken_while_stopped_cannot_commit),
        TEST(a_claim_overtaken_while_stopped_cannot_fail),
        TEST(a_claim_overtaken_while_stopped_cannot_make_a_dead_letter),
        TEST(a_copy_waits_for_a_transaction_that_is_stopped),
        TEST(a_relay_stopped_while_taking_holds_up_only_what_it_holds),
        TEST(a_relay_stopped_while_settling_holds_up_only_what_it_holds),
        TEST(a_relay_stopped_while_taking_from_a_group_holds_up_only_what_it_holds),
        TEST(a_relay_stopped_while_settling_groups_holds_up_only_what_it_holds),
        TEST(a_relay_with_small_batches_goes_on_beside_one_that_is_stopped_while_settling),
        TEST(a_relay_whose_transaction_the_server_ended_does_nothing_more_with_it),
        TEST(relays_side_by_side_send_everything_once_and_in_order),
        TEST(relays_that_are_stopped_at_any_moment_keep_the_order),
    };
    return cmocka_run_group_tests_name("crash: stopped, on servers", tests, NULL, NULL);
}
