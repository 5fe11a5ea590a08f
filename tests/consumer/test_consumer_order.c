/* Deliveries in flight: what fails or cannot be stored is kept back by the consumer, unsettled
 * and in order; it is never more than the limit, and goes back to the broker in the end. */
#include "base/mem.h"
#include "support/fake/no_delay_transport.h"

#include <stdio.h>

enum { LONG_MS = 120000 };

typedef struct consumer_case {
    fixture *f;
    no_delay broker;
    semel_transport *transport;
    scripted_handler todo;
    semel_consumer *consumer;
} consumer_case;

static void publish(consumer_case *s, const char *id, const char *group)
{
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    semel_publish_result result;
    message.group = group;
    OK(semel_transport_publish(&result, s->broker.inner, &one, 1, 0, &last_error));
}

/* Each word is an id, and its first letter the group. */
static void publish_all(consumer_case *s, const char *words)
{
    char id[16], group[2] = "";
    int read;
    for (; sscanf(words, "%15s%n", id, &read) == 1; words += read) {
        group[0] = id[0];
        publish(s, id, group);
    }
}

static void open_queue(consumer_case *s, fixture *f, const char *url)
{
    s->f = f;
    s->broker.inner = fixture_queue(f, url);
    s->transport = no_delay_open(f, &s->broker, f->host);
}

static void consume(consumer_case *s, semel_handler *handler, void *context,
                    semel_inbox_options inbox, semel_consumer_options options)
{
    inbox.size = sizeof inbox;
    options.size = sizeof options;
    semel_route route = {"*", fixture_inbox(s->f, "inbox", &inbox), handler, context};
    OK(semel_consumer_open(&s->consumer, s->transport, &route, 1, &options, &last_error));
}

static void open_case(consumer_case *s, fixture *f, semel_inbox_options inbox,
                      semel_consumer_options options)
{
    open_queue(s, f, "memory:");
    consume(s, scripted_handler_run, &s->todo, inbox, options);
}

/* A consumer that is closed speaks to the broker, which lives as long as the consumer_case. */
static void end(consumer_case *s)
{
    semel_consumer_close(s->consumer);
}

static size_t step(consumer_case *s)
{
    size_t settled = 99;
    OK(semel_consumer_step(&settled, s->consumer, 0, &last_error));
    return settled;
}

static size_t steps(consumer_case *s, int count)
{
    size_t settled = 0;
    while (count--)
        settled += step(s);
    return settled;
}

static void later(consumer_case *s)
{
    semel_test_advance_ms(s->f->seam, LONG_MS);
}

/* --- what fails ------------------------------------------------------------------------------- */

static void what_fails_is_kept_back_here_and_overtaken(void **state)
{
    consumer_case s = {.todo = {.failures = 2, .only = "a1"}};
    open_case(&s, *state, (semel_inbox_options){0}, (semel_consumer_options){0});
    publish_all(&s, "a1 a2 b1");
    assert_int_equal(steps(&s, 4), 2);
    assert_string_equal(s.todo.ids, "a1 a2 b1 ");
    later(&s);
    assert_int_equal(step(&s), 0);
    later(&s);
    assert_int_equal(step(&s), 1);
    assert_string_equal(s.todo.ids, "a1 a2 b1 a1 a1 ");
    assert_int_equal(s.todo.attempt, 3);
    assert_int_equal(s.broker.retried, 0);
    assert_int_equal(s.broker.received, 3);
    end(&s);
}

typedef struct failing_handler {
    unsigned failures;
    uint32_t deliveries[32]; /* message.delivery of each run */
    uint32_t runs;
} failing_handler;

static semel_status fail_and_look(semel_unit *unit, const semel_message *message, void *context,
                                  semel_error *err)
{
    failing_handler *self = context;
    (void)unit;
    self->deliveries[self->runs++] = message->delivery;
    return self->runs <= self->failures ? semel_fail(err, SEMEL_EHANDLER, "not yet") : SEMEL_OK;
}

