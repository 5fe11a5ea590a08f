/* How often a store waits for its server: counted by the proxy, after a warm-up in which statements
 * get prepared. */
#include "support/servers/sql/server_case.h"

#include <stdio.h>

enum { WARM = 3, TIMES = 5, MANY = 100 };

static void receive_all(server_case *c, const char *prefix, semel_outcome expected, int times)
{
    for (int i = 0; i < times; i++) {
        char id[32];
        semel_message message;
        semel_outcome out;
        case_work todo = {.wrong = SEMEL_OK};
        (void)snprintf(id, sizeof id, "%s-%d", prefix, i);
        message = text_message(id, "10 EUR");
        OK(semel_inbox_receive(&out, c->inbox, &message, case_queue, &todo, &last_error));
        assert_int_equal(out, expected);
    }
}

/* Both of them, since a duplicate takes another way; each connection prepares its own. */
static void warm_up(server_case *c)
{
    case_close(c);
    case_open(c, CASE_BUSY_MS, NULL);
    receive_all(c, "warm", SEMEL_PROCESSED, WARM);
    receive_all(c, "warm", SEMEL_DUPLICATE, WARM);
    receive_all(c, "warmer", SEMEL_PROCESSED, WARM);
    proxy_forget(c->between);
}

static uint64_t trips(server_case *c)
{
    uint64_t count = proxy_count(c->between).round_trips;
    proxy_forget(c->between);
    return count;
}

static void a_queued_message_is_one_round_trip(void **state)
{
    server_case *c = *state;
    warm_up(c);
    receive_all(c, "m", SEMEL_PROCESSED, TIMES);
    assert_int_equal(trips(c), TIMES);
}

/* Its ROLLBACK is sent and not waited for; the proxy sees that the client sends. */
static void a_queued_duplicate_is_one_round_trip(void **state)
{
    server_case *c = *state;
    warm_up(c);
    receive_all(c, "warm", SEMEL_DUPLICATE, 1);
    assert_in_range(trips(c), 1, 2);
    receive_all(c, "m", SEMEL_PROCESSED, TIMES);
    (void)trips(c);
    for (int i = 0; i < TIMES; i++)
        receive_all(c, "m", SEMEL_DUPLICATE, 1);
    assert_in_range(trips(c), TIMES, 2 * TIMES);
}

/* Begin and marker; commit with all that was queued and sent. */
static void a_transaction_is_two_round_trips(void **state)
{
    server_case *c = *state;
    semel_message mail = text_message("mail", "paid");
    warm_up(c);
    receive_all(c, "m", SEMEL_PROCESSED, TIMES);
    assert_int_equal(trips(c), 2 * TIMES);
    for (int i = 0; i < 2; i++) {
        case_work todo = {.work = {.outbox = c->outbox, .sends = &mail, .result = "receipt"}};
        semel_message message = text_message(i ? "second" : "first", "10 EUR");
        semel_outcome out;
        proxy_forget(c->between);
        OK(semel_inbox_receive(&out, c->inbox, &message, case_queue, &todo, &last_error));
    }
    assert_in_range(trips(c), 1, 3); /* a notification is on its way, and is not waited for */
}

static void the_handlers_own_statement_is_the_only_one_more(void **state)
{
    server_case *c = *state;
    warm_up(c);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "native", NULL);
    (void)trips(c);
    CASE_RECEIVES(SEMEL_OK, SEMEL_PROCESSED, c, "m", NULL);
    assert_int_equal(trips(c), 3);
}

static void the_steps_are_one_round_trip_each(void **state)
{
    server_case *c = *state;
    semel_unit *unit = NULL;
    semel_outcome out;
    semel_message message = text_message("m", "10 EUR");
    semel_value id = semel_text("m");
    warm_up(c);
    OK(semel_unit_begin(&unit, c->base.store, &last_error));
    assert_int_equal(trips(c), 0);
    OK(semel_unit_claim(&out, unit, c->inbox, &message, &last_error));
    assert_int_equal(trips(c), 1);
    OK(semel_unit_queue(unit, "INSERT INTO effect (id) VALUES (?)", &id, 1, &last_error));
    assert_int_equal(trips(c), 0);
    OK(semel_unit_commit(unit, &last_error));
    assert_int_equal(trips(c), 1);
    assert_int_equal(case_times(c, "m"), 1);
}

static void a_batch_is_two_round_trips(void **state)
{
    server_case *c = *state;
    static char ids[2 * MANY][32];
    static semel_message messages[2 * MANY];
    const semel_message *pointers[2 * MANY];
    semel_outcome outcomes[MANY];
    case_work todo = {.wrong = SEMEL_OK};
    for (int i = 0; i < 2 * MANY; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "b-%d", i);
        messages[i] = text_message(ids[i], "10 EUR");
        pointers[i] = &messages[i];
    }
    case_close(c);
    case_open(c, CASE_BUSY_MS, NULL);
    for (int round = 0; round < 2; round++) {
        proxy_forget(c->between);
        OK(semel_inbox_receive_batch(outcomes, c->inbox, pointers + (ptrdiff_t)round * MANY, MANY,
                                     case_queue, &todo, &last_error));
    }
    assert_int_equal(trips(c), 2);
    assert_int_equal(outcomes[MANY - 1], SEMEL_PROCESSED);
    assert_int_equal(case_number(c, "SELECT count(*) FROM effect"), 2 * MANY);
}

int main(void)
{
    static const server_test tests[] = {
        SERVER_TEST(a_queued_message_is_one_round_trip, IN_QUEUE),
        SERVER_TEST(a_queued_duplicate_is_one_round_trip, IN_QUEUE),
        SERVER_TEST(a_transaction_is_two_round_trips, 0),
        SERVER_TEST(the_handlers_own_statement_is_the_only_one_more, 0),
        SERVER_TEST(the_steps_are_one_round_trip_each, 0),
        SERVER_TEST(a_batch_is_two_round_trips, 0)};
    return SERVER_TESTS(tests);
}
