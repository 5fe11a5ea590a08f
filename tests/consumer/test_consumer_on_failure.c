/* Failures that are left to the broker: the delivery goes back, or to the broker's dead letters,
 * and the number of attempts makes no dead letter here. */
#include "support/fake/no_delay_transport.h"

#include <semel/queue.h>

static void publish(semel_transport *transport, const char *id)
{
    semel_message message = text_message(id, "a");
    const semel_message *one = &message;
    semel_publish_result result;
    OK(semel_transport_publish(&result, transport, &one, 1, 1000, &last_error));
}

static size_t step(semel_consumer *consumer)
{
    size_t settled = 99;
    OK(semel_consumer_step(&settled, consumer, 0, &last_error));
    return settled;
}

static semel_consumer *open_consumer(fixture *f, semel_transport *transport, semel_mode mode,
                                     scripted_handler *todo, semel_on_failure on_failure)
{
    semel_inbox_options inbox = {.size = sizeof inbox, .mode = mode, .attempts_max = 2};
    semel_route route = {"*", fixture_inbox(f, "inbox", &inbox), scripted_handler_run, todo};
    semel_consumer_options options = {.size = sizeof options, .on_failure = on_failure};
    return fixture_consumer(f, transport, &route, 1, &options);
}

/* --- requeue ---------------------------------------------------------------------------------- */

static void requeue_in_mode(fixture *f, semel_mode mode)
{
    no_delay around = {.inner = fixture_queue(f, "memory:")};
    semel_transport *transport = no_delay_open(f, &around, f->host);
    scripted_handler todo = {.failures = 9};
    semel_consumer *consumer = open_consumer(f, transport, mode, &todo, SEMEL_FAILURE_REQUEUE);
    publish(around.inner, "1");
    for (unsigned i = 1; i <= 9; i++) { /* at once: no time passes */
        assert_int_equal(step(consumer), 0);
        assert_int_equal(around.retried, i);
        assert_int_equal(around.inflight, 0);
    }
    assert_int_equal(step(consumer), 1);
    assert_int_equal(todo.runs, 10);
    assert_int_equal(todo.attempt, 10); /* it is counted all the same */
    assert_int_equal(fixture_counters(f).dead, 0);
}

static void a_failing_delivery_goes_back_at_once(void **state)
{
    requeue_in_mode(*state, SEMEL_TRANSACTION);
}

static void a_failing_claim_goes_back_at_once(void **state)
{
    requeue_in_mode(*state, SEMEL_CLAIM);
}

static void a_broker_that_can_delay_is_told_the_backoff(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler todo = {.failures = 5};
    semel_consumer *consumer =
        open_consumer(f, queue, SEMEL_TRANSACTION, &todo, SEMEL_FAILURE_REQUEUE);
    publish(queue, "1");
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(step(consumer), 0);
        assert_int_equal(step(consumer), 0); /* it is not there */
        assert_int_equal(todo.runs, i);
        semel_test_advance_ms(f->seam, 60000);
    }
    assert_int_equal(step(consumer), 1);
    assert_int_equal(fixture_counters(f).dead, 0);
}

static void giving_up_makes_a_letter_all_the_same(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    scripted_handler todo = {.failures = 1, .failure = SEMEL_EGIVEUP};
    semel_consumer *consumer =
        open_consumer(f, queue, SEMEL_TRANSACTION, &todo, SEMEL_FAILURE_REQUEUE);
    publish(queue, "1");
    assert_int_equal(step(consumer), 1);
    assert_string_equal(fixture_only_letter(f).name, "inbox");
}