static void the_backoff_grows_and_each_attempt_is_one_delivery_more(void **state)
{
    enum { FAILURES = 7, BASE_MS = 100, MOST_MS = 1000 };
    consumer_case s = {0};
    failing_handler self = {.failures = FAILURES};
    open_queue(&s, *state, "memory:");
    consume(&s, fail_and_look, &self, (semel_inbox_options){.attempts_max = 20},
            (semel_consumer_options){.backoff_ms = BASE_MS, .backoff_max_ms = MOST_MS});
    publish(&s, "1", NULL);
    step(&s);
    for (uint32_t i = 1; i <= FAILURES; i++) {
        uint32_t most = i < 5 ? (uint32_t)BASE_MS << (i - 1) : MOST_MS, waited = 0;
        assert_int_equal(self.runs, i);
        assert_int_equal(self.deliveries[i - 1], i);
        for (; self.runs == i && waited <= most; waited++) {
            semel_test_advance_ms(s.f->seam, 1);
            step(&s);
        }
        assert_in_range(waited, most / 2, most);
    }
    assert_int_equal(s.broker.acked, 1);
    assert_int_equal(s.broker.retried, 0);
    end(&s);
}

static void what_keeps_failing_here_is_a_dead_letter_and_acknowledged_once(void **state)
{
    consumer_case s = {.todo = {.failures = 100}};
    open_case(&s, *state, (semel_inbox_options){.attempts_max = 4}, (semel_consumer_options){0});
    publish(&s, "1", NULL);
    for (int i = 0; i < 10; i++, later(&s))
        step(&s);
    assert_int_equal(s.todo.runs, 4);
    assert_int_equal(fixture_only_letter(s.f).attempts, 4);
    assert_int_equal(s.broker.acked, 1);
    assert_int_equal(s.broker.retried, 0);
    end(&s);
}

/* Without a key only the number of deliveries tells how often it was tried. */
static void what_has_no_key_is_given_up_at_the_limit_too(void **state)
{
    consumer_case s = {.todo = {.failures = 100}};
    open_case(&s, *state,
              (semel_inbox_options){.attempts_max = 3, .on_missing_key = SEMEL_MISSING_KEY_PROCESS},
              (semel_consumer_options){0});
    publish(&s, "", NULL);
    for (int i = 0; i < 10; i++, later(&s))
        step(&s);
    assert_int_equal(s.todo.runs, 3);
    assert_int_equal(fixture_letters(s.f, NULL, 0), 1);
    assert_int_equal(s.broker.acked, 1);
    end(&s);
}

/* A copy in progress elsewhere is no failure: it is not counted, not even as a delivery. */
static void a_copy_in_progress_elsewhere_is_waited_for_and_not_counted(void **state)
{
    consumer_case s = {0};
    failing_handler self = {0};
    semel_unit *unit;
    semel_outcome outcome;
    semel_message message = text_message("1", "a");
    semel_inbox_options options = {.size = sizeof options,
                                   .mode = SEMEL_CLAIM,
                                   .on_in_flight = SEMEL_IN_FLIGHT_REPORT,
                                   .lease_ms = 20 * LONG_MS,
                                   .accept_changes = 1};
    open_queue(&s, *state, "memory:");
    semel_inbox *elsewhere = fixture_inbox(s.f, "inbox", &options);
    options.mode = SEMEL_TRANSACTION;
    consume(&s, fail_and_look, &self, options, (semel_consumer_options){0});
    OK(semel_unit_begin(&unit, s.f->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, elsewhere, &message, &last_error));
    publish(&s, "1", NULL);
    for (int i = 0; i < 5; i++, later(&s))
        assert_int_equal(step(&s), 0);
    OK(semel_unit_fail(&outcome, unit, NULL, &last_error));
    assert_int_equal(step(&s), 1);
    assert_int_equal(self.runs, 1);
    assert_int_equal(self.deliveries[0], 1);
    assert_int_equal(s.broker.retried, 0);
    end(&s);
}

static void never_more_than_the_limit_is_inflight(void **state)
{
    enum { MOST = 3 };
    consumer_case s = {.todo = {.failures = 1000}};
    open_case(&s, *state, (semel_inbox_options){.attempts_max = 3},
              (semel_consumer_options){.batch = 2, .inflight_max = MOST});
    publish_all(&s, "a1 a2 b1 b2 c1 c2 d1 d2 e1 e2");
    steps(&s, 5);
    assert_int_equal(s.broker.inflight, MOST);
    unsigned receives = s.broker.receives;
    steps(&s, 5); /* it is full, and nothing is due */
    assert_int_equal(s.broker.receives, receives);
    for (int i = 0; i < 50; i++, later(&s))
        step(&s);
    assert_int_equal(s.broker.inflight_most, MOST);
    assert_int_equal(s.broker.acked, 10);
    assert_int_equal(s.broker.retried, 0);
    assert_int_equal(fixture_letters(s.f, NULL, 0), 10);
    end(&s);
}

