/* Through the whole store: answers that are lost between the client and Redis, and how often a
 * message goes there and back. */
#include "redis_kit.h"
#include "support/fixture/fixture.h"

#include <stdio.h>
#include <string.h>

enum { BUSY_MS = 20000, ANSWER_MS = 20000 };

typedef struct lost_case {
    char url[SERVER_URL_ROOM];
    proxy *between;
    semel_store *store;
    semel_inbox *inbox;
    semel_outbox *outbox;
    semel_mode mode;
    int runs;
    void (*arm)(proxy *between, const char *pattern); /* by the handler */
    const char *command;                              /* that it queues; NULL: none */
} lost_case;

static lost_case c;

static void open_case(semel_mode mode)
{
    char through[SERVER_URL_ROOM];
    semel_store_options options = {
        .size = sizeof options, .busy_ms = BUSY_MS, .answer_ms = ANSWER_MS};
    semel_inbox_options inbox = {.size = sizeof inbox, .mode = mode};
    c = (lost_case){.mode = mode};
    server_fresh_redis(c.url);
    c.between = proxy_open(c.url);
    OK(semel_store_open(&c.store, proxy_url(through, c.between, c.url), &options, &last_error));
    OK(semel_store_migrate(c.store, &last_error));
    OK(semel_inbox_open(&c.inbox, c.store, "in", &inbox, &last_error));
    OK(semel_outbox_open(&c.outbox, c.store, "out", &last_error));
}

static int in_transactions(void **state)
{
    (void)state;
    open_case(SEMEL_TRANSACTION);
    return 0;
}

static int by_claims(void **state)
{
    (void)state;
    open_case(SEMEL_CLAIM);
    return 0;
}

static int by_queue(void **state)
{
    (void)state;
    open_case(SEMEL_QUEUED);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    semel_outbox_close(c.outbox);
    semel_inbox_close(c.inbox);
    semel_store_close(c.store);
    proxy_close(c.between);
    server_drop(c.url);
    return 0;
}

static semel_status handle(semel_unit *unit, const semel_message *message, void *context,
                           semel_error *err)
{
    semel_message reply = text_message("reply", "done");
    (void)message, (void)context;
    c.runs++;
    semel_status status = semel_unit_send(unit, c.outbox, &reply, err);
    if (!status && c.command)
        status = semel_unit_queue(unit, c.command, NULL, 0, err);
    if (c.arm)
        c.arm(c.between, "EVALSHA");
    c.arm = NULL;
    return status;
}

static semel_outcome receive(const char *id)
{
    semel_outcome outcome = SEMEL_UNDECIDED;
    semel_message message = text_message(id, "body");
    OK(semel_inbox_receive(&outcome, c.inbox, &message, handle, NULL, &last_error));
    return outcome;
}

static int64_t unsent(void)
{
    semel_stats stats;
    OK(semel_store_stats(&stats, sizeof stats, c.store, 60000, &last_error));
    return (int64_t)stats.unsent;
}

/* --- lost ------------------------------------------------------------------------------------- */

/* What was lost is asked for, and the caller need not know. */
static void an_answer_to_a_commit_is_lost(void **state)
{
    (void)state;
    assert_int_equal(receive("warm"), SEMEL_PROCESSED);
    c.arm = proxy_lose_answer;
    assert_int_equal(receive("m"), SEMEL_PROCESSED);
    assert_int_equal(proxy_count(c.between).lost, 1);
    assert_int_equal(receive("m"), SEMEL_DUPLICATE);
    assert_int_equal(c.runs, c.mode == SEMEL_QUEUED ? 3 : 2); /* queued: for copies, too */
    assert_int_equal(unsent(), 2);
}

static void a_request_to_commit_is_lost(void **state)
{
    (void)state;
    assert_int_equal(receive("warm"), SEMEL_PROCESSED);
    c.arm = proxy_lose_request;
    assert_int_equal(receive("m"), SEMEL_PROCESSED);
    assert_int_equal(proxy_count(c.between).lost, 1);
    assert_int_equal(receive("m"), SEMEL_DUPLICATE);
    assert_int_equal(unsent(), 2);
}

/* A command of the application's own is not repeated with the rest of a commit that was carried
 * out. */
static void an_effect_happens_once(void **state)
{
    char command[256], look[256];
    (void)state;
    (void)snprintf(command, sizeof command, "INCR {%s}effects", strchr(c.url, '=') + 1);
    (void)snprintf(look, sizeof look, "GET {%s}effects", strchr(c.url, '=') + 1);
    c.command = command;
    assert_int_equal(receive("warm"), SEMEL_PROCESSED);
    c.arm = proxy_lose_answer;
    assert_int_equal(receive("m"), SEMEL_PROCESSED);
    assert_int_equal(server_number(c.url, look), 2);
    c.arm = proxy_lose_request;
    assert_int_equal(receive("n"), SEMEL_PROCESSED);
    assert_int_equal(server_number(c.url, look), 3);
    assert_int_equal(receive("m"), SEMEL_DUPLICATE);
    assert_int_equal(receive("n"), SEMEL_DUPLICATE);
    assert_int_equal(server_number(c.url, look), 3);
}

/* --- round trips ------------------------------------------------------------------------------ */

static uint64_t trips(const char *id, semel_outcome expected)
{
    proxy_forget(c.between);
    assert_int_equal(receive(id), expected);
    return proxy_count(c.between).round_trips;
}

static void warm_up(void)
{
    assert_int_equal(receive("warm"), SEMEL_PROCESSED);
    assert_int_equal(receive("warm"), SEMEL_DUPLICATE);
}

static void a_claim_goes_twice(void **state)
{
    (void)state;
    warm_up();
    assert_int_equal(trips("m", SEMEL_PROCESSED), 2);
    assert_int_equal(trips("m", SEMEL_DUPLICATE), 1);
}

static void a_transaction_goes_twice(void **state)
{
    (void)state;
    warm_up();
    assert_int_equal(trips("m", SEMEL_PROCESSED), 2);
    assert_int_equal(trips("m", SEMEL_DUPLICATE), 1);
}

static void what_is_queued_goes_once(void **state)
{
    (void)state;
    warm_up();
    assert_int_equal(trips("m", SEMEL_PROCESSED), 1);
    assert_int_equal(trips("m", SEMEL_DUPLICATE), 1);
}

int main(void)
{
#define TEST(function, set_up)                                    \
    {                                                             \
#function ", " #set_up, function, set_up, tear_down, NULL \
    }
    const struct CMUnitTest tests[] = {TEST(an_answer_to_a_commit_is_lost, in_transactions),
                                       TEST(an_answer_to_a_commit_is_lost, by_claims),
                                       TEST(an_answer_to_a_commit_is_lost, by_queue),
                                       TEST(a_request_to_commit_is_lost, in_transactions),
                                       TEST(a_request_to_commit_is_lost, by_claims),
                                       TEST(a_request_to_commit_is_lost, by_queue),
                                       TEST(an_effect_happens_once, in_transactions),
                                       TEST(an_effect_happens_once, by_claims),
                                       TEST(an_effect_happens_once, by_queue),
                                       TEST(a_claim_goes_twice, by_claims),
                                       TEST(a_transaction_goes_twice, in_transactions),
                                       TEST(what_is_queued_goes_once, by_queue)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