/* What waits for another copy has not failed: the consumer keeps it. */
static void what_has_not_failed_does_not_go_back(void **state)
{
    fixture *f = *state;
    no_delay around = {.inner = fixture_queue(f, "memory:")};
    semel_transport *transport = no_delay_open(f, &around, f->host);
    semel_inbox_options options = {
        .size = sizeof options, .mode = SEMEL_CLAIM, .on_in_flight = SEMEL_IN_FLIGHT_REPORT};
    semel_inbox *inbox = fixture_inbox(f, "inbox", &options);
    scripted_handler todo = {0};
    semel_route route = {"*", inbox, scripted_handler_run, &todo};
    semel_consumer_options reject = {.size = sizeof reject, .on_failure = SEMEL_FAILURE_REQUEUE};
    semel_consumer *consumer = fixture_consumer(f, transport, &route, 1, &reject);
    semel_message message = text_message("1", "a");
    semel_unit *unit;
    semel_outcome outcome;
    OK(semel_unit_begin(&unit, f->store, &last_error));
    OK(semel_unit_claim(&outcome, unit, inbox, &message, &last_error));
    publish(around.inner, "1");
    assert_int_equal(step(consumer), 0);
    assert_int_equal(around.retried, 0);
    assert_int_equal(around.inflight, 1);
    OK(semel_unit_commit(unit, &last_error));
    semel_test_advance_ms(f->seam, 60000);
    assert_int_equal(step(consumer), 1);
    assert_int_equal(todo.runs, 0);
}

/* --- reject ----------------------------------------------------------------------------------- */

static void close_transport(void *transport)
{
    semel_transport_close(transport);
}

static void a_failing_delivery_goes_to_the_brokers_dead_letters(void **state)
{
    fixture *f = *state;
    semel_transport *queue;
    OK(semel_queue_open(&queue, f->store, "orders", NULL, &last_error));
    fixture_keep(f, close_transport, queue);
    scripted_handler todo = {.failures = 1};
    semel_consumer *consumer =
        open_consumer(f, queue, SEMEL_TRANSACTION, &todo, SEMEL_FAILURE_REJECT);
    publish(queue, "1");
    assert_int_equal(step(consumer), 0);
    letter one = fixture_only_letter(f);
    assert_int_equal(one.origin, SEMEL_DEAD_QUEUE);
    assert_string_equal(one.name, "orders");

    /* The key is not dead: what the broker returns is handled. */
    OK(semel_queue_replay(queue, one.id, &last_error));
    assert_int_equal(step(consumer), 1);
    assert_int_equal(todo.runs, 2);
    assert_int_equal(todo.attempt, 2);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void what_the_broker_cannot_do_is_refused(void **state)
{
    fixture *f = *state;
    semel_transport *queue = fixture_queue(f, "memory:");
    semel_route route = {"*", fixture_inbox(f, "inbox", NULL), scripted_handler_run, NULL};
    semel_consumer_options options = {.size = sizeof options, .on_failure = SEMEL_FAILURE_REJECT};
    semel_consumer *consumer;
    FAILS(SEMEL_EUNSUPPORTED,
          semel_consumer_open(&consumer, queue, &route, 1, &options, &last_error));
    SAYS("memory: transport would lose what is rejected");
    for (int choice = SEMEL_FAILURE_REQUEUE; choice <= SEMEL_FAILURE_REJECT; choice++) {
        options.on_failure = (semel_on_failure)choice;
        options.order = SEMEL_ORDER_GROUP;
        FAILS(SEMEL_EINVAL,
              semel_consumer_open(&consumer, queue, &route, 1, &options, &last_error));
        SAYS("SEMEL_ORDER_GROUP");
    }
    options.on_failure = (semel_on_failure)3;
    FAILS(SEMEL_EINVAL, semel_consumer_open(&consumer, queue, &route, 1, &options, &last_error));
    SAYS("no choice 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH("a failing delivery goes back at once", a_failing_delivery_goes_back_at_once),
        ON_BOTH("a failing claim goes back at once", a_failing_claim_goes_back_at_once),
        ON_BOTH("a broker that can delay is told the backoff",
                a_broker_that_can_delay_is_told_the_backoff),
        ON_BOTH("giving up makes a letter all the same", giving_up_makes_a_letter_all_the_same),
        ON_BOTH("what has not failed does not go back", what_has_not_failed_does_not_go_back),
        ON_BOTH("a failing delivery goes to the broker's dead letters",
                a_failing_delivery_goes_to_the_brokers_dead_letters),
        ON_MEMORY("what the broker cannot do is refused", what_the_broker_cannot_do_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