/* --- order ------------------------------------------------------------------------------------ */

/* The same on a transport that could put it off: it would be overtaken there. */
static void hold_up(consumer_case *s, uint32_t batch)
{
    consume(s, scripted_handler_run, &s->todo, (semel_inbox_options){0},
            (semel_consumer_options){.batch = batch, .order = SEMEL_ORDER_GROUP});
    publish_all(s, "a1 a2 b1 a3 c1 b2 a4");
    steps(s, 10);
    assert_int_equal(s->todo.runs, 4);
    for (int i = 0; i < 3; i++) {
        later(s);
        steps(s, 10);
    }
    static const char *const expected[] = {"a1 a1 a1 a2 a3 a4 ", "b1 b2 ", "c1 "};
    for (char group = 'a'; group <= 'c'; group++) {
        char seen[64] = "", id[16];
        int read;
        for (const char *at = s->todo.ids; sscanf(at, "%15s%n", id, &read) == 1; at += read)
            if (id[0] == group)
                (void)snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s ", id);
        assert_string_equal(seen, expected[group - 'a']);
    }
}

static void what_fails_holds_up_its_own_group_and_nothing_else(void **state)
{
    consumer_case s = {.todo = {.failures = 2, .only = "a1"}};
    open_queue(&s, *state, "memory:");
    hold_up(&s, 1);
    assert_int_equal(s.broker.retried, 0);
    assert_int_equal(s.broker.acked, 7);
    end(&s);
}

static void in_a_batch_there_is_one_of_a_group_at_most(void **state)
{
    consumer_case s = {.todo = {.failures = 2, .only = "a1"}};
    open_queue(&s, *state, "memory:");
    hold_up(&s, 7);
    assert_int_equal(s.broker.retried, 0);
    assert_int_equal(s.broker.acked, 7);
    end(&s);
}

static void order_is_kept_on_a_transport_with_delays_too(void **state)
{
    consumer_case s = {.todo = {.failures = 2, .only = "a1"}};
    open_queue(&s, *state, "memory:");
    s.transport = s.broker.inner;
    hold_up(&s, 3);
    end(&s);
}

static void what_has_no_group_waits_for_no_other(void **state)
{
    consumer_case s = {.todo = {.failures = 1, .only = "1"}};
    open_case(&s, *state, (semel_inbox_options){0},
              (semel_consumer_options){.order = SEMEL_ORDER_GROUP});
    publish(&s, "1", NULL);
    publish(&s, "2", "");
    publish(&s, "3", NULL);
    assert_int_equal(steps(&s, 4), 2);
    assert_string_equal(s.todo.ids, "1 2 3 ");
    end(&s);
}

/* --- the store is away ------------------------------------------------------------------------ */

static void while_the_store_is_away_all_stays_inflight_as_it_was(void **state)
{
    consumer_case s = {0};
    failing_handler self = {0};
    size_t settled = 77;
    open_queue(&s, *state, "memory:");
    consume(&s, fail_and_look, &self, (semel_inbox_options){.attempts_max = 1},
            (semel_consumer_options){.batch = 3});
    publish_all(&s, "a1 a2 b1 b2");
    for (int i = 0; i < 4; i++) {
        semel_test_fault(s.f->seam, "batch.marked", 1, SEMEL_EUNAVAILABLE);
        FAILS(SEMEL_EUNAVAILABLE, semel_consumer_step(&settled, s.consumer, 0, &last_error));
        assert_true(last_error.retryable);
    }
    assert_int_equal(settled, 77);
    assert_int_equal(s.broker.received, 3);
    assert_int_equal(s.broker.receives, 1);
    assert_int_equal(s.broker.inflight, 3);
    assert_int_equal(step(&s), 3); /* at once: no message is to blame */
    assert_int_equal(step(&s), 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(self.deliveries[i], 1);
    assert_int_equal(s.broker.retried, 0);
    end(&s);
}

/* What is locked may be one message only: the others get their turn meanwhile. */
static void a_message_whose_rows_are_locked_does_not_keep_others_waiting(void **state)
{
    consumer_case s = {0};
    size_t settled;
    open_case(&s, *state, (semel_inbox_options){0}, (semel_consumer_options){0});
    publish_all(&s, "a1 b1");
    semel_test_fault(s.f->seam, "receive.begun", 1, SEMEL_EBUSY);
    FAILS(SEMEL_EBUSY, semel_consumer_step(&settled, s.consumer, 0, &last_error));
    assert_int_equal(steps(&s, 2), 1);
    assert_string_equal(s.todo.ids, "b1 ");
    later(&s);
    assert_int_equal(step(&s), 1);
    assert_string_equal(s.todo.ids, "b1 a1 ");
    end(&s);
}

static void after_an_error_that_will_not_pass_all_goes_back_in_order(void **state)
{
    consumer_case s = {0};
    size_t settled;
    open_case(&s, *state, (semel_inbox_options){0},
              (semel_consumer_options){.batch = 4, .order = SEMEL_ORDER_GROUP});
    publish_all(&s, "a1 a2 a3 b1");
    semel_test_fault(s.f->seam, "batch.marked", 1, SEMEL_ESTORE);
    FAILS(SEMEL_ESTORE, semel_consumer_step(&settled, s.consumer, 0, &last_error));
    assert_int_equal(s.broker.retried, 4);
    assert_int_equal(s.broker.inflight, 0);
    for (int i = 1; i < 4; i++)
        assert_true(s.broker.retried_tags[i - 1] < s.broker.retried_tags[i]);
    steps(&s, 5);
    assert_int_equal(s.broker.acked, 4);
    assert_non_null(strstr(s.todo.ids, "a1 "));
    assert_true(strstr(s.todo.ids, "a1 ") < strstr(s.todo.ids, "a2 "));
    assert_true(strstr(s.todo.ids, "a2 ") < strstr(s.todo.ids, "a3 "));
    end(&s);
}

/* --- the broker is away ----------------------------------------------------------------------- */

static void what_cannot_be_settled_leaves_the_hand_and_comes_again_as_a_duplicate(void **state)
{
    consumer_case s = {0};
    size_t settled = 77;
    open_queue(&s, *state, "memory:?ack_ms=5000");
    consume(&s, scripted_handler_run, &s.todo, (semel_inbox_options){0},
            (semel_consumer_options){.order = SEMEL_ORDER_GROUP});
    publish_all(&s, "a1 a2");
    atomic_store(&s.broker.settle_broken, SEMEL_EUNAVAILABLE);
    FAILS(SEMEL_EUNAVAILABLE, semel_consumer_step(&settled, s.consumer, 0, &last_error));
    assert_true(last_error.retryable);
    assert_int_equal(settled, 77);
    assert_int_equal(s.broker.inflight, 0);
    atomic_store(&s.broker.settle_broken, SEMEL_OK);
    later(&s);
    assert_int_equal(steps(&s, 3), 2);
    assert_string_equal(s.todo.ids, "a1 a2 ");
    assert_int_equal(fixture_counters(s.f).duplicates, 1);
    end(&s);
}

/* The handler takes so long that the broker delivers to another consumer meanwhile. */
static semel_status be_overtaken(semel_unit *unit, const semel_message *message, void *context,
                                 semel_error *err)
{
    consumer_case *s = context;
    semel_delivery other;
    size_t count = 0;
    if (s->todo.runs == 0) {
        later(s);
        if (semel_transport_receive(s->broker.inner, &other, 1, &count, 0, NULL) || count != 1)
            return semel_fail(err, SEMEL_EHANDLER, "it did not come again");
        semel_delivery_settlement back = {other.tag, SEMEL_VERDICT_RETRY, 0};
        if (semel_transport_settle(s->broker.inner, &back, 1, NULL))
            return semel_fail(err, SEMEL_EHANDLER, "it did not go back");
    }
    return scripted_handler_run(unit, message, &s->todo, err);
}

static void a_delivery_that_the_broker_has_given_to_another_is_let_go(void **state)
{
    consumer_case s = {0};
    size_t settled;
    open_queue(&s, *state, "memory:?ack_ms=5000");
    consume(&s, be_overtaken, &s, (semel_inbox_options){0}, (semel_consumer_options){0});
    publish(&s, "1", NULL);
    FAILS(SEMEL_ELOST, semel_consumer_step(&settled, s.consumer, 0, &last_error));
    assert_true(last_error.retryable);
    assert_int_equal(step(&s), 1);
    assert_int_equal(s.todo.runs, 1);
    assert_int_equal(fixture_counters(s.f).duplicates, 1);
    end(&s);
}

static void closing_gives_everything_back_in_order(void **state)
{
    consumer_case s = {.todo = {.failures = 100}};
    open_case(&s, *state, (semel_inbox_options){0},
              (semel_consumer_options){.batch = 2, .order = SEMEL_ORDER_GROUP});
    publish_all(&s, "a1 a2 b1 a3 b2");
    assert_int_equal(steps(&s, 4), 0);
    assert_int_equal(s.broker.inflight, 5);
    end(&s);
    assert_int_equal(s.broker.retried, 5);
    assert_int_equal(s.broker.inflight, 0);
    for (int i = 1; i < 5; i++)
        assert_true(s.broker.retried_tags[i - 1] < s.broker.retried_tags[i]);
    s.todo.failures = 0;
    consume(&s, scripted_handler_run, &s.todo, (semel_inbox_options){0},
            (semel_consumer_options){0});
    assert_int_equal(steps(&s, 6), 5);
    end(&s);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Room for all that may be in flight is made beforehand. (The memory store needs some for its
 * markers.) */
static void take_until(consumer_case *s, unsigned acked)
{
    while (s->broker.acked < acked)
        assert_true(step(s) > 0);
}

static void no_memory(void **state, uint32_t batch)
{
    enum { COUNT = 120, WARM_UP = 60 };
    consumer_case s = {0};
    open_case(&s, *state, (semel_inbox_options){.retention_ms = SEMEL_RETENTION_FOREVER},
              (semel_consumer_options){.batch = batch, .order = SEMEL_ORDER_GROUP});
    for (int i = 0; i < COUNT; i++) {
        char id[16], group[16];
        (void)snprintf(id, sizeof id, "m%d", i);
        (void)snprintf(group, sizeof group, "g%d", i % 5);
        publish(&s, id, group);
    }
    take_until(&s, WARM_UP);
    long before = mem_allocations();
    take_until(&s, COUNT);
    assert_int_equal(mem_allocations() - before, 0);
    end(&s);
}

static void a_message_costs_the_consumer_no_memory(void **state)
{
    no_memory(state, 1);
}

static void nor_does_it_in_batches_of_any_size(void **state)
{
    no_memory(state, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("what fails is kept back here, and overtaken",
                what_fails_is_kept_back_here_and_overtaken),
        ON_BOTH("the backoff grows, and each attempt is one delivery more",
                the_backoff_grows_and_each_attempt_is_one_delivery_more),
        ON_BOTH("what keeps failing here is a dead letter, and acknowledged once",
                what_keeps_failing_here_is_a_dead_letter_and_acknowledged_once),
        ON_BOTH("what has no key is given up at the limit, too",
                what_has_no_key_is_given_up_at_the_limit_too),
        ON_BOTH("a copy in progress elsewhere is waited for, and not counted",
                a_copy_in_progress_elsewhere_is_waited_for_and_not_counted),
        ON_BOTH("never more than the limit is in flight", never_more_than_the_limit_is_inflight),
        ON_BOTH("what fails holds up its own group and nothing else",
                what_fails_holds_up_its_own_group_and_nothing_else),
        ON_BOTH("in a batch there is one of a group at most",
                in_a_batch_there_is_one_of_a_group_at_most),
        ON_BOTH("order is kept on a transport with delays, too",
                order_is_kept_on_a_transport_with_delays_too),
        ON_BOTH("what has no group waits for no other", what_has_no_group_waits_for_no_other),
        ON_BOTH("while the store is away all stays in flight as it was",
                while_the_store_is_away_all_stays_inflight_as_it_was),
        ON_BOTH("a message whose rows are locked does not keep others waiting",
                a_message_whose_rows_are_locked_does_not_keep_others_waiting),
        ON_BOTH("after an error that will not pass all goes back in order",
                after_an_error_that_will_not_pass_all_goes_back_in_order),
        ON_BOTH("what cannot be settled leaves the hand and comes again as a duplicate",
                what_cannot_be_settled_leaves_the_hand_and_comes_again_as_a_duplicate),
        ON_BOTH("a delivery that the broker has given to another is let go",
                a_delivery_that_the_broker_has_given_to_another_is_let_go),
        ON_BOTH("closing gives everything back in order", closing_gives_everything_back_in_order),
        ON_SQLITE("a message costs the consumer no memory", a_message_costs_the_consumer_no_memory),
        ON_SQLITE("nor does it in batches of any size", nor_does_it_in_batches_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
